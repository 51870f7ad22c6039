#include "select/watcher.h"

#include <gtest/gtest.h>

#include <ctime>

namespace backstay::select {
namespace {

const std::vector<Region> regions{{"u", {10}, 8}, {"f", {10}, 8}, {"step", {}, 4}, {"mesh", {10}, 8}};

Declared two() {
  Declared out;
  EXPECT_TRUE(out.declare(
      "flux", {{"u", {0, Mode::read, {}, {}}}, {"mesh", {0, Mode::read, {}, {}}}, {"f", {0, Mode::write, {}, {}}}}));
  EXPECT_TRUE(out.declare("update", {{"f", {0, Mode::read, {}, {}}}, {"u", {0, Mode::read_write, {}, {}}}}));
  return out;
}

/// `steps` of both, with a checkpoint before computation `at` of each.
Watcher watched(std::size_t at, std::size_t steps = 20) {
  Watcher watcher;
  for (std::size_t step = 0; step < steps; ++step)
    for (std::size_t c = 0; c < 2; ++c) {
      if (c == at) watcher.checkpoint();
      watcher.computation(c);
    }
  return watcher;
}

/// An inner solver whose count of iterations changes, and a summary every tenth step.
TEST(watcher, a_round_of_tens_of_thousands_of_computations_is_looked_at_at_once) {
  Declared declared = two();
  EXPECT_TRUE(declared.declare("summary", {{"u", {0, Mode::read, {}, {}}}}));
  Watcher watcher;
  for (std::size_t step = 0; step < 200; ++step) {
    watcher.computation(0);
    for (std::size_t i = 0; i < 500 + step * 7919 % 37; ++i) watcher.computation(1);
    if (step % 10 == 9) watcher.computation(2);
  }
  const auto begin = std::clock();
  const auto seen = watcher.look(declared, regions, 3);
  const double taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(seen) << seen.failure().what;
  ASSERT_TRUE(seen->advice);
  EXPECT_GT(seen->advice->places.size(), 500U);
  EXPECT_EQ(seen->trace.calls[seen->advice->places[seen->advice->best].call], 0);
  EXPECT_LT(taken, 2 * BACKSTAY_TEST_PACE)
      << "it takes 0.03 s here, 4 where each allocation is traced; with the best schedule of these places it took 6, "
         "and would take so many times longer there as well";
}

TEST(watcher, says_where_a_checkpoint_needs_least_and_what_becomes_of_each_region) {
  const auto seen = watched(1).look(two(), regions, 3);
  ASSERT_TRUE(seen) << seen.failure().what;
  EXPECT_EQ(table_of(*seen, two()),
            (std::vector<std::string>{
                "a round of this program has 2 computations, and a checkpoint needs least before 'flux': 84 bytes of "
                "244 bytes on "
                "this rank",
                "checkpoint() is called before 'update', where it needs 164 bytes: call it before 'flux'",
                "  u: 80 bytes, saved: read by 'flux'", "  f: 80 bytes, left out: overwritten by 'flux'",
                "  step: 4 bytes, saved: in no declaration", "  mesh: 80 bytes, saved once: static"}));
  EXPECT_EQ(table_of(*watched(0).look(two(), regions, 3), two())[1], "checkpoint() is called where it needs least");
}

TEST(watcher, says_so_where_nothing_is_repeated) {
  const auto seen = watched(0, 1).look(two(), regions, 3);
  ASSERT_TRUE(seen);
  EXPECT_EQ(table_of(*seen, two()), std::vector<std::string>{"no place for checkpoints can be named: of 2 declared "
                                                             "computations nothing was repeated"});
}

TEST(watcher, knows_marks_and_forgets_what_is_long_ago) {
  Watcher watcher = watched(0, 100'000);
  EXPECT_EQ(watcher.computations(), 200'000U);
  EXPECT_TRUE(watcher.is_at({0, 1}));
  EXPECT_FALSE(watcher.is_at({1, 1}));
  const auto seen = watcher.look(two(), regions, 3);
  ASSERT_TRUE(seen);
  EXPECT_LE(seen->trace.calls.size(), 131'072U);
  EXPECT_TRUE(seen->advice);
}

TEST(watcher, regions_that_are_gone_are_told) {
  const auto seen = watched(0).look(two(), {regions[0]}, 1);
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.failure().code, Code::not_found);
}

}  // namespace
}  // namespace backstay::select
