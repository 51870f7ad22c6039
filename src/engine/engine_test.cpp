// The protocol among ranks: levels, damage, refusals, what is retired.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comm/fake_comm.h"
#include "engine/engine.h"
#include "engine/testing.h"
#include "store/faulty_store.h"

namespace backstay::engine {
namespace {

TEST_F(EngineTest, every_level_and_layout_comes_back_on_any_number_of_ranks) {
  for (const auto& config :
       {level(LevelKind::shared), level(LevelKind::shared, Layout::file_per_node),
        level(LevelKind::shared, Layout::one_file), level(LevelKind::local), level(LevelKind::partner)}) {
    fs::remove_all(dir_);
    write(4, {config}, {1, 2, 3});
    for (int ranks : {4, 2, 3, 6}) expect_found(ranks, {config}, 3);
  }
}

TEST_F(EngineTest, one_rank_may_read_more_files_than_a_process_may_have_open) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  write(100, levels, {1});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{95, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  expect_found(1, levels, 1);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(EngineTest, a_lost_node_comes_back_from_its_partner) {
  write(4, {level(LevelKind::partner)}, {1, 2});
  fs::remove_all(dir_ / "node-1");
  expect_found(4, {level(LevelKind::partner)}, 2);
  fs::remove_all(dir_ / "node-0");  // resume alone wrote nothing new: now nothing is left
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::partner)});
    const auto found = rank.engine->resume();
    EXPECT_TRUE(found.ok() && !found->resumed);
  });
}

/// Of the lines of this level: it is expected to be the slower one.
std::function<std::shared_ptr<store::Store>(std::shared_ptr<store::Store>)> with_slow_reads(
    const std::string& level, std::chrono::milliseconds each = std::chrono::milliseconds(200)) {
  auto plan = std::make_shared<store::FaultPlan>();
  plan->before_each([level, each](const store::FaultPlan::Step& step) {
    if (step.operation == store::Operation::read && step.path.starts_with(level + "/line-"))
      std::this_thread::sleep_for(each);
  });
  return with_faults(plan);
}

TEST_F(EngineTest, what_one_level_with_parity_cannot_bear_a_second_one_does) {
  auto few = with_parity(LevelKind::local, 2, 1), more = with_parity(LevelKind::local, 4, 2);
  more.name = "local2";
  const std::vector<LevelConfig> levels{few, more};
  comm::run_ranks(6, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 6);
    rank.write(1);
    rank.write(2);
    EXPECT_EQ(rank.trouble, "");
  });
  for (const auto& [lost, level] : {std::pair{std::vector{1}, "local"}, {std::vector{1, 3}, "local2"}}) {
    for (int node : lost) fs::remove_all(dir_ / cat("node-", node));
    comm::run_ranks(6, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, levels, 6, [&](EngineConfig& config) { config.wrap_store = with_slow_reads("local2"); });
      const auto found = rank.engine->resume();
      ASSERT_TRUE(found.ok()) << found.failure().what;
      EXPECT_EQ(found->level, level) << lost.size() << " nodes lost";
      for (double x : rank.u) EXPECT_EQ(x, 2);
    });
  }
}

/// Of one line at two levels, with reads of one of them slowed down on one rank.
TEST_F(EngineTest, a_line_at_several_levels_is_put_back_from_the_one_expected_to_be_faster) {
  write(4, {level(LevelKind::local), level(LevelKind::shared)}, {1, 2});
  for (const std::string slow : {"local", "shared"}) {
    const std::string fast = slow == "local" ? "shared" : "local";
    comm::run_ranks(4, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::local), level(LevelKind::shared)}, 2, [&](EngineConfig& config) {
        if (comm.rank() == 2) config.wrap_store = with_slow_reads(slow);
      });
      const auto found = rank.engine->resume();
      ASSERT_TRUE(found.ok()) << found.failure().what;
      EXPECT_EQ(found->level, fast);
      EXPECT_TRUE(std::ranges::any_of(rank.sentences,
                                      [&](const std::string& sentence) {
                                        return sentence.starts_with(cat("line 2 is taken from level ", fast, " (")) &&
                                               sentence.find(cat(" expected), not from ", slow, " (")) !=
                                                   std::string::npos;
                                      }))
          << "which, and why: " << (rank.sentences.empty() ? "nothing was said" : rank.sentences.back());
      for (double x : rank.u) EXPECT_EQ(x, 2);
    });
  }
}

