#include "select/replay_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "base/text.h"

namespace backstay::select {
namespace {

ByteView bytes_of(const double& value) { return as_bytes({reinterpret_cast<const char*>(&value), sizeof value}); }
MutableByteView room_of(double& value) { return {reinterpret_cast<std::byte*>(&value), sizeof value}; }

/// A run is a list of these: a computation, or a result if it has one.
struct Step {
  std::uint32_t computation = 0;
  std::optional<double> result;
};

std::vector<Step> random_run(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return std::uniform_int_distribution(0, limit - 1)(random); };
  std::vector<Step> run;
  for (int step = 0, steps = 5 + below(40); step < steps; ++step) {
    run.push_back({0, {}});
    for (int i = below(9); i > 0; --i) {
      run.push_back({1, {}});
      run.push_back({2, {}});
      run.push_back({0, below(1000) * 0.01});
    }
    run.push_back({3 + static_cast<std::uint32_t>(below(seed % 2 == 0 ? 1 : 200)), {}});
  }
  return run;
}

void record(ReplayLog& log, const std::vector<Step>& run, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    run[i].result ? log.result(bytes_of(*run[i].result)) : log.computation(run[i].computation);
}

Result<void> take(Replay& replay, const Step& step) {
  if (!step.result) return replay.computation(step.computation) ? Result<void>{} : replay.why_not(step.computation);
  double value = -1;
  BACKSTAY_TRY(replay.result(room_of(value)));
  EXPECT_EQ(value, *step.result);
  return {};
}

TEST(replay_log, a_program_takes_its_way_again_and_goes_on) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const auto run = random_run(seed);
    const std::size_t half = seed % (run.size() + 1);
    ReplayLog log;
    record(log, run, 0, half);
    auto replay = Replay::open(log.encode(), {});
    ASSERT_TRUE(replay);
    for (std::size_t i = 0; i < half; ++i) {
      ASSERT_FALSE(replay->at_end());
      const auto taken = take(*replay, run[i]);
      ASSERT_TRUE(taken) << "seed " << seed << ": " << taken.failure().what;
    }
    ASSERT_TRUE(replay->at_end());
    ReplayLog again = replay->log();
    record(log, run, half, run.size());
    record(again, run, half, run.size());
    EXPECT_EQ(again.encode(), log.encode()) << "seed " << seed;
  }
}

/// Passes what is next by looking ahead, up to `end` and to a random number of events; that many.
std::size_t pass_some(Replay& replay, const std::vector<Step>& run, std::size_t begin, std::size_t end,
                      const std::vector<bool>& known, std::mt19937& random) {
  detail::Ahead ahead = replay.look_ahead(known, end - begin);
  const std::size_t most = random() % 4 == 0 ? random() % 20 : end;
  std::uint64_t computations = 0;
  std::size_t i = begin;
  for (double value = -1; i < end && i - begin < most; ++i) {
    if (!run[i].result && !ahead.skip(static_cast<int>(run[i].computation) - 1)) break;
    if (run[i].result && !ahead.give(room_of(value))) break;
    EXPECT_EQ(value, run[i].result.value_or(value));
    computations += run[i].result ? 0 : 1;
  }
  EXPECT_EQ(ahead.passed(), i - begin);
  EXPECT_EQ(replay.pass(ahead), computations);
  return i - begin;
}

TEST(replay_log, what_is_passed_by_looking_ahead_is_as_if_it_had_come_one_by_one) {
  std::size_t passed = 0, all = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto run = random_run(seed);
    for (int again = static_cast<int>(random() % 3); again > 0; --again) run.insert(run.end(), run.begin(), run.end());
    const std::size_t half = random() % (run.size() + 1);
    ReplayLog log;
    record(log, run, 0, half);
    auto replay = Replay::open(log.encode(), {});
    ASSERT_TRUE(replay);
    std::vector<bool> known(seed % 3 == 0 ? 1 : 200);
    for (std::size_t i = 0; i < half; ++i) {
      const std::size_t some = pass_some(*replay, run, i, half, known, random);
      passed += some;
      if ((i += some) == half) break;
      ASSERT_TRUE(take(*replay, run[i])) << "seed " << seed;
      if (!run[i].result && run[i].computation > 0 && run[i].computation <= known.size())
        known[run[i].computation - 1] = true;
    }
    all += half;
    ASSERT_TRUE(replay->at_end());
    ReplayLog again = replay->log();
    record(log, run, half, run.size());
    record(again, run, half, run.size());
    EXPECT_EQ(again.encode(), log.encode()) << "seed " << seed;
  }
  EXPECT_GT(passed, all / 3);
}

