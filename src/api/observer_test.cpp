#include "api/observer.h"

#include <gtest/gtest.h>

namespace backstay::api {
namespace {

using check::Fate;
using Fates = std::vector<Fate>;
constexpr auto overwritten = Fate::overwritten, seems = Fate::seems_overwritten, untouched = Fate::untouched,
               read = Fate::read, unknown = Fate::unknown, unseen = Fate::unseen;

/// One region, by the steps: each begins at a place.
class ObserverTest : public ::testing::Test {
 protected:
  void step(std::size_t place, Fates fates, bool follows = true, bool counts = true) {
    Step one{place, counts, follows && !steps.empty(), {}};
    one.regions.emplace_back(RegionInStep{std::move(fates), false, {}});
    steps.push_back(std::move(one));
  }
  Fates at(std::size_t place) { return fates_at(place, steps).at(0).fates; }
  std::vector<Step> steps;
};

TEST_F(ObserverTest, the_worst_of_all_steps_counts) {
  step(0, {seems, seems, seems, seems, unseen});
  step(0, {overwritten, read, overwritten, unknown, overwritten});
  step(0, {overwritten, overwritten, overwritten, overwritten, overwritten});
  EXPECT_EQ(at(0), (Fates{overwritten, read, overwritten, unknown, overwritten}));
}

TEST_F(ObserverTest, what_only_seems_to_be_overwritten_is_not_called_so) {
  step(0, {seems});
  EXPECT_EQ(at(0), Fates{seems});
}

TEST_F(ObserverTest, what_is_untouched_is_what_the_next_step_makes_of_it) {
  step(0, {untouched, untouched, untouched});
  step(0, {untouched, untouched, overwritten});
  step(0, {overwritten, read, untouched});
  EXPECT_EQ(at(0), (Fates{overwritten, read, untouched}));  // of the last step's nothing more is known
}

TEST_F(ObserverTest, each_place_has_fates_of_its_own) {
  for (int round = 0; round < 3; ++round) {
    step(0, {overwritten, untouched, read});
    step(1, {untouched, overwritten, untouched});
  }
  step(0, {overwritten, untouched, read}, true, false);  // looked at for what the last one at place 1 has left
  EXPECT_EQ(at(0), (Fates{overwritten, overwritten, read}));
  EXPECT_EQ(at(1), (Fates{overwritten, overwritten, read}));
}

TEST_F(ObserverTest, what_is_written_after_a_call_elsewhere_is_not_called_never_written) {
  step(0, {read});
  steps[0].regions[0]->is_unwritten = true;
  EXPECT_TRUE(fates_at(0, steps)[0].is_unwritten);
  step(1, {overwritten});
  EXPECT_FALSE(fates_at(0, steps)[0].is_unwritten);
}

TEST_F(ObserverTest, a_step_that_was_not_looked_at_breaks_the_chain) {
  step(0, {untouched});
  step(1, {overwritten}, false);
  EXPECT_EQ(at(0), Fates{untouched});
}

TEST_F(ObserverTest, a_region_that_changes_its_size_is_not_known) {
  step(0, {overwritten, overwritten});
  step(0, {overwritten});
  EXPECT_EQ(at(0), (Fates{unknown, unknown}));
}

TEST_F(ObserverTest, what_is_left_untouched_and_then_is_gone_is_not_known) {
  step(0, {untouched});
  steps.push_back({0, true, true, {}});
  EXPECT_EQ(at(0), Fates{unknown});
}

}  // namespace
}  // namespace backstay::api
