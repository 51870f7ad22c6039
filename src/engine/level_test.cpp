#include "engine/level.h"

#include <gtest/gtest.h>

namespace backstay::engine {
namespace {

const Topology four_nodes{{0, 0, 1, 1, 2, 2, 3, 3}};

TEST(level, a_file_per_rank) {
  const auto groups = file_groups({LevelKind::local, {}, 2, Layout::one_file, 0, 1}, four_nodes);
  ASSERT_EQ(groups.size(), 8U);  // node directories always have a file per rank
  EXPECT_EQ(groups[5].name, "rank-00005.h5");
  EXPECT_EQ(groups[5].ranks, (std::vector<int>{5}));
}

TEST(level, a_file_per_node_also_where_ranks_are_dealt_in_turn) {
  const auto groups = file_groups({LevelKind::shared, {}, 2, Layout::file_per_node, 0, 1}, {{0, 1, 0, 1}});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[1].ranks, (std::vector<int>{1, 3}));
}

TEST(level, n_ranks_to_m_files_and_one_file) {
  const auto three = file_groups({LevelKind::shared, {}, 2, Layout::file_per_node, 3, 1}, four_nodes);
  ASSERT_EQ(three.size(), 3U);
  std::size_t ranks = 0;
  for (const auto& g : three) ranks += g.ranks.size();
  EXPECT_EQ(ranks, 8U);
  EXPECT_EQ(file_groups({LevelKind::shared, {}, 2, Layout::file_per_node, 100, 1}, four_nodes).size(), 8U);
  const auto one = file_groups({LevelKind::shared, {}, 2, Layout::one_file, 0, 1}, four_nodes);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].name, "all.h5");
}

TEST(topology, leaders_are_the_lowest_ranks) {
  const Topology dealt{{1, 0, 1, 0, 2}};
  EXPECT_EQ(dealt.leader(0), 1);
  EXPECT_EQ(dealt.leader(1), 0);
  EXPECT_EQ(dealt.ranks_on(1), 2);
  EXPECT_EQ(dealt.nodes(), 3);
}

}  // namespace
}  // namespace backstay::engine
