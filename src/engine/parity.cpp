#include "engine/parity.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "base/crc32c.h"
#include "base/text.h"
#include "base/wire.h"
#include "catalog/catalog.h"
#include "engine/agree.h"
#include "format/parity_file.h"
#include "redundancy/parity_exchange.h"

namespace backstay::engine {

namespace {
redundancy::Stripes stripes_of(const format::GroupOfParity& group) {
  return {static_cast<int>(group.members.size()), group.parities};
}

/// Checksums of a member's shards, each of which passes by in order of offsets.
class Sums {
 public:
  explicit Sums(std::size_t shards) : sums_(shards), seen_(shards) {}
  void add(int shard, ByteView bytes) {
    auto& sum = sums_[static_cast<std::size_t>(shard)];
    sum = crc32c(bytes, sum);
    seen_[static_cast<std::size_t>(shard)] = true;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& all() const { return sums_; }
  /// All that passed by is what `expected` says.
  [[nodiscard]] bool agree_with(const std::vector<std::uint32_t>& expected) const {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (seen_[i] && sums_[i] != expected[i]) return false;
    return true;
  }

 private:
  std::vector<std::uint32_t> sums_;
  std::vector<bool> seen_;
};

// ---- writing ---------------------------------------------------------------------------------------------------

/// The bytes of a file that is in pieces in memory: where they lie, if they lie together; otherwise put together in
/// `scratch`, with zeros where the file has none.
ByteView range_of(const redundancy::FileImage& file, std::uint64_t begin, std::size_t size, Scratch& scratch) {
  const std::uint64_t end = begin + size;
  for (const auto& piece : file.pieces)
    if (piece.offset <= begin && end <= piece.offset + piece.bytes.size())
      return piece.bytes.subspan(begin - piece.offset, size);
  const MutableByteView room = scratch.of(size);
  std::fill(room.begin(), room.end(), std::byte{0});
  for (const auto& piece : file.pieces) {
    const std::uint64_t from = std::max(begin, piece.offset), to = std::min(end, piece.offset + piece.bytes.size());
    if (from < to)
      std::copy_n(piece.bytes.begin() + static_cast<std::ptrdiff_t>(from - piece.offset), to - from,
                  room.begin() + static_cast<std::ptrdiff_t>(from - begin));
  }
  return room;
}

/// One group's parity on one of its members.
class GroupWriter {
 public:
  GroupWriter(const Level& level, const ParityJob& job, int index, const format::GroupOfParity& group, int rank)
      : level_(level), job_(job), group_(group), sums_(group.members.size()) {
    header_ = {job.job, job.line, index, rank, {}};
    const auto self = std::find(group.members.begin(), group.members.end(), rank);
    owner_ = static_cast<std::size_t>(self - group.members.begin()) < group.owners;
  }

  /// A failure of the communicator; others wait in written().
  Result<void> run(comm::Comm& comm) {
    open();
    const auto stripes = stripes_of(group_);
    redundancy::ShardAccess access;
    access.keep = job_.file.keep;
    access.read = [&](const redundancy::ShardPart& part, Scratch& room) -> Result<ByteView> {
      const redundancy::FileImage none;
      const std::uint64_t begin = static_cast<std::uint64_t>(part.shard) * group_.chunk + part.offset;
      const ByteView bytes = range_of(owner_ ? job_.file : none, begin, part.size, room);
      sums_.add(part.shard, bytes);
      return bytes;
    };
    access.write = [&](const redundancy::ShardPart& part, ByteView bytes) -> Result<void> {
      sums_.add(part.shard, bytes);
      if (!file_) return {};
      return file_->write_at(format::parity_offset(group_.chunk, part.shard - stripes.k()) + part.offset, bytes);
    };
    const auto made = redundancy::exchange_shards(comm, {group_.members, group_.owners}, group_.parities, group_.chunk,
                                                  redundancy::plan_encoding(stripes), access);
    if (!made && (made.failure().code == Code::comm || made.failure().code == Code::timeout)) return made;
    keep(made);
    keep(close());
    return {};
  }

  [[nodiscard]] const Result<void>& written() const { return written_; }
  [[nodiscard]] std::uint32_t header_sum() const { return header_sum_; }

 private:
  void keep(const Result<void>& result) {
    if (written_ && !result) written_ = result;
  }

  void open() {
    auto file = level_.store->open_to_write(job_.dir + "/" + format::parity_file_name(header_.group, header_.rank));
    if (file)
      file_ = std::move(*file);
    else
      written_ = file.failure();
  }

