#include "select/period.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>

namespace backstay::select {
namespace {

/// Appends `body` so many times.
void repeat(std::vector<int>& calls, int times, const std::function<void(std::vector<int>&)>& body) {
  for (int i = 0; i < times; ++i) body(calls);
}

std::vector<bool> writing(std::size_t computations) { return std::vector<bool>(computations, false); }

std::string text_of(const std::vector<Part>& parts) {
  std::string out;
  for (const auto& part : parts) {
    if (!out.empty()) out += ' ';
    if (part.computation >= 0)
      out += std::to_string(part.computation);
    else
      out += "(" + text_of(part.body) + ")" + std::to_string(part.fewest) +
             (part.fewest == part.most ? "" : "-" + std::to_string(part.most));
  }
  return out;
}

TEST(period, a_stage_is_not_taken_for_a_step) {
  std::vector<int> calls{9, 8};
  repeat(calls, 5, [](auto& out) {
    out.push_back(0);
    repeat(out, 3, [](auto& stage) { stage.insert(stage.end(), {1, 2, 3}); });
    out.push_back(4);
  });
  const auto period = find_period(calls, writing(10));
  ASSERT_TRUE(period);
  EXPECT_EQ(text_of(period->body), "0 (1 2 3)3 4");
  EXPECT_EQ(period->rounds, 5);
  EXPECT_EQ(period->end, calls.size() - 11);
  EXPECT_EQ(period->end - period->begin, 11U);
}

TEST(period, a_solver_that_iterates_as_it_needs_does_not_hide_the_step) {
  std::vector<int> calls;
  std::mt19937 random(3);
  for (int step = 0; step < 20; ++step) {
    calls.push_back(0);
    repeat(calls, std::uniform_int_distribution(1, 40)(random), [](auto& out) { out.insert(out.end(), {1, 2, 3}); });
    calls.push_back(4);
  }
  const auto period = find_period(calls, writing(5));
  ASSERT_TRUE(period);
  EXPECT_EQ(period->rounds, 20);
  ASSERT_EQ(period->body.size(), 3U);
  EXPECT_EQ(text_of(period->body[1].body), "1 2 3");
  EXPECT_LT(period->body[1].fewest, period->body[1].most);
}

TEST(period, a_loop_that_begins_with_its_end_is_found_however_often_it_goes_round) {
  std::vector<int> calls;
  for (int step = 0; step < 12; ++step) {
    calls.insert(calls.end(), {0, 3});
    repeat(calls, 1 + step % 4, [](auto& out) { out.insert(out.end(), {1, 2, 3}); });
    calls.push_back(4);
  }
  const auto period = find_period(calls, writing(5));
  ASSERT_TRUE(period);
  EXPECT_EQ(period->rounds, 12);
  EXPECT_EQ(text_of(period->body), "0 (3 1 2)1-4 3 4");
}

TEST(period, summaries_that_only_read_and_come_in_no_order_are_passed_over) {
  std::mt19937 random(5);
  std::vector<int> calls;
  for (int step = 0; step < 200; ++step)
    for (int i = 0; i < 3; ++i) {
      calls.push_back(i);
      if (random() % 5 == 0) calls.push_back(3 + static_cast<int>(random() % 4));
    }
  const auto period = find_period(calls, {false, false, false, true, true, true, true});
  ASSERT_TRUE(period);
  EXPECT_EQ(text_of(period->body), "0 1 2");
  EXPECT_EQ(period->rounds, 200);
}

TEST(period, what_only_reads_at_the_end_of_a_step_is_in_its_round) {
  const auto period = find_period({1, 0, 1, 0, 1, 0}, {true, false});
  ASSERT_TRUE(period);
  EXPECT_EQ(period->begin, 2U);
  EXPECT_EQ(period->end, 4U);
}

TEST(period, a_summary_every_tenth_step_makes_a_loop_around_the_steps) {
  std::vector<int> calls;
  for (int step = 0; step < 40; ++step) {
    calls.insert(calls.end(), {0, 1, 2});
    if (step % 10 == 9) calls.push_back(3);
  }
  const auto period = find_period(calls, writing(4));
  ASSERT_TRUE(period);
  EXPECT_EQ(text_of(period->body), "(0 1 2)10 3");
  EXPECT_EQ(period->rounds, 4);
}

TEST(period, what_a_program_does_now_counts_and_not_what_it_did) {
  std::vector<int> calls;
  repeat(calls, 10, [](auto& out) { out.insert(out.end(), {0, 1, 2}); });
  repeat(calls, 8, [](auto& out) { out.insert(out.end(), {3, 4, 0, 5}); });
  calls.insert(calls.end(), {3, 4});  // a step under way
  const auto period = find_period(calls, writing(6));
  ASSERT_TRUE(period);
  EXPECT_EQ(text_of(period->body), "3 4 0 5");
  EXPECT_EQ(period->rounds, 8);
  EXPECT_EQ(period->end, calls.size() - 2 - 4);
}

TEST(period, without_repetition_there_is_none) {
  EXPECT_FALSE(find_period({}, {}));
  EXPECT_FALSE(find_period({0}, writing(1)));
  EXPECT_FALSE(find_period({0, 1, 2, 3, 4}, writing(5)));
  EXPECT_FALSE(find_period({0, 1, 0, 1, 2, 3, 4, 5, 6}, writing(7)));  // that loop is over
}

TEST(period, it_is_found_among_tens_of_thousands_of_computations_in_bounded_time) {
  std::mt19937 random(11);
  std::vector<int> solver, chaos;
  for (int step = 0; step < 20; ++step) {
    for (int i = 0; i < 150; ++i) solver.push_back(10 + i);
    repeat(solver, std::uniform_int_distribution(750, 790)(random),
           [](auto& out) { out.insert(out.end(), {0, 1, 2}); });
  }
  for (int i = 0; i < 20000; ++i) chaos.push_back(std::uniform_int_distribution(0, 499)(random));
  const auto start = std::chrono::steady_clock::now();
  const auto period = find_period(solver, writing(160));
  ASSERT_TRUE(period);
  EXPECT_EQ(period->rounds, 20);
  EXPECT_FALSE(find_period(chaos, writing(500)));
  // Sanitizers make it several times slower.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

/// A program of nested loops with a number of rounds for each time they are run.
struct Nest {
  std::vector<int> head;
  std::vector<Nest> inside;
  std::vector<int> tail;
};

Nest random_nest(std::mt19937& random, int depth, int& next) {
  Nest nest;
  const auto some = [&](int least) { return std::uniform_int_distribution(least, 3)(random); };
  for (int i = some(1); i > 0; --i) nest.head.push_back(next++);
  for (int i = depth > 0 ? some(0) : 0; i > 0; --i) nest.inside.push_back(random_nest(random, depth - 1, next));
  for (int i = some(0); i > 0; --i) nest.tail.push_back(next++);
  return nest;
}

void run(const Nest& nest, std::mt19937& random, std::vector<int>& calls) {
  calls.insert(calls.end(), nest.head.begin(), nest.head.end());
  for (const auto& inner : nest.inside)
    repeat(calls, std::uniform_int_distribution(1, 5)(random), [&](auto& out) { run(inner, random, out); });
  calls.insert(calls.end(), nest.tail.begin(), nest.tail.end());
}

TEST(period, steps_of_random_nests_of_loops_are_found) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    int next = 0;
    const Nest step = random_nest(random, static_cast<int>(seed % 3), next);
    std::vector<int> calls;
    std::vector<std::size_t> begins;
    for (int i = 0; i < 60; ++i) {
      begins.push_back(calls.size());
      run(step, random, calls);
    }
    const auto period = find_period(calls, writing(static_cast<std::size_t>(next)));
    ASSERT_TRUE(period) << "seed " << seed;
    EXPECT_EQ(period->rounds, 60) << "seed " << seed << ": " << text_of(period->body);
    EXPECT_EQ(period->begin, begins[58]) << "seed " << seed;
    EXPECT_EQ(period->end, begins[59]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace backstay::select
