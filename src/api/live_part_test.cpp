#include "api/live_part.h"

#include <gtest/gtest.h>

#include <functional>

namespace backstay::api {
namespace {

/// Those of an array of 6 rows and 5 columns.
std::string part(const std::function<bool(int row, int column)>& is_live) {
  std::vector<bool> some;
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 5; ++column) some.push_back(is_live(row, column));
  return describe_part(some, {6, 5});
}

TEST(live_part, rows_columns_and_boxes_are_told_as_such) {
  EXPECT_EQ(part([](int row, int) { return row == 0; }), "[0:1, 0:5]");
  EXPECT_EQ(part([](int, int column) { return column == 4; }), "[0:6, 4:5]");
  EXPECT_EQ(part([](int row, int column) { return row >= 2 && row < 4 && column < 3; }), "[2:4, 0:3]");
  EXPECT_EQ(part([](int row, int column) { return row == 0 || row == 5 || column == 0 || column == 4; }),
            "[0:1, 0:5] [1:5, 0:1] [1:5, 4:5] [5:6, 0:5]");
}

TEST(live_part, all_and_none_and_what_is_scattered_need_no_words) {
  EXPECT_EQ(part([](int, int) { return true; }), "");
  EXPECT_EQ(part([](int, int) { return false; }), "");
  EXPECT_EQ(part([](int row, int column) { return (row + column) % 2 == 0; }), "");
}

TEST(live_part, a_range_and_a_scalar_are_boxes) {
  EXPECT_EQ(describe_part({false, true, true, false}, {4}), "[1:3]");
  EXPECT_EQ(boxes_of({true}, {}).size(), 1U);
  EXPECT_TRUE(boxes_of({}, {0, 4}).empty());
}

}  // namespace
}  // namespace backstay::api