  Result<void> close() {
    header_.sums = sums_.all();
    const Bytes page = format::encode_parity_header(header_);
    header_sum_ = crc32c(page);
    if (!file_) return {};
    BACKSTAY_TRY(file_->write_at(0, page));
    BACKSTAY_TRY(file_->resize(format::parity_file_size(group_)));
    return file_->sync();
  }

  const Level& level_;
  const ParityJob& job_;
  const format::GroupOfParity& group_;
  Sums sums_;
  format::ParityHeader header_;
  bool owner_ = false;
  std::unique_ptr<store::File> file_;
  std::uint32_t header_sum_ = 0;
  Result<void> written_;
};
}  // namespace

Result<std::vector<format::GroupOfParity>> write_parity(const Level& level, const ParityJob& job, comm::Comm& comm,
                                                        Result<void>& written) {
  std::vector<format::GroupOfParity> groups;
  std::vector<std::int64_t> largest;  // file of each group
  for (const auto& planned : level.parity_groups) {
    format::GroupOfParity group{planned.members, planned.owners, level.config.parity.p, 0, {}};
    const auto owners = group.members.begin() + static_cast<std::ptrdiff_t>(group.owners);
    const bool mine = std::find(group.members.begin(), owners, comm.rank()) != owners;
    largest.push_back(mine ? static_cast<std::int64_t>(job.file.size) : 0);
    group.headers.resize(group.members.size());
    groups.push_back(std::move(group));
  }
  const auto sizes = comm.all_max(std::move(largest));
  if (!sizes) return sizes.failure();
  // Ranks that are in several groups go through them in one order, so that none waits for another in a circle.
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& group = groups[g];
    group.chunk = stripes_of(group).chunk(static_cast<std::uint64_t>((*sizes)[g]));
    const auto self = std::find(group.members.begin(), group.members.end(), comm.rank());
    if (self == group.members.end()) continue;
    GroupWriter writer(level, job, static_cast<int>(g), group, comm.rank());
    BACKSTAY_TRY(writer.run(comm));
    if (written && !writer.written()) written = writer.written();
    group.headers[static_cast<std::size_t>(self - group.members.begin())] = writer.header_sum();
  }
  return groups;
}

// ---- rebuilding ------------------------------------------------------------------------------------------------

namespace {
constexpr const char* unfinished = ".part";

/// A member for which this rank acts: what is left of it, or what it becomes.
struct Part {
  bool lost = false;
  std::string data_name;  ///< empty: a holder of parity without data
  std::string parity_name;
  std::uint64_t data_size = 0;
  std::shared_ptr<store::File> data;  ///< MPI may read what a file in memory holds
  std::shared_ptr<store::File> parity;
  format::ParityHeader header;  ///< of what is left
  std::optional<Sums> sums;
  std::string trouble;
};

/// A store has (or `takes`) files of the line, and no manifest of it that can be read. One of another job stays.
bool lost_its_manifest(const catalog::Candidate& line, const catalog::StoreContents& store, bool takes) {
  if (!store.state && !takes) return false;  // it cannot get one
  const auto held = std::find_if(store.holdings.begin(), store.holdings.end(),
                                 [&](const catalog::Holding& h) { return h.line == line.line; });
  if (held == store.holdings.end()) return takes;
  return (takes || !held->files.empty()) && !format::decode_manifest(held->manifest);
}

class Rebuilder {
 public:
  Rebuilder(catalog::Candidate& line, const std::set<Member>& lost, const std::vector<catalog::StoreContents>& contents,
            const Level& level, const Topology& topology, comm::Comm& comm,
            const std::function<void(const Failure&)>& cannot_write)
      : line_(line),
        lost_(lost),
        contents_(contents),
        level_(level),
        topology_(topology),
        comm_(comm),
        cannot_write_(cannot_write),
        dir_(catalog::line_dir(level.name, line.line)) {
    for (const auto& file : line.manifest.files) files_[file.ranks.front()] = &file;
    for (const auto& [g, m] : lost) broken_.insert(g);
    for (const std::size_t g : broken_) choose_targets(g);
  }

  Result<Rebuilt> run() {
    auto outcome = make();
    if (!outcome || !outcome->damaged.empty()) remove_unfinished();
    return outcome;
  }

