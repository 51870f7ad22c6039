// Ranks that are late, leave or stand still, and disks that hang.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/fake_comm.h"
#include "engine/engine.h"
#include "engine/testing.h"
#include "store/faulty_store.h"

namespace backstay::engine {
namespace {

constexpr std::chrono::milliseconds short_timeout{BACKSTAY_TEST_PACE * 1000};  // far more than a call takes
constexpr auto computing = short_timeout / 10;                                 // what a program computes between calls

TEST_F(EngineTest, a_rank_that_is_late_is_waited_for_and_nothing_is_lost) {
  for (const int late : {0, 1, 2}) {
    fs::remove_all(dir_);
    std::array<std::vector<std::string>, 3> said;
    comm::run_ranks(
        3,
        [&](comm::Comm& comm) {
          const auto me = static_cast<std::size_t>(comm.rank());
          Rank rank(
              comm, dir_, {level(LevelKind::shared, Layout::one_file)}, 2,
              [](EngineConfig& config) { config.timeout = short_timeout; }, &said[me]);
          for (int call = 1; call <= 20; ++call) {
            if (comm.rank() == late && call == 5) std::this_thread::sleep_for(4 * short_timeout);
            for (auto& x : rank.u) x = call;
            EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
          }
          EXPECT_TRUE(rank.engine->wait().ok());
          const auto found = rank.engine->verify();
          ASSERT_TRUE(found.ok()) << found.failure().what;
          EXPECT_EQ(found->lines, 2U);
          EXPECT_TRUE(found->damage.empty());
        },
        short_timeout);
    expect_found(3, {level(LevelKind::shared, Layout::one_file)}, 20);
    for (std::size_t me = 0; me < said.size(); ++me) {
      if (static_cast<int>(me) == late) continue;
      ASSERT_GE(said[me].size(), 2U);
      EXPECT_NE(said[me].front().find("a rank has not come for"), std::string::npos) << said[me].front();
      EXPECT_NE(said[me].back().find("all ranks have come"), std::string::npos) << said[me].back();
      EXPECT_LE(said[me].size(), 4U) << "not at each look";
    }
  }
}

TEST_F(EngineTest, a_rank_that_puts_its_part_back_for_long_is_said_to_be_busy) {
  write(3, {level(LevelKind::shared)}, {1});
  std::array<std::vector<std::string>, 3> said;
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        const auto me = static_cast<std::size_t>(comm.rank());
        Rank rank(
            comm, dir_, {level(LevelKind::shared)}, 2, [](EngineConfig& config) { config.timeout = short_timeout; },
            &said[me]);
        if (comm.rank() == 1) {
          auto spec = rank.engine->regions().specs().front();
          spec.delivered = [] { std::this_thread::sleep_for(4 * short_timeout); };
          ASSERT_TRUE(rank.engine->regions().remove(spec.name).ok());
          ASSERT_TRUE(rank.engine->regions().add(spec).ok());
        }
        const auto found = rank.engine->resume();
        ASSERT_TRUE(found.ok()) << found.failure().what;
        EXPECT_TRUE(rank.engine->wait().ok());
      },
      short_timeout);
  for (const std::size_t me : {0, 2}) {
    ASSERT_GE(said[me].size(), 2U);
    EXPECT_NE(said[me].front().find("a rank has been busy for"), std::string::npos) << said[me].front();
    EXPECT_NE(said[me].back().find("all ranks have come"), std::string::npos) << said[me].back();
  }
  EXPECT_TRUE(said[1].empty()) << said[1].front();
}

TEST_F(EngineTest, a_rank_that_closes_while_others_go_on_keeps_nobody_waiting) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    rank.write(1);
    int refused = 0;
    for (int call = 0; call < 5 && comm.rank() != 1; ++call) {
      const auto outcome = rank.engine->checkpoint(false, false);
      if (!outcome && outcome.failure().what.find("closed its session") != std::string::npos) ++refused;
    }
    EXPECT_TRUE(comm.rank() == 1 || refused >= 3);
    const auto met = rank.engine->meet_to_close();
    ASSERT_FALSE(met.ok());
    EXPECT_NE(met.failure().what.find("closed its session"), std::string::npos) << met.failure().what;
  });
}

