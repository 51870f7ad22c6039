#include "api/found_arrays.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace backstay::api {
namespace {

/// Some code of this program, and of the C library.
void caller() {}
const void* const of_program = reinterpret_cast<const char*>(&caller) + 1;
const void* const of_c = reinterpret_cast<const char*>(&getpid) + 1;

class FoundArraysTest : public ::testing::Test {
 protected:
  check::Allocation allocation(std::size_t at, std::size_t bytes, std::uint64_t number, const void* code = of_program) {
    return {memory + at, bytes, number, {code, of_program}};
  }
  std::byte memory[4096];
  FoundArrays found{""};
};

TEST_F(FoundArraysTest, the_largest_comes_first_and_what_others_made_is_counted) {
  found.look(
      {allocation(0, 100, 1), allocation(200, 300, 2), allocation(600, 50, 3, of_c), allocation(700, 60, 4, of_c)}, {});
  ASSERT_EQ(found.arrays().size(), 2U);
  EXPECT_EQ(found.arrays()[0].number, 2U);
  ASSERT_EQ(found.left_out().size(), 1U);
  EXPECT_EQ(found.left_out().at("the C library").arrays, 2U);
  EXPECT_EQ(found.left_out().at("the C library").bytes, 110U);
}

TEST_F(FoundArraysTest, what_has_a_byte_of_a_region_is_not_found) {
  found.look({allocation(0, 100, 1), allocation(200, 300, 2)}, {{memory + 99, memory + 150}});
  ASSERT_EQ(found.arrays().size(), 1U);
  EXPECT_EQ(found.arrays()[0].number, 2U);
  found.look({allocation(200, 300, 2)}, {{memory + 250, memory + 260}});
  EXPECT_EQ(found.arrays()[0].why, "it was protected later");
}

TEST_F(FoundArraysTest, another_allocation_at_the_same_address_is_another_array) {
  found.look({allocation(0, 100, 1)}, {});
  found.look({allocation(0, 100, 1)}, {});
  EXPECT_EQ(found.arrays()[0].why, "");
  found.look({allocation(0, 100, 2)}, {});
  EXPECT_EQ(found.arrays()[0].why, "it was freed, or moved, between two steps");
}

TEST_F(FoundArraysTest, arrays_that_come_later_are_counted_as_many_as_there_are_at_a_time) {
  found.look({allocation(0, 100, 1)}, {});
  found.look({allocation(0, 100, 1), allocation(100, 10, 2), allocation(200, 10, 3)}, {});
  found.look({allocation(0, 100, 1), allocation(100, 10, 4), allocation(300, 30, 5, of_c)}, {});
  ASSERT_EQ(found.late().size(), 1U);
  EXPECT_EQ(found.late().begin()->second.arrays, 2U);
  EXPECT_EQ(found.late().begin()->first, found.arrays()[0].callers);
}

TEST_F(FoundArraysTest, beyond_the_largest_ones_nothing_is_said) {
  std::vector<check::Allocation> many;
  for (std::size_t i = 0; i < 300; ++i) many.push_back(allocation(i, 1, i + 1));
  found.look(many, {});
  EXPECT_EQ(found.arrays()[255].why, "");
  EXPECT_EQ(found.arrays()[256].why, "there are 256 larger ones");
}

}  // namespace
}  // namespace backstay::api