bool says(const Rank& rank, const std::string& sentence) {
  return std::ranges::any_of(rank.sentences, [&](const auto& said) { return said.starts_with(sentence); });
}

/// The directory of one node has become a file: a job is refused, and one that goes on behind a loss does without.
TEST_F(EngineTest, who_goes_on_behind_a_loss_does_without_the_stores_that_are_gone) {
  const std::vector<LevelConfig> levels{level(LevelKind::local), level(LevelKind::shared)};
  write(4, levels, {1, 2, 3});
  fs::remove_all(dir_ / "shared" / "shared" / "line-00000003");
  fs::remove_all(dir_ / "node-1");
  std::ofstream(dir_ / "node-1") << "no directory";
  comm::run_ranks(4, [&](comm::Comm& comm) {
    EXPECT_THROW(Rank(comm, dir_, levels), Error);
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      config.goes_on = true;
      if (comm.rank() == 2) config.next_line = 8;
    });
    EXPECT_TRUE(says(rank, "level local: rank 2: ")) << rank.sentences.size();
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "shared");
    for (double x : rank.u) EXPECT_EQ(x, 2);
    rank.write(4);
    EXPECT_NE(rank.trouble.find("node-1"), std::string::npos) << rank.trouble;
    EXPECT_EQ(rank.engine->next_line(), 9) << "none of a line that cannot be seen now";
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared" / "shared" / "line-00000008" / "manifest"));
  EXPECT_TRUE(fs::exists(dir_ / "node-0" / "local" / "line-00000003" / "manifest")) << "it may be whole again";
}

/// Someone removed the lock of a job that stood still, and started another one, which gives the same numbers.
TEST_F(EngineTest, who_has_lost_the_lock_removes_no_line_of_who_has_it) {
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    rank.write(1);
    if (comm.rank() == 0) fs::remove(dir_ / "shared" / "lock");
    (void)comm.barrier();
    comm::run_ranks(1, [&](comm::Comm& alone) {
      if (comm.rank() != 0) return;
      Rank other(alone, dir_, {level(LevelKind::shared)});
      other.write(2);
    });
    (void)comm.barrier();
    ASSERT_TRUE(rank.engine->checkpoint(true, false).ok());
    ASSERT_TRUE(rank.engine->wait().ok());
    EXPECT_NE(rank.trouble.find("lock"), std::string::npos) << rank.trouble;
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared" / "shared" / "line-00000002" / "manifest"));
  expect_found(1, {level(LevelKind::shared)}, 2);
}

/// One that fails while the job is at work is passed over by resume(), and stands in the way of what looks at all.
TEST_F(EngineTest, a_store_that_cannot_be_looked_at_is_passed_over) {
  const std::vector<LevelConfig> levels{level(LevelKind::local), level(LevelKind::shared)};
  write(4, levels, {1, 2});
  comm::run_ranks(4, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      if (comm.rank() == 2) config.wrap_store = with_faults(plan);
    });
    plan->fail_from(store::Operation::list, 1, {Code::io, "cannot list node-1/local: Input/output error"});
    const auto verified = rank.engine->verify();
    ASSERT_FALSE(verified.ok());
    EXPECT_EQ(verified.failure().what, "rank 2: cannot list node-1/local: Input/output error");
    EXPECT_EQ(rank.engine->prune(1).ok(), false);
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_TRUE(
        says(rank, "level local: rank 2: cannot list node-1/local: Input/output error; the job goes on without"));
    EXPECT_EQ(found->level, "shared");
    for (double x : rank.u) EXPECT_EQ(x, 2);
  });
  expect_found(4, levels, 2);
}

/// What is not seen may have the lines: a program is not to begin anew for that.
TEST_F(EngineTest, where_no_line_is_seen_and_a_store_cannot_be_looked_at_nothing_is_resumed) {
  write(2, {level(LevelKind::shared)}, {1, 2});
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, [&](EngineConfig& config) {
      config.goes_on = true;
      config.wrap_store = with_faults(plan);
    });
    plan->fail_from(store::Operation::list, 1, {Code::io, "cannot list shared: Input/output error"});
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.failure().what, "rank 0: cannot list shared: Input/output error");
    plan->heal();
    ASSERT_TRUE(rank.engine->resume().ok());
    for (double x : rank.u) EXPECT_EQ(x, 2);
  });
}

