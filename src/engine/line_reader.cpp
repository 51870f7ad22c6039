#include "engine/line_reader.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <new>
#include <optional>
#include <set>

#include "base/crc32c.h"
#include "base/text.h"
#include "base/wire.h"
#include "engine/agree.h"
#include "engine/data_reader.h"
#include "engine/parity.h"
#include "engine/restore_plan.h"
#include "format/parity_file.h"

namespace backstay::engine {

namespace {
constexpr int transfer_tag = 3;
/// Files at once, of a line. A few ranks may read what thousands have written, and a process may often open 1024.
constexpr std::size_t most_open = 64;

/// Files that were found bad: (file of the manifest, source).
using BadFiles = std::map<std::pair<std::size_t, catalog::Source>, std::string>;

/// How to fill each region on this rank.
struct Plans {
  std::vector<const RegionSpec*> specs;
  std::vector<RegionPlan> plans;
  bool own = false;                  ///< the same on all ranks: each reads its own file, and nobody needs another
  std::vector<std::string> unknown;  ///< regions that the line left out, and that are not protected yet
};

std::vector<std::string> left_out_and_unknown(const region::RegionSet& regions, const SavedRegions& saved) {
  auto out = saved.names_left_out();
  std::erase_if(out, [&](const std::string& name) { return regions.find(name) != nullptr; });
  return out;
}

bool stays_as_it_is(const RegionSpec& spec, const RegionPlan& plan) {
  return plan.left_out && plan.pieces.empty() && region::stays_as_it_is(spec, plan.shape);
}

/// Memory that cannot hold its data is found before any memory is written, as far as it can be.
Result<void> check_memory(const Plans& plans) {
  for (std::size_t i = 0; i < plans.specs.size(); ++i) {
    const RegionSpec& spec = *plans.specs[i];
    if (spec.save || plans.plans[i].whole || stays_as_it_is(spec, plans.plans[i])) continue;
    const auto memory = region::look_at(spec);
    if (!memory) return memory.failure();
    if (!memory->run_lengths.empty())
      return fail(Code::mismatch, "region '", spec.name,
                  "' is a cell list (filled_slots), which comes back on as many ",
                  "ranks as saved it and no others: run on as many, or protect it by callbacks with a redistribute");
  }
  for (std::size_t i = 0; i < plans.specs.size(); ++i) {
    const RegionSpec& spec = *plans.specs[i];
    if (spec.save || spec.reshape || stays_as_it_is(spec, plans.plans[i])) continue;
    if (const auto memory = region::memory_for(spec, plans.plans[i].shape); !memory) return memory.failure();
  }
  return {};
}

/// One candidate, being put back on this rank.
class LineReader {
 public:
  LineReader(const catalog::Candidate& line, const Inventory& inventory, const std::vector<Level>& levels,
             const Topology& topology, comm::Comm& comm)
      : line_(line),
        inventory_(inventory),
        level_(levels[static_cast<std::size_t>(line.level)]),
        topology_(topology),
        comm_(comm) {}

  /// Chooses a source for every file, those known to be bad left out. False: some file has none left.
  bool choose(const BadFiles& bad) {
    chosen_.clear();
    close_all();
    for (std::size_t f = 0; f < line_.sources.size(); ++f) {
      const auto& all = line_.sources[f];
      const auto it = std::find_if(all.begin(), all.end(), [&](const auto& s) { return !bad.contains({f, s}); });
      if (it == all.end()) return false;
      chosen_.push_back(*it);
    }
    readers_.resize(chosen_.size());
    return true;
  }

  [[nodiscard]] const catalog::Source& source(std::size_t file) const { return chosen_[file]; }

  /// Collective: every file's table, read by one rank that can, given to all. Files that cannot be read go to `bad`.
  Result<bool> share_tables(BadFiles& bad) {
    close_all();  // plan_from_own_file() has read rows of this rank alone
    WireWriter mine;
    for (std::size_t f = 0; f < chosen_.size(); ++f) {
      if (reading_rank(f) != comm_.rank()) continue;
      mine.number(static_cast<std::uint64_t>(f));
      const auto opened = open(f);
      mine.text(opened ? std::string() : opened.failure().what);
      mine.bytes(opened ? format::encode_table(readers_[f]->table()) : Bytes{});
    }
    const auto all = comm_.all_gather(mine.message());
    if (!all) return all.failure();
    tables_.assign(chosen_.size(), {});
    bool good = true;
    for (const auto& message : *all)
      for (WireReader in(message); !in.at_end() && in.complete();) {
        const auto f = static_cast<std::size_t>(in.number<std::uint64_t>());
        const std::string trouble = in.text();
        const ByteView bytes = in.bytes();
        if (f >= chosen_.size()) return fail(Code::internal, "a rank sent the table of a file that is not there");
        auto table =
            trouble.empty() ? format::decode_table(bytes) : Result<format::Table>(fail(Code::corrupt, trouble));
        if (table) {
          tables_[f] = std::move(*table);
          continue;
        }
        bad[{f, chosen_[f]}] = table.failure().what;
        good = false;
      }
    return good;
  }

  [[nodiscard]] const std::vector<format::Table>& tables() const { return tables_; }
  /// Regions of memory, of the last fill().
  [[nodiscard]] const std::vector<const RegionSpec*>& filled() const { return filled_; }

  /// Plans from this rank's own file alone, if it is here and has all that is wanted: the usual restart.
  std::optional<Plans> plan_from_own_file(const region::RegionSet& regions) {
    const auto& files = line_.manifest.files;
    const auto own = std::find_if(files.begin(), files.end(), [&](const auto& file) {
      return std::find(file.ranks.begin(), file.ranks.end(), comm_.rank()) != file.ranks.end();
    });
    const auto f = static_cast<std::size_t>(own - files.begin());
    if (line_.manifest.ranks != comm_.size() || own == files.end() || !reachable(f, comm_.rank()) ||
        !open(f, comm_.rank()))
      return {};
    tables_.assign(files.size(), {});
    tables_[f] = readers_[f]->table();
    const SavedRegions saved(tables_);
    if (!check_names(regions, saved)) return {};
    Plans out;
    out.unknown = left_out_and_unknown(regions, saved);
    for (const auto& spec : regions.specs()) {
      auto plan = plan_own(spec, saved, comm_.rank());
      if (!plan) return {};
      out.specs.push_back(&spec);
      out.plans.push_back(std::move(*plan));
    }
    return out;
  }