TEST_F(EngineTest, a_rank_that_leaves_without_waiting_keeps_nobody_waiting) {
  for (const bool in_close : {false, true}) {
    comm::run_ranks(3, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::shared)});
      rank.write(1);
      if (comm.rank() == 1) return rank.engine->announce_close(false);
      if (in_close) {
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        return;
      }
      int refused = 0;
      for (int call = 0; call < 5; ++call) refused += rank.engine->checkpoint(false, false) ? 0 : 1;
      EXPECT_GE(refused, 3);
    });
  }
}

TEST_F(EngineTest, ranks_that_make_different_calls_hear_so) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    rank.write(1);
    const auto told = comm.rank() == 1 ? rank.engine->prune(1) : Result<void>(rank.engine->verify().failure());
    ASSERT_FALSE(told.ok());
    EXPECT_NE(told.failure().what.find("a rank is in verify(), and another in prune()"), std::string::npos)
        << told.failure().what;
    EXPECT_FALSE(rank.engine->resume());
    EXPECT_FALSE(rank.engine->meet_to_close());
  });
}

TEST_F(EngineTest, a_rank_that_takes_a_checkpoint_alone_keeps_nobody_waiting) {
  for (const bool in_close : {false, true}) {
    comm::run_ranks(3, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::shared)});
      rank.write(1);
      const auto start = std::chrono::steady_clock::now();
      if (comm.rank() == 1) {
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
      }
      Result<void> told;
      for (int call = 0; call < 5 && told && !in_close; ++call)
        if (const auto outcome = rank.engine->checkpoint(false, false); !outcome) told = outcome.failure();
      if (in_close) told = rank.engine->meet_to_close();
      ASSERT_FALSE(told.ok());
      EXPECT_NE(told.failure().what.find("nothing more is saved"), std::string::npos) << told.failure().what;
      EXPECT_TRUE(rank.engine->drain().ok());
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "half of the time-out";
    });
  }
}

TEST_F(EngineTest, a_rank_that_is_late_at_the_end_costs_no_line) {
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2,
                  [](EngineConfig& config) { config.timeout = short_timeout; });
        for (auto& x : rank.u) x = 7;
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        if (comm.rank() == 1) std::this_thread::sleep_for(3 * short_timeout);
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        EXPECT_TRUE(rank.engine->drain().ok());
      },
      short_timeout);
  expect_found(3, {level(LevelKind::shared)}, 7);
}

/// Quick steps, of which the program couples every 500th, and a rank that is late before, at or behind a coupling.
class CoupledProgram : public EngineTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(late_at_step, CoupledProgram, ::testing::Values(1, 5, 250, 499));

TEST_P(CoupledProgram, of_which_a_rank_was_late_goes_on_at_once) {
  constexpr int coupled = 500, late = 20 * coupled;
  std::barrier<> coupling(2);
  LevelConfig seldom;
  seldom.cadence.every = 1000000;
  const auto start = std::chrono::steady_clock::now();
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {seldom}, 1, [](EngineConfig& config) { config.timeout = short_timeout; });
        for (int call = 1; call <= 40 * coupled; ++call) {
          if (comm.rank() == 0 && call == late + GetParam()) std::this_thread::sleep_for(5 * short_timeout / 2);
          if (call % 5000 == 0) {
            EXPECT_TRUE(rank.engine->wait().ok());
          }
          EXPECT_TRUE(rank.engine->checkpoint(false, false).ok());
          if (call % coupled == 0) coupling.arrive_and_wait();
        }
        EXPECT_TRUE(rank.engine->wait().ok());
      },
      short_timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10 * short_timeout);
}

/// What a rank does before a call: it sleeps for so many time-outs.
struct Stall {
  int rank;
  int call;
  int timeouts;
};

TEST_F(EngineTest, stalls_of_several_ranks_one_after_the_other_cost_no_line) {
  const std::vector<Stall> stalls{{1, 6, 3}, {0, 7, 2}, {1, 10, 3}, {0, 21, 2}, {1, 21, 1}};
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {LevelConfig{}}, 2, [](EngineConfig& config) { config.timeout = short_timeout; });
        for (int call = 1; call <= 40; ++call) {
          for (const auto& stall : stalls)
            if (comm.rank() == stall.rank && call == stall.call)
              std::this_thread::sleep_for(stall.timeouts * short_timeout);
          for (auto& x : rank.u) x = call;
          EXPECT_TRUE(rank.engine->checkpoint(call % 2 == 0, false).ok());
          if (call % 5 == 0) (void)rank.engine->wait().ok();  // which is bounded, as another rank may write for long
        }
        EXPECT_TRUE(rank.engine->wait().ok());
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  expect_found(2, {level(LevelKind::shared)}, 40);
}

