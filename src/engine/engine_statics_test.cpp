// Static regions, and the line that is saved from memory at the end of a job.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "comm/fake_comm.h"
#include "engine/engine.h"
#include "engine/testing.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"

namespace backstay::engine {
namespace {

/// Of three ranks, for several jobs.
using InMemory = std::array<std::shared_ptr<store::Store>, 3>;
InMemory make_memory() {
  InMemory memory;
  for (auto& store : memory) store = store::make_memory_store();
  return memory;
}

LevelConfig shared_level() {
  LevelConfig out;
  out.kind = LevelKind::shared;
  return out;
}

/// A static region of 50 times a value.
struct Mesh {
  explicit Mesh(double value) : x(50, value) {}
  RegionSpec spec() {
    RegionSpec spec;
    spec.name = "mesh";
    spec.type = type_of<double>();
    spec.view = [this] { return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, 8); };
    spec.reshape = [this](const Extents& shape) {
      x.assign(static_cast<std::size_t>(shape[0]), -1);
      return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, 8);
    };
    return spec;
  }
  std::vector<double> x;
};

/// A job of three ranks, each of which has a static region of 50 times its number, which must be that in the end.
void run_with_a_mesh(const fs::path& dir, const InMemory& memory, const std::vector<LevelConfig>& levels,
                     const std::function<void(Rank&, std::size_t)>& act, const Rank::Adjust& adjust = {}) {
  constexpr int ranks = 3;
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    const auto me = static_cast<std::size_t>(comm.rank());
    Rank rank(comm, dir, levels, ranks, [&](EngineConfig& config) {
      config.memory = memory[me];
      if (adjust) adjust(config);
    });
    Mesh mesh(static_cast<double>(me));
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    act(rank, me);
    for (const double x : mesh.x) EXPECT_EQ(x, static_cast<double>(me));
    rank.engine.reset();
  });
}

/// By a job of three ranks whose static regions are not in memory.
void expect_a_mesh_and(double value, const fs::path& dir, const std::vector<LevelConfig>& levels) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir, levels, 3);
    Mesh mesh(-1);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, value);
    for (const double x : mesh.x) EXPECT_EQ(x, comm.rank());
    rank.engine.reset();
  });
}

/// It names older static regions than the line before it does, which were saved for level shared later than for memory.
TEST_F(EngineTest, a_line_that_was_saved_from_memory_keeps_its_static_regions_while_it_is_kept) {
  const InMemory memory = make_memory();
  const auto in_memory = with_parity(LevelKind::memory, 2, 1);
  const auto shared = level(LevelKind::shared);
  const auto go_on = [&](const std::vector<LevelConfig>& levels, std::initializer_list<double> values) {
    run_with_a_mesh(dir_, memory, levels, [&](Rank& rank, std::size_t) {
      ASSERT_TRUE(rank.engine->resume().ok());
      for (const double value : values) rank.write(value);
      EXPECT_EQ(rank.trouble, "");
    });
  };
  go_on({in_memory}, {1, 2});
  go_on({in_memory, shared}, {3});
  go_on({in_memory}, {4, 5});
  run_with_a_mesh(dir_, memory, {in_memory, shared}, [](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, 5U);
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared/shared-static/line-00000001/manifest"));
  go_on({shared}, {6});
  fs::remove(dir_ / "shared/shared/line-00000006/manifest");
  run_with_a_mesh(dir_, memory, {shared}, [](Rank& rank, std::size_t) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 5U);
    for (const double x : rank.u) EXPECT_EQ(x, 5);
  });
}

/// Both lines are damaged, so the older one's static regions are what memory holds behind the refusal.
TEST_F(EngineTest, behind_a_resume_that_failed_a_line_has_the_static_regions_that_memory_holds) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    Mesh mesh(1);
    auto& statics = rank.engine->static_regions();
    ASSERT_TRUE(statics.add(mesh.spec()).ok());
    rank.write(1);
    ASSERT_TRUE(statics.remove("mesh").ok());
    mesh.x.assign(50, 2);
    ASSERT_TRUE(statics.add(mesh.spec()).ok());
    rank.write(2);
    ASSERT_EQ(rank.trouble, "");
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "shared/shared"))
      if (entry.path().extension() == ".h5") files.push_back(entry.path());
    ASSERT_EQ(files.size(), 4U);
    if (comm.rank() == 0)
      for (const auto& file : files) {
        std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
        out.seekp(8192).write("spoilt by a disk", 16);
      }
    ASSERT_TRUE(rank.engine->agree_on({}).ok());
    ASSERT_FALSE(rank.engine->resume().ok());
    EXPECT_EQ(mesh.x.front(), 1);
    rank.write(3);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    Mesh mesh(0);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, 3);
    for (const double x : mesh.x) EXPECT_EQ(x, 1);
    rank.engine.reset();
  });
}