TEST(replay_log, looking_ahead_gives_nothing_but_what_is_there) {
  ReplayLog log;
  const double dt = 0.5;
  for (int i = 0; i < 10; ++i) {
    log.computation(0);
    log.computation(1);
    log.computation(2);
    log.result(bytes_of(dt));
  }
  const Bytes good = log.encode();
  Bytes cut = good;
  cut.resize(cut.size() - 12);  // the last result, and half of the one before
  auto replay = Replay::open(cut, {});
  ASSERT_TRUE(replay);
  double value = 0;
  const auto result = [&] { return replay->result(room_of(value)).ok(); };
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(replay->computation(0) && replay->computation(1) && replay->computation(2) && result());
  ASSERT_TRUE(replay->computation(0));
  detail::Ahead ahead = replay->look_ahead({true, false}, 100);
  EXPECT_FALSE(ahead.skip(1)) << "another computation";
  EXPECT_TRUE(ahead.skip(0));
  EXPECT_FALSE(ahead.skip(1)) << "not known";
  EXPECT_EQ(replay->pass(ahead), 1U);
  ASSERT_TRUE(replay->computation(2));
  ahead = replay->look_ahead({true, true}, 100);
  EXPECT_FALSE(ahead.give(room_of(value))) << "the log has no bytes for it";
  EXPECT_EQ(replay->pass(ahead), 0U);
  EXPECT_FALSE(result());
}

TEST(replay_log, another_way_is_found_at_its_first_event_and_explained) {
  const std::vector<std::string> names{"computation 'step'", "computation 'flux'"};
  ReplayLog log;
  const double dt = 0.5;
  for (int i = 0; i < 3; ++i) {
    log.computation(0);
    log.computation(1);
    log.result(bytes_of(dt));
  }
  const auto said = [&](const std::vector<Step>& way) {
    auto replay = Replay::open(log.encode(), names);
    for (const auto& step : way)
      if (const auto taken = take(*replay, step); !taken) {
        EXPECT_EQ(taken.failure().code, Code::mismatch);
        EXPECT_FALSE(take(*replay, step)) << "it stands still";
        return taken.failure().what.substr(0, taken.failure().what.find(':'));
      }
    return std::string("nothing");
  };
  const Step step{0, {}}, flux{1, {}}, other{7, {}}, result{0, dt};
  EXPECT_EQ(said({step, flux, result, step, step}),
            "number 5 of the computations and results of the replay is computation 'step', and in the run that is "
            "replayed it was computation 'flux'");
  EXPECT_EQ(said({step, result}),
            "number 2 of the computations and results of the replay is a result of 8 bytes, and in the run that is "
            "replayed it was computation 'flux'");
  EXPECT_EQ(said({step, flux, other}),
            "number 3 of the computations and results of the replay is computation number 7, and in the run that is "
            "replayed it was a result of 8 bytes");
  EXPECT_EQ(said({step, flux, result, step, flux, result, step, flux, result, step}),
            "the replay goes on with computation 'step', and the run ended after 9 computations and results");
  EXPECT_EQ(said({step, flux, result}), "nothing");
}

TEST(replay_log, a_million_steps_of_a_program_take_less_than_64_mb) {
  // Clover-like: 150 computations, a time step that differs, and a summary every tenth step.
  constexpr int steps = BACKSTAY_TEST_PACE > 1 ? 100'000 : 1'000'000;  // fewer where sanitizers look on
  ReplayLog log;
  for (int step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < 150; ++i) log.computation(i);
    const double dt = 0.001 * step;
    log.result(bytes_of(dt));
    if (step % 10 == 9) {
      log.computation(150);
      for (int i = 0; i < 5; ++i) log.result(bytes_of(dt));
    }
  }
  EXPECT_LT(log.bytes(), 64U * steps);
  RecordProperty("bytes", std::to_string(log.bytes()));
  EXPECT_LE(log.encode().size(), log.bytes() + 20);
}

TEST(replay_log, damaged_logs_are_refused_or_end_early_and_harm_nothing) {
  const auto run = random_run(4);
  ReplayLog log;
  record(log, run, 0, run.size());
  const Bytes good = log.encode();
  std::mt19937 random(1);
  for (int turn = 0; turn < 5000; ++turn) {
    Bytes bad = good;
    if (turn % 3 == 0)
      bad.resize(random() % good.size());
    else
      for (std::size_t i = 1 + random() % 3; i > 0; --i)
        bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
    auto replay = Replay::open(bad, {});
    if (!replay) {
      EXPECT_EQ(replay.failure().code, Code::corrupt);
      continue;
    }
    for (const auto& step : run) {
      double value = 0;
      if (!(step.result ? replay->result(room_of(value)).ok() : replay->computation(step.computation))) break;
    }
  }
}

}  // namespace
}  // namespace backstay::select
