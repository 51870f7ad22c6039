#include "engine/line_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "base/wire.h"
#include "catalog/catalog.h"
#include "engine/agree.h"
#include "engine/parity.h"
#include "format/parity_file.h"

namespace backstay::engine {

namespace {
/// What a file's first rank tells the others of it.
struct FileFacts {
  std::uint64_t size = 0;
  std::uint64_t table_crc = 0;
};

/// In place of where a rank's area begins: its file is not to be opened.
constexpr std::uint64_t not_open = UINT64_MAX;

/// Messages to and from several ranks at once.
class Exchanges {
 public:
  Exchanges(comm::Comm& comm, comm::Keep keep) : comm_(comm), keep_(std::move(keep)) {}
  Result<void> start(int other, ByteView out, MutableByteView in) {
    constexpr int tag = 6;
    auto started = comm_.start_exchange(other, out, other, in, tag, keep_);
    if (!started) return started.failure();
    under_way_.push_back(std::move(*started));
    return {};
  }
  Result<void> finish() {
    BACKSTAY_TRY(comm::finish(under_way_));
    under_way_.clear();
    return {};
  }

 private:
  comm::Comm& comm_;
  comm::Keep keep_;
  std::vector<std::unique_ptr<comm::Pending>> under_way_;
};

class LineWriter {
 public:
  LineWriter(Level& level, Checkpoint& checkpoint, const Job& job, const Topology& topology, comm::Comm& comm)
      : level_(level),
        checkpoint_(checkpoint),
        job_(job),
        topology_(topology),
        comm_(comm),
        dir_(catalog::line_dir(level.name, checkpoint.line)) {}

  Result<std::uint64_t> write() {
    if (auto staged = write_and_stage(); !staged) {
      // Where the ranks could not tell each other, others may have committed what this one has staged: it stays, and a
      // later line takes its directory if nobody did. Another job may have given the number to a line of its own.
      if (level_.leader && comm_.works() && check_lock(level_))
        (void)catalog::give_up(*level_.store, level_.name, checkpoint_.line).ok();
      // A full store has room again before the next line begins: all ranks let go after the leaders have removed.
      (void)comm_.barrier().ok();
      level_.store->forget_removed();
      return staged.failure();
    }
    BACKSTAY_TRY(commit());
    level_.whole.push_back(checkpoint_.line);
    level_.names[checkpoint_.line] = checkpoint_.of_statics ? 0 : checkpoint_.static_line;
    if (checkpoint_.of_statics) level_.times[checkpoint_.line] = checkpoint_.time;
    if (checkpoint_.of_statics && first_of_group()) level_.own_files[checkpoint_.line] = path();
    std::uint64_t bytes = 0;
    for (const auto& file : facts_) bytes += file.size;
    return bytes;
  }

 private:
  /// Everything up to the first rename.
  Result<void> write_and_stage() {
    BACKSTAY_TRY(begin());
    BACKSTAY_TRY(write_data());
    BACKSTAY_TRY(share_facts());
    return agree(comm_, stage());
  }

  [[nodiscard]] const FileGroup& group() const { return level_.groups[level_.my_group]; }
  [[nodiscard]] bool first_of_group() const { return group().ranks.front() == comm_.rank(); }
  [[nodiscard]] std::string path() const { return dir_ + "/" + group().name; }