/// Of the third line of what rank 2 of `memory` has there; then what the end saves of it.
void expect_saved_at_the_end(const fs::path& dir, const InMemory& memory, const LevelConfig& in_memory,
                             std::uint64_t spoilt_at, const std::string& spoilt, std::uint64_t line) {
  const auto file = memory[2]->open_to_write("memory/line-00000003/rank-00002.h5");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->write_at(spoilt_at, as_bytes(spoilt)).ok());
  run_with_a_mesh(dir, memory, {in_memory, shared_level()}, [&](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, line);
  });
  run_with_a_mesh(dir, memory, {shared_level()}, [&](Rank& rank, std::size_t) {
    const auto verified = rank.engine->verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_TRUE(verified->damage.empty()) << verified->damage.front();
  });
  expect_a_mesh_and(static_cast<double>(line), dir, {shared_level()});
}

/// Also where the group of that rank has lost nobody, so that nothing had to be rebuilt there. Byte 14 is of the
/// format's version; at 4096 are metadata of HDF5, which no resume reads.
TEST_F(EngineTest, whatever_is_spoilt_in_memory_is_rebuilt_before_the_line_is_saved_at_the_end) {
  struct Case {
    int parities;
    bool one_is_lost;
    std::uint64_t at;
    std::string spoilt;
  };
  for (const auto& [parities, one_is_lost, at, spoilt] :
       {Case{1, true, 8192, "spoilt"}, Case{1, true, 14, "3"}, Case{1, true, 4096, "spoilt"},
        Case{2, false, 8192, "spoilt"}, Case{2, true, 8192, "spoilt"}}) {
    fs::remove_all(dir_);
    InMemory memory = make_memory();
    const auto in_memory = with_parity(LevelKind::memory, 1, parities);
    run_with_a_mesh(dir_, memory, {in_memory}, [](Rank& rank, std::size_t) {
      for (const double value : {1, 2, 3}) rank.write(value);
    });
    if (one_is_lost) memory[1] = store::make_memory_store();
    expect_saved_at_the_end(dir_, memory, in_memory, at, spoilt, 3);
  }
}

/// Line 1 is at both levels, line 2 in memory alone; those that both need are damaged at level shared.
void write_a_line_whose_static_regions_are_spoilt(const fs::path& dir, const InMemory& memory,
                                                  const std::vector<LevelConfig>& both) {
  run_with_a_mesh(dir, memory, both, [](Rank& rank, std::size_t) { rank.write(1); });
  run_with_a_mesh(dir, memory, {both.front()}, [](Rank& rank, std::size_t) {
    ASSERT_TRUE(rank.engine->resume().ok());
    rank.write(2);
  });
  flip(dir / "shared/shared-static/line-00000001/rank-00001.h5", 8192 + 40);
}

TEST_F(EngineTest, static_regions_at_level_shared_are_read_before_a_line_that_is_saved_at_the_end_needs_them) {
  InMemory memory = make_memory();
  const std::vector<LevelConfig> both{with_parity(LevelKind::memory, 1, 1), level(LevelKind::shared)};
  write_a_line_whose_static_regions_are_spoilt(dir_, memory, both);
  run_with_a_mesh(dir_, memory, both, [](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, 2U);
  });
  expect_a_mesh_and(2, dir_, {level(LevelKind::shared)});
}

std::vector<fs::path> below(const fs::path& dir) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