  /// Collective: fills all regions. Segments that cannot be read go to `bad` (this rank's own findings).
  /// `read`: the first region that memory did not have already, if some were looked for there.
  Result<void> fill(const Plans& plans, bool keep_equal, BadFiles& bad, std::string& read) {
    filled_.clear();
    bool remote = false;
    std::size_t rounds = plans.specs.size();
    if (!plans.own) {
      const auto all = comm_.all_max({needs_others(plans.plans) ? 1 : 0, static_cast<std::int64_t>(rounds)});
      if (!all) return all.failure();
      remote = (*all)[0] != 0;
      if (remote) rounds = static_cast<std::size_t>((*all)[1]);
    }
    Result<void> filled;
    for (std::size_t i = 0; i < rounds; ++i) {
      fetched_.clear();
      const bool is_mine = i < plans.specs.size();  // another rank may protect more of what the line has
      if (remote) BACKSTAY_TRY(fetch(is_mine ? plans.plans[i] : RegionPlan{}, bad));
      // A rank that cannot go on still serves the others, which wait for it in the next fetch.
      if (!is_mine || !filled || (keep_equal && is_in_memory(*plans.specs[i], plans.plans[i]))) continue;
      if (read.empty() && !plans.specs[i]->save) read = plans.specs[i]->name;
      try {
        filled = fill_region(*plans.specs[i], plans.plans[i], bad);
      } catch (const std::bad_alloc&) {
        filled = fail(Code::limit, "no memory is left to read region '", plans.specs[i]->name, "'");
      }
    }
    return filled;
  }

  /// This rank's share of all files. What cannot be read goes to `bad`.
  Result<void> read_all(Through what, BadFiles& bad) {
    const bool in_parts = shared() && chosen_.size() < static_cast<std::size_t>(comm_.size());
    try {
      for (std::size_t f = 0; f < chosen_.size(); ++f) {
        if (!in_parts && reading_rank(f) != comm_.rank()) continue;
        if (const auto read = read_file(f, what, in_parts); !read) bad[{f, chosen_[f]}] = read.failure().what;
      }
    } catch (const std::bad_alloc&) {
      return fail(Code::limit, "no memory is left to read it");
    }
    return {};
  }

 private:
  Result<void> read_file(std::size_t f, Through what, bool in_parts) {
    BACKSTAY_TRY(open(f));
    if (what == Through::all && reading_rank(f) == comm_.rank()) BACKSTAY_TRY(readers_[f]->check_frame());
    std::size_t turn = 0;
    for (const auto& segment : readers_[f]->table().segments) {
      const auto reader = static_cast<int>(turn++ % static_cast<std::size_t>(comm_.size()));
      if (in_parts && reader != comm_.rank()) continue;
      BACKSTAY_TRY(readers_[f]->check(segment));
    }
    return {};
  }

  [[nodiscard]] int server(std::size_t file) const { return inventory_.contents[chosen_[file].store].server; }
  [[nodiscard]] bool shared() const { return level_.config.kind == LevelKind::shared; }

  /// Can this rank read the chosen source of the file by itself?
  [[nodiscard]] bool reachable(std::size_t file, int rank) const {
    return reaches(level_.config.kind, topology_, rank, server(file));
  }
  /// Files of a shared store are spread over the ranks; others are read where they are.
  [[nodiscard]] int reading_rank(std::size_t file) const {
    return shared() ? static_cast<int>(file % static_cast<std::size_t>(comm_.size())) : server(file);
  }

  Result<void> open(std::size_t f, std::optional<int> only_rank = {}) {
    if (readers_[f]) return {};
    if (opened_.size() == most_open) {
      readers_[opened_.front()].reset();
      opened_.pop_front();
    }
    auto reader = DataReader::open(*level_.store, catalog::line_dir(level_.name, line_.line) + "/" + chosen_[f].name,
                                   line_.manifest.files[f], line_.manifest.job, line_.line, only_rank);
    if (!reader) return reader.failure();
    readers_[f] = std::make_unique<DataReader>(std::move(*reader));
    opened_.push_back(f);
    return {};
  }

  void close_all() {
    readers_.clear();
    readers_.resize(chosen_.size());
    opened_.clear();
  }

  bool needs_others(const std::vector<RegionPlan>& plans) const {
    for (const auto& plan : plans)
      for (const auto& piece : plan.pieces)
        if (!reachable(piece.from.file, comm_.rank())) return true;
    return false;
  }

  Result<void> read_here(const SegmentRef& ref, MutableByteView target) {
    BACKSTAY_TRY(open(ref.file));
    return readers_[ref.file]->read(*ref.about, target);
  }

  /// Collective: segments on other nodes come from the rank that serves them. All ranks go through the same list of
  /// transfers in the same order, so that no two can wait for each other.
  Result<void> fetch(const RegionPlan& plan, BadFiles& bad) {
    WireWriter wanted;
    for (const auto& piece : plan.pieces)
      if (!reachable(piece.from.file, comm_.rank())) {
        wanted.number(static_cast<std::uint64_t>(piece.from.file));
        wanted.number(static_cast<std::uint64_t>(piece.from.segment));
      }
    const auto all = comm_.all_gather(wanted.message());
    if (!all) return all.failure();
    const auto transfers = transfers_in(*all);
    BACKSTAY_TRY(agree(comm_, transfers ? make_room(*transfers) : Result<void>{transfers.failure()}));
    for (const auto& [ref, to] : *transfers) {
      if (comm_.rank() == server(ref.file)) BACKSTAY_TRY(serve(ref, to, bad));
      if (comm_.rank() == to) BACKSTAY_TRY(take(ref));
    }
    return {};
  }

