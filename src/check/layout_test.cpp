#include "check/layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace backstay::check {
namespace {

View view_of(std::vector<double>& data, Extents shape, Extents strides, std::int64_t first = 0) {
  View view;
  view.data = reinterpret_cast<std::byte*>(data.data() + first);
  view.shape = std::move(shape);
  for (const auto stride : strides) view.strides.push_back(stride * 8);
  return view;
}

TEST(layout, every_byte_of_an_element_is_in_it_and_halos_are_in_none) {
  std::vector<double> data(6 * 8);
  const Layout inside(view_of(data, {4, 6}, {8, 1}, 9), 8);  // one layer around it
  ASSERT_TRUE(inside.is_usable());
  EXPECT_EQ(inside.volume(), 24);
  for (std::int64_t row = 0; row < 6; ++row)
    for (std::int64_t column = 0; column < 8; ++column)
      for (int byte : {0, 7}) {
        Index index{};
        const auto* address =
            reinterpret_cast<const std::byte*>(&data[static_cast<std::size_t>(row * 8 + column)]) + byte;
        const bool is_inside = row >= 1 && row <= 4 && column >= 1 && column <= 6;
        ASSERT_EQ(inside.index_of(address, index), is_inside) << row << ' ' << column;
        if (!is_inside) continue;
        EXPECT_EQ(index[0], row - 1);
        EXPECT_EQ(index[1], column - 1);
      }
}

TEST(layout, an_array_in_the_order_of_fortran) {
  std::vector<double> data(12);
  const Layout columns(view_of(data, {3, 4}, {1, 3}), 8);
  ASSERT_TRUE(columns.is_usable());
  Index index{};
  ASSERT_TRUE(columns.index_of(reinterpret_cast<std::byte*>(&data[7]), index));
  EXPECT_EQ(index[0], 1);
  EXPECT_EQ(index[1], 2);
}

TEST(layout, a_scalar_has_one_element) {
  std::vector<double> data(2);
  const Layout scalar(view_of(data, {}, {}), 8);
  Index index{};
  EXPECT_TRUE(scalar.index_of(reinterpret_cast<std::byte*>(&data[0]) + 3, index));
  EXPECT_FALSE(scalar.index_of(reinterpret_cast<std::byte*>(&data[1]), index));
}

TEST(layout, all_elements_of_a_box_are_visited_once_where_they_lie) {
  std::vector<double> data(60);
  const Layout all(view_of(data, {3, 4, 5}, {20, 5, 1}), 8);
  std::size_t visits = 0;
  all.for_each(Box{{{1, 3}, {0, 4}, {2, 4}}}, [&](const std::byte* address, const Index& index) {
    Index back{};
    ASSERT_TRUE(all.index_of(address, back));
    EXPECT_EQ(index, back);
    EXPECT_TRUE(all.has(Box{{{1, 3}, {0, 4}, {2, 4}}}, index));
    ++visits;
  });
  EXPECT_EQ(visits, 16U);
  all.for_each(Box{{{1, 1}, {0, 4}, {2, 4}}}, [&](const std::byte*, const Index&) { ++visits; });
  EXPECT_EQ(visits, 16U);
}

TEST(layout, what_cannot_be_looked_at_lies_nowhere) {
  std::vector<double> data(60);
  View cells = view_of(data, {4}, {1});
  cells.run_lengths = {2, 2};
  for (const View& view :
       {view_of(data, {4, 4}, {2, 1}), view_of(data, {0}, {1}), cells, View{{}, {}, {}, {}, false}}) {
    const Layout layout(view, 8);
    Index index{};
    EXPECT_FALSE(layout.is_usable());
    EXPECT_EQ(layout.begin(), layout.end());
    EXPECT_FALSE(layout.index_of(reinterpret_cast<std::byte*>(data.data()), index));
  }
}

}  // namespace
}  // namespace backstay::check
