#include "engine/statics.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/text.h"
#include "engine/data_reader.h"
#include "engine/line_writer.h"

namespace backstay::engine {

std::vector<Level> companions_of(const std::vector<Level>& levels) {
  std::vector<Level> out = levels;
  for (auto& level : out) {
    level.name = companion_of(level.name);
    level.spare = 0;  // the next line of its kind may never come
  }
  return out;
}

std::uint64_t oldest_static_in_use(const std::vector<std::uint64_t>& statics, const std::vector<std::uint64_t>& lines,
                                   const std::map<std::uint64_t, std::uint64_t>& names) {
  auto oldest = std::numeric_limits<std::uint64_t>::max();
  for (const auto line : lines) {
    std::uint64_t named = 0;
    if (const auto known = names.find(line); known != names.end())
      named = known->second;
    else if (!statics.empty() && statics.front() <= line)
      named = statics.front();
    if (named > 0) oldest = std::min(oldest, named);
  }
  return oldest;
}

Result<void> retire_statics(Level& companion, const Level& level) {
  if (!level.seen) return {};  // what lies there names some of them
  auto lines = level.whole;
  lines.insert(lines.end(), level.partial.begin(), level.partial.end());
  if (companion.whole.empty() || lines.empty()) return {};
  const auto oldest = oldest_static_in_use(companion.whole, lines, level.names);
  const auto used = std::ranges::count_if(companion.whole, [&](auto line) { return line >= oldest; });
  // What lacks something now may be needed when that is there again, as the lines are that name it.
  const auto held =
      std::partition(companion.partial.begin(), companion.partial.end(), [&](auto line) { return line < oldest; });
  const std::vector<std::uint64_t> in_use(held, companion.partial.end());
  companion.partial.erase(held, companion.partial.end());
  const auto retired = retire_surplus(companion, std::max<std::size_t>(1, static_cast<std::size_t>(used)));
  companion.partial.insert(companion.partial.end(), in_use.begin(), in_use.end());
  BACKSTAY_TRY(retired);
  std::erase_if(companion.own_files, [&](const auto& file) {
    return std::ranges::find(companion.whole, file.first) == companion.whole.end();
  });
  return {};
}

namespace {
bool same_data(const format::Segment& a, const format::Segment& b) {
  return a.region == b.region && a.type == b.type && a.shape == b.shape && a.units == b.units &&
         a.placement == b.placement && a.bytes == b.bytes && a.crc == b.crc;
}

/// What this rank finds in its own file of the line is what it has in memory.
bool has_here(const catalog::Candidate& line, const Inventory& inventory, const Level& companion,
              const Topology& topology, const Capture& memory, int rank) {
  for (std::size_t f = 0; f < line.manifest.files.size(); ++f) {
    const auto& file = line.manifest.files[f];
    if (std::find(file.ranks.begin(), file.ranks.end(), rank) == file.ranks.end()) continue;
    const auto& source = line.sources[f].front();
    if (!reaches(companion.config.kind, topology, rank, inventory.contents[source.store].server)) return false;
    const auto reader =
        DataReader::open(*companion.store, catalog::line_dir(companion.name, line.line) + "/" + source.name, file,
                         line.manifest.job, line.line, rank);
    if (!reader) return false;
    auto saved = reader->table().segments;
    std::erase_if(saved, [&](const auto& segment) { return segment.rank != rank; });
    return std::equal(saved.begin(), saved.end(), memory.segments.begin(), memory.segments.end(), same_data);
  }
  return false;
}
}  // namespace

bool lies_apart(const catalog::Candidate& line, const Inventory& inventory, const Level& level,
                const Topology& topology) {
  const auto& units = level.config.parity.units.empty() ? topology.node_of : level.config.parity.units;
  for (const auto& group : line.manifest.groups) {
    std::set<int> different;
    for (const int member : group.members) different.insert(units[static_cast<std::size_t>(member)]);
    if (different.size() < group.members.size()) return false;
  }
  for (std::size_t f = 0; f < line.sources.size(); ++f) {
    if (line.manifest.files[f].copy_node < 0) continue;
    std::set<int> nodes;
    for (const auto& source : line.sources[f]) nodes.insert(topology.node(inventory.contents[source.store].server));
    if (nodes.size() < 2) return false;
  }
  return true;
}

namespace {
void note_own_file(const catalog::Candidate& line, Level& companion, int rank) {
  for (std::size_t f = 0; f < line.manifest.files.size(); ++f)
    if (line.manifest.files[f].ranks.front() == rank)
      companion.own_files[line.line] =
          catalog::line_dir(companion.name, line.line) + "/" + line.sources[f].front().name;
}
}  // namespace

Result<std::vector<std::uint64_t>> find_equal(const Inventory& inventory, std::vector<Level>& companions,
                                              const Topology& topology, const std::string& job,
                                              const Result<void>& captured, const Capture& memory, comm::Comm& comm) {
  std::vector<std::uint64_t> lines(companions.size(), 0);
  std::vector<std::int64_t> differs(companions.size(), 1);
  for (std::size_t i = 0; i < companions.size(); ++i) {
    const auto newest = std::find_if(inventory.candidates.begin(), inventory.candidates.end(),
                                     [&](const auto& line) { return line.level == static_cast<int>(i); });
    if (newest == inventory.candidates.end() || !newest->trouble.empty() || !newest->complete ||
        newest->manifest.job != job || companions[i].distrusted.contains(newest->line) ||
        newest->manifest.ranks != comm.size() || !lies_apart(*newest, inventory, companions[i], topology))
      continue;
    lines[i] = newest->line;
    differs[i] = captured && has_here(*newest, inventory, companions[i], topology, memory, comm.rank()) ? 0 : 1;
    if (differs[i] == 0) note_own_file(*newest, companions[i], comm.rank());
  }
  const auto all = comm.all_max(std::move(differs));
  if (!all) return all.failure();
  for (std::size_t i = 0; i < lines.size(); ++i)
    if ((*all)[i] != 0) lines[i] = 0;
  return lines;
}

}  // namespace backstay::engine