  struct Transfer {
    SegmentRef ref;
    int to = 0;
  };

  [[nodiscard]] Result<std::vector<Transfer>> transfers_in(const std::vector<Bytes>& wanted) const {
    std::vector<Transfer> out;
    for (int to = 0; to < comm_.size(); ++to)
      for (WireReader in(wanted[static_cast<std::size_t>(to)]); !in.at_end() && in.complete();) {
        const auto file = static_cast<std::size_t>(in.number<std::uint64_t>());
        const auto segment = static_cast<std::size_t>(in.number<std::uint64_t>());
        if (file >= tables_.size() || segment >= tables_[file].segments.size())
          return fail(Code::internal, "rank ", to, " asked for a segment that is not there");
        out.push_back({{file, segment, &tables_[file].segments[segment]}, to});
      }
    return out;
  }

  /// For what this rank is to send and to receive, before anybody waits for it.
  Result<void> make_room(const std::vector<Transfer>& transfers) {
    try {
      std::size_t most = 0;
      for (const auto& [ref, to] : transfers) {
        const auto bytes = static_cast<std::size_t>(ref.about->bytes);
        if (comm_.rank() == server(ref.file)) most = std::max(most, bytes);
        if (comm_.rank() == to) fetched_[{ref.file, ref.segment}] = std::make_shared<Bytes>(bytes);
      }
      served_ = std::make_shared<Bytes>(most);
    } catch (const std::bad_alloc&) {
      return fail(Code::limit, "no memory is left to read what other ranks saved");
    }
    return {};
  }

  Result<void> serve(const SegmentRef& ref, int to, BadFiles& bad) {
    const auto bytes = MutableByteView(*served_).first(static_cast<std::size_t>(ref.about->bytes));
    if (auto read = read_here(ref, bytes); !read) bad[{ref.file, chosen_[ref.file]}] = read.failure().what;
    return comm_.send(to, transfer_tag, bytes, served_);  // bad bytes too: the other side waits, and checks them
  }

  Result<void> take(const SegmentRef& ref) {
    const auto& into = fetched_.at({ref.file, ref.segment});
    return comm_.receive(server(ref.file), transfer_tag, *into, into);
  }

  /// The bytes of a segment that came from another rank; nothing if it is read here.
  const Bytes* fetched(const SegmentRef& ref) const {
    const auto it = fetched_.find({ref.file, ref.segment});
    return it == fetched_.end() ? nullptr : it->second.get();
  }

  Result<void> read_into(const SegmentRef& ref, Bytes& target) {
    if (const Bytes* there = fetched(ref)) {
      target = *there;
      if (crc32c(target) == ref.about->crc) return {};
      return fail(Code::corrupt, "region '", ref.about->region, "' of rank ", ref.about->rank,
                  " came damaged from rank ", server(ref.file));
    }
    target.resize(static_cast<std::size_t>(ref.about->bytes));
    return read_here(ref, target);
  }

  void note(const SegmentRef& ref, const Result<void>& result, BadFiles& bad) {
    if (!result) bad[{ref.file, chosen_[ref.file]}] = result.failure().what;
  }

  bool is_in_memory(const RegionSpec& spec, const RegionPlan& plan) {
    if (spec.save || !plan.whole) return false;
    const auto memory = region::look_at(spec);
    const auto& saved = *plan.pieces.front().from.about;
    if (!memory || !region::check_view(spec, *memory) || memory->shape != saved.shape) return false;
    const bool is_cleared = saved.placement.kind == Placement::Kind::replicated;  // of padding, when it was saved
    return (is_cleared ? region::checksum_without_padding(spec, *memory) : region::checksum(*memory, spec.type.size)) ==
           saved.crc;
  }

  Result<void> fill_region(const RegionSpec& spec, const RegionPlan& plan, BadFiles& bad) {
    if (spec.save) return load_by_callback(spec, plan, bad);
    if (stays_as_it_is(spec, plan)) return {};
    const auto found =
        plan.left_out ? region::memory_for_a_part(spec, plan.shape) : region::memory_for(spec, plan.shape);
    if (!found) return found.failure();
    for (const auto& piece : plan.pieces) note(piece.from, fill_piece(spec, plan, piece, *found), bad);
    filled_.push_back(&spec);
    return {};
  }

  Result<void> fill_piece(const RegionSpec& spec, const RegionPlan& plan, const Piece& piece, const View& memory) {
    if (plan.whole && fetched(piece.from) == nullptr) {
      BACKSTAY_TRY(open(piece.from.file));
      return readers_[piece.from.file]->read(*piece.from.about, memory, scratch_);
    }
    Bytes bytes;
    BACKSTAY_TRY(read_into(piece.from, bytes));
    if (plan.whole)
      (void)region::put_back(bytes, memory, spec.type.size);
    else
      region::copy_part(bytes, piece.source, memory, plan.target, piece.part, spec.type.size);
    return {};
  }

  Result<void> load_by_callback(const RegionSpec& spec, const RegionPlan& plan, BadFiles& bad) {
    std::vector<Bytes> pieces(plan.pieces.size());
    bool good = true;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto read = read_into(plan.pieces[i].from, pieces[i]);
      note(plan.pieces[i].from, read, bad);
      good = good && read.ok();
    }
    if (!good) return {};
    const std::vector<ByteView> saved(pieces.begin(), pieces.end());
    return region::load(spec, saved, plan.whole, comm_.rank(), comm_.size());
  }

