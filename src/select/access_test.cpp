#include "select/access.h"

#include <gtest/gtest.h>

namespace backstay::select {
namespace {

const std::vector<Region> regions{{"u", {10, 8}, 8}, {"v", {10, 8}, 8}, {"dt", {}, 8}};

TEST(access, what_is_written_is_overwritten_and_what_is_read_is_needed) {
  const auto effects = effects_of({"step", {{0, Mode::read}, {1, Mode::write}, {2, Mode::read_write}}}, regions);
  ASSERT_TRUE(effects);
  ASSERT_EQ(effects->size(), 3U);
  EXPECT_EQ((*effects)[0].reads.volume(), 80);
  EXPECT_TRUE((*effects)[0].changes.empty());
  EXPECT_TRUE((*effects)[1].reads.empty());
  EXPECT_EQ((*effects)[1].overwrites.volume(), 80);
  EXPECT_EQ((*effects)[2].reads.volume(), 1);
  EXPECT_EQ((*effects)[2].overwrites.volume(), 1);
}

TEST(access, a_stencil_reaches_around_its_range_and_not_out_of_the_region) {
  const auto effects = effects_of(
      {"smooth", {{0, Mode::read, Box{{1, 9}, {0, 8}}, {{-1, 2}, {-2, 1}}}, {0, Mode::write, Box{{2, 3}, {2, 3}}}}},
      regions);
  ASSERT_TRUE(effects);
  ASSERT_EQ(effects->size(), 1U);
  EXPECT_TRUE((*effects)[0].reads.equals(BoxSet(Box{{0, 10}, {0, 8}})));
  EXPECT_EQ((*effects)[0].overwrites.volume(), 1);
}

TEST(access, a_stencil_to_one_side_reads_nothing_else) {
  const auto effects = effects_of({"upwind", {{0, Mode::read, Box{{4, 6}, {0, 8}}, {{-3, -1}, {0, 1}}}}}, regions);
  ASSERT_TRUE(effects);
  EXPECT_TRUE((*effects)[0].reads.equals(BoxSet(Box{{1, 4}, {0, 8}})));
}

TEST(access, what_is_written_in_parts_is_needed_and_not_overwritten) {
  const auto effects = effects_of({"scatter", {{0, Mode::write_some, Box{{0, 5}, {0, 8}}}}}, regions);
  ASSERT_TRUE(effects);
  EXPECT_EQ((*effects)[0].reads.volume(), 40);
  EXPECT_TRUE((*effects)[0].overwrites.empty());
  EXPECT_EQ((*effects)[0].changes.volume(), 40);
}

TEST(access, what_a_region_cannot_have_is_said) {
  const auto said = [](Access access) {
    const auto effects = effects_of({"flux", {std::move(access)}}, regions);
    return effects ? std::string("nothing") : effects.failure().what;
  };
  EXPECT_EQ(said({3, Mode::read}), "computation 'flux' names a region that is not protected");
  EXPECT_EQ(said({0, Mode::read, Box{{0, 5}}}),
            "computation 'flux', region 'u': the range has 1 dimensions, and the region has 2");
  EXPECT_EQ(said({0, Mode::write, Box{{0, 11}, {0, 8}}}),
            "computation 'flux', region 'u': the range 0 to 11 of dimension 0 is not inside 0 to 10");
  EXPECT_EQ(said({0, Mode::write, Box{{0, 10}, {-1, 8}}}),
            "computation 'flux', region 'u': the range -1 to 8 of dimension 1 is not inside 0 to 8");
  EXPECT_EQ(said({0, Mode::read, {}, {{-1, 2}}}),
            "computation 'flux', region 'u': the stencil has 1 dimensions, and the region has 2");
  EXPECT_EQ(said({0, Mode::read, {}, {{-1, 2}, {0, 0}}}),
            "computation 'flux', region 'u': the stencil of dimension 1 ends before it begins");
  EXPECT_EQ(said({0, Mode::write, {}, {{-1, 2}, {0, 1}}}),
            "computation 'flux', region 'u': a stencil says what is read, and this access only writes");
}

}  // namespace
}  // namespace backstay::select
