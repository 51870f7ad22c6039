#include "engine/level.h"

#include <algorithm>
#include <set>

#include "format/data_file.h"

namespace backstay::engine {

std::string level_name(const LevelConfig& config) {
  if (!config.name.empty()) return config.name;
  return std::find_if(named_levels.begin(), named_levels.end(),
                      [&](const auto& level) { return level.kind == config.kind; })
      ->name;
}

bool outlives_a_rank(const LevelConfig& config) { return config.kind != LevelKind::memory || config.parity.p > 0; }

std::string companion_of(const std::string& level) { return level + "-static"; }

bool reaches(LevelKind kind, const Topology& topology, int rank, int server) {
  if (kind == LevelKind::shared) return true;
  if (kind == LevelKind::memory) return server == rank;
  return topology.node(server) == topology.node(rank);
}

int Topology::leader(int wanted) const {
  return static_cast<int>(std::find(node_of.begin(), node_of.end(), wanted) - node_of.begin());
}

int Topology::ranks_on(int wanted) const {
  return static_cast<int>(std::count(node_of.begin(), node_of.end(), wanted));
}

int Topology::nodes() const { return static_cast<int>(std::set<int>(node_of.begin(), node_of.end()).size()); }

namespace {
std::vector<FileGroup> one_each(const Topology& topology) {
  std::vector<FileGroup> groups;
  for (int rank = 0; rank < static_cast<int>(topology.node_of.size()); ++rank)
    groups.push_back({format::rank_file_name(rank), {rank}});
  return groups;
}

/// Ranks in equal runs over `files` files.
std::vector<FileGroup> in_runs(int ranks, int files) {
  std::vector<FileGroup> groups(static_cast<std::size_t>(files));
  for (int rank = 0; rank < ranks; ++rank)
    groups[static_cast<std::size_t>(static_cast<std::int64_t>(rank) * files / ranks)].ranks.push_back(rank);
  return groups;
}

std::vector<FileGroup> by_node(const Topology& topology) {
  const std::set<int> nodes(topology.node_of.begin(), topology.node_of.end());
  std::vector<FileGroup> groups;
  for (int node : nodes) {
    groups.emplace_back();
    for (int rank = 0; rank < static_cast<int>(topology.node_of.size()); ++rank)
      if (topology.node(rank) == node) groups.back().ranks.push_back(rank);
  }
  return groups;
}
}  // namespace

std::vector<FileGroup> file_groups(const LevelConfig& config, const Topology& topology) {
  const int ranks = static_cast<int>(topology.node_of.size());
  if (config.kind != LevelKind::shared || config.layout == Layout::file_per_rank) return one_each(topology);
  if (config.layout == Layout::one_file) {
    auto groups = in_runs(ranks, 1);
    groups[0].name = "all.h5";
    return groups;
  }
  auto groups = config.files > 0 ? in_runs(ranks, std::min(config.files, ranks)) : by_node(topology);
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g].name = format::group_file_name(static_cast<int>(g));
  std::sort(groups.begin(), groups.end(),
            [](const auto& a, const auto& b) { return a.ranks.front() < b.ranks.front(); });
  return groups;
}

}  // namespace backstay::engine
