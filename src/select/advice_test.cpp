#include "select/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace backstay::select {
namespace {

constexpr Costs costs{1e6, 0.001, 3600};

/// Calls that take a millisecond each; all of all regions has changed.
Trace trace_of(std::vector<Region> regions, std::vector<Computation> computations, std::vector<int> calls) {
  Trace trace{std::move(regions), std::move(computations), std::move(calls), {}, {}};
  for (std::size_t i = 0; i < trace.calls.size(); ++i) trace.seconds.push_back(static_cast<double>(i) * 0.001);
  for (const auto& region : trace.regions) trace.changed.emplace_back(box_of(region.shape));
  return trace;
}

std::map<std::string, std::string> table_of(const Advice& advice, const Trace& trace) {
  std::map<std::string, std::string> out;
  for (std::size_t r = 0; r < advice.needs.size(); ++r)
    out[trace.regions[r].name] =
        std::to_string(advice.needs[r].bytes) + " " + text_of(advice.needs[r], trace.computations);
  return out;
}

TEST(advice, a_runge_kutta_step_needs_its_solution_only) {
  constexpr auto read = Mode::read, write = Mode::write, both = Mode::read_write;
  const std::vector<Region> regions{{"u", {10}, 8}, {"old", {10}, 8}, {"rates", {10}, 8}, {"x", {10}, 8}};
  const std::vector<Computation> computations{{"start", {{3, write}, {0, write}}},
                                              {"keep", {{0, read}, {1, write}}},
                                              {"rates", {{0, read, {}, {{-1, 2}}}, {3, read}, {2, write}}},
                                              {"stage", {{0, both}, {1, read}, {2, read}}},
                                              {"energy", {{0, read}}}};
  std::vector<int> calls{0};
  for (int step = 0; step < 12; ++step) {
    calls.insert(calls.end(), {1, 2, 3, 2, 3, 2, 3});
    if (step % 5 == 4) calls.push_back(4);
  }
  Trace trace = trace_of(regions, computations, calls);
  trace.changed[3] = BoxSet();  // made by the start
  const auto advice = advise(trace, costs);
  ASSERT_TRUE(advice);
  ASSERT_TRUE(*advice);
  EXPECT_EQ((*advice)->period.rounds, 2) << "of five steps and 'energy'";
  EXPECT_EQ((*advice)->places[(*advice)->best].bytes, 80);
  EXPECT_EQ(trace.calls[(*advice)->places[(*advice)->best].call], 1) << "before 'keep'";
  EXPECT_EQ(table_of(**advice, trace), (std::map<std::string, std::string>{{"old", "0 overwritten by 'keep'"},
                                                                           {"rates", "0 overwritten by 'rates'"},
                                                                           {"u", "80 read by 'keep'"},
                                                                           {"x", "0 never changed"}}));
  for (const auto& turn : (*advice)->schedule.turns) EXPECT_EQ((*advice)->places[turn.to].bytes, 80);
  EXPECT_EQ(mark_of(**advice, trace, (*advice)->best), std::vector<int>{1});
  const auto dear = std::find_if((*advice)->places.begin(), (*advice)->places.end(),
                                 [&](const auto& place) { return trace.calls[place.call] == 2 && place.bytes == 160; });
  ASSERT_NE(dear, (*advice)->places.end());
  EXPECT_EQ(mark_of(**advice, trace, static_cast<std::size_t>(dear - (*advice)->places.begin())), std::vector<int>{2});
}

TEST(advice, a_place_is_known_by_what_came_before_it) {
  // 'work' fills the scratch region twice; after the first time it is needed, after the second it is not.
  const std::vector<Region> regions{{"u", {4}, 8}, {"scratch", {100}, 8}};
  const std::vector<Computation> computations{{"work", {{0, Mode::read_write}, {1, Mode::write}}},
                                              {"use", {{0, Mode::read_write}, {1, Mode::read}}},
                                              {"clear", {{0, Mode::read_write}}}};
  const Trace trace = trace_of(regions, computations, {0, 2, 1, 0, 2, 2, 0, 2, 1, 0, 2, 2, 0, 2, 1, 0, 2, 2});
  const auto advice = advise(trace, costs);
  ASSERT_TRUE(advice && *advice);
  ASSERT_EQ((*advice)->places.size(), 6U);
  std::map<std::int64_t, std::vector<int>> marks;  // by bytes: of 'clear' after 'work'
  for (std::size_t i = 0; i < 6; ++i) {
    const std::size_t call = (*advice)->places[i].call;
    if (trace.calls[call] == 2 && trace.calls[call - 1] == 0)
      marks[(*advice)->places[i].bytes] = mark_of(**advice, trace, i);
  }
  EXPECT_EQ(marks, (std::map<std::int64_t, std::vector<int>>{{32, {1, 0, 2}}, {32 + 800, {2}}}));
}

TEST(advice, a_halo_that_is_filled_again_is_not_saved) {
  const std::vector<Region> regions{{"u", {12}, 8}};
  const std::vector<Computation> computations{
      {"exchange", {{0, Mode::read, Box{{1, 11}}}, {0, Mode::write, Box{{0, 1}}}, {0, Mode::write, Box{{11, 12}}}}},
      {"smooth", {{0, Mode::read, Box{{1, 11}}, {{-1, 2}}}, {0, Mode::write, Box{{1, 11}}}}}};
  const Trace trace = trace_of(regions, computations, {0, 1, 0, 1, 0, 1});
  const auto advice = advise(trace, costs);
  ASSERT_TRUE(advice && *advice);
  EXPECT_EQ((*advice)->needs[0].bytes, 80);
  EXPECT_EQ(trace.calls[(*advice)->places[(*advice)->best].call], 0) << "before 'exchange'";
}

TEST(advice, what_was_changed_once_and_is_not_touched_any_more_is_not_saved) {
  const std::vector<Region> regions{{"u", {10}, 8}, {"log", {10}, 8}};
  const std::vector<Computation> computations{{"start", {{0, Mode::write}, {1, Mode::write}}},
                                              {"step", {{0, Mode::read_write}}}};
  const Trace trace = trace_of(regions, computations, {0, 1, 1, 1});
  const auto advice = advise(trace, costs);
  ASSERT_TRUE(advice && *advice);
  EXPECT_EQ(table_of(**advice, trace).at("log"), "0 not touched any more");
}

TEST(advice, a_program_that_repeats_nothing_gets_none) {
  const auto advice =
      advise(trace_of({{"u", {1}, 8}}, {{"a", {{0, Mode::write}}}, {"b", {{0, Mode::read}}}}, {0, 1}), costs);
  ASSERT_TRUE(advice);
  EXPECT_FALSE(*advice);
}

TEST(advice, traces_that_cannot_be_are_refused) {
  const Trace good = trace_of({{"u", {1}, 8}}, {{"a", {{0, Mode::write}}}}, {0, 0, 0});
  const auto said = [&](const auto& spoil) {
    Trace trace = good;
    spoil(trace);
    const auto advice = advise(trace, costs);
    return advice ? std::string("nothing") : advice.failure().what;
  };
  EXPECT_EQ(said([](Trace& t) { t.seconds.pop_back(); }), "a trace of computations has not a time for each of them");
  EXPECT_EQ(said([](Trace& t) { t.seconds = {0, 2, 1}; }), "a trace of computations goes back in time");
  EXPECT_EQ(said([](Trace& t) { t.calls[1] = 1; }), "a trace of computations has one that was not declared");
  EXPECT_EQ(said([](Trace& t) { t.changed.clear(); }),
            "a trace of computations does not say of each region what has changed");
  EXPECT_EQ(said([](Trace& t) { t.computations[0].accesses[0].region = 1; }),
            "computation 'a' names a region that is not protected");
}

/// A program of loops in a step, and the numbers of their rounds.
struct Program {
  std::vector<Region> regions;
  std::vector<Computation> computations;
  std::vector<int> step;
};

Program random_program(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return std::uniform_int_distribution(0, limit - 1)(random); };
  Program program;
  for (int r = 1 + below(4); r > 0; --r)
    program.regions.push_back({"r" + std::to_string(r), {1 + below(20)}, 1 << below(4)});
  for (int c = 1 + below(6); c > 0; --c) {
    Computation computation{"c" + std::to_string(c), {}};
    for (int a = 1 + below(4); a > 0; --a) {
      Access access{static_cast<std::size_t>(below(static_cast<int>(program.regions.size()))),
                    static_cast<Mode>(below(4))};
      const auto extent = program.regions[access.region].shape[0];
      const auto one = below(static_cast<int>(extent) + 1), other = below(static_cast<int>(extent) + 1);
      if (below(2) == 0) access.range = Box{{std::min(one, other), std::max(one, other)}};
      computation.accesses.push_back(std::move(access));
    }
    program.computations.push_back(std::move(computation));
  }
  // Each once, some of them in inner loops.
  for (int c = 0, count = static_cast<int>(program.computations.size()); c < count;) {
    const int length = 1 + below(count - c), rounds = 1 + below(3);
    for (int round = 0; round < rounds; ++round)
      for (int i = c; i < c + length; ++i) program.step.push_back(i);
    c += length;
  }
  return program;
}

