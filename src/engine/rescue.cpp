#include "engine/rescue.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "engine/agree.h"
#include "engine/data_reader.h"
#include "engine/line_writer.h"
#include "engine/parity.h"

namespace backstay::engine {

namespace {
constexpr std::size_t piece_bytes = std::size_t{4} << 20;

class Rescue {
 public:
  Rescue(catalog::Candidate line, const Inventory& inventory, const Level& from, Level& to, const Topology& topology,
         comm::Comm& comm)
      : line_(std::move(line)), inventory_(inventory), from_(from), to_(to), topology_(topology), comm_(comm) {}

  Result<void> run() {
    BACKSTAY_TRY(rebuild_lost());
    BACKSTAY_TRY(agree(comm_, check_mine()));
    if (auto staged = write_and_stage(); !staged) {
      if (to_.leader && comm_.works()) (void)catalog::give_up(*to_.store, to_.name, line_.line).ok();
      return staged;
    }
    auto committed = to_.leader ? catalog::commit(*to_.store, to_.name, line_.line) : Result<void>{};
    return agree(comm_, committed);
  }

 private:
  Result<void> rebuild_lost() {
    std::set<Member> lost;
    for (std::size_t g = 0; g < line_.groups.size(); ++g) {
      const auto& group = line_.groups[g];
      const auto missing = std::count(group.begin(), group.end(), std::nullopt);
      if (missing > line_.manifest.groups[g].parities) continue;  // its data are there: the candidate has no trouble
      for (std::size_t m = 0; m < group.size(); ++m)
        if (!group[m]) lost.insert({g, m});
    }
    if (lost.empty()) return {};
    const auto rebuilt = rebuild(line_, lost, inventory_.contents, from_, topology_, comm_);
    if (!rebuilt) return rebuilt.failure();
    if (rebuilt->damaged.empty()) return {};
    return fail(Code::corrupt, rebuilt->damaged.front().second);
  }

  /// Every byte, before anything there makes room for it: who has lost nobody has not been looked at so far.
  Result<void> check_mine() const {
    Bytes bytes;
    for (std::size_t f = 0; f < line_.manifest.files.size(); ++f) {
      const auto& source = line_.sources[f].front();
      if (inventory_.contents[source.store].server != comm_.rank()) continue;
      auto reader = DataReader::open(*from_.store, catalog::line_dir(from_.name, line_.line) + "/" + source.name,
                                     line_.manifest.files[f], line_.manifest.job, line_.line);
      if (!reader) return reader.failure();
      for (const auto& segment : reader->table().segments) {
        bytes.resize(segment.bytes);
        BACKSTAY_TRY(reader->read(segment, bytes));
      }
    }
    return {};
  }

  Result<void> write_and_stage() {
    const auto prepared = to_.leader ? catalog::prepare(*to_.store, to_.name, line_.line, to_.whole) : Result<void>{};
    BACKSTAY_TRY(agree(comm_, prepared));
    BACKSTAY_TRY(agree(comm_, copy_mine()));
    return agree(comm_, stage());
  }

  Result<void> copy_mine() {
    for (std::size_t f = 0; f < line_.manifest.files.size(); ++f) {
      const auto& source = line_.sources[f].front();
      if (inventory_.contents[source.store].server == comm_.rank())
        BACKSTAY_TRY(copy(source.name, line_.manifest.files[f]));
    }
    return {};
  }

  Result<void> copy(const std::string& name, const format::DataFile& file) {
    auto from = from_.store->open_to_read(catalog::line_dir(from_.name, line_.line) + "/" + name);
    if (!from) return from.failure();
    auto to = to_.store->open_to_write(catalog::line_dir(to_.name, line_.line) + "/" + file.name);
    if (!to) return to.failure();
    Bytes piece;
    for (std::uint64_t at = 0; at < file.size; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, file.size - at)));
      BACKSTAY_TRY((*from)->read_at(at, piece));
      BACKSTAY_TRY((*to)->write_at(at, piece));
    }
    BACKSTAY_TRY((*to)->resize(file.size));
    return (*to)->sync();
  }

  Result<void> stage() {
    if (!to_.leader) return {};
    auto manifest = line_.manifest;
    manifest.level = to_.name;
    manifest.groups.clear();
    std::vector<std::string> names;
    for (auto& file : manifest.files) {
      file.node = file.copy_node = -1;
      names.push_back(file.name);
    }
    return catalog::stage(*to_.store, to_.name, line_.line, format::encode_manifest(manifest), names);
  }

  catalog::Candidate line_;
  const Inventory& inventory_;
  const Level& from_;
  Level& to_;
  const Topology& topology_;
  comm::Comm& comm_;
};
}  // namespace