  /// Makes the directory. One reduction gives all ranks one time, and finds that all could capture, all directories
  /// are there, and the regions are the same; only where something is not, sentences are exchanged.
  Result<void> begin() {
    std::string all;
    for (const auto& line : checkpoint_.signature) all += line + "\n";
    const auto sum = static_cast<std::int64_t>(crc32c(as_bytes(all)));
    const Result<void> ready = checkpoint_.captured ? prepare() : checkpoint_.captured;
    const auto line = static_cast<std::int64_t>(checkpoint_.line), call = static_cast<std::int64_t>(checkpoint_.call);
    const auto maxima =
        comm_.all_max({ready ? 0 : 1, sum, -sum, std::llround(checkpoint_.time * 1e6), line, -line, call, -call});
    if (!maxima) return maxima.failure();
    if ((*maxima)[4] != -(*maxima)[5] || (*maxima)[6] != -(*maxima)[7])
      return fail(Code::mismatch, "the ranks write different checkpoints, up to line ", (*maxima)[4], " of call ",
                  (*maxima)[6], ", because a rank did not come to an earlier one in time");
    checkpoint_.time =
        static_cast<double>((*maxima)[3]) * 1e-6;  // one time for all, so that manifests are equal everywhere
    if ((*maxima)[0] != 0) return agree(comm_, ready);
    if ((*maxima)[1] == -(*maxima)[2]) return {};
    const auto texts = comm_.all_gather(as_bytes(all));
    if (!texts) return texts.failure();
    return explain_difference(*texts);
  }

  static Result<void> explain_difference(const std::vector<Bytes>& texts) {
    const auto first = split(as_text(texts[0]), '\n');
    for (std::size_t rank = 1; rank < texts.size(); ++rank) {
      const auto other = split(as_text(texts[rank]), '\n');
      for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
        const std::string a = i < first.size() && !first[i].empty() ? first[i] : "no further region";
        const std::string b = i < other.size() && !other[i].empty() ? other[i] : "no further region";
        if (a != b)
          return fail(Code::mismatch, "the ranks protect different regions: rank 0 has ", a, " where rank ", rank,
                      " has ", b, "; every rank must protect the same regions and declare the same computations, in ",
                      "the same order");
      }
    }
    return fail(Code::mismatch, "the ranks protect different regions");
  }

  Result<void> prepare() {
    if (!checkpoint_.static_file.empty()) BACKSTAY_TRY(check_static_file(checkpoint_.static_file));
    if (!level_.leader) return {};
    BACKSTAY_TRY(check_lock(level_));
    if (checkpoint_.static_line > 0)
      BACKSTAY_TRY(
          check_static_file(catalog::line_dir(companion_of(level_.name), checkpoint_.static_line) + "/manifest"));
    return catalog::prepare(*level_.store, level_.name, checkpoint_.line, level_.whole);
  }

  /// A line that names what is gone would be of no use. Whoever removes old files takes those of static regions first.
  [[nodiscard]] Result<void> check_static_file(const std::string& name) const {
    const auto there = level_.store->open_to_read(name);
    if (there) return {};
    if (there.failure().code != Code::not_found)
      return fail(Code::io, there.failure().what,
                  ": the static regions there are written anew with a later checkpoint");
    return fail(Code::io, level_.store->where(), "/", name, " is gone, with the static regions of this line: they are ",
                "written anew with a later checkpoint");
  }

  /// This rank's place in its file, and what the file's first rank writes around the areas.
  struct Layout {
    std::uint64_t area_offset = format::first_area;
    std::shared_ptr<const format::Frame> frame;  ///< empty on all but the first rank
  };

  /// What a rank tells the first rank of its file, and hears from it. Messages may be on their way when a wait for them
  /// ends, so they own it.
  struct Letter {
    std::array<std::uint64_t, 2> sizes{};  ///< of the rank's area and of its table, bytes
    Bytes table;
    std::uint64_t area_offset = 0;
  };
  using Letters = std::vector<std::shared_ptr<Letter>>;

