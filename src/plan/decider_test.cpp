#include "plan/decider.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace backstay::plan {
namespace {

/// Ranks that decide together: one call of checkpoint() on each, agreements passed through a maximum.
class Ranks {
 public:
  Ranks(std::size_t count, const std::vector<Cadence>& levels, double period)
      : deciders_(count, Decider(levels, period)) {}

  /// The levels due, the same on every rank or the test fails. `take`: the checkpoint is captured.
  std::vector<bool> call(double now, bool take = true, int signalled_rank = -1) {
    std::vector<bool> due;
    for (std::size_t r = 0; r < deciders_.size(); ++r) {
      deciders_[r].begin_call(now);
      if (deciders_[r].agreement_under_way()) deciders_[r].agreed(proposal_);
      if (r == 0) due = deciders_[r].due();
      EXPECT_EQ(deciders_[r].due(), due);
      if (take) deciders_[r].taken(due, now);
    }
    std::vector<std::int64_t> next;
    const bool wanted = deciders_[0].wants_agreement();
    for (std::size_t r = 0; r < deciders_.size(); ++r) {
      EXPECT_EQ(deciders_[r].wants_agreement(), wanted);
      if (!deciders_[r].wants_agreement()) continue;
      const auto mine = deciders_[r].propose({static_cast<int>(r) == signalled_rank}, now);
      next.resize(mine.size(), INT64_MIN);
      for (std::size_t i = 0; i < mine.size(); ++i) next[i] = std::max(next[i], mine[i]);
    }
    if (!next.empty()) {
      proposal_ = next;
      ++agreements;
    }
    return due;
  }
  Decider& operator[](std::size_t r) { return deciders_[r]; }
  int agreements = 0;

 private:
  std::vector<Decider> deciders_;
  std::vector<std::int64_t> proposal_;
};

TEST(decider, counts_calls) {
  Ranks ranks(3, {{5, 0}, {10, 0}}, 0.02);
  for (int call = 1; call <= 30; ++call) {
    const auto due = ranks.call(call * 0.001);
    EXPECT_EQ(due[0], call % 5 == 0) << call;
    EXPECT_EQ(due[1], call % 10 == 0) << call;
  }
}

std::vector<int> calls_that_take(int calls, double step, double interval) {
  Ranks ranks(4, {{0, interval}}, 0.0);
  std::vector<int> at;
  for (int call = 1; call <= calls; ++call)
    if (ranks.call(call * step)[0]) at.push_back(call);
  return at;
}

TEST(decider, an_interval_ends_at_the_call_that_comes_then) {
  EXPECT_EQ(calls_that_take(40, 0.125, 1.0), (std::vector<int>{9, 17, 25, 33}));  // 8 calls make a second
}

TEST(decider, calls_that_are_rarer_than_the_interval_all_take_one) {
  // The second one comes before anybody knows how far they are apart.
  EXPECT_EQ(calls_that_take(7, 1800, 60), (std::vector<int>{3, 4, 5, 6, 7}));
  EXPECT_EQ(calls_that_take(8, 40, 60), (std::vector<int>{3, 5, 7}));
}

TEST(decider, a_step_that_was_late_makes_no_lines_of_its_own) {
  Ranks ranks(2, {{0, 64}}, 0.0);
  std::vector<double> at;
  for (double now = 1; now <= 100; ++now)
    if (ranks.call(now)[0]) at.push_back(now);
  for (double now = 300; now < 360; ++now)
    if (ranks.call(now)[0]) at.push_back(now);
  EXPECT_EQ(at, (std::vector<double>{65, 301}));
}

TEST(decider, an_interval_goes_on_with_the_run) {
  Decider d({{0, 60}}, 0);
  d.begin_call(10);  // seconds since the machine was started
  d.goes_on(0, 50, 10);
  d.agreed(d.propose({}, 10));
  EXPECT_FALSE(d.due()[0]);
  d.begin_call(11);
  d.agreed(d.propose({}, 19.5));
  EXPECT_TRUE(d.due()[0]);
}

TEST(decider, all_ranks_know_whether_steps_are_long) {
  Ranks ranks(2, {{0, 60}}, 0.0);
  for (int call = 1; call <= 3; ++call) ranks.call(call * 0.1);
  EXPECT_FALSE(ranks[0].steps_are_long());
  for (int call = 1; call <= 4; ++call) ranks.call(call * 10.0);
  EXPECT_TRUE(ranks[0].steps_are_long());
}

TEST(decider, knows_when_a_level_was_due_last) {
  const Decider d({{10, 0}, {0, 60}}, 0);
  EXPECT_EQ(d.last_due_by_count(0, 9), 0U);
  EXPECT_EQ(d.last_due_by_count(0, 10), 10U);
  EXPECT_EQ(d.last_due_by_count(0, 29), 20U);
  EXPECT_EQ(d.last_due_by_count(1, 29), 0U);
}

TEST(decider, short_steps_do_not_pay_for_an_agreement_each) {
  Ranks ranks(2, {{0, 1000}}, 0.02);
  for (int call = 1; call <= 10000; ++call) ranks.call(call * 1e-5);
  EXPECT_LT(ranks.agreements, 30);
  EXPECT_GE(ranks.agreements, 4);
}

TEST(decider, quick_calls_at_the_start_do_not_put_off_the_next_agreement) {
  Ranks ranks(2, {{0, 1000}}, 0.02);
  for (int call = 1; call <= 3; ++call) ranks.call(call * 1e-6);
  const int before = ranks.agreements;
  for (int call = 1; call <= 8; ++call) ranks.call(call * 1.0);
  EXPECT_GT(ranks.agreements, before);
}

TEST(decider, an_agreement_precedes_every_call_that_is_due_by_count) {
  Ranks ranks(2, {{100, 0}}, 1000);
  for (int call = 1; call <= 99; ++call) ranks.call(call * 1e-5);
  EXPECT_TRUE(ranks[0].agreement_under_way());
}

TEST(decider, a_signal_on_one_rank_stops_all) {
  Ranks ranks(3, {{0, 1000}}, 0.0);
  ranks.call(0.1);
  ranks.call(0.2, true, 1);
  EXPECT_FALSE(ranks[0].stop());
  ranks.call(0.3);
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(ranks[r].stop());
}

TEST(decider, what_was_passed_over_is_proposed_again) {
  Decider d({{0, 1.0}}, 0);
  d.begin_call(0);
  d.agreed(d.propose({}, 2));
  EXPECT_TRUE(d.due()[0]);
  d.passed_over();
  EXPECT_FALSE(d.due()[0]);
  d.begin_call(3);
  d.agreed(d.propose({}, 3));
  EXPECT_TRUE(d.due()[0]);
}

}  // namespace
}  // namespace backstay::plan