namespace {
const catalog::Candidate* find_line(const Inventory& inventory, std::ptrdiff_t level, std::uint64_t line) {
  for (const auto& candidate : inventory.candidates)
    if (candidate.level == level && candidate.line == line && candidate.trouble.empty()) return &candidate;
  return nullptr;
}

/// It may be older than what is there, and may be there by that number.
void note_rescued(Level& level, std::uint64_t line, std::uint64_t statics) {
  for (auto* known : {&level.whole, &level.partial, &level.damaged}) std::erase(*known, line);
  level.whole.insert(std::ranges::upper_bound(level.whole, line), line);
  level.names[line] = statics;
}

/// What is there under that number is of the same capture, if it is of the same job; or it was brought there
/// (`rescued`) for a line that has proved damaged since.
Result<void> rescue_statics(const catalog::Candidate& line, const Inventory& statics, std::vector<Level>& companions,
                            std::ptrdiff_t to, const Topology& topology, comm::Comm& comm,
                            std::set<std::uint64_t>& rescued) {
  if (line.manifest.statics == 0 || rescued.contains(line.manifest.statics)) return {};
  const auto* there = find_line(statics, to, line.manifest.statics);
  if (there != nullptr && there->manifest.job == line.manifest.job) return {};
  const auto* here = find_line(statics, line.level, line.manifest.statics);
  if (here == nullptr) return fail(Code::not_found, "its static regions cannot be had");
  Level& target = companions[static_cast<std::size_t>(to)];
  const Level& from = companions[static_cast<std::size_t>(line.level)];
  BACKSTAY_TRY(Rescue(*here, statics, from, target, topology, comm).run());
  note_rescued(target, here->line, 0);
  rescued.insert(here->line);
  return {};
}
}  // namespace

/// Code::corrupt: it proves damaged, and no line has changed.
Result<void> rescue_line(const catalog::Candidate& line, Inventories& found, std::vector<Level>& levels,
                         std::vector<Level>& companions, std::ptrdiff_t to, const Topology& topology, comm::Comm& comm,
                         std::set<std::uint64_t>& rescued) {
  Level& shared = levels[static_cast<std::size_t>(to)];
  const Level& from = levels[static_cast<std::size_t>(line.level)];
  BACKSTAY_TRY(rescue_statics(line, found.statics, companions, to, topology, comm, rescued));
  BACKSTAY_TRY(Rescue(line, found.lines, from, shared, topology, comm).run());
  note_rescued(shared, line.line, line.manifest.statics);
  (void)retire_surplus(shared, shared.config.keep).ok();  // or it takes room; this line is whole
  return {};
}

Result<Rescued> rescue(Inventories& found, std::vector<Level>& levels, std::vector<Level>& companions,
                       const Topology& topology, comm::Comm& comm) {
  const auto& lines = found.lines.candidates;
  const auto kind_of = [&](const auto& line) { return levels[static_cast<std::size_t>(line.level)].config.kind; };
  const auto shared =
      std::ranges::find(levels, LevelKind::shared, [](const Level& level) { return level.config.kind; });
  Result<void> newest_failed;
  std::set<std::uint64_t> rescued;  // static lines
  for (auto line = lines.begin(); shared != levels.end() && line != lines.end(); ++line) {
    if (!line->trouble.empty()) continue;
    const bool outlives_the_job = std::any_of(lines.begin(), lines.end(), [&](const auto& other) {
      return other.trouble.empty() && other.line == line->line && kind_of(other) != LevelKind::memory;
    });
    if (outlives_the_job) break;
    const auto done = rescue_line(*line, found, levels, companions, shared - levels.begin(), topology, comm, rescued);
    if (done) {
      std::uint64_t bytes = 0;
      for (const auto& file : line->manifest.files) bytes += file.size;
      return Rescued{line->line, line->manifest.call, bytes};
    }
    if (done.failure().code != Code::corrupt) return done.failure();
    if (newest_failed) newest_failed = done;
  }
  if (!newest_failed) return newest_failed.failure();
  return Rescued{};
}

}  // namespace backstay::engine
