#include "select/way.h"

#include <gtest/gtest.h>

namespace backstay::select {
namespace {

Declared two() {
  Declared out;
  EXPECT_TRUE(out.declare("flux", {{"u", {0, Mode::read, {}, {}}}, {"f", {0, Mode::write, {}, {}}}}));
  EXPECT_TRUE(out.declare("update", {{"u", {0, Mode::read_write, {}, {}}}}));
  return out;
}

/// Two steps of two computations and a result, with a checkpoint behind each.
std::string two_steps(const Declared& declared) {
  Way way;
  for (double dt : {0.5, 0.25}) {
    EXPECT_EQ(*way.computation(0, declared), Way::Turn::run);
    EXPECT_EQ(*way.computation(1, declared), Way::Turn::run);
    EXPECT_TRUE(way.result(std::as_writable_bytes(std::span(&dt, 1))));
    EXPECT_EQ(*way.checkpoint(), Way::Turn::run);
  }
  way.mark();
  return *way.save(declared);
}

TEST(way, is_gone_again_to_the_last_checkpoint_and_recorded_from_there) {
  const Declared declared = two();
  const std::string saved = two_steps(declared);
  Way way;
  ASSERT_TRUE(way.go_again(as_bytes(saved)));
  double dt = 0;
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(*way.computation(0, declared), Way::Turn::skip);
    EXPECT_EQ(*way.computation(1, declared), Way::Turn::skip);
    EXPECT_TRUE(way.result(std::as_writable_bytes(std::span(&dt, 1))));
    EXPECT_EQ(dt, step == 0 ? 0.5 : 0.25);
    EXPECT_TRUE(way.is_gone_again());
    EXPECT_EQ(*way.checkpoint(), step == 0 ? Way::Turn::skip : Way::Turn::stop);
  }
  EXPECT_FALSE(way.is_gone_again());
  EXPECT_EQ(way.computations(), 4U);
  EXPECT_EQ(*way.save(declared), saved);
  EXPECT_EQ(*way.computation(0, declared), Way::Turn::run);
}

TEST(way, behind_the_place_the_program_is_followed_and_told_the_same_until_the_line_was_handed_over) {
  const Declared declared = two();
  Way then;
  double x = 0.5, y = 0.25;
  EXPECT_EQ(*then.checkpoint(), Way::Turn::run);
  then.mark();
  EXPECT_EQ(*then.computation(0, declared), Way::Turn::run);
  EXPECT_TRUE(then.result(std::as_writable_bytes(std::span(&x, 1))));
  EXPECT_EQ(*then.checkpoint(), Way::Turn::run);
  const std::string saved = *then.save(declared);  // at that call, which decides
  then.mark();
  EXPECT_TRUE(then.result(std::as_writable_bytes(std::span(&y, 1))));

  Way way;
  ASSERT_TRUE(way.go_again(as_bytes(saved)));
  EXPECT_EQ(*way.checkpoint(), Way::Turn::stop);
  EXPECT_FALSE(way.is_gone_again());
  EXPECT_EQ(*way.computation(0, declared), Way::Turn::run);
  x = -1;
  EXPECT_TRUE(way.result(std::as_writable_bytes(std::span(&x, 1))));
  EXPECT_EQ(x, 0.5);
  EXPECT_EQ(*way.checkpoint(), Way::Turn::run);
  y = -1;
  EXPECT_TRUE(way.result(std::as_writable_bytes(std::span(&y, 1))));
  EXPECT_EQ(y, -1);
}

TEST(way, behind_the_place_another_way_is_recorded_and_what_was_computed_stays) {
  const Declared declared = two();
  Way then;
  double x = 0.5;
  const auto bytes = std::as_writable_bytes(std::span(&x, 1));
  EXPECT_EQ(*then.checkpoint(), Way::Turn::run);
  then.mark();
  EXPECT_EQ(*then.computation(0, declared), Way::Turn::run);
  EXPECT_TRUE(then.computed(bytes));
  const std::string saved = *then.save(declared);
  for (const bool same_computation : {true, false}) {
    Way way;
    ASSERT_TRUE(way.go_again(as_bytes(saved)));
    EXPECT_EQ(*way.checkpoint(), Way::Turn::stop);
    EXPECT_TRUE(way.is_known());
    EXPECT_EQ(*way.computation(same_computation ? 0 : 1, declared), Way::Turn::run);
    x = 7;
    EXPECT_TRUE(way.computed(bytes));
    EXPECT_EQ(x, 7);
    EXPECT_FALSE(way.is_known());
    EXPECT_TRUE(Way().go_again(as_bytes(*way.save(declared))));
  }
}

TEST(way, a_beginning_that_computes_something_else_is_refused) {
  const Declared declared = two();
  Way then, way;
  double x = 0.5;
  const auto bytes = std::as_writable_bytes(std::span(&x, 1));
  EXPECT_EQ(*then.computation(0, declared), Way::Turn::run);
  EXPECT_TRUE(then.computed(bytes));
  ASSERT_TRUE(then.end_beginning());
  EXPECT_EQ(then.end_beginning().failure().what, "init_done() was called twice: a program has one beginning");
  EXPECT_EQ(*then.checkpoint(), Way::Turn::run);
  then.mark();
  ASSERT_TRUE(way.go_again(as_bytes(*then.save(declared))));
  EXPECT_EQ(*way.computation(0, declared), Way::Turn::run);
  x = 7;
  const auto refused = way.computed(bytes);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::mismatch);
}