/// Of the damaged file a program needs nothing that makes its static regions itself.
TEST_F(EngineTest, where_no_room_is_left_for_static_regions_at_the_end_those_that_are_there_stay) {
  InMemory memory = make_memory();
  const std::vector<LevelConfig> both{with_parity(LevelKind::memory, 1, 1), level(LevelKind::shared)};
  write_a_line_whose_static_regions_are_spoilt(dir_, memory, both);
  const auto before = below(dir_ / "shared");
  const auto plan = std::make_shared<store::FaultPlan>();
  plan->fail_writes_under("shared-static", {Code::no_space, "full"});
  run_with_a_mesh(
      dir_, memory, both,
      [](Rank& rank, std::size_t) {
        const auto saved = rank.engine->save_what_memory_holds();
        ASSERT_FALSE(saved.ok());
        EXPECT_EQ(saved.failure().code, Code::no_space);
      },
      [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
  EXPECT_EQ(below(dir_ / "shared"), before);
  run_with_a_mesh(dir_, memory, {level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
  });
}

TEST_F(EngineTest, nothing_is_saved_at_the_end_where_nobody_can_see_what_lies_at_level_shared) {
  const InMemory memory = make_memory();
  const std::vector<LevelConfig> both{with_parity(LevelKind::memory, 1, 1), level(LevelKind::shared)};
  run_with_a_mesh(dir_, memory, both, [](Rank& rank, std::size_t) { rank.write(1); });
  const auto before = below(dir_ / "shared");
  std::atomic<bool> fails = false;
  run_with_a_mesh(
      dir_, memory, both,
      [&](Rank& rank, std::size_t) {
        ASSERT_TRUE(rank.engine->agree_on({}).ok());
        fails = true;
        ASSERT_TRUE(rank.engine->agree_on({}).ok());
        const auto saved = rank.engine->save_what_memory_holds();
        ASSERT_FALSE(saved.ok());
        EXPECT_NE(saved.failure().what.find("for a moment"), std::string::npos) << saved.failure().what;
      },
      [&](EngineConfig& config) {
        const auto plan = std::make_shared<store::FaultPlan>();  // of this rank: others list, too, at any moment
        plan->before_each([&fails, plan = plan.get()](const store::FaultPlan::Step& step) {
          if (step.operation == store::Operation::list && step.path == "shared" && fails.exchange(false))
            plan->fail_nth(store::Operation::list, 0, {Code::io, "for a moment"});
        });
        config.wrap_store = with_faults(plan);
      });
  EXPECT_EQ(below(dir_ / "shared"), before);
}

/// Shared's are damaged, and were found to be; those of level local are good, and in memory.
TEST_F(EngineTest, no_new_line_names_static_regions_that_a_resume_found_damaged) {
  const std::vector<LevelConfig> both{level(LevelKind::local), level(LevelKind::shared)};
  const InMemory none = make_memory();
  run_with_a_mesh(dir_, none, both, [](Rank& rank, std::size_t) { rank.write(1); });
  run_with_a_mesh(dir_, none, {level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    ASSERT_TRUE(rank.engine->resume().ok());
    rank.write(2);
  });
  flip(dir_ / "shared/shared-static/line-00000001/rank-00001.h5", 8192 + 40);
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, both, 3);
    Mesh mesh(-1);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "local");
    rank.write(3);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  for (const int node : {0, 1, 2}) fs::remove_all(dir_ / cat("node-", node));
  expect_a_mesh_and(3, dir_, {level(LevelKind::shared)});
}

/// Nodes with line 2 are away, and others save static regions by that number before they die. Then one of each comes.
TEST_F(EngineTest, static_regions_of_another_history_are_not_those_of_a_line) {
  const std::vector<LevelConfig> both{level(LevelKind::partner), level(LevelKind::shared)};
  const auto run = [&](double start, const std::function<void(Rank&, Mesh&, store::FaultPlan&)>& act) {
    comm::run_ranks(2, [&](comm::Comm& comm) {
      Mesh mesh(start);
      auto plan = std::make_shared<store::FaultPlan>();
      Rank rank(comm, dir_, both, 2, [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
      ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
      act(rank, mesh, *plan);
      rank.engine.reset();
    });
  };
  const Failure full{Code::no_space, "full"};
  run(1, [](Rank& rank, Mesh&, store::FaultPlan&) { rank.write(1); });
  run(1, [&](Rank& rank, Mesh& mesh, store::FaultPlan& plan) {
    ASSERT_TRUE(rank.engine->resume().ok());
    ASSERT_TRUE(rank.engine->static_regions().remove("mesh").ok());
    mesh.x.assign(50, 2);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    plan.fail_writes_under("shared", full);
    rank.write(2);
  });
  for (const int node : {0, 1}) fs::rename(dir_ / cat("node-", node), dir_ / cat("away-", node));
  run(1, [&](Rank& rank, Mesh&, store::FaultPlan& plan) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
    for (const char* level : {"shared", "partner/line"}) plan.fail_writes_under(level, full);
    rank.write(-1);
  });
  ASSERT_TRUE(fs::exists(dir_ / "node-1/partner-static/line-00000002/manifest"));
  fs::remove_all(dir_ / "node-0");
  fs::rename(dir_ / "away-0", dir_ / "node-0");
  run(0, [](Rank& rank, Mesh& mesh, store::FaultPlan&) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
    for (const double x : mesh.x) EXPECT_EQ(x, 1);
  });
}

