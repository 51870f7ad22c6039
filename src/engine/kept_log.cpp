#include "engine/kept_log.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "engine/agree.h"
#include "engine/statics.h"

namespace backstay::engine {

namespace {
region::RegionSet region_of(std::string& log) {
  RegionSpec spec;
  spec.name = "log";
  spec.type = {Type::Kind::opaque, 1, {}};
  spec.save = [&log] { return log; };
  spec.load = [&log](std::span<const std::byte> bytes) { log = as_text(bytes); };
  region::RegionSet regions;
  (void)regions.add(std::move(spec)).ok();  // nothing about it can be refused
  return regions;
}

ParityConfig strongest_parity(const std::vector<LevelConfig>& levels, const Topology& topology) {
  ParityConfig parity;
  for (const auto& level : levels)
    if (level.parity.p > parity.p) parity = level.parity;
  if (parity.p == 0) parity = {1, 1, {}};
  if (!parity.units.empty()) return parity;
  parity.units = topology.node_of;
  if (topology.nodes() == 1) std::iota(parity.units.begin(), parity.units.end(), 0);
  return parity;
}
}  // namespace

Result<Level> level_of_logs(const std::vector<LevelConfig>& levels, const Topology& topology,
                            std::shared_ptr<store::Store> memory, int rank) {
  Level level;
  level.config.kind = LevelKind::memory;
  level.config.parity = strongest_parity(levels, topology);
  level.name = level_of_message_logs;
  level.store = std::move(memory);
  level.leader = true;
  level.groups = file_groups(level.config, topology);
  level.my_group = static_cast<std::size_t>(rank);
  level.spare = 0;
  if (topology.node_of.size() == 1) return level;
  auto groups = redundancy::plan_groups(level.config.parity.units, level.config.parity.k, level.config.parity.p);
  if (!groups) return groups.failure();
  level.parity_groups = std::move(*groups);
  return level;
}

Result<void> keep_log(Level& level, const std::string& log, const Job& job, const Topology& topology,
                      comm::Comm& comm) {
  std::string text = log;
  const auto regions = region_of(text);
  Checkpoint checkpoint;
  checkpoint.line = level.whole.empty() ? 1 : level.whole.back() + 1;
  checkpoint.signature = regions.signature();
  checkpoint.captured = capture_regions(regions, {comm.rank(), 1, 0}, checkpoint.capture);
  const auto written = write_line(level, checkpoint, job, topology, comm);
  if (!written) return written.failure();
  return agree(comm, retire_surplus(level, 1));
}

Result<std::string> find_log(Level& level, const Job& job, const Topology& topology, comm::Comm& comm, const Say& say) {
  const std::vector<Level> levels{level};
  const auto found = take_inventory(levels, {}, {}, comm);
  if (!found) return found.failure();
  std::string log;
  const auto regions = region_of(log);
  const region::RegionSet none;
  const std::vector<Level> no_companions;
  std::vector<std::string> said;  // of a level that the program did not ask for: worth hearing if it tells something
  const auto put_back = put_back_newest(found->lines, levels, {found->statics, no_companions, none}, topology, regions,
                                        {}, comm, [&](const std::string& sentence) { said.push_back(sentence); });
  if (put_back || put_back.failure().code == Code::corrupt)
    for (const auto& sentence : said) say(sentence);
  if (!put_back && put_back.failure().code == Code::corrupt)
    return fail(Code::rank_lost, "more ranks were lost than the logs of what they received in init() bear (parity for ",
                level.config.parity.p,
                "): start the job again; it goes on from the newest line that is left, or from its beginning");
  if (!put_back) return put_back.failure();
  if (put_back->line == 0) return log;
  level.whole = {put_back->line};
  const auto kept = std::ranges::find(found->lines.candidates, put_back->line, &catalog::Candidate::line);
  if (kept == found->lines.candidates.end() || lies_apart(*kept, found->lines, level, topology)) return log;
  const auto again = keep_log(level, log, job, topology, comm);
  if (!again && (again.failure().code == Code::comm || again.failure().code == Code::timeout)) return again.failure();
  if (!again)
    say(cat("the logs of what ranks received in init() are protected less than before: ", again.failure().what));
  return log;
}

}  // namespace backstay::engine
