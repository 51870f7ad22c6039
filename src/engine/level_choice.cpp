#include "engine/level_choice.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace backstay::engine {

namespace {
constexpr std::uint64_t sample_bytes = std::uint64_t{512} << 10;
constexpr std::uint64_t most_samples = 5;
constexpr double as_long_with_a_rebuild = 3;               // as a read: bench/results/repair-2026-11-23.md
constexpr double least_seconds = 0.1, least_share = 0.25;  // that a dearer level has to gain

class Expectation {
 public:
  Expectation(const Inventory& inventory, const std::vector<Level>& levels, const Topology& topology, int rank)
      : inventory_(inventory), levels_(levels), topology_(topology), rank_(rank) {}

  /// Nanoseconds that this rank expects to need; 0: it has nothing to read.
  [[nodiscard]] std::int64_t of(const catalog::Candidate& line) const {
    if (line.manifest.files.empty()) return 0;
    const std::size_t f = my_file(line.manifest);
    const auto& file = line.manifest.files[f];
    const auto source = std::find_if(line.sources[f].begin(), line.sources[f].end(),
                                     [&](const catalog::Source& s) { return can_read(line, s); });
    if (source == line.sources[f].end()) return 0;  // it is read by others, or rebuilt by them
    const double share =
        static_cast<double>(file.size) / static_cast<double>(std::max<std::size_t>(1, file.ranks.size()));
    const bool rebuilds =
        std::any_of(line.sources.begin(), line.sources.end(), [](const auto& s) { return s.empty(); });
    return std::llround(1e9 * seconds_a_byte(line, *source, file.size) * share *
                        (rebuilds ? as_long_with_a_rebuild : 1));
  }

 private:
  [[nodiscard]] std::size_t my_file(const format::Manifest& manifest) const {
    for (std::size_t f = 0; f < manifest.files.size(); ++f)
      if (std::count(manifest.files[f].ranks.begin(), manifest.files[f].ranks.end(), rank_) > 0) return f;
    return static_cast<std::size_t>(rank_) % manifest.files.size();
  }

  [[nodiscard]] bool can_read(const catalog::Candidate& line, const catalog::Source& source) const {
    const auto kind = levels_[static_cast<std::size_t>(line.level)].config.kind;
    return reaches(kind, topology_, rank_, inventory_.contents[source.store].server);
  }

  /// The median of samples from all over the file. What cannot be read is found out when it is needed.
  [[nodiscard]] double seconds_a_byte(const catalog::Candidate& line, const catalog::Source& source,
                                      std::uint64_t size) const {
    const Level& level = levels_[static_cast<std::size_t>(line.level)];
    const std::uint64_t bytes = std::min(sample_bytes, size);
    if (bytes == 0) return 0;
    const std::uint64_t samples = std::min(most_samples, size / bytes);
    Bytes room(bytes);
    std::vector<double> seconds;
    for (std::uint64_t i = 0; i < samples; ++i) {
      const auto start = std::chrono::steady_clock::now();
      if (auto file = level.store->open_to_read(catalog::line_dir(level.name, line.line) + "/" + source.name))
        (void)(*file)->read_at(size / samples * i, room).ok();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle / static_cast<double>(bytes);
  }

  const Inventory& inventory_;
  const std::vector<Level>& levels_;
  const Topology& topology_;
  int rank_;
};

/// Of all that can be put back as far as one knows, those that hold the newest checkpoint.
std::vector<std::size_t> equals_of(const std::vector<catalog::Candidate>& lines) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].trouble.empty()) continue;
    const auto& first = out.empty() ? lines[i] : lines[out.front()];
    if (lines[i].line == first.line && lines[i].manifest.job == first.manifest.job &&
        lines[i].manifest.call == first.manifest.call)
      out.push_back(i);
  }
  return out;
}
}  // namespace

Result<void> choose_level(Inventory& inventory, const std::vector<Level>& levels, const Topology& topology,
                          comm::Comm& comm, const Say& say) {
  auto& lines = inventory.candidates;
  const auto equals = equals_of(lines);
  if (equals.size() < 2) return {};
  const Expectation expected(inventory, levels, topology, comm.rank());
  std::vector<std::int64_t> mine;
  for (const std::size_t i : equals) mine.push_back(expected.of(lines[i]));
  const auto slowest = comm.all_max(std::move(mine));
  if (!slowest) return slowest.failure();
  const auto seconds = [&](std::size_t e) { return static_cast<double>((*slowest)[e]) * 1e-9; };
  std::size_t best = 0;
  for (std::size_t e = 1; e < equals.size(); ++e)
    if (seconds(best) - seconds(e) > std::max(least_seconds, least_share * seconds(best))) best = e;
  const auto expected_of = [&](std::size_t e) {
    return cat(levels[static_cast<std::size_t>(lines[equals[e]].level)].name, " (", human_seconds(seconds(e)),
               " expected)");
  };
  std::string others;
  bool is_fastest = true;
  for (std::size_t e = 0; e < equals.size(); ++e) {
    if (e == best) continue;
    others += cat(others.empty() ? "" : " or ", expected_of(e));
    is_fastest = is_fastest && seconds(best) <= seconds(e);
  }
  say(cat("line ", lines[equals[0]].line, " is taken from level ", expected_of(best), ", not from ", others,
          is_fastest ? "" : ": for less than a quarter and 0.1 s no dearer level is read"));
  const auto at = [&](std::size_t e) { return lines.begin() + static_cast<std::ptrdiff_t>(equals[e]); };
  std::rotate(at(0), at(best), at(best) + 1);
  return {};
}

}  // namespace backstay::engine