 private:
  [[nodiscard]] const format::GroupOfParity& group(std::size_t g) const { return line_.manifest.groups[g]; }
  [[nodiscard]] bool is_lost(const Member& member) const { return lost_.contains(member); }

  [[nodiscard]] int node_of_store(std::size_t store) const { return topology_.node(contents_[store].server); }

  /// The stores that take the lost members of a group. Every rank chooses the same.
  void choose_targets(std::size_t g) {
    std::vector<std::size_t> stores;
    for (std::size_t s = 0; s < contents_.size(); ++s)
      if (contents_[s].level == line_.level) stores.push_back(s);
    const auto can_take = [&](std::size_t s) { return contents_[s].state.ok(); };
    if (std::ranges::any_of(stores, can_take)) std::erase_if(stores, [&](std::size_t s) { return !can_take(s); });
    std::map<std::size_t, int> held;  // members of the group in each store
    for (std::size_t m = 0; m < group(g).members.size(); ++m)
      if (!is_lost({g, m})) ++held[*line_.groups[g][m]];
    for (std::size_t m = 0; m < group(g).members.size(); ++m) {
      if (!is_lost({g, m})) continue;
      const int number = group(g).members[m];
      // Where it was before, or else where its rank is now; elsewhere those that come after each other take turns.
      const auto rank_of = [&](std::size_t s) {
        const bool in_memory = level_.config.kind == LevelKind::memory;
        const int home = in_memory ? number : files_.at(number)->node;
        const int own = in_memory || number >= comm_.size() ? home : topology_.node(number);
        const int here = in_memory ? contents_[s].server : node_of_store(s);
        const int turns = static_cast<int>(stores.size());
        return std::tuple(held[s], here != home, here != own, (here - number % turns + turns) % turns);
      };
      const auto best = std::min_element(stores.begin(), stores.end(),
                                         [&](std::size_t a, std::size_t b) { return rank_of(a) < rank_of(b); });
      targets_[{g, m}] = *best;
      ++held[*best];
    }
  }

  [[nodiscard]] std::size_t store_of(const Member& member) const {
    return is_lost(member) ? targets_.at(member) : *line_.groups[member.first][member.second];
  }
  /// The rank that reads or writes a member: its own, if that is on the node, or the ranks there in turn.
  [[nodiscard]] int acting(const Member& member) const {
    const int number = group(member.first).members[member.second];
    const int server = contents_[store_of(member)].server;
    if (level_.config.kind == LevelKind::memory) return server;
    const int node = topology_.node(server);
    if (number < comm_.size() && topology_.node(number) == node) return number;
    int turn = number % topology_.ranks_on(node);
    for (int rank = 0; rank < comm_.size(); ++rank)
      if (topology_.node(rank) == node && turn-- == 0) return rank;
    return server;
  }

  /// Collective. Whether all have written so far. Where bytes came out wrong no storage is to blame.
  Result<void> all_wrote(const Result<void>& mine) {
    if (!mine && mine.failure().code != Code::corrupt && cannot_write_) cannot_write_(mine.failure());
    return agree(comm_, mine);
  }

  Result<Rebuilt> make() {
    BACKSTAY_TRY(all_wrote(make_room()));
    BACKSTAY_TRY(all_wrote(open()));
    auto damaged = share_trouble();
    if (!damaged) return damaged.failure();
    if (!damaged->empty()) return Rebuilt{std::move(*damaged)};
    for (const std::size_t g : broken_) BACKSTAY_TRY(exchange(g));
    for (auto& [member, part] : parts_) check(member, part);
    damaged = share_trouble();
    if (!damaged) return damaged.failure();
    if (!damaged->empty()) return Rebuilt{std::move(*damaged)};
    BACKSTAY_TRY(all_wrote(written_ ? sync_files() : written_));
    BACKSTAY_TRY(all_wrote(name_files(&Part::parity_name)));
    BACKSTAY_TRY(all_wrote(write_manifests()));
    BACKSTAY_TRY(all_wrote(name_files(&Part::data_name)));
    remove_what_was_damaged();
    note_sources();
    return Rebuilt{};
  }

  /// In the stores that take what is rebuilt.
  Result<void> make_room() {
    if (!level_.leader) return {};
    for (const auto& [member, s] : targets_)
      if (contents_[s].server == comm_.rank()) BACKSTAY_TRY(catalog::make_room(*level_.store, level_.name, line_.line));
    return {};
  }

