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

TEST(decider, an_interval_is_agreed_one_call_later) {
  Ranks ranks(4, {{0, 1.0}}, 0.0);
  std::vector<int> at;
  for (int call = 1; call <= 50; ++call)
    if (ranks.call(call * 0.1)[0]) at.push_back(call);
  EXPECT_EQ(at, (std::vector<int>{12, 23, 34, 45}));  // 10 calls make a second, one call the agreement
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