/// The cheapest level has lost too much.
TEST_F(EngineTest, of_the_other_levels_that_have_the_line_the_fastest_is_looked_for_too) {
  auto second = level(LevelKind::local);
  second.name = "local2";
  const std::vector<LevelConfig> levels{level(LevelKind::local), second, level(LevelKind::shared)};
  write(4, levels, {1, 2});
  fs::remove_all(dir_ / "node-1" / "local");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) { config.wrap_store = with_slow_reads("local2"); });
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "shared");
    EXPECT_TRUE(std::ranges::any_of(rank.sentences, [](const std::string& sentence) {
      return sentence.starts_with("line 2 is taken from level shared (") &&
             sentence.find(", not from local2 (") != std::string::npos;
    }));
    for (double x : rank.u) EXPECT_EQ(x, 2);
  });
}

TEST_F(EngineTest, for_a_small_gain_no_dearer_level_is_read) {
  const std::vector<LevelConfig> levels{level(LevelKind::local), level(LevelKind::shared)};
  write(4, levels, {1});
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      config.wrap_store = with_slow_reads("local", std::chrono::milliseconds(30));
    });
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "local");
    EXPECT_TRUE(std::ranges::any_of(rank.sentences,
                                    [](const std::string& sentence) {
                                      return sentence.starts_with("line 1 is taken from level local (") &&
                                             sentence.ends_with(
                                                 ": for less than a quarter and 0.1 s no dearer level is read");
                                    }))
        << "which, and why: " << (rank.sentences.empty() ? "nothing was said" : rank.sentences.back());
  });
}

TEST_F(EngineTest, lines_that_came_back_after_they_were_passed_over_are_kept_behind_a_newer_one) {
  auto three = level(LevelKind::shared);
  three.keep = 3;
  write(2, {three}, {1, 2, 3});
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, {three}, 2, [&](EngineConfig& config) {
      if (comm.rank() == 1) config.wrap_store = with_faults(plan);
    });
    for (const std::uint64_t nth : {1, 2, 3, 4})
      plan->fail_nth(store::Operation::read, nth, {Code::io, "for a moment"});
    const auto oldest = rank.engine->resume();
    ASSERT_TRUE(oldest.ok()) << oldest.failure().what;
    EXPECT_EQ(oldest->line, 1U);
    plan->heal();
    const auto newest = rank.engine->resume();
    ASSERT_TRUE(newest.ok()) << newest.failure().what;
    EXPECT_EQ(newest->line, 3U);
    rank.write(4);
  });
  for (const int line : {2, 3, 4})
    EXPECT_TRUE(fs::exists(dir_ / cat("shared/shared/line-0000000", line, "/manifest"))) << line;
}

TEST_F(EngineTest, a_line_that_comes_back_after_it_was_passed_over_is_kept) {
  write(2, {level(LevelKind::shared)}, {1, 2});
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, [&](EngineConfig& config) {
      if (comm.rank() == 1) config.wrap_store = with_faults(plan);
    });
    for (const std::uint64_t nth : {1, 2}) plan->fail_nth(store::Operation::read, nth, {Code::io, "for a moment"});
    const auto older = rank.engine->resume();
    ASSERT_TRUE(older.ok()) << older.failure().what;
    EXPECT_EQ(older->line, 1U);
    plan->heal();
    const auto newest = rank.engine->resume();
    ASSERT_TRUE(newest.ok()) << newest.failure().what;
    EXPECT_EQ(newest->line, 2U);
    rank.write(3);
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared/shared/line-00000002/manifest"));
}

TEST_F(EngineTest, the_first_call_after_a_loss_writes_the_copies_again) {
  write(4, {level(LevelKind::partner)}, {1, 2});
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::partner)});
    ASSERT_TRUE(rank.engine->resume().ok());
    EXPECT_EQ(*rank.engine->checkpoint(false, false), Outcome::taken);
    ASSERT_TRUE(rank.engine->wait().ok());
  });
  fs::remove_all(dir_ / "node-0");
  expect_found(4, {level(LevelKind::partner)}, 2);
}