TEST_F(EngineTest, a_signal_while_a_rank_is_late_stops_all_ranks_at_one_call_with_a_last_line) {
  std::array<int, 3> stopped{};
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2,
                  [](EngineConfig& config) { config.timeout = short_timeout; });
        int& calls = stopped[static_cast<std::size_t>(comm.rank())];
        Result<Outcome> outcome = Outcome::not_due;
        while ((!outcome || *outcome != Outcome::stop) && ++calls < 200) {
          if (comm.rank() == 2 && calls == 5) std::this_thread::sleep_for(4 * short_timeout);
          std::this_thread::sleep_for(computing);
          for (auto& x : rank.u) x = calls;
          outcome = rank.engine->checkpoint(false, comm.rank() == 0 && calls >= 5);
        }
        EXPECT_LT(calls, 200);
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  EXPECT_EQ(stopped[0], stopped[1]);
  EXPECT_EQ(stopped[0], stopped[2]);
  expect_found(3, {level(LevelKind::shared)}, stopped[0]);
}

TEST_F(EngineTest, a_rank_that_is_late_in_resume_is_waited_for) {
  write(3, {level(LevelKind::shared)}, {1, 2, 3});
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2,
                  [](EngineConfig& config) { config.timeout = short_timeout; });
        bool sleeps = comm.rank() == 1;
        RegionSpec spec = rank.engine->regions().specs().front();
        ASSERT_TRUE(rank.engine->regions().remove("u").ok());
        spec.reshape = [&, reshape = spec.reshape](const Extents& shape) {
          if (std::exchange(sleeps, false)) std::this_thread::sleep_for(3 * short_timeout);
          return reshape(shape);
        };
        ASSERT_TRUE(rank.engine->regions().add(spec).ok());
        const auto found = rank.engine->resume();
        ASSERT_TRUE(found.ok()) << found.failure().what;
        for (double x : rank.u) EXPECT_EQ(x, 3);
        rank.write(4);
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  expect_found(3, {level(LevelKind::shared)}, 4);
}

/// A store whose syncs hang for a while, once, on one rank: a disk that is gone for some time.
std::function<void(EngineConfig&)> hangs_once(int rank, int me, std::string name = "") {
  return [=](EngineConfig& config) {
    config.timeout = short_timeout;
    if (me != rank) return;
    auto plan = std::make_shared<store::FaultPlan>();
    plan->before_each([name, hung = std::make_shared<std::atomic<bool>>(false)](const store::FaultPlan::Step& step) {
      if (step.operation == store::Operation::sync && step.path.ends_with(name) && !hung->exchange(true))
        std::this_thread::sleep_for(4 * short_timeout);
    });
    config.wrap_store = with_faults(plan);
  };
}

TEST_F(EngineTest, a_disk_that_hangs_for_longer_than_the_timeout_costs_lines_and_not_the_session) {
  for (const auto& config : {level(LevelKind::shared, Layout::one_file), level(LevelKind::partner)}) {
    for (const int slow : {0, 2}) {
      fs::remove_all(dir_);
      comm::run_ranks(
          4,
          [&](comm::Comm& comm) {
            Rank rank(comm, dir_, {config}, 2, hangs_once(slow, comm.rank()));
            for (auto& x : rank.u) x = 1;
            EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
            std::this_thread::sleep_for(6 * short_timeout);  // as in a step: nobody waits inside a call
            for (auto& x : rank.u) x = 2;
            for (int call = 0; call < 10; ++call) {
              std::this_thread::sleep_for(computing);
              (void)rank.engine->checkpoint(false, false).ok();
            }
            EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
            EXPECT_TRUE(rank.engine->wait().ok());
            EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
          },
          short_timeout);
      expect_found(4, {config}, 2);
    }
  }
}