  /// The ranks of a file tell its first one what they are about to write, and learn where. Only a failure of the
  /// communicator is returned: others wait in written_, so that all ranks go on to the agreement.
  Result<Layout> lay_out() {
    Layout out;
    const auto& segments = checkpoint_.capture.segments;
    const auto& left_out = checkpoint_.capture.left_out;
    if (!first_of_group()) {
      auto letter = std::make_shared<Letter>();
      letter->table = format::encode_table({job_.id, checkpoint_.line, group().name, segments, left_out});
      letter->sizes = {format::area_size(segments), letter->table.size()};
      BACKSTAY_TRY(ask_for_a_place(letter));
      out.area_offset = letter->area_offset;
      return out;
    }
    std::vector<format::Area> areas{{comm_.rank(), segments, left_out}};
    const auto letters = give_places(format::first_area + format::area_size(segments));
    if (!letters) return letters.failure();
    for (std::size_t i = 0; i < letters->size(); ++i) {
      auto table = format::decode_table((*letters)[i]->table);
      if (table)
        areas.push_back({group().ranks[i + 1], std::move(table->segments), std::move(table->left_out)});
      else if (written_)
        written_ = table.failure();
    }
    auto frame = format::frame_file({job_.id, checkpoint_.line, level_.name, checkpoint_.time}, group().name, areas);
    if (!frame) written_ = frame.failure();
    out.frame = std::make_shared<const format::Frame>(frame ? std::move(*frame) : format::Frame{});
    my_facts_ = {out.frame->size, out.frame->table_crc};
    return out;
  }

  Result<void> ask_for_a_place(const std::shared_ptr<Letter>& letter) {
    const int first = group().ranks.front();
    Exchanges mail(comm_, letter);
    BACKSTAY_TRY(mail.start(first, std::as_bytes(std::span(letter->sizes)), {}));
    BACKSTAY_TRY(mail.start(first, letter->table, {}));
    BACKSTAY_TRY(mail.start(first, {}, std::as_writable_bytes(std::span(&letter->area_offset, 1))));
    return mail.finish();
  }

  /// The letters of the other ranks of this file, in order; their areas follow each other from `next` on.
  Result<Letters> give_places(std::uint64_t next) {
    Letters letters(group().ranks.size() - 1);
    for (auto& letter : letters) letter = std::make_shared<Letter>();
    Exchanges mail(comm_, std::make_shared<const Letters>(letters));
    for (std::size_t i = 0; i < letters.size(); ++i)
      BACKSTAY_TRY(mail.start(group().ranks[i + 1], {}, std::as_writable_bytes(std::span(letters[i]->sizes))));
    BACKSTAY_TRY(mail.finish());
    for (std::size_t i = 0; i < letters.size(); ++i) {
      Letter& letter = *letters[i];
      letter.area_offset = file_ ? next : not_open;
      next += letter.sizes[0];
      letter.table.resize(letter.sizes[1]);
      BACKSTAY_TRY(mail.start(group().ranks[i + 1], std::as_bytes(std::span(&letter.area_offset, 1)), letter.table));
    }
    BACKSTAY_TRY(mail.finish());
    return letters;
  }

  /// Writes this rank's area and, as the first of its file, the frame; makes the partner's copy, or parity. Failures
  /// are returned and kept as lay_out() does.
  Result<void> write_data() {
    // The others of its file open it when they have heard from the first one.
    if (first_of_group()) keep(level_.store->open_to_write(path()));
    const auto layout = lay_out();
    if (!layout) return layout.failure();
    if (layout->area_offset == not_open)
      keep(fail(Code::io, "rank ", group().ranks.front(), ", which writes ", path(), ", too, could not open it"));
    else if (!first_of_group())
      keep(level_.store->open_to_write_along(path()));
    if (written_) written_ = write_file(*layout);
    BACKSTAY_TRY(write_copies(*layout));
    return write_parities(*layout);
  }

  void keep(Result<std::unique_ptr<store::File>> file) {
    if (file)
      file_ = std::move(*file);
    else if (written_)
      written_ = file.failure();
  }

  Result<void> write_file(const Layout& layout) {
    const auto file = std::move(file_);
    BACKSTAY_TRY(file->write_at(layout.area_offset, checkpoint_.capture.bytes()));
    if (layout.frame) {
      const auto& frame = *layout.frame;
      BACKSTAY_TRY(file->write_at(0, frame.front));
      BACKSTAY_TRY(file->write_at(frame.tail_offset, frame.tail));
      BACKSTAY_TRY(file->resize(frame.size));
    }
    return file->sync();
  }