  const catalog::Candidate& line_;
  const Inventory& inventory_;
  const Level& level_;
  const Topology& topology_;
  comm::Comm& comm_;
  std::vector<catalog::Source> chosen_;
  std::vector<std::unique_ptr<DataReader>> readers_;  ///< by file; of those in opened_
  std::deque<std::size_t> opened_;                    ///< the longest open first
  std::vector<format::Table> tables_;
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<Bytes>> fetched_;
  std::shared_ptr<Bytes> served_;  ///< these two belong to the group, too, while it sends and receives
  Bytes scratch_;
  std::vector<const RegionSpec*> filled_;
};

/// Collective: what any rank found bad becomes known to all, in the same order; or the failure of a rank that could not
/// fill its memory at all. One reduction where all is well.
Result<void> share(comm::Comm& comm, const Result<void>& filled, const BadFiles& mine, BadFiles& all) {
  const auto trouble = comm.all_max({filled ? 0 : 1, mine.empty() ? 0 : 1});
  if (!trouble) return trouble.failure();
  if ((*trouble)[0] != 0) return agree(comm, filled);
  if ((*trouble)[1] == 0) return {};
  WireWriter out;
  for (const auto& [key, why] : mine) {
    out.number(static_cast<std::uint64_t>(key.first));
    out.number(static_cast<std::uint64_t>(key.second.store));
    out.text(key.second.name);
    out.text(why);
  }
  const auto messages = comm.all_gather(out.message());
  if (!messages) return messages.failure();
  for (const auto& message : *messages)
    for (WireReader in(message); !in.at_end() && in.complete();) {
      const auto file = static_cast<std::size_t>(in.number<std::uint64_t>());
      catalog::Source source;
      source.store = static_cast<std::size_t>(in.number<std::uint64_t>());
      source.name = in.text();
      all.emplace(std::pair{file, source}, in.text());
    }
  return {};
}

struct Attempt {
  bool done = false;
  std::string trouble;    ///< what was found damaged on the way; if not done: why the line cannot be had at this level
  std::string read = {};  ///< a region that was read, if memory might have had it
  std::vector<std::string> regions = {};       ///< of which it held something for this rank
  std::vector<NotThere> left_out = {};         ///< of which it says that it has not all
  std::vector<const RegionSpec*> filled = {};  ///< whose memory was filled
  bool no_room = false;                        ///< what parity gives could not be written: a full disk
  bool is_damaged = false;                     ///< some file is, and was not rebuilt
};

/// From the tables of all files.
Result<Plans> plan_all(const region::RegionSet& regions, const SavedRegions& saved, const format::Manifest& manifest,
                       const ReadOptions& options, const comm::Comm& comm) {
  if (!options.lenient) BACKSTAY_TRY(check_names(regions, saved, options.of_statics, options.others));
  Plans out;
  out.unknown = left_out_and_unknown(regions, saved);
  for (const auto& spec : regions.specs()) {
    if (options.lenient && saved.of(spec.name).empty() && saved.left_out(spec.name).empty()) continue;
    auto plan = plan_region(spec, saved, manifest.ranks, comm.rank(), comm.size());
    if (!plan) return plan.failure();
    out.specs.push_back(&spec);
    out.plans.push_back(std::move(*plan));
  }
  return out;
}

/// Collective: saved blocks are wholly taken by the ranks of this job together.
Result<void> check_blocks(const region::RegionSet& regions, const SavedRegions& saved, comm::Comm& comm) {
  WireWriter mine;
  for (const auto& spec : regions.specs()) {
    if (spec.placement.kind != Placement::Kind::block) continue;
    mine.text(spec.name);
    for (const Extents* edge : {&spec.placement.lower, &spec.placement.upper})
      mine.bytes(std::as_bytes(std::span<const std::int64_t>(edge->data(), edge->size())));
  }
  const auto all = comm.all_gather(mine.message());
  if (!all) return all.failure();
  const auto extents_in = [](ByteView bytes) {
    Extents out;
    for (WireReader in(bytes); !in.at_end() && in.complete();) out.push_back(in.number<std::int64_t>());
    return out;
  };
  std::map<std::string, std::vector<region::Box>> held;
  for (const auto& message : *all)
    for (WireReader in(message); !in.at_end() && in.complete();) {
      std::string name = in.text();
      Extents lower = extents_in(in.bytes()), upper = extents_in(in.bytes());
      held[std::move(name)].push_back({std::move(lower), std::move(upper)});
    }
  Result<void> taken;
  for (const auto& [name, boxes] : held)
    if (taken) taken = check_all_taken(name, saved, boxes, comm.rank(), comm.size());
  return agree(comm, taken);
}

/// Collective. Where every rank finds its own in its own file, no table is exchanged. Files whose tables cannot be had
/// go to `bad`; the plans are of no use then.
Result<Plans> make_plans(LineReader& reader, const region::RegionSet& regions, const format::Manifest& manifest,
                         const ReadOptions& options, comm::Comm& comm, BadFiles& bad) {
  auto own = reader.plan_from_own_file(regions);
  const auto ready = own ? check_memory(*own) : Result<void>{};
  const auto trouble = comm.all_max({own ? 0 : 1, ready ? 0 : 1});
  if (!trouble) return trouble.failure();
  if ((*trouble)[0] == 0) {
    if ((*trouble)[1] != 0) BACKSTAY_TRY(agree(comm, ready));
    own->own = true;
    return std::move(*own);
  }
  const auto shared = reader.share_tables(bad);
  if (!shared) return shared.failure();
  if (!*shared) return Plans{};
  const SavedRegions saved(reader.tables());
  auto plans = plan_all(regions, saved, manifest, options, comm);
  const Result<void> planned = plans ? check_memory(*plans) : Result<void>{plans.failure()};
  BACKSTAY_TRY(agree(comm, planned));
  if (!options.lenient) BACKSTAY_TRY(check_blocks(regions, saved, comm));
  return plans;
}

/// What is put back, if it is only a shape: all but what the beginning of the program has made.
std::vector<std::string> regions_in(const Plans& plans) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < plans.specs.size(); ++i)
    if (plans.plans[i].as_made == nullptr) out.push_back(plans.specs[i]->name);
  return out;
}

