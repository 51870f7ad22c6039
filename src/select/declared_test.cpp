#include "select/declared.h"

#include <gtest/gtest.h>

namespace backstay::select {
namespace {

NamedAccess access(const char* region, Mode mode) { return {region, {0, mode, {}, {}}}; }

const std::vector<Region> regions{{"u", {10}, 8}, {"f", {12}, 8}};

TEST(declared, a_computation_keeps_its_number_when_it_is_declared_again) {
  Declared declared;
  EXPECT_EQ(*declared.declare("flux", {access("u", Mode::read), access("f", Mode::write)}), 0U);
  EXPECT_EQ(*declared.declare("update", {access("f", Mode::read)}), 1U);
  EXPECT_EQ(*declared.declare("flux", {access("u", Mode::read), access("f", Mode::write)}), 0U);
  EXPECT_EQ(declared.size(), 2U);
}

TEST(declared, the_same_name_with_other_accesses_is_refused_and_changes_nothing) {
  Declared declared;
  ASSERT_TRUE(declared.declare("flux", {access("u", Mode::read)}));
  const std::vector<std::vector<NamedAccess>> others{{access("u", Mode::write)},
                                                     {access("f", Mode::read)},
                                                     {access("u", Mode::read), access("f", Mode::read)},
                                                     {{"u", {0, Mode::read, Box{{0, 3}}, {}}}},
                                                     {{"u", {0, Mode::read, {}, {{0, 2}}}}}};
  for (const auto& other : others) {
    const auto refused = declared.declare("flux", other);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.failure().what.find("'flux' was declared before with other accesses"), std::string::npos);
  }
  EXPECT_EQ(declared.size(), 1U);
}

TEST(declared, a_computation_without_name_or_accesses_is_refused) {
  Declared declared;
  EXPECT_FALSE(declared.declare("", {access("u", Mode::read)}).ok());
  EXPECT_FALSE(declared.declare("flux", {}).ok());
}

TEST(declared, effects_are_those_of_the_regions_by_name) {
  Declared declared;
  ASSERT_TRUE(declared.declare("flux", {access("f", Mode::write), access("u", Mode::read)}));
  const auto effects = declared.effects_on(0, regions);
  ASSERT_TRUE(effects.ok());
  ASSERT_EQ(effects->size(), 2U);
  EXPECT_EQ((*effects)[0].reads.volume(), 10);
  EXPECT_EQ((*effects)[1].overwrites.volume(), 12);
  EXPECT_EQ(declared.regions_of(0), (std::vector<std::string>{"f", "u"}));
}

TEST(declared, the_later_ones_can_be_forgotten) {
  Declared declared;
  ASSERT_TRUE(declared.declare("a", {access("u", Mode::read)}));
  ASSERT_TRUE(declared.declare("b", {access("u", Mode::read)}));
  declared.keep_first(1);
  EXPECT_EQ(declared.size(), 1U);
  EXPECT_EQ(*declared.declare("b", {access("f", Mode::write)}), 1U);
  declared.keep_first(5);
  EXPECT_EQ(declared.size(), 2U);
}

TEST(declared, a_region_that_is_not_there_is_named) {
  Declared declared;
  ASSERT_TRUE(declared.declare("flux", {access("g", Mode::write)}));
  const auto effects = declared.effects_on(0, regions);
  ASSERT_FALSE(effects.ok());
  EXPECT_EQ(effects.failure().code, Code::not_found);
  EXPECT_NE(effects.failure().what.find("computation 'flux' uses a region 'g' that is not protected"),
            std::string::npos);
}

TEST(declared, the_signature_has_what_ranks_must_have_alike) {
  Declared declared;
  ASSERT_TRUE(declared.declare("flux", {access("u", Mode::read), {"f", {0, Mode::write, Box{{0, 3}}, {}}}}));
  ASSERT_TRUE(declared.declare("limit", {access("u", Mode::read_write), access("f", Mode::write_some)}));
  EXPECT_EQ(declared.signature(),
            (std::vector<std::string>{"the computation 'flux' that reads u, writes f",
                                      "the computation 'limit' that updates u, writes some of f"}));
}

}  // namespace
}  // namespace backstay::select