TEST(advice, the_place_is_the_best_of_all_by_brute_force) {
  int periodic = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    const Program program = random_program(seed);
    std::vector<int> calls;
    for (int step = 0; step < 6; ++step) calls.insert(calls.end(), program.step.begin(), program.step.end());
    const Trace trace = trace_of(program.regions, program.computations, calls);
    const auto advice = advise(trace, costs);
    ASSERT_TRUE(advice);
    if (!*advice) continue;  // it only reads
    ++periodic;
    std::vector<Effects> effects;
    for (const auto& computation : program.computations) effects.push_back(*effects_of(computation, program.regions));
    // A checkpoint at each moment of one step, taken as it would be.
    std::int64_t least = INT64_MAX;
    for (std::size_t begin = program.step.size(); begin < 2 * program.step.size(); ++begin) {
      OpenCheckpoint checkpoint(trace.changed);
      std::int64_t bytes = 0;
      for (std::size_t call = begin; call < begin + 3 * program.step.size(); ++call)
        for (const auto& [region, what] : checkpoint.meet(effects[static_cast<std::size_t>(calls[call])]))
          bytes += what.volume() * program.regions[region].element;
      least = std::min(least, bytes);
    }
    ASSERT_EQ((*advice)->places[(*advice)->best].bytes, least) << "seed " << seed;
  }
  EXPECT_GT(periodic, 9000);
}

}  // namespace
}  // namespace backstay::select