  /// What this rank acts for. A failure here is one of writing; what cannot be read is a member's trouble.
  Result<void> open() {
    Result<void> opened;
    for (const std::size_t g : broken_)
      for (std::size_t m = 0; m < group(g).members.size(); ++m) {
        const Member member{g, m};
        if (acting(member) != comm_.rank()) continue;
        Part& part = parts_[member];
        part.lost = is_lost(member);
        const int number = group(g).members[m];
        part.parity_name = format::parity_file_name(static_cast<int>(g), number);
        if (m < group(g).owners) {
          part.data_name = files_.at(number)->name;
          part.data_size = files_.at(number)->size;
        }
        part.sums.emplace(group(g).members.size());
        if (!part.lost) {
          if (auto read = open_to_read(member, part); !read) part.trouble = read.failure().what;
        } else if (auto made = open_to_write(part); !made) {
          opened = made;
        }
      }
    return opened;
  }

  Result<void> open_to_read(const Member& member, Part& part) {
    const auto& about = group(member.first);
    if (!part.data_name.empty()) {
      auto data = level_.store->open_to_read(dir_ + "/" + part.data_name);
      if (!data) return data.failure();
      part.data = std::move(*data);
    }
    auto parity = level_.store->open_to_read(dir_ + "/" + part.parity_name);
    if (!parity) return parity.failure();
    part.parity = std::move(*parity);
    Bytes page(format::page);
    BACKSTAY_TRY(part.parity->read_at(0, page));
    if (crc32c(page) != about.headers[member.second])
      return fail(Code::corrupt, level_.store->where(), "/", dir_, "/", part.parity_name,
                  ": the checksum of its header differs");
    auto header = format::decode_parity_header(page);
    if (!header) return header.failure();
    if (header->sums.size() != about.members.size())
      return fail(Code::corrupt, part.parity_name, ": it has not a checksum for each shard");
    part.header = std::move(*header);
    return {};
  }

  Result<void> open_to_write(Part& part) {
    for (auto [name, file] : {std::pair(&part.data_name, &part.data), std::pair(&part.parity_name, &part.parity)}) {
      if (name->empty()) continue;
      auto made = level_.store->open_to_write(dir_ + "/" + *name + unfinished);
      if (!made) return made.failure();
      *file = std::move(*made);
    }
    return {};
  }

  /// Collective among the ranks that act for the group.
  Result<void> exchange(std::size_t g) {
    const auto& about = group(g);
    const auto stripes = stripes_of(about);
    redundancy::ParityGroup who;
    std::vector<int> lost;
    for (std::size_t m = 0; m < about.members.size(); ++m) {
      who.members.push_back(acting({g, m}));
      if (is_lost({g, m})) lost.push_back(static_cast<int>(m));
    }
    who.owners = about.owners;
    if (std::find(who.members.begin(), who.members.end(), comm_.rank()) == who.members.end()) return {};
    redundancy::ShardAccess access;
    auto files = std::make_shared<std::vector<std::shared_ptr<store::File>>>();
    for (const auto& [member, part] : parts_) files->insert(files->end(), {part.data, part.parity});
    access.keep = std::move(files);
    access.read = [&](const redundancy::ShardPart& wanted, Scratch& room) -> Result<ByteView> {
      Part& part = parts_.at({g, static_cast<std::size_t>(wanted.member)});
      const auto read = read_shard(part, about, wanted, room);
      if (!read && part.trouble.empty()) part.trouble = read.failure().what;
      const ByteView bytes = read ? *read : ByteView(room.of(wanted.size));
      part.sums->add(wanted.shard, bytes);
      return bytes;
    };
    access.write = [&](const redundancy::ShardPart& made, ByteView bytes) -> Result<void> {
      Part& part = parts_.at({g, static_cast<std::size_t>(made.member)});
      part.sums->add(made.shard, bytes);
      return write_shard(part, about, made, bytes);
    };
    const auto made = redundancy::exchange_shards(comm_, who, about.parities, about.chunk,
                                                  redundancy::plan_rebuild(stripes, lost), access);
    if (!made && (made.failure().code == Code::comm || made.failure().code == Code::timeout)) return made;
    if (written_ && !made) written_ = made;
    return {};
  }

