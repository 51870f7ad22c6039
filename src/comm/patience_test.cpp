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

}  // namespace
}  // namespace backstay::comm