TEST_F(EngineTest, a_damaged_line_falls_back_to_the_older_one) {
  write(3, {level(LevelKind::shared)}, {1, 2});
  std::fstream file(dir_ / "shared/shared/line-00000002/rank-00001.h5",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8192);
  file.put(1);
  file.close();
  expect_found(3, {level(LevelKind::shared)}, 1);
}

TEST_F(EngineTest, a_damaged_copy_falls_back_to_the_other) {
  write(4, {level(LevelKind::partner)}, {1, 2});
  fs::resize_file(dir_ / "node-0/partner/line-00000002/rank-00001.h5", 8200);
  std::fstream file(dir_ / "node-1/partner/line-00000002/rank-00002.h5",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8192);
  file.put(1);
  file.close();
  expect_found(4, {level(LevelKind::partner)}, 2);
}

TEST_F(EngineTest, when_nothing_can_be_had_the_refusal_is_the_same_everywhere) {
  write(2, {level(LevelKind::shared)}, {1});
  fs::remove(dir_ / "shared/shared/line-00000001/rank-00001.h5");
  std::vector<std::string> said(2);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    said[static_cast<std::size_t>(comm.rank())] = found.failure().what;
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[0].find("rank-00001.h5"), std::string::npos);
}

/// The rank whose node is lost needs others for each of its regions, and is alone in having two.
TEST_F(EngineTest, a_rank_that_asks_for_more_regions_than_others_is_served_if_the_program_is_lenient) {
  std::vector<LevelConfig> levels{level(LevelKind::partner)};
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 3);
    std::vector<double> more(5, comm.rank() + 0.5);
    rank.add("more", more);
    rank.write(7);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 3, [](EngineConfig& config) { config.lenient = true; });
    std::vector<double> more(5);
    if (comm.rank() == 1) rank.add("more", more);
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, 7);
    for (const double x : more) EXPECT_EQ(x, comm.rank() == 1 ? 1.5 : 0);
    rank.engine.reset();
  });
}

TEST_F(EngineTest, ranks_that_protect_different_regions_are_told_so_and_lose_nothing) {
  write(3, {level(LevelKind::shared)}, {5});
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    std::vector<double> more(2);
    if (comm.rank() == 2) rank.add("extra", more);
    rank.write(6);
    EXPECT_NE(rank.trouble.find("rank 2 has region 'extra'"), std::string::npos) << rank.trouble;
  });
  expect_found(3, {level(LevelKind::shared)}, 5);
}

TEST_F(EngineTest, two_jobs_on_one_directory_are_refused) {
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::local)});
    ASSERT_TRUE(comm.barrier().ok());
    EXPECT_THROW(Rank(comm, dir_, {level(LevelKind::local)}), Error);
    ASSERT_TRUE(comm.barrier().ok());
  });
}

Rank::Adjust watched_by(std::function<void(const store::FaultPlan::Step&)> watch) {
  auto plan = std::make_shared<store::FaultPlan>();
  plan->before_each(std::move(watch));
  return [plan](EngineConfig& config) { config.wrap_store = with_faults(plan); };
}

TEST_F(EngineTest, where_the_background_has_no_memory_left_the_process_says_so_and_ends) {
  write(1, {level(LevelKind::shared)}, {1});
  EXPECT_EXIT(comm::run_ranks(1,
                              [&](comm::Comm& comm) {
                                Rank rank(comm, dir_, {level(LevelKind::shared)}, 1,
                                          watched_by([](const store::FaultPlan::Step& step) {
                                            if (step.operation == store::Operation::sync) throw std::bad_alloc();
                                          }));
                                rank.write(2);
                              }),
              testing::KilledBySignal(SIGABRT), "backstay: saving a checkpoint has no way on \\(std::bad_alloc\\)");
  expect_found(1, {level(LevelKind::shared)}, 1);
}

/// Whoever archives by hard links does so while a line is written.
TEST_F(EngineTest, a_file_that_gets_another_name_between_its_ranks_is_one_file) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared, Layout::one_file)};
  comm::run_ranks(3, [&](comm::Comm& comm) {
    const auto archive = [&](const store::FaultPlan::Step& step) {
      const auto file = dir_ / "shared" / step.path;
      if (comm.rank() == 1 && step.operation == store::Operation::open && step.path.ends_with(".h5"))
        fs::create_hard_link(file, dir_ / cat("archived-", step.number));
    };
    Rank rank(comm, dir_, levels, 2, watched_by(archive));
    for (const double value : {1, 2, 3, 4, 5}) rank.write(value);
    EXPECT_EQ(rank.trouble, "");
  });
  EXPECT_GE(std::distance(fs::directory_iterator(dir_), {}), 5) << "archived";
  expect_found(3, levels, 5);
}

