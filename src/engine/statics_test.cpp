#include "engine/statics.h"

#include <gtest/gtest.h>

namespace backstay::engine {
namespace {

TEST(statics_in_use, are_the_newest_that_is_not_newer_than_the_oldest_line_and_all_after_it) {
  EXPECT_EQ(statics_in_use({1}, {1, 2, 3}), 1u);
  EXPECT_EQ(statics_in_use({1, 5}, {4, 5, 6}), 2u) << "line 4 names 1";
  EXPECT_EQ(statics_in_use({1, 5}, {5, 6}), 1u) << "no line names 1 any more";
  EXPECT_EQ(statics_in_use({1, 5, 9}, {7, 8}), 2u) << "9 is for lines to come";
  EXPECT_EQ(statics_in_use({5}, {3, 4}), 1u) << "lines without static regions";
}

TEST(statics_in_use, without_lines_all_that_are_there_are_for_lines_to_come) {
  EXPECT_EQ(statics_in_use({1, 5}, {}), 2u);
  EXPECT_EQ(statics_in_use({}, {1}), 0u);
}

}  // namespace
}  // namespace backstay::engine