region::Box within(region::Box part, const region::Box& whole) {
  for (std::size_t d = 0; d < part.lower.size(); ++d) {
    part.lower[d] -= whole.lower[d];
    part.upper[d] -= whole.lower[d];
  }
  return part;
}

/// What is not.
std::vector<NotThere> left_out_of(const Plans& plans) {
  std::vector<NotThere> out;
  for (std::size_t i = 0; i < plans.specs.size(); ++i) {
    const auto& plan = plans.plans[i];
    if (!plan.left_out) continue;
    out.push_back({plans.specs[i]->name, plan.as_made != nullptr});
    for (const auto& piece : plan.pieces) out.back().there.push_back(within(piece.part, plan.target));
    for (const auto& box : plan.made) out.back().made.push_back(within(box, plan.target));
    if (plan.as_made != nullptr && plan.is_own) out.back().crc = plan.as_made->made;
  }
  for (const auto& name : plans.unknown) out.push_back({name});
  return out;
}

/// The members of parity groups of which something is not there, or is known to be bad in every store that has it.
std::set<Member> lost_members(const catalog::Candidate& line, const BadFiles& bad,
                              const std::map<Member, std::string>& damaged) {
  std::set<Member> lost;
  for (std::size_t g = 0; g < line.groups.size(); ++g)
    for (std::size_t m = 0; m < line.groups[g].size(); ++m)
      if (!line.groups[g][m] || damaged.contains({g, m})) lost.insert({g, m});
  for (const auto& [key, why] : bad) {
    const int rank = line.manifest.files[key.first].ranks.front();
    const int g = catalog::group_of(line.manifest, rank);
    const auto& sources = line.sources[key.first];
    if (g < 0 ||
        std::any_of(
            sources.begin(), sources.end(), [&, f = key.first](const auto& s) { return !bad.contains({f, s}); }))
      continue;
    const auto& members = line.manifest.groups[static_cast<std::size_t>(g)].members;
    lost.emplace(static_cast<std::size_t>(g), std::find(members.begin(), members.end(), rank) - members.begin());
  }
  return lost;
}

/// A line, as a person knows it. Nobody asked for a level of message logs, and there is one line of it.
std::string named(std::uint64_t line, const Level& level) {
  if (level.name == level_of_message_logs) return "the log of what was received in init()";
  return cat("line ", line, " at level ", level.name);
}

/// A line while it is being put back: its files may have to be rebuilt first.
class Attempts {
 public:
  Attempts(catalog::Candidate line, const Inventory& inventory, const std::vector<Level>& levels,
           const Topology& topology, comm::Comm& comm, const Say& say)
      : line_(std::move(line)),
        inventory_(inventory),
        levels_(levels),
        topology_(topology),
        comm_(comm),
        say_(say),
        what_(named(line_.line, levels[static_cast<std::size_t>(line_.level)])) {}

  /// Collective: with every combination of sources that has not failed yet, and with what parity gives back.
  Result<Attempt> run(const region::RegionSet& regions, const ReadOptions& options) {
    LineReader reader(line_, inventory_, levels_, topology_, comm_);
    std::string read;
    BACKSTAY_TRY(rebuild_first(options));
    while (true) {
      const auto there = find_files(reader, options);
      if (!there) return there.failure();
      if (!*there) return Attempt{.trouble = trouble(), .no_room = no_room_, .is_damaged = true};
      const std::size_t known = bad_.size();
      auto plans = make_plans(reader, regions, line_.manifest, options, comm_, bad_);
      if (!plans) return fail(plans.failure().code, what_, ": ", plans.failure().what);
      if (bad_.size() == known) {
        BadFiles mine;
        const auto filled = reader.fill(*plans, options.keep_equal, mine, read);
        BACKSTAY_TRY(share(comm_, filled, mine, bad_));
      }
      if (bad_.size() == known)
        return Attempt{.done = true,
                       .trouble = is_rebuilt_ ? "files were rebuilt from parity" : trouble(),
                       .read = read,
                       .regions = regions_in(*plans),
                       .left_out = left_out_of(*plans),
                       .filled = reader.filled(),
                       .is_damaged = !bad_.empty()};
      say_what_is_bad(reader);
    }
  }

  /// Collective: as run(), but all bytes are read, to nowhere.
  Result<catalog::Candidate> read_through(Through what) {
    LineReader reader(line_, inventory_, levels_, topology_, comm_);
    BACKSTAY_TRY(rebuild_first({}));
    while (true) {
      const auto there = find_files(reader, {});
      if (!there) return there.failure();
      if (!*there) return fail(Code::corrupt, what_, ": ", trouble());
      const std::size_t known = bad_.size();
      BadFiles mine;
      const auto read = reader.read_all(what, mine);
      BACKSTAY_TRY(share(comm_, read, mine, bad_));
      if (bad_.size() == known) return with_good_files();
      say_what_is_bad(reader);
    }
  }

 private:
  /// Also what no data need: the next loss may come before the next line.
  Result<void> rebuild_first(const ReadOptions& options) {
    if (line_.groups.empty() || (lost_members(line_, {}, {}).empty() && !lacks_manifest(line_, inventory_.contents)))
      return {};
    const auto rebuilt = rebuild_lost(options);
    return rebuilt ? Result<void>{} : rebuilt.failure();
  }

  /// Collective: a source for every file, rebuilt where none is left. False: it cannot be had.
  Result<bool> find_files(LineReader& reader, const ReadOptions& options) {
    while (!reader.choose(bad_)) {
      auto rebuilt = rebuild_lost(options);
      if (!rebuilt || !*rebuilt) return rebuilt;
    }
    return true;
  }

  void say_what_is_bad(const LineReader& reader) const {
    for (const auto& [key, why] : bad_)
      if (key.second == reader.source(key.first)) say_(cat(what_, ": ", why, "; looking for another copy"));
  }