TEST(way, the_beginning_runs_again_and_ends_where_it_ended) {
  const Declared declared = two();
  Way then;
  EXPECT_EQ(*then.computation(0, declared), Way::Turn::run);
  EXPECT_EQ(*then.checkpoint(), Way::Turn::run);
  ASSERT_TRUE(then.end_beginning());
  EXPECT_EQ(*then.computation(1, declared), Way::Turn::run);
  EXPECT_EQ(*then.checkpoint(), Way::Turn::run);
  then.mark();
  Way way;
  ASSERT_TRUE(way.go_again(as_bytes(*then.save(declared))));
  EXPECT_FALSE(way.skips());
  EXPECT_EQ(*way.computation(0, declared), Way::Turn::run);
  EXPECT_EQ(way.end_beginning().failure().code, Code::mismatch);
  EXPECT_EQ(*way.checkpoint(), Way::Turn::skip);
  ASSERT_TRUE(way.end_beginning());
  EXPECT_EQ(*way.computation(1, declared), Way::Turn::skip);
  EXPECT_TRUE(way.skips());
  EXPECT_EQ(*way.checkpoint(), Way::Turn::stop);
}

TEST(way, computations_that_are_declared_otherwise_are_found) {
  const Declared declared = two();
  Declared other;
  EXPECT_TRUE(other.declare("flux", {{"u", {0, Mode::read, {}, {}}}, {"f", {0, Mode::read_write, {}, {}}}}));
  Way way;
  ASSERT_TRUE(way.go_again(as_bytes(two_steps(declared))));
  const auto turn = way.computation(0, other);
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.failure().code, Code::mismatch);
  EXPECT_EQ(
      turn.failure().what,
      "what is replayed as the computation 'flux' that reads u, updates f was the computation 'flux' that reads u, "
      "writes f in the run that saved the line: declare the same computations in the same order");
}

TEST(way, of_ranks_that_went_one_way_the_one_that_went_on_furthest_is_followed) {
  const Declared declared = two();
  // So many computations behind the place, of which each returned `result`.
  const auto saved = [&](int behind, double result) {
    Way way;
    EXPECT_EQ(*way.computation(0, declared), Way::Turn::run);
    EXPECT_EQ(*way.checkpoint(), Way::Turn::run);
    way.mark();
    for (int i = 0; i < behind; ++i) {
      EXPECT_EQ(*way.computation(static_cast<std::size_t>(i % 2), declared), Way::Turn::run);
      EXPECT_TRUE(way.computed(std::as_writable_bytes(std::span(&result, 1))));
    }
    return *way.save(declared);
  };
  const std::string at_once = saved(0, 1), one = saved(1, 1), three = saved(3, 1), other = saved(2, 2);
  const auto furthest = Way::furthest({as_bytes(one), as_bytes(three), as_bytes(at_once), as_bytes(one)});
  ASSERT_TRUE(furthest) << furthest.failure().what;
  EXPECT_EQ(as_text(*furthest), three);
  EXPECT_EQ(as_text(*Way::furthest({as_bytes(other), as_bytes(at_once)})), other);
  for (const auto& last : {other, two_steps(declared)}) {
    const auto refused = Way::furthest({as_bytes(at_once), as_bytes(three), as_bytes(last)});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::mismatch);
  }
  EXPECT_EQ(Way::furthest({as_bytes(one), as_bytes("nothing")}).failure().code, Code::version);
}

TEST(way, damaged_bytes_are_refused_or_end_early) {
  const Declared declared = two();
  const std::string saved = two_steps(declared);
  for (std::size_t length = 0; length < saved.size(); ++length)
    EXPECT_FALSE(Way().go_again(as_bytes(saved.substr(0, length))));
  EXPECT_EQ(Way().go_again(as_bytes("\2" + saved.substr(1))).failure().code, Code::version);
}

TEST(way, a_lost_one_is_not_saved) {
  Way way;
  way.lose("a hole");
  EXPECT_EQ(way.save(two()).failure().what, "a hole");
}

}  // namespace
}  // namespace backstay::select