TEST_F(EngineTest, prune_keeps_what_can_be_put_back_of_what_it_wrote_itself) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared, Layout::one_file)};
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 2, [](EngineConfig& config) { config.levels[0].keep = 3; });
    for (const double value : {1, 2, 3}) rank.write(value);
    if (comm.rank() == 0) fs::remove(dir_ / "shared/shared/line-00000003/all.h5");
    ASSERT_TRUE(comm.barrier().ok());
    const auto pruned = rank.engine->prune(1);
    EXPECT_TRUE(pruned.ok()) << pruned.failure().what;
  });
  expect_found(2, levels, 2);
}

TEST_F(EngineTest, prune_removes_what_resume_had_to_pass_over) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared, Layout::one_file)};
  write(2, levels, {1, 2});
  flip(dir_ / "shared/shared/line-00000002/all.h5", 8193);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
    const auto pruned = rank.engine->prune(1);
    EXPECT_TRUE(pruned.ok()) << pruned.failure().what;
    const auto left = rank.engine->verify();
    ASSERT_TRUE(left.ok()) << left.failure().what;
    EXPECT_EQ(left->lines, 1U);
    EXPECT_TRUE(left->damage.empty());
  });
}

/// A retired line's manifest that cannot be removed now, as the storage fails for a moment.
TEST_F(EngineTest, a_line_that_could_not_be_retired_is_retired_later) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      config.levels[0].keep = 2;
      config.wrap_store = with_faults(plan);
    });
    for (const double value : {1, 2}) rank.write(value);
    if (comm.rank() == 0) plan->fail_nth(store::Operation::remove, 1, {Code::io, "for a moment"});
    rank.write(3);
    EXPECT_NE(rank.trouble.find(comm.rank() == 0 ? "for a moment" : ""), std::string::npos) << rank.trouble;
    const auto manifest = dir_ / "shared/shared/line-00000001/manifest";
    EXPECT_TRUE(fs::exists(manifest));
    plan->heal();
    ASSERT_TRUE(comm.barrier().ok());
    rank.write(4);
    EXPECT_FALSE(comm.rank() == 0 && fs::exists(manifest));
  });
}

TEST_F(EngineTest, memory_that_cannot_be_looked_at_on_one_rank_ends_resume_on_all) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  RegionSpec spec;
  spec.name = "list";
  spec.type = type_of<double>();
  spec.placement.kind = Placement::Kind::distributed_list;
  std::vector<double> list(6, 1.0);
  const auto look = [&] { return detail::dense_view(list.data(), {static_cast<std::int64_t>(list.size())}, 8); };
  comm::run_ranks(1, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 1);
    RegionSpec here = spec;
    here.view = look;
    ASSERT_TRUE(rank.engine->regions().add(here).ok());
    rank.write(1);
  });
  list.resize(3);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    bool fails = false;
    RegionSpec here = spec;
    here.view = [&] {
      if (fails) throw std::runtime_error("it is being moved");
      return look();
    };
    ASSERT_TRUE(rank.engine->regions().add(here).ok());
    fails = comm.rank() == 1;
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.failure().code, Code::user);
    EXPECT_NE(found.failure().what.find("it is being moved"), std::string::npos) << found.failure().what;
  });
}

TEST_F(EngineTest, flipped_bytes_are_found_by_verify) {
  write(2, {level(LevelKind::partner)}, {1, 2});
  const auto damaged = dir_ / "node-1/partner/line-00000002/copy-rank-00000.h5";
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8193);
  file.put(1);
  file.close();
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::partner)});
    const auto found = rank.engine->verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->lines, 2U);
    ASSERT_EQ(found->damage.size(), 1U);
    EXPECT_NE(found->damage[0].find("copy-rank-00000.h5"), std::string::npos);
  });
}

}  // namespace
}  // namespace backstay::engine