  [[nodiscard]] catalog::Candidate with_good_files() const {
    auto line = line_;
    for (std::size_t f = 0; f < line.sources.size(); ++f)
      std::erase_if(line.sources[f], [&](const auto& source) { return bad_.contains({f, source}); });
    return line;
  }

  [[nodiscard]] std::string trouble() const {
    if (!trouble_.empty()) return trouble_;
    return bad_.empty() ? std::string() : bad_.begin()->second;
  }

  /// Collective: true if something was rebuilt, or found damaged, so that another try makes sense.
  Result<bool> rebuild_lost(const ReadOptions& options) {
    if (could_not_rebuild_) return false;
    const auto lost = lost_members(line_, bad_, damaged_);
    std::map<std::size_t, int> losses;
    for (const auto& [g, m] : lost) ++losses[g];
    for (std::size_t f = 0; f < line_.sources.size(); ++f) {
      const auto& sources = line_.sources[f];
      if (std::any_of(sources.begin(), sources.end(), [&](const auto& s) { return !bad_.contains({f, s}); })) continue;
      const int g = catalog::group_of(line_.manifest, line_.manifest.files[f].ranks.front());
      if (g < 0) {
        if (trouble_.empty()) trouble_ = bad_.empty() ? "a file has no source" : bad_.begin()->second;
        return false;
      }
      const auto& group = line_.manifest.groups[static_cast<std::size_t>(g)];
      if (losses[static_cast<std::size_t>(g)] <= group.parities) continue;
      trouble_ = cat(trouble().empty() ? "" : trouble() + "; ", "more than ", group.parities, " of the ",
                     group.members.size(), " ranks of its parity group are lost");
      return false;
    }
    std::set<Member> wanted;
    for (const auto& member : lost) {
      if (losses[member.first] > line_.manifest.groups[member.first].parities) continue;
      if (rebuilt_.contains(member)) {
        trouble_ = cat(trouble(), "; it was rebuilt, and is bad again");
        return false;
      }
      wanted.insert(member);
    }
    return rebuild_these(wanted, options);
  }

  Result<bool> rebuild_these(const std::set<Member>& wanted, const ReadOptions& options) {
    if (!wanted.empty()) say_(cat(what_, ": rebuilding ", names_of(wanted), " from parity"));
    const Level& level = levels_[static_cast<std::size_t>(line_.level)];
    const auto start = std::chrono::steady_clock::now();
    const auto done = rebuild(line_, wanted, inventory_.contents, level, topology_, comm_, options.cannot_write);
    if (!done) {
      if (done.failure().code == Code::comm || done.failure().code == Code::timeout) return done.failure();
      trouble_ = "rebuilding from parity: " + done.failure().what;
      say_(cat(what_, ": ", trouble_));
      could_not_rebuild_ = true;  // a full disk, say: what can be read without it is
      no_room_ = done.failure().code == Code::no_space;
      return false;
    }
    for (const auto& [member, why] : done->damaged) {
      damaged_[member] = why;
      say_(cat(what_, ": ", why));
    }
    if (!done->damaged.empty()) return true;
    is_rebuilt_ = true;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (!wanted.empty()) say_(cat(what_, ": rebuilt, in ", human_seconds(taken.count())));
    rebuilt_.insert(wanted.begin(), wanted.end());
    for (const auto& member : wanted) {
      damaged_.erase(member);
      const int rank = line_.manifest.groups[member.first].members[member.second];
      std::erase_if(bad_,
                    [&](const auto& entry) { return line_.manifest.files[entry.first.first].ranks.front() == rank; });
    }
    return true;
  }

  [[nodiscard]] std::string names_of(const std::set<Member>& members) const {
    std::set<int> ranks;  // one may hold parity of several groups
    for (const auto& [g, m] : members) ranks.insert(line_.manifest.groups[g].members[m]);
    std::string out;
    for (const int rank : ranks) out += cat(out.empty() ? "rank " : ", rank ", rank);
    return out;
  }

  catalog::Candidate line_;
  const Inventory& inventory_;
  const std::vector<Level>& levels_;
  const Topology& topology_;
  comm::Comm& comm_;
  const Say& say_;
  std::string what_;
  BadFiles bad_;
  std::map<Member, std::string> damaged_;  // found while others were rebuilt
  std::set<Member> rebuilt_;
  bool could_not_rebuild_ = false;
  bool no_room_ = false;
  std::string trouble_;
  bool is_rebuilt_ = false;  ///< some of it, here
};

/// What a person can do about files that lie where this job is not.
std::string hint_at_nodes(const format::Manifest& manifest, const Topology& topology) {
  std::set<int> nodes;  // behind a repair there are gaps between them
  for (const auto& file : manifest.files)
    for (const int node : {file.node, file.copy_node})
      if (node >= 0) nodes.insert(node);
  if (static_cast<int>(nodes.size()) <= topology.nodes()) return "";
  return cat("; the line lies on ", nodes.size(), " nodes and this job has ", topology.nodes(),
             ": start it on all of them, or from a line at level shared");
}
}  // namespace