  /// A level with copies or parity has a file for each rank: every rank has a frame.
  [[nodiscard]] redundancy::FileImage image_of(const Layout& layout) const {
    const auto& frame = layout.frame;
    return {{{0, frame->front}, {layout.area_offset, checkpoint_.capture.bytes()}, {frame->tail_offset, frame->tail}},
            frame->size,
            std::make_shared<const std::pair<comm::Keep, comm::Keep>>(frame, checkpoint_.capture.buffer.keep())};
  }

  Result<void> write_copies(const Layout& layout) {
    if (!level_.partners) return {};
    auto copied = redundancy::exchange_copies(comm_, *level_.partners, image_of(layout), *level_.store, dir_);
    if (!copied && copied.failure().code == Code::comm) return copied;
    if (written_ && !copied) written_ = copied;
    return {};
  }

  Result<void> write_parities(const Layout& layout) {
    if (level_.parity_groups.empty()) return {};
    auto groups = write_parity(level_, {job_.id, checkpoint_.line, dir_, image_of(layout)}, comm_, written_);
    if (!groups) return groups.failure();
    parity_ = std::move(*groups);
    return {};
  }

  /// All ranks learn size and table CRC of every file and the CRC of every parity header, or the sentence of the first
  /// failure: one reduction, to which each file's first rank brings its own numbers and all others zeros.
  Result<void> share_facts() {
    std::vector<std::int64_t> numbers(1 + 2 * level_.groups.size(), 0);
    numbers[0] = written_ ? 0 : 1;
    if (first_of_group()) {
      numbers[1 + 2 * level_.my_group] = static_cast<std::int64_t>(my_facts_.size);
      numbers[2 + 2 * level_.my_group] = static_cast<std::int64_t>(my_facts_.table_crc);
    }
    for (const auto& group : parity_) numbers.insert(numbers.end(), group.headers.begin(), group.headers.end());
    const auto all = comm_.all_max(std::move(numbers));
    if (!all) return all.failure();
    if (all->front() != 0) return agree(comm_, written_);
    for (std::size_t g = 0; g < level_.groups.size(); ++g)
      facts_.push_back({static_cast<std::uint64_t>((*all)[1 + 2 * g]), static_cast<std::uint64_t>((*all)[2 + 2 * g])});
    std::size_t next = 1 + 2 * level_.groups.size();
    for (auto& group : parity_)
      for (auto& header : group.headers) header = static_cast<std::uint32_t>((*all)[next++]);
    return {};
  }

  [[nodiscard]] format::Manifest manifest() const {
    format::Manifest m{job_.id,
                       checkpoint_.line,
                       level_.name,
                       comm_.size(),
                       checkpoint_.call,
                       checkpoint_.time,
                       job_.program,
                       {},
                       parity_,
                       checkpoint_.static_line,
                       checkpoint_.static_time};
    const bool on_nodes = level_.config.kind == LevelKind::local || level_.config.kind == LevelKind::partner;
    for (std::size_t g = 0; g < level_.groups.size(); ++g) {
      format::DataFile file;
      file.name = level_.groups[g].name;
      file.ranks = level_.groups[g].ranks;
      if (on_nodes) file.node = topology_.node(file.ranks.front());
      if (level_.partners) file.copy_node = topology_.node(copy_holder(file.ranks.front()));
      file.size = facts_[g].size;
      file.table_crc = static_cast<std::uint32_t>(facts_[g].table_crc);
      m.files.push_back(std::move(file));
    }
    return m;
  }

  [[nodiscard]] int copy_holder(int rank) const { return level_.partners->holder[static_cast<std::size_t>(rank)]; }