/// Where level shared cannot be listed for a moment, as a session is opened behind a loss, and its companion can.
TEST_F(EngineTest, static_regions_stay_as_long_as_nobody_has_seen_which_lines_need_them) {
  const std::vector<LevelConfig> both{level(LevelKind::local), level(LevelKind::shared)};
  run_with_a_mesh(dir_, make_memory(), both, [](Rank& rank, std::size_t) {
    for (const double value : {1, 2}) rank.write(value);
  });
  comm::run_ranks(3, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    int looks = 0;
    Rank rank(comm, dir_, both, 3, [&](EngineConfig& config) {
      config.goes_on = true;
      if (comm.rank() == 0) config.wrap_store = with_faults(plan);
      // The first look is that of who makes names durable.
      plan->before_each([&plan = *plan, &looks](const store::FaultPlan::Step& step) {
        if (step.operation == store::Operation::list && step.path == "shared" && ++looks > 1)
          plan.fail_nth(store::Operation::list, 0, {Code::io, "for a moment"});
      });
    });
    Mesh mesh(comm.rank());
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "local");
    ASSERT_TRUE(rank.engine->agree_on({}).ok());
    EXPECT_TRUE(comm.rank() != 0 || looks > 1);
    plan->heal();
    ASSERT_TRUE(rank.engine->static_regions().remove("mesh").ok());
    mesh.x.assign(50, 9);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    rank.write(3);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  for (const char* name : {"shared/line-00000002", "shared-static/line-00000001"})
    EXPECT_TRUE(fs::exists(dir_ / "shared" / name / "manifest")) << name;
}

/// A rank is lost, and another one's memory of the newest line is spoilt: its one parity does not bear both.
TEST_F(EngineTest, where_the_newest_line_in_memory_proves_damaged_an_older_one_is_saved_at_the_end) {
  InMemory memory = make_memory();
  const auto in_memory = with_parity(LevelKind::memory, 2, 1);
  const auto run = [&](const std::vector<LevelConfig>& levels, const std::function<void(Rank&, std::size_t)>& act) {
    run_with_a_mesh(dir_, memory, levels, act);
  };
  run({in_memory}, [](Rank& rank, std::size_t) {
    for (const double value : {1, 2, 3}) rank.write(value);
  });
  memory[2] = store::make_memory_store();
  const auto file = memory[0]->open_to_write("memory/line-00000003/rank-00000.h5");
  ASSERT_TRUE(file.ok());
  const std::vector<std::byte> spoilt(64, std::byte{0x5a});
  ASSERT_TRUE((*file)->write_at(4096, spoilt).ok());
  run({in_memory, level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, 2U);
    EXPECT_EQ(saved->call, 2U);
    EXPECT_GT(saved->bytes, 24 * sizeof(double));
  });
  run({level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok() && found->resumed) << (found.ok() ? "nothing was found" : found.failure().what);
    for (const double x : rank.u) EXPECT_EQ(x, 2);
  });
}

TEST_F(EngineTest, static_regions_of_one_rank_that_the_line_has_not_are_the_refusal_of_all) {
  write(2, {level(LevelKind::shared)}, {1});
  std::vector<std::string> said(2);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    Mesh mesh(1);
    if (comm.rank() == 1) {
      ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    }
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.failure().code, Code::mismatch);
    said[static_cast<std::size_t>(comm.rank())] = found.failure().what;
    rank.engine.reset();
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[1].find("'mesh' is protected as static"), std::string::npos) << said[1];
}

}  // namespace
}  // namespace backstay::engine