  static Result<ByteView> read_shard(Part& part, const format::GroupOfParity& about,
                                     const redundancy::ShardPart& wanted, Scratch& room) {
    const int k = stripes_of(about).k();
    if (wanted.shard >= k) {
      const std::uint64_t begin = format::parity_offset(about.chunk, wanted.shard - k) + wanted.offset;
      return part.parity->bytes_at(begin, wanted.size, room);
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(wanted.shard) * about.chunk + wanted.offset;
    const std::uint64_t there =
        part.data_size > begin ? std::min<std::uint64_t>(wanted.size, part.data_size - begin) : 0;
    if (there == wanted.size) return part.data->bytes_at(begin, wanted.size, room);
    const MutableByteView bytes = room.of(wanted.size);
    std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(there), bytes.end(), std::byte{0});
    if (there > 0) BACKSTAY_TRY(part.data->read_at(begin, bytes.first(there)));
    return ByteView(bytes);
  }

  static Result<void> write_shard(Part& part, const format::GroupOfParity& about, const redundancy::ShardPart& made,
                                  ByteView bytes) {
    const int k = stripes_of(about).k();
    if (made.shard >= k)
      return part.parity->write_at(format::parity_offset(about.chunk, made.shard - k) + made.offset, bytes);
    const std::uint64_t begin = static_cast<std::uint64_t>(made.shard) * about.chunk + made.offset;
    if (begin >= part.data_size) return {};
    return part.data->write_at(begin, bytes.first(std::min<std::uint64_t>(bytes.size(), part.data_size - begin)));
  }

  /// What was read is what was written once; what was made is what was lost.
  void check(const Member& member, Part& part) {
    if (!part.trouble.empty()) return;
    if (!part.lost) {
      if (!part.sums->agree_with(part.header.sums))
        part.trouble = cat(level_.store->where(), "/", dir_, ": the checksum of a part of ",
                           part.data_name.empty() ? part.parity_name : part.data_name, " or its parity differs");
      return;
    }
    const format::ParityHeader header{line_.manifest.job, line_.line, static_cast<int>(member.first),
                                      group(member.first).members[member.second], part.sums->all()};
    const Bytes page = format::encode_parity_header(header);
    if (crc32c(page) != group(member.first).headers[member.second])
      wrong_ = true;  // because a survivor is damaged, or else there is no telling why
    else if (written_)
      written_ = part.parity->write_at(0, page);
  }

  /// Collective: what any rank found of the members that it reads.
  Result<std::vector<std::pair<Member, std::string>>> share_trouble() {
    WireWriter mine;
    for (const auto& [member, part] : parts_) {
      if (part.trouble.empty()) continue;
      mine.number(static_cast<std::uint64_t>(member.first));
      mine.number(static_cast<std::uint64_t>(member.second));
      mine.text(part.trouble);
    }
    const auto all = comm_.all_gather(mine.message());
    if (!all) return all.failure();
    std::vector<std::pair<Member, std::string>> out;
    for (const auto& message : *all)
      for (WireReader in(message); !in.at_end() && in.complete();) {
        const auto g = static_cast<std::size_t>(in.number<std::uint64_t>());
        const auto m = static_cast<std::size_t>(in.number<std::uint64_t>());
        out.emplace_back(Member{g, m}, in.text());
      }
    if (out.empty() && wrong_ && written_)
      written_ = fail(Code::corrupt, "the rebuilt bytes are not those that were lost, though all that they were made ",
                      "of is as it was written");
    return out;
  }

  void remove_unfinished() {
    for (auto& [member, part] : parts_) {
      if (!part.lost) continue;
      part.data.reset();
      part.parity.reset();
      for (const std::string* name : {&part.data_name, &part.parity_name})
        if (!name->empty()) (void)level_.store->remove(dir_ + "/" + *name + unfinished).ok();
    }
  }

  Result<void> sync_files() {
    for (auto& [member, part] : parts_) {
      if (!part.lost) continue;
      if (part.data) {
        BACKSTAY_TRY(part.data->resize(part.data_size));
        BACKSTAY_TRY(part.data->sync());
      }
      BACKSTAY_TRY(part.parity->resize(format::parity_file_size(group(member.first))));
      BACKSTAY_TRY(part.parity->sync());
      part.data.reset();
      part.parity.reset();
    }
    return {};
  }

  /// Gives the rebuilt files of one kind their names, durably.
  Result<void> name_files(std::string Part::* name) {
    bool any = false;
    for (auto& [member, part] : parts_) {
      if (!part.lost || (part.*name).empty()) continue;
      any = true;
      BACKSTAY_TRY(store::put_in_place(*level_.store, dir_ + "/" + part.*name + unfinished, dir_ + "/" + part.*name));
    }
    return any ? level_.store->sync_dir(dir_) : Result<void>{};
  }

