#include "region/footprint.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace backstay::region {
namespace {

using Numbers = std::vector<std::size_t>;

class FootprintTest : public testing::Test {
 protected:
  /// A view of elements of 8 bytes, that many bytes into the memory.
  Footprint at(std::ptrdiff_t offset, Extents shape, Extents strides, std::size_t element = 8) {
    return footprint_of({memory_.data() + offset, std::move(shape), std::move(strides), {}, true}, element);
  }

  std::array<std::byte, 4096> memory_{};
};

TEST_F(FootprintTest, rows_beside_each_other_share_nothing) {
  EXPECT_EQ(that_share_memory({at(800, {100}, {8}), at(0, {100}, {8})}), Numbers{});
}

TEST_F(FootprintTest, the_same_memory_and_a_part_of_it_are_shared) {
  EXPECT_EQ(that_share_memory({at(0, {100}, {8}), at(0, {100}, {8})}), (Numbers{0, 1}));
  EXPECT_EQ(that_share_memory({at(1600, {10}, {8}), at(792, {10}, {8}), at(0, {100}, {8})}), (Numbers{1, 2}));
}

TEST_F(FootprintTest, one_that_spans_two_others_shares_with_both) {
  EXPECT_EQ(that_share_memory({at(0, {200}, {8}), at(0, {10}, {8}), at(1500, {1}, {8})}), (Numbers{0, 1, 2}));
}

TEST_F(FootprintTest, members_of_the_same_structs_are_told_apart) {
  EXPECT_EQ(that_share_memory({at(0, {100}, {24}), at(8, {100}, {24}), at(16, {100}, {24})}), Numbers{});
  EXPECT_EQ(that_share_memory({at(0, {100}, {24}, 16), at(8, {100}, {24})}), (Numbers{0, 1}));
  EXPECT_EQ(that_share_memory({at(16, {100}, {24}), at(8, {99}, {24}, 16)}), (Numbers{0, 1}));
}

TEST_F(FootprintTest, columns_of_a_matrix_are_told_apart) {
  EXPECT_EQ(that_share_memory({at(0, {10}, {80}), at(72, {10}, {80})}), Numbers{});
  EXPECT_EQ(that_share_memory({at(0, {10, 2}, {80, 8}), at(8, {10}, {80})}), (Numbers{0, 1}));
}

TEST_F(FootprintTest, nothing_shares_with_nothing) {
  EXPECT_EQ(that_share_memory({}), Numbers{});
  EXPECT_EQ(that_share_memory({at(8, {0}, {8}), at(0, {10}, {8}), footprint_of({}, 8)}), (Numbers{}));
  EXPECT_EQ(that_share_memory({at(8, {}, {}), at(0, {10}, {8})}), (Numbers{0, 1}));
}

}  // namespace
}  // namespace backstay::region
