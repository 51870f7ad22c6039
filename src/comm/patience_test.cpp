#include "comm/patience.h"

#include <gtest/gtest.h>

namespace backstay::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Patience, asking_again_and_again_uses_it_up) {
  Patience patience(seconds(2));
  Patience::Clock::time_point now{minutes(1)};
  EXPECT_FALSE(patience.exhausted(now));
  for (int i = 0; i < 39; ++i) EXPECT_FALSE(patience.exhausted(now += milliseconds(50)));
  EXPECT_TRUE(patience.exhausted(now += milliseconds(50)));
}

TEST(Patience, a_long_step_between_two_looks_is_not_waiting) {
  for (const auto bound : {milliseconds(500), milliseconds(10000)}) {
    Patience patience(bound);
    Patience::Clock::time_point now{minutes(1)};
    for (int i = 0; i < Patience::fewest_gaps; ++i) EXPECT_FALSE(patience.exhausted(now += minutes(20))) << i;
    EXPECT_TRUE(patience.exhausted(now += minutes(20)));
  }
}

TEST(BoundedWait, it_is_given_up_at_the_bound_or_told_of_at_each_doubling) {
  BoundedWait ends(milliseconds(20));
  const auto begin = Patience::Clock::now();
  while (!ends.is_over({milliseconds(20)})) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_GE(Patience::Clock::now() - begin, milliseconds(20));
  EXPECT_EQ(ends.bound(), milliseconds(20));

  int told = 0;
  const Waits waits{milliseconds(1), [&] { ++told; }};
  BoundedWait lasts(waits.timeout);
  for (const auto start = Patience::Clock::now(); Patience::Clock::now() - start < milliseconds(50);) {
    EXPECT_FALSE(lasts.is_over(waits));
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  EXPECT_GE(told, 1);
  EXPECT_EQ(lasts.bound(), milliseconds(1 << told));
}

}  // namespace
}  // namespace backstay::comm