  /// The stores that take rebuilt files, and those that lack the manifest, hold the line from now on.
  Result<void> write_manifests() {
    if (!level_.leader) return {};
    for (std::size_t s = 0; s < contents_.size(); ++s) {
      if (contents_[s].level != line_.level || contents_[s].server != comm_.rank()) continue;
      const bool takes = std::any_of(targets_.begin(), targets_.end(), [&](const auto& t) { return t.second == s; });
      if (lost_its_manifest(line_, contents_[s], takes))
        BACKSTAY_TRY(catalog::adopt(*level_.store, level_.name, line_.line, format::encode_manifest(line_.manifest)));
    }
    return {};
  }

  /// A damaged member that was rebuilt elsewhere would be found again.
  void remove_what_was_damaged() {
    for (const auto& member : lost_) {
      const auto& old = line_.groups[member.first][member.second];
      if (!old || *old == targets_.at(member) || contents_[*old].server != comm_.rank()) continue;
      const int number = group(member.first).members[member.second];
      if (member.second < group(member.first).owners)
        (void)level_.store->remove(dir_ + "/" + files_.at(number)->name).ok();
      (void)level_.store->remove(dir_ + "/" + format::parity_file_name(static_cast<int>(member.first), number)).ok();
    }
  }

  /// Every rank notes the same.
  void note_sources() {
    for (const auto& [member, store] : targets_) {
      line_.groups[member.first][member.second] = store;
      if (member.second >= group(member.first).owners) continue;
      const auto* file = files_.at(group(member.first).members[member.second]);
      line_.sources[static_cast<std::size_t>(file - line_.manifest.files.data())] = {{store, file->name}};
    }
  }

  catalog::Candidate& line_;
  const std::set<Member>& lost_;
  const std::vector<catalog::StoreContents>& contents_;
  const Level& level_;
  const Topology& topology_;
  comm::Comm& comm_;
  const std::function<void(const Failure&)>& cannot_write_;
  std::string dir_;
  std::map<int, const format::DataFile*> files_;  // by rank
  std::set<std::size_t> broken_;                  // groups
  std::map<Member, Part> parts_;                  // for which this rank acts
  std::map<Member, std::size_t> targets_;         // the stores that lost members go to
  bool wrong_ = false;
  Result<void> written_;
};
}  // namespace

Result<Rebuilt> rebuild(catalog::Candidate& line, const std::set<Member>& lost,
                        const std::vector<catalog::StoreContents>& contents, const Level& level,
                        const Topology& topology, comm::Comm& comm,
                        const std::function<void(const Failure&)>& cannot_write) {
  return Rebuilder(line, lost, contents, level, topology, comm, cannot_write).run();
}

bool lacks_manifest(const catalog::Candidate& line, const std::vector<catalog::StoreContents>& contents) {
  return std::any_of(contents.begin(), contents.end(), [&](const catalog::StoreContents& store) {
    return store.level == line.level && lost_its_manifest(line, store, false);
  });
}

Result<void> check_parity_file(store::Store& store, const std::string& path, const format::GroupOfParity& group,
                               std::uint32_t expected) {
  constexpr std::size_t piece = std::size_t{128} << 10;
  const std::string where = store.where() + "/" + path;
  const auto file = store.open_to_read(path);
  if (!file) return file.failure();
  Bytes page(format::page);
  BACKSTAY_TRY((*file)->read_at(0, page));
  if (crc32c(page) != expected) return fail(Code::corrupt, where, ": the checksum of its header differs");
  const auto header = format::decode_parity_header(page);
  if (!header) return fail(header.failure().code, where, ": ", header.failure().what);
  if (header->sums.size() != group.members.size())
    return fail(Code::corrupt, where, ": it has not a checksum for each shard");
  Bytes bytes;
  for (int i = 0; i < group.parities; ++i) {
    std::uint32_t sum = 0;
    for (std::uint64_t at = 0; at < group.chunk; at += bytes.size()) {
      bytes.resize(std::min<std::uint64_t>(piece, group.chunk - at));
      BACKSTAY_TRY((*file)->read_at(format::parity_offset(group.chunk, i) + at, bytes));
      sum = crc32c(bytes, sum);
    }
    if (sum != header->sums[static_cast<std::size_t>(stripes_of(group).k() + i)])
      return fail(Code::corrupt, where, ": the checksum of its parity ", i, " differs");
  }
  return {};
}

}  // namespace backstay::engine