namespace {
using Contents = std::vector<catalog::StoreContents>;

/// What the stores hold that this rank leads.
Contents scan_own(const std::vector<Level>& levels, const std::vector<Level>& companions, int rank) {
  Contents mine;
  for (const auto* some : {&levels, &companions})
    for (std::size_t i = 0; i < some->size(); ++i) {
      const Level& level = (*some)[i];
      if (!level.leader) continue;
      catalog::StoreContents store{static_cast<int>(i + (some == &levels ? 0 : levels.size())), rank, {}, level.state};
      if (auto holdings = catalog::scan(*level.store, level.name)) {
        store.holdings = std::move(*holdings);
      } else {
        store.state = holdings.failure();
        store.seen = false;
      }
      mine.push_back(std::move(store));
    }
  return mine;
}

/// Collective: what all have, each manifest sent by the lowest rank that has it.
Result<std::vector<Contents>> tell_each_other(const Result<Contents>& mine, comm::Comm& comm) {
  const auto all = gather(comm, mine ? catalog::encode_contents(*mine) : Result<Bytes>(mine.failure()));
  if (!all) return all.failure();
  std::map<catalog::ManifestKey, std::size_t> first;
  for (std::size_t rank = 0; rank < all->size(); ++rank)
    for (const auto& key : catalog::keys_in((*all)[rank])) first.emplace(key, rank);
  auto to_tell = catalog::manifests_of(*mine);
  std::erase_if(to_tell, [&](const auto& e) { return first.at(e.first) != static_cast<std::size_t>(comm.rank()); });
  const auto told = comm.all_gather(catalog::encode_manifests(to_tell));
  if (!told) return told.failure();
  catalog::Manifests manifests;
  for (const auto& message : *told) catalog::decode_manifests(message, manifests);
  std::vector<Contents> out;
  for (const auto& message : *all) out.push_back(catalog::decode_contents(message, manifests));
  return out;
}
}  // namespace

namespace {
const catalog::Candidate* find_statics(const catalog::Candidate& line, const Inventory& statics) {
  for (const auto& candidate : statics.candidates)
    if (candidate.level == line.level && candidate.line == line.manifest.statics) return &candidate;
  return nullptr;
}

/// A line is what it names, too.
void look_for_statics(catalog::Candidate& line, const Inventory& statics, const std::vector<Level>& companions) {
  const auto* found = find_statics(line, statics);
  std::string trouble;
  if (found == nullptr)
    trouble = "it is not there";
  else if (!found->trouble.empty())
    trouble = found->trouble;
  else if (found->manifest.job != line.manifest.job)
    trouble = "it is of another job";
  else if (line.manifest.statics_time != 0 && line.manifest.statics_time != found->manifest.time)
    trouble = "it is another one of that number, saved at another time";
  line.complete = line.complete && found != nullptr && found->complete;
  if (trouble.empty()) return;
  line.code = found != nullptr && found->code != Code::ok ? found->code : Code::corrupt;
  line.trouble =
      cat("line ", line.manifest.statics, " at level ", companions[static_cast<std::size_t>(line.level)].name,
          ", which has its static regions: ", trouble);
}
}  // namespace

Result<Inventories> take_inventory(const std::vector<Level>& levels, const std::vector<Level>& companions,
                                   const Result<void>& ready, comm::Comm& comm) {
  auto all =
      tell_each_other(ready ? Result<Contents>(scan_own(levels, companions, comm.rank())) : ready.failure(), comm);
  if (!all) return all.failure();
  Inventories out;
  const int count = static_cast<int>(levels.size());
  for (auto& of_rank : *all)
    for (auto& store : of_rank) {
      const bool of_companion = store.level >= count;
      store.level -= of_companion ? count : 0;
      (of_companion ? out.statics : out.lines).contents.push_back(std::move(store));
    }
  for (Inventory* inventory : {&out.lines, &out.statics})
    inventory->candidates = catalog::candidates(inventory->contents);
  for (auto& line : out.lines.candidates)
    if (line.trouble.empty() && line.manifest.statics > 0 && count > 0) look_for_statics(line, out.statics, companions);
  return out;
}

Result<void> require_all_stores(const Inventories& found, const comm::Comm& comm, bool only_seen) {
  for (const auto* inventory : {&found.lines, &found.statics})
    for (const auto& store : inventory->contents)
      if (!store.state && !(only_seen && store.seen))
        return fail(store.state.failure().code, comm.size() > 1 ? cat("rank ", store.server, ": ") : std::string(),
                    store.state.failure().what);
  return {};
}

void say_what_is_missing(const Inventories& found, const std::vector<Level>& levels, const Say& say,
                         std::set<std::pair<int, int>>& said) {
  for (const auto* inventory : {&found.lines, &found.statics})  // a level's companion lies where it does
    for (const auto& store : inventory->contents)
      if (!store.state && said.emplace(store.level, store.server).second)
        say(cat("level ", levels[static_cast<std::size_t>(store.level)].name, ": rank ", store.server, ": ",
                store.state.failure().what, "; the job goes on without what cannot be read or written there"));
}

namespace {
/// Collective: the line of the companion that `line`, which is without trouble, names.
Result<Attempt> put_back_statics(const catalog::Candidate& line, const std::string& name, const Statics& statics,
                                 const region::RegionSet& regions, const Topology& topology, ReadOptions options,
                                 comm::Comm& comm, const Say& say) {
  const auto number = line.manifest.statics;
  if (number == 0) {
    const bool has_some = !statics.regions.specs().empty();
    if (has_some && options.lenient)
      say(cat(name, ": the line has no static regions, so those of this program are left as they are"));
    BACKSTAY_TRY(agree(comm, !has_some || options.lenient
                                 ? Result<void>{}
                                 : fail(Code::mismatch, name, ": region '", statics.regions.specs().front().name,
                                        "' is protected as static, and the line has no static regions: protect it as "
                                        "it was when the line was saved")));
    return Attempt{true, {}};
  }
  options.keep_equal = options.of_statics = true;
  options.others = &regions;
  auto attempt =
      Attempts(*find_statics(line, statics.inventory), statics.inventory, statics.companions, topology, comm, say)
          .run(statics.regions, options);
  if (!attempt || !attempt->done) return attempt;
  const auto changed = comm.all_max({options.had_statics && !attempt->read.empty() ? comm.rank() + 1 : 0});
  if (!changed) return changed.failure();
  if (const int rank = static_cast<int>(changed->front()) - 1; rank >= 0) {
    const auto region = comm.broadcast(rank, as_bytes(attempt->read));
    if (!region) return region.failure();
    say(cat("region '", as_text(*region), "' of rank ", rank,
            " is static, and is not as it was when the line was saved: it is put back"));
  }
  return attempt;
}
}  // namespace

