#include "comm/repair_plan.h"

#include <gtest/gtest.h>

namespace backstay::comm {
namespace {

/// Ranks 0 to 3 and spares 4 and 5, without those in `dead`.
std::vector<Survivor> crew_without(const std::vector<int>& dead, Word word = Word::failed) {
  std::vector<Survivor> all;
  for (int number = 0; number < 6; ++number)
    if (std::find(dead.begin(), dead.end(), number) == dead.end())
      all.push_back({number, number < 4 ? number : -1, number / 2, number < 4 ? word : Word::waiting});
  return all;
}

TEST(RepairPlan, a_spare_takes_the_place_of_a_lost_rank) {
  const auto plan = plan_repair(crew_without({1}), 4, false);
  EXPECT_EQ(plan.fate, Fate::again);
  EXPECT_EQ(plan.ranks, (std::vector<int>{0, 2, 3, 1, -1}));
  ASSERT_EQ(plan.replaced.size(), 1u);
  EXPECT_EQ(plan.replaced[0].rank, 1);
  EXPECT_EQ(plan.replaced[0].by_number, 4);
  EXPECT_EQ(plan.replaced[0].node, 2);
  EXPECT_FALSE(plan.same_ranks);
}

TEST(RepairPlan, rank_0_and_another_are_replaced_in_order) {
  const auto plan = plan_repair(crew_without({0, 3}), 4, false);
  EXPECT_EQ(plan.fate, Fate::again);
  EXPECT_EQ(plan.ranks, (std::vector<int>{1, 2, 0, 3}));
}

TEST(RepairPlan, a_spare_that_dies_together_with_ranks_is_taken_last) {
  auto crew = crew_without({0});
  for (auto& survivor : crew) survivor.units = {0, static_cast<std::uint64_t>(survivor.number % 5)};
  // Spare 5 dies with rank 0, who is lost, and 4 with nobody; then 5 with 4 in another way, and 4 with nobody, too.
  EXPECT_EQ(plan_repair(crew, 4, false).replaced[0].by_number, 4);
  crew[3].units[1] = crew[1].units[1];
  EXPECT_EQ(plan_repair(crew, 4, false).replaced[0].by_number, 5) << "4 dies together with rank 2";
  crew[4].units = {9, crew[1].units[1]};
  crew[2].units[0] = 9;
  EXPECT_EQ(plan_repair(crew, 4, false).replaced[0].by_number, 4) << "5 dies together with ranks 2 and 3";
}

TEST(RepairPlan, spares_that_die_together_are_not_taken_both) {
  std::vector<Survivor> crew;
  for (int number = 2; number < 6; ++number)
    crew.push_back({number, number < 3 ? number : -1, number, Word::failed, 0, {number < 5 ? 7U + number / 3 : 9U}});
  const auto plan = plan_repair(crew, 3, false);  // ranks 0 and 1 are lost; spares 3 and 4 die together
  EXPECT_EQ(plan.ranks, (std::vector<int>{2, 0, -1, 1}));
}

TEST(RepairPlan, a_lost_spare_changes_nothing_for_those_who_work) {
  const auto plan = plan_repair(crew_without({5}, Word::finished), 4, false);
  EXPECT_EQ(plan.fate, Fate::finished);
  EXPECT_TRUE(plan.same_ranks);
  EXPECT_EQ(plan.ranks, (std::vector<int>{0, 1, 2, 3, -1}));
}

TEST(RepairPlan, a_rank_that_finished_rolls_back_with_those_that_did_not) {
  auto crew = crew_without({2}, Word::finished);
  crew[0].word = Word::failed;
  EXPECT_EQ(plan_repair(crew, 4, false).fate, Fate::again);
}

TEST(RepairPlan, without_a_spare_the_job_is_lost_or_goes_on_with_fewer_ranks) {
  const auto crew = crew_without({1, 2, 5});
  const auto lost = plan_repair(crew, 4, false);
  EXPECT_EQ(lost.fate, Fate::lost);
  ASSERT_EQ(lost.replaced.size(), 2u);
  EXPECT_EQ(lost.replaced[1].by_number, -1);
  EXPECT_EQ(lost.ranks, (std::vector<int>{0, 1, -1})) << "those who are left save what they can";
  const auto fewer = plan_repair(crew, 4, true);
  EXPECT_EQ(fewer.fate, Fate::again);
  EXPECT_EQ(fewer.workers, 3);
  EXPECT_EQ(fewer.ranks, (std::vector<int>{0, 2, 1}));
}

TEST(RepairPlan, who_closes_cannot_roll_back) {
  EXPECT_EQ(plan_repair(crew_without({1}, Word::closing), 4, false).fate, Fate::lost);
  auto crew = crew_without({1});
  EXPECT_FALSE(plan_repair(crew, 4, false).anybody_closes);
  crew[2].word = Word::closing;
  EXPECT_EQ(plan_repair(crew, 4, false).fate, Fate::lost);
  EXPECT_TRUE(plan_repair(crew, 4, false).anybody_closes);
  EXPECT_EQ(plan_repair(crew_without({}, Word::closing), 4, false).fate, Fate::closed);
}

TEST(RepairPlan, a_rank_beyond_the_first_loop_cannot_roll_back) {
  auto crew = crew_without({1});
  crew[2].may_roll_back = false;
  const auto plan = plan_repair(crew, 4, false);
  EXPECT_EQ(plan.fate, Fate::lost);
  EXPECT_EQ(plan.replaced[0].by_number, 4) << "not for want of a spare";
  crew = crew_without({4}, Word::finished);
  for (auto& survivor : crew) survivor.may_roll_back = survivor.rank < 0;
  EXPECT_EQ(plan_repair(crew, 4, false).fate, Fate::finished) << "a spare is nobody's loss";
}

TEST(RepairPlan, spares_can_take_over_the_whole_job) {
  EXPECT_EQ(plan_repair(crew_without({0, 1, 2, 3}), 4, false).fate, Fate::lost);
  const auto plan = plan_repair(crew_without({0, 1, 2, 3}), 2, false);
  EXPECT_EQ(plan.fate, Fate::again);
  EXPECT_EQ(plan.ranks, (std::vector<int>{0, 1}));
}

TEST(RepairPlan, a_failure_without_a_loss_rolls_back_on_the_same_ranks) {
  const auto plan = plan_repair(crew_without({}), 4, false);
  EXPECT_EQ(plan.fate, Fate::again);
  EXPECT_TRUE(plan.replaced.empty());
  EXPECT_FALSE(plan.same_ranks);  // a new communicator: the old one is revoked
}

}  // namespace
}  // namespace backstay::comm