  /// The names that this rank's store must hold for the line.
  [[nodiscard]] std::vector<std::string> names_here() const {
    const int me = comm_.rank(), node = topology_.node(me);
    std::vector<std::string> names;
    for (const auto& group : level_.groups) {
      const int first = group.ranks.front();
      const bool here = level_.config.kind == LevelKind::shared ||
                        (level_.config.kind == LevelKind::memory ? first == me : topology_.node(first) == node);
      if (here) names.push_back(group.name);
      if (level_.partners && topology_.node(copy_holder(first)) == node) names.push_back(format::copy_name(group.name));
    }
    for (std::size_t g = 0; g < parity_.size(); ++g)
      for (const int member : parity_[g].members)
        if (level_.config.kind == LevelKind::memory ? member == me : topology_.node(member) == node)
          names.push_back(format::parity_file_name(static_cast<int>(g), member));
    return names;
  }

  Result<void> stage() {
    if (!level_.leader) return {};
    BACKSTAY_TRY(check_lock(level_));
    return catalog::stage(*level_.store, level_.name, checkpoint_.line, format::encode_manifest(manifest()),
                          names_here());
  }

  /// Where some leader could not rename, or not make that durable, all take their manifests back: the line then exists
  /// nowhere.
  Result<void> commit() {
    auto committed = level_.leader ? catalog::commit(*level_.store, level_.name, checkpoint_.line) : Result<void>{};
    auto agreed = agree(comm_, committed);
    // Where the ranks could not tell each other, nobody knows that it is not whole everywhere, so it stays.
    if (!agreed && comm_.works() && level_.leader && check_lock(level_))
      (void)catalog::retire(*level_.store, level_.name, checkpoint_.line).ok();
    return agreed;
  }

  Level& level_;
  Checkpoint& checkpoint_;
  const Job& job_;
  const Topology& topology_;
  comm::Comm& comm_;
  std::string dir_;
  Result<void> written_;
  std::unique_ptr<store::File> file_;  // that has this rank's area
  FileFacts my_facts_;
  std::vector<FileFacts> facts_;               // one for each group
  std::vector<format::GroupOfParity> parity_;  // empty: a level without
};
}  // namespace

Result<std::uint64_t> write_line(Level& level, Checkpoint& checkpoint, const Job& job, const Topology& topology,
                                 comm::Comm& comm) {
  return LineWriter(level, checkpoint, job, topology, comm).write();
}

Result<void> retire_surplus(Level& level, std::size_t keep) {
  for (auto line : level.damaged) std::erase(level.whole, line);
  auto lines = catalog::surplus(level.whole, keep);
  for (auto line : lines) std::erase(level.whole, line);
  lines.insert(lines.end(), level.damaged.begin(), level.damaged.end());
  level.damaged.clear();
  // A node whose disk hung may have committed a line that the others had given up.
  const auto oldest = level.whole.size() >= keep ? level.whole.front() : 0;
  std::erase_if(level.partial, [&](auto line) {
    if (line < oldest) lines.push_back(line);
    return line < oldest;
  });
  std::erase_if(level.names, [&](const auto& named) {
    const auto is_there = [&](const auto& some) { return std::ranges::find(some, named.first) != some.end(); };
    return !is_there(level.whole) && !is_there(level.partial);
  });
  if (!level.leader) return {};
  level.unretired.insert(level.unretired.end(), lines.begin(), lines.end());
  if (auto mine = check_lock(level); !mine) {
    if (mine.failure().code != Code::not_found) return mine;
    level.unretired.clear();  // a node that lost its directory has no old lines to remove
    return {};
  }
  Result<void> outcome;
  for (auto line : std::exchange(level.unretired, {})) {
    auto retired = catalog::retire(*level.store, level.name, line);
    if (retired) continue;
    if (retired.failure().code != Code::permission) level.unretired.push_back(line);  // that may pass
    outcome = std::move(retired);
  }
  if (auto swept = catalog::sweep(*level.store, level.name, level.spare, level.whole); !swept) outcome = swept;
  return outcome;
}

}  // namespace backstay::engine
