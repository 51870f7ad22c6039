#include "select/boxes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace backstay::select {
namespace {

using Element = std::vector<std::int64_t>;

/// The elements of a box, one by one.
std::set<Element> elements_of(const Box& box) {
  std::set<Element> out;
  if (volume(box) == 0) return out;
  Element at;
  for (const auto& range : box) at.push_back(range.begin);
  while (true) {
    out.insert(at);
    std::size_t d = 0;
    for (; d < box.size(); ++d) {
      if (++at[d] < box[d].end) break;
      at[d] = box[d].begin;
    }
    if (d == box.size()) return out;
  }
}

std::set<Element> elements_of(const BoxSet& set) {
  std::set<Element> out;
  for (const auto& box : set.boxes())
    for (const auto& element : elements_of(box)) EXPECT_TRUE(out.insert(element).second) << "boxes overlap";
  return out;
}

Box random_box(std::mt19937& random, std::size_t dims, std::int64_t extent) {
  Box box;
  for (std::size_t d = 0; d < dims; ++d) {
    const auto at = [&] { return std::uniform_int_distribution<std::int64_t>(0, extent)(random); };
    box.push_back({at(), at()});  // may be empty
  }
  return box;
}

TEST(boxes, sets_are_those_of_their_elements) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const std::size_t dims = seed % 4;
    BoxSet set, other;
    std::set<Element> expected, expected_other;
    for (int i = 0; i < 12; ++i) {
      const Box box = random_box(random, dims, 6);
      const auto elements = elements_of(box);
      if (random() % 3 == 0) {
        set.remove(box);
        for (const auto& element : elements) expected.erase(element);
      } else {
        set.add(box);
        expected.insert(elements.begin(), elements.end());
      }
      if (random() % 2 == 0) {
        other.add(box);
        expected_other.insert(elements.begin(), elements.end());
      }
      ASSERT_EQ(elements_of(set), expected) << "seed " << seed;
      ASSERT_EQ(set.volume(), static_cast<std::int64_t>(expected.size()));
      ASSERT_EQ(set.empty(), expected.empty());
    }
    std::set<Element> both, rest = expected;
    for (const auto& element : expected_other) {
      if (expected.contains(element)) both.insert(element);
      rest.erase(element);
    }
    ASSERT_EQ(elements_of(set.in(other)), both) << "seed " << seed;
    ASSERT_EQ(set.equals(other), expected == expected_other);
    BoxSet without = set;
    without.remove(other);
    ASSERT_EQ(elements_of(without), rest) << "seed " << seed;
  }
}

TEST(boxes, a_scalar_is_there_or_not) {
  BoxSet scalar(Box{});
  EXPECT_EQ(scalar.volume(), 1);
  scalar.add(Box{});
  EXPECT_EQ(scalar.volume(), 1);
  scalar.remove(Box{});
  EXPECT_TRUE(scalar.empty());
}

TEST(boxes, a_frame_that_is_filled_again_is_one_box) {
  const Box all = box_of({10, 10, 10}), inside = {{1, 9}, {1, 9}, {1, 9}};
  BoxSet set(all);
  set.remove(inside);
  EXPECT_EQ(set.volume(), 1000 - 512);
  EXPECT_LE(set.boxes().size(), 6U);
  set.add(inside);
  EXPECT_EQ(set.volume(), 1000);
  EXPECT_EQ(set.boxes(), std::vector<Box>{all});
}

}  // namespace
}  // namespace backstay::select
