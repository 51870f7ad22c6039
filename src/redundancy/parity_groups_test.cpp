#include "redundancy/parity_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

namespace backstay::redundancy {
namespace {

/// What must hold whatever the units are.
void check_groups(const std::vector<int>& units, int k, int p, const std::vector<ParityGroup>& groups) {
  std::multiset<int> owners;
  for (const auto& group : groups) {
    std::set<int> seen;
    for (const int rank : group.members) seen.insert(units[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(seen.size(), group.members.size()) << "two members in one unit";
    EXPECT_GT(group.members.size(), static_cast<std::size_t>(p));
    EXPECT_LE(group.members.size(), static_cast<std::size_t>(std::max(k + p, p + 1)));
    EXPECT_GE(group.owners, 1U);
    owners.insert(group.members.begin(), group.members.begin() + static_cast<std::ptrdiff_t>(group.owners));
  }
  std::multiset<int> all;
  for (int rank = 0; rank < static_cast<int>(units.size()); ++rank) all.insert(rank);
  EXPECT_EQ(owners, all) << "each rank brings its data to one group";
}

TEST(parity_groups, ranks_of_even_nodes_fill_groups_evenly) {
  const auto groups = plan_groups({0, 0, 1, 1, 2, 2, 3, 3}, 3, 1);
  ASSERT_TRUE(groups.ok());
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ((*groups)[0].members, (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ((*groups)[1].members, (std::vector<int>{1, 3, 5, 7}));
}

TEST(parity_groups, any_units_are_handled) {
  std::mt19937 chance(5);
  for (int trial = 0; trial < 2000; ++trial) {
    const int nodes = 2 + static_cast<int>(chance() % 9), ranks = nodes + static_cast<int>(chance() % 40);
    std::vector<int> units;
    for (int rank = 0; rank < ranks; ++rank)
      units.push_back(10 * (rank < nodes ? rank : static_cast<int>(chance() % static_cast<unsigned>(nodes))));
    const int p = 1 + static_cast<int>(chance() % static_cast<unsigned>(nodes - 1));
    const int k = 1 + static_cast<int>(chance() % 9);
    const auto groups = plan_groups(units, k, p);
    ASSERT_TRUE(groups.ok());
    check_groups(units, k, p, *groups);
  }
}

TEST(parity_groups, a_crowded_node_is_helped_by_ranks_of_others) {
  const std::vector<int> units{0, 0, 0, 0, 1, 2};
  const auto groups = plan_groups(units, 2, 2);
  ASSERT_TRUE(groups.ok());
  EXPECT_EQ(groups->size(), 4U);  // no two ranks of node 0 share parity
  check_groups(units, 2, 2, *groups);
}

TEST(parity_groups, the_largest_group_has_255_members) {
  std::vector<int> units(255);
  std::iota(units.begin(), units.end(), 0);
  for (const auto& [k, p] : {std::pair(254, 1), {128, 127}, {1, 254}}) {
    const auto groups = plan_groups(units, k, p);
    ASSERT_TRUE(groups.ok()) << groups.failure().what;
    ASSERT_EQ(groups->size(), 1U);
    check_groups(units, k, p, *groups);
  }
}

TEST(parity_groups, too_few_units_are_refused) {
  const auto groups = plan_groups({0, 0, 1, 1}, 2, 2);
  ASSERT_FALSE(groups.ok());
  EXPECT_EQ(groups.failure().what,
            "parity for 2 lost failure units needs ranks (spares do not count) in at least 3 of them, and this job has "
            "ranks in "
            "2: choose fewer parities or "
            "smaller units");
  EXPECT_FALSE(plan_groups({0, 1}, 255, 1).ok());
}

TEST(parity_groups, every_member_holds_every_chunk_once_and_every_stripe_every_shard_once) {
  for (const auto& stripes : {Stripes{2, 1}, {5, 1}, {5, 2}, {8, 3}, {4, 3}}) {
    for (int a = 0; a < stripes.n; ++a) {
      std::set<int> of_member, of_stripe;
      for (int b = 0; b < stripes.n; ++b) {
        of_member.insert(stripes.shard(b, a));
        of_stripe.insert(stripes.shard(a, b));
        EXPECT_EQ(stripes.member(a, stripes.shard(a, b)), b);
      }
      EXPECT_EQ(of_member.size(), static_cast<std::size_t>(stripes.n));
      EXPECT_EQ(of_stripe.size(), static_cast<std::size_t>(stripes.n));
    }
  }
}

TEST(parity_groups, chunks_hold_all_data_and_are_whole_pages) {
  EXPECT_EQ((Stripes{4, 1}.chunk(0)), 0U);
  EXPECT_EQ((Stripes{4, 1}.chunk(1)), 4096U);
  EXPECT_EQ((Stripes{4, 1}.chunk(3 * 4096)), 4096U);
  EXPECT_EQ((Stripes{4, 1}.chunk(3 * 4096 + 1)), 8192U);
}

}  // namespace
}  // namespace backstay::redundancy
