#include "check/units.h"

#include <gtest/gtest.h>

namespace backstay::check {
namespace {

Type of(Type::Kind kind, std::size_t size) { return {kind, size, {}}; }
using Kind = Type::Kind;

TEST(units, values_are_looked_at_in_words) {
  EXPECT_EQ(units_of(of(Kind::floating, 8), {}).units, (std::vector<Unit>{{0, 8}}));
  EXPECT_EQ(units_of(of(Kind::integer, 4), {}).units, (std::vector<Unit>{{0, 4}}));
  EXPECT_EQ(units_of(of(Kind::complex, 16), {}).units, (std::vector<Unit>{{0, 8}, {8, 8}}));
  EXPECT_EQ(units_of(of(Kind::floating, 16), {}).units, (std::vector<Unit>{{0, 8}}));
  EXPECT_TRUE(units_of(of(Kind::integer, 1), {}).units.empty());
  EXPECT_TRUE(units_of(of(Kind::text, 16), {}).units.empty());
}

TEST(units, gaps_of_structs_are_left_out) {
  Type pair = of(Kind::compound, 24);
  pair.members = {{"n", 0, {}, of(Kind::integer, 4)}, {"x", 8, {2}, of(Kind::floating, 8)}};
  const auto units = units_of(pair, {});
  EXPECT_EQ(units.units, (std::vector<Unit>{{0, 4}, {8, 8}, {16, 8}}));
  EXPECT_FALSE(units.together);
  const auto opaque = units_of(of(Kind::opaque, 24), {{4, 8}});
  EXPECT_EQ(opaque.units, (std::vector<Unit>{{8, 8}, {16, 8}}));
  EXPECT_TRUE(opaque.together);
}

}  // namespace
}  // namespace backstay::check