TEST_F(EngineTest, a_rank_that_stands_still_at_its_very_end_costs_no_line) {
  for (const auto& config : {level(LevelKind::shared, Layout::one_file), level(LevelKind::partner)}) {
    fs::remove_all(dir_);
    comm::run_ranks(
        3,
        [&](comm::Comm& comm) {
          Rank rank(comm, dir_, {config}, 2, hangs_once(1, comm.rank()));  // both of its threads stand still
          for (auto& x : rank.u) x = 7;
          EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
          EXPECT_TRUE(rank.engine->meet_to_close().ok());
          if (comm.rank() == 1) std::this_thread::sleep_for(4 * short_timeout);
          const auto drained = rank.engine->drain();
          EXPECT_TRUE(drained.ok()) << drained.failure().what;
        },
        short_timeout);
    expect_found(3, {config}, 7);
  }
}

TEST_F(EngineTest, a_disk_that_hangs_at_the_very_end_is_told_by_all_ranks_alike) {
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, hangs_once(1, comm.rank()));
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        const auto drained = rank.engine->drain();
        ASSERT_FALSE(drained.ok());
        EXPECT_EQ(drained.failure().code, Code::timeout);
        EXPECT_NE(drained.failure().what.find("rank 0: writing the last checkpoint was not done within"),
                  std::string::npos)
            << drained.failure().what;
        std::this_thread::sleep_for(5 * short_timeout);  // the disk comes back
      },
      short_timeout);
}

TEST_F(EngineTest, a_rank_that_leaves_by_an_error_is_not_waited_for_at_the_end) {
  for (const bool is_first : {false, true}) {
    std::latch others(2);
    comm::run_ranks(3, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::shared)});
      rank.write(1);
      const auto start = std::chrono::steady_clock::now();
      if ((comm.rank() == 1) != is_first) std::this_thread::sleep_for(computing);
      if (comm.rank() == 1) {
        rank.engine->announce_close(false);
        others.wait();
      } else {
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        EXPECT_TRUE(rank.engine->drain().ok());
        others.count_down();
      }
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "half of the time-out";
    });
  }
}

TEST_F(EngineTest, a_line_that_a_hung_disk_committed_alone_goes_with_the_lines_of_its_time) {
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::local)}, 2, hangs_once(1, comm.rank(), "manifest.part"));
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        for (int call = 0; call < 80; ++call) {
          std::this_thread::sleep_for(computing);
          (void)rank.engine->checkpoint(call % 4 == 0, false).ok();
        }
        EXPECT_TRUE(rank.engine->wait().ok());
        const auto found = rank.engine->verify();
        ASSERT_TRUE(found.ok()) << found.failure().what;
        EXPECT_EQ(found->lines, 2U);
        EXPECT_TRUE(found->damage.empty()) << found->damage.front();
      },
      short_timeout);
}

TEST_F(EngineTest, a_program_that_saves_at_every_call_is_protected_again_after_a_disk_hung) {
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared, Layout::one_file)}, 2, hangs_once(1, comm.rank()));
        for (int call = 1; call <= 60; ++call) {
          std::this_thread::sleep_for(computing);
          for (auto& x : rank.u) x = call;
          (void)rank.engine->checkpoint(true, false).ok();
        }
        EXPECT_TRUE(rank.engine->wait().ok());
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  expect_found(3, {level(LevelKind::shared, Layout::one_file)}, 60);
}

TEST_F(EngineTest, all_ranks_stop_at_one_call_also_where_the_last_checkpoint_hangs) {
  std::array<int, 3> stopped{};
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, hangs_once(1, comm.rank()));
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        int& calls = stopped[static_cast<std::size_t>(comm.rank())];
        Result<Outcome> outcome = Outcome::not_due;
        while (outcome && *outcome != Outcome::stop && ++calls < 20) outcome = rank.engine->checkpoint(false, true);
        EXPECT_TRUE(outcome.ok());
        EXPECT_FALSE(rank.engine->last_line_is_whole());
        std::this_thread::sleep_for(5 * short_timeout);  // the disk comes back
      },
      short_timeout);
  EXPECT_EQ(stopped[0], stopped[1]);
  EXPECT_EQ(stopped[0], stopped[2]);
  EXPECT_LT(stopped[0], 20);
}

}  // namespace
}  // namespace backstay::engine
