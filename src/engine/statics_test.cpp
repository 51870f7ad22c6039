#include "engine/statics.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace backstay::engine {
namespace {

constexpr auto none = std::numeric_limits<std::uint64_t>::max();

TEST(oldest_static_in_use, is_the_oldest_that_a_line_names) {
  EXPECT_EQ(oldest_static_in_use({1, 5}, {4, 5, 6}, {{4, 1}, {5, 5}, {6, 5}}), 1U);
  EXPECT_EQ(oldest_static_in_use({1, 5}, {5, 6}, {{5, 5}, {6, 5}}), 5U) << "no line names 1 any more";
  EXPECT_EQ(oldest_static_in_use({1, 5}, {9, 10}, {{9, 1}, {10, 5}}), 1U) << "line 9 was saved from memory";
  EXPECT_EQ(oldest_static_in_use({5}, {3, 4}, {{3, 0}, {4, 0}}), none) << "lines without static regions";
}

TEST(oldest_static_in_use, of_a_line_of_which_nothing_is_known_is_the_oldest_that_it_may_name) {
  EXPECT_EQ(oldest_static_in_use({1}, {1, 2, 3}, {}), 1U);
  EXPECT_EQ(oldest_static_in_use({1, 5, 9}, {7, 8}, {{8, 5}}), 1U);
  EXPECT_EQ(oldest_static_in_use({5}, {3, 4}, {}), none);
}

TEST(oldest_static_in_use, without_lines_is_none) {
  EXPECT_EQ(oldest_static_in_use({1, 5}, {}, {}), none);
  EXPECT_EQ(oldest_static_in_use({}, {1}, {}), none);
}

}  // namespace
}  // namespace backstay::engine