Result<PutBack> put_back_newest(const Inventory& inventory, const std::vector<Level>& levels, const Statics& statics,
                                const Topology& topology, const region::RegionSet& regions, const ReadOptions& options,
                                comm::Comm& comm, const Say& say) {
  std::string last_trouble;
  bool no_room = false;
  PutBack found;
  for (const auto& line : inventory.candidates) {
    const std::string what = named(line.line, levels[static_cast<std::size_t>(line.level)]);
    if (line.code == Code::version) return fail(Code::version, what, ": ", line.trouble);
    std::string trouble = line.trouble;
    if (trouble.empty()) {
      auto attempt = put_back_statics(line, what, statics, regions, topology, options, comm, say);
      if (attempt && attempt->is_damaged && options.statics_are_damaged)
        options.statics_are_damaged(line.level, line.manifest.statics);
      if (attempt && attempt->done) {
        auto filled = std::move(attempt->filled);
        auto of_line = options;
        of_line.others = &statics.regions;
        attempt = Attempts(line, inventory, levels, topology, comm, say).run(regions, of_line);
        if (attempt) attempt->filled.insert(attempt->filled.begin(), filled.begin(), filled.end());
      }
      if (!attempt) return attempt.failure();
      if (attempt->done) {
        found.line = line.line;
        found.level = line.level;
        found.complete = line.complete && attempt->trouble.empty();
        found.manifest = line.manifest;
        found.regions = std::move(attempt->regions);
        found.left_out = std::move(attempt->left_out);
        found.filled = std::move(attempt->filled);
        return found;
      }
      trouble = attempt->trouble;
      no_room = no_room || attempt->no_room;
    }
    found.rejected.emplace_back(line.level, line.line);
    last_trouble = cat(what, " cannot be put back: ", trouble, hint_at_nodes(line.manifest, topology));
    say(last_trouble);
  }
  if (inventory.candidates.empty()) return PutBack{};
  const bool lie_in_files = std::any_of(
      inventory.candidates.begin(), inventory.candidates.end(),
      [&](const auto& line) { return levels[static_cast<std::size_t>(line.level)].config.kind != LevelKind::memory; });
  return fail(
      Code::corrupt, "there are lines, but none can be put back; the last one tried: ", last_trouble,
      no_room ? "; make room where it could not be written, and start the job again: it goes on from there"
      : lie_in_files
          ? "; if nodes, disks or permissions are missing, start the job again where they are; else see `backstay "
            "verify`, and move the directory away to start afresh"
          : "; they were in memory alone: start the job again, from its beginning");
}

Result<catalog::Candidate> read_through(const catalog::Candidate& line, Through what, const Inventory& inventory,
                                        const std::vector<Level>& levels, const Topology& topology, comm::Comm& comm,
                                        const Say& say) {
  return Attempts(line, inventory, levels, topology, comm, say).read_through(what);
}

Result<Damage> check_all(const Inventory& inventory, const std::vector<Level>& levels, comm::Comm& comm) {
  Damage mine;
  WireWriter out;
  std::uint64_t turn = 0;
  const auto check = [&](const catalog::Candidate& line, std::size_t f, const catalog::Source& source) {
    const Level& level = levels[static_cast<std::size_t>(line.level)];
    const int server = inventory.contents[source.store].server;
    const bool shared = level.config.kind == LevelKind::shared;
    const int reader_rank = shared ? static_cast<int>(turn++ % static_cast<std::uint64_t>(comm.size())) : server;
    if (reader_rank != comm.rank()) return;
    auto reader = DataReader::open(*level.store, catalog::line_dir(level.name, line.line) + "/" + source.name,
                                   line.manifest.files[f], line.manifest.job, line.line);
    if (!reader) return out.text(reader.failure().what);
    if (auto frame = reader->check_frame(); !frame) out.text(frame.failure().what);
    for (const auto& s : reader->table().segments) {
      ++mine.segments;
      if (auto good = reader->check(s); !good) out.text(good.failure().what);
    }
  };
  const auto check_parity = [&](const catalog::Candidate& line, std::size_t g, std::size_t m) {
    if (!line.groups[g][m] || inventory.contents[*line.groups[g][m]].server != comm.rank()) return;
    const Level& level = levels[static_cast<std::size_t>(line.level)];
    const auto& group = line.manifest.groups[g];
    const std::string name = format::parity_file_name(static_cast<int>(g), group.members[m]);
    const auto checked =
        check_parity_file(*level.store, catalog::line_dir(level.name, line.line) + "/" + name, group, group.headers[m]);
    if (!checked) out.text(checked.failure().what);
  };
  for (const auto& line : inventory.candidates) {
    const std::string what = named(line.line, levels[static_cast<std::size_t>(line.level)]);
    if (comm.rank() == 0 && !line.trouble.empty()) out.text(cat(what, ": ", line.trouble));
    if (comm.rank() == 0 && line.trouble.empty() && !line.complete)
      out.text(cat(what, ": a file, a copy, parity or a manifest is missing"));
    for (std::size_t g = 0; g < line.groups.size(); ++g)
      for (std::size_t m = 0; m < line.groups[g].size(); ++m) check_parity(line, g, m);
    for (std::size_t f = 0; f < line.sources.size(); ++f)
      for (const auto& source : line.sources[f]) check(line, f, source);
  }
  const auto counts = comm.all_gather(std::as_bytes(std::span(&mine.segments, 1)));
  if (!counts) return counts.failure();
  const auto sentences = comm.all_gather(out.message());
  if (!sentences) return sentences.failure();
  Damage all;
  all.lines = inventory.candidates.size();
  for (const auto& count : *counts) all.segments += WireReader(count).number<std::uint64_t>();
  for (const auto& message : *sentences)
    for (WireReader in(message); !in.at_end() && in.complete();) all.sentences.push_back(in.text());
  return all;
}

}  // namespace backstay::engine
