// The program is stopped at every single operation of a checkpoint on its stores, at each level and layout; then what
// was not synced is dropped (or kept, or half of it), a new job opens the same stores, and must find the last committed
// line or the new one, with all bytes right. And once more during the checkpoint after that.
#include "jobs_on_disks.h"

namespace backstay::engine::on_disks {
namespace {

struct Way {
  std::string name;
  LevelKind kind;
  Layout layout;
  int files = 0;
  ParityConfig parity = {};
  StaticRegions statics = StaticRegions::none;
  int nodes = 2;
};

std::string name_of(const ::testing::TestParamInfo<std::tuple<Way, Crash>>& test) {
  static constexpr std::array<const char*, 3> kinds{"killed", "power_cut", "torn"};
  return std::get<0>(test.param).name + "_" + kinds[static_cast<std::size_t>(std::get<1>(test.param))];
}

class crashpoints : public ::testing::TestWithParam<std::tuple<Way, Crash>> {
 protected:
  [[nodiscard]] LevelConfig level() const {
    const Way& way = std::get<0>(GetParam());
    LevelConfig out;
    out.kind = way.kind;
    out.layout = way.layout;
    out.files = way.files;
    out.parity = way.parity;
    return out;
  }
  [[nodiscard]] static StaticRegions statics() { return std::get<0>(GetParam()).statics; }
  /// A job on empty disks.
  [[nodiscard]] Trial fresh_trial() const {
    const int nodes = std::get<0>(GetParam()).nodes;
    return {level(), dir_.path(), new_disks(nodes), statics(), nodes};
  }
  static void TearDownTestSuite() {
    std::printf("jobs that were stopped: %d\nremains that were resumed from: %d\n", stopped, looked_at);
  }
  const store::TemporaryDirectory dir_;
};

/// Three lines: the first is retired by then, so that the next one takes over its directory.
constexpr int lines_before = 3;

TEST_P(crashpoints, a_job_that_dies_at_any_operation_leaves_the_last_line_or_the_new_one) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  std::uint64_t operations = 0;
  for (int line = 0; line < lines_before; ++line) operations = run_job(base, 0).operations;
  std::mt19937 random(11);
  int kept_old = 0, kept_new = 0;
  for (std::uint64_t at = 1; at <= operations + 2; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(operations));
    Trial trial = base;
    trial.disks = copy_of(base.disks);
    const Ran ran = run_job(trial, at);
    ASSERT_EQ(ran.resumed, lines_before);
    const int oldest = lines_before + (ran.committed ? 1 : 0);
    for (const unsigned seed : other_seeds(kind, static_cast<unsigned>(at))) {
      Trial other = trial;
      other.disks = copy_of(trial.disks);
      crash(other.disks, kind, seed);
      const int found = found_in(other);
      ASSERT_TRUE(found >= oldest && found <= lines_before + 1) << "state " << found << ", subset " << seed;
    }
    crash(trial.disks, kind, static_cast<unsigned>(at));
    // The job after it, which dies too.
    const std::uint64_t next = 1 + random() % operations;
    const Ran again = run_job(trial, next);
    const int first = again.resumed;
    ASSERT_TRUE(first >= oldest && first <= lines_before + 1)
        << "state " << first << ", " << oldest << " was committed";
    ++(first == lines_before ? kept_old : kept_new);
    crash(trial.disks, kind, static_cast<unsigned>(next));
    const int second = found_in(trial);
    ASSERT_TRUE(second == first + 1 || (second == first && !again.committed))
        << "state " << second << " after a job that had resumed from " << first << " and stopped at operation " << next;
  }
  EXPECT_GT(kept_old, 0);
  EXPECT_GT(kept_new, 0);
}

TEST_P(crashpoints, the_first_line_of_all_is_there_or_it_is_a_fresh_start) {
  const auto kind = std::get<1>(GetParam());
  Trial trial = fresh_trial();
  const auto operations = run_job(trial, 0).operations;
  crash(trial.disks, kind, 1);
  ASSERT_EQ(found_in(trial), 1) << "a line that was committed is gone after a power cut";
  for (std::uint64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at));
    trial.disks = new_disks(trial.nodes);
    const Ran ran = run_job(trial, at);
    ASSERT_EQ(ran.resumed, 0);
    const int oldest = ran.committed ? 1 : 0;
    Trial next = trial;  // names that were made and not synced are durable before another job counts on them
    next.disks = copy_of(trial.disks);
    const Ran after = run_job(next, 0);
    crash(next.disks, kind, static_cast<unsigned>(at));
    ASSERT_EQ(found_in(next), after.resumed + 1) << "a line that was committed behind a kill is gone";
    for (const unsigned seed : other_seeds(kind, static_cast<unsigned>(at))) {
      Trial other = trial;
      other.disks = copy_of(trial.disks);
      crash(other.disks, kind, seed);
      const int found = found_in(other);
      ASSERT_TRUE(found >= oldest && found <= 1) << "state " << found << ", subset " << seed;
    }
    crash(trial.disks, kind, static_cast<unsigned>(at));
    const int found = found_in(trial);
    ASSERT_TRUE(found >= oldest && found <= 1) << "state " << found << ", " << oldest << " was committed";
  }
}

/// Found by the model of the commit: a job takes what it finds for durable, removes what is older, and then the power
/// fails.
TEST_P(crashpoints, what_a_killed_job_left_unsynced_is_durable_before_older_lines_are_removed) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  (void)run_job(base, 0);
  const auto operations = run_job(base, 0).operations;
  for (std::uint64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at));
    Trial trial = base;
    trial.disks = copy_of(base.disks);
    (void)run_job(trial, at);
    std::atomic<int> resumed = 0;
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      JobRank job(comm, trial, std::make_shared<store::FaultPlan>());
      const int n = job.resumed();
      if (comm.rank() == 0) resumed = n;
      job.prune();
    });
    crash(trial.disks, kind, static_cast<unsigned>(at));
    ASSERT_EQ(found_in(trial), resumed);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , crashpoints,
    ::testing::Combine(
        ::testing::Values(
            Way{"local", LevelKind::local, Layout::file_per_rank},
            Way{"partner", LevelKind::partner, Layout::file_per_rank},
            Way{"parity", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}},
            Way{"file_per_rank", LevelKind::shared, Layout::file_per_rank},
            Way{"file_per_node", LevelKind::shared, Layout::file_per_node},
            Way{"one_file", LevelKind::shared, Layout::one_file},
            Way{"partner_with_statics", LevelKind::partner, Layout::file_per_rank, 0, {}, StaticRegions::changing},
            Way{"parity_with_statics", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}, StaticRegions::changing},
            Way{"file_per_node_with_statics", LevelKind::shared, Layout::file_per_node, 0, {}, StaticRegions::fixed}),
        ::testing::Values(Crash::keeps_all, Crash::keeps_nothing, Crash::keeps_some)),
    name_of);

/// While one checkpoint replaces another, a node goes for good together with the program, and so do all that the level
/// bears. What other nodes hold of the line before must not be spoilt by then.
class crashpoints_with_losses : public crashpoints {
 protected:
  /// The nodes that are lost: each one, or each two of them.
  [[nodiscard]] static std::vector<std::vector<int>> losses(int nodes, int together) {
    std::vector<std::vector<int>> out;
    for (int a = 0; a < nodes; ++a) {
      if (together == 1) out.push_back({a});
      for (int b = a + 1; b < nodes && together == 2; ++b) out.push_back({a, b});
    }
    return out;
  }
};

TEST_P(crashpoints_with_losses, a_node_that_is_lost_in_the_middle_of_an_update_takes_no_line) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  std::uint64_t operations = 0;
  for (int line = 0; line < lines_before; ++line) operations = run_job(base, 0).operations;
  const auto lost = losses(base.nodes, std::max(1, base.level.parity.p));
  int kept_old = 0, kept_new = 0;
  for (std::uint64_t at = 1; at <= operations + 2; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(operations));
    Trial trial = base;
    trial.disks = copy_of(base.disks);
    const Ran ran = run_job(trial, at);
    ASSERT_EQ(ran.resumed, lines_before);
    const int oldest = lines_before + (ran.committed ? 1 : 0);
    std::vector<unsigned> seeds{static_cast<unsigned>(at)};
    for (const unsigned seed : other_seeds(kind, seeds[0])) seeds.push_back(seed);
    for (const unsigned seed : seeds) {
      Trial other = trial;
      other.disks = copy_of(trial.disks);
      crash(other.disks, kind, seed);
      for (const int node : lost[(at + seed) % lost.size()])
        other.disks["node-" + std::to_string(node)] = std::make_shared<Disk>();
      const int found = found_in(other);
      ASSERT_TRUE(found >= oldest && found <= lines_before + 1)
          << "state " << found << ", " << oldest << " was committed; subset " << seed;
      ++(found == lines_before ? kept_old : kept_new);
    }
  }
  EXPECT_GT(kept_old, 0);
  EXPECT_GT(kept_new, 0);
}

INSTANTIATE_TEST_SUITE_P(
    , crashpoints_with_losses,
    ::testing::Combine(
        ::testing::Values(
            Way{"partner", LevelKind::partner, Layout::file_per_rank},
            Way{"parity", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}},
            Way{"partner_with_statics", LevelKind::partner, Layout::file_per_rank, 0, {}, StaticRegions::changing},
            Way{"parity_with_statics", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}, StaticRegions::changing},
            Way{"three_and_one", LevelKind::local, Layout::file_per_rank, 0, {3, 1, {}}, StaticRegions::none, 4},
            Way{"two_and_two", LevelKind::local, Layout::file_per_rank, 0, {2, 2, {}}, StaticRegions::changing, 4}),
        ::testing::Values(Crash::keeps_all, Crash::keeps_nothing, Crash::keeps_some)),
    name_of);

// ---- rebuilding ----------------------------------------------------------------------------------------------------

/// A job of which a node is lost, and which dies at an operation of its resume().
void die_in_resume(const Trial& trial, std::uint64_t operation) {
  auto plan = std::make_shared<store::FaultPlan>();
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    JobRank job(comm, trial, plan);
    (void)comm.barrier().ok();
    if (comm.rank() == 0) die_at(*plan, operation);
    (void)comm.barrier().ok();
    job.try_to_resume();
  });
}

std::uint64_t count_operations_of_resume(const Trial& trial) {
  auto plan = std::make_shared<store::FaultPlan>();
  std::uint64_t before = 0;
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    JobRank job(comm, trial, plan);
    (void)comm.barrier().ok();
    if (comm.rank() == 0) before = plan->count();
    (void)comm.barrier().ok();
    EXPECT_EQ(job.resumed(), 3);
  });
  return plan->count() - before;
}

class crashpoints_of_rebuild : public crashpoints {
 protected:
  /// As many nodes as the parity bears, from `first` on.
  static void lose_nodes(Trial& trial, std::uint64_t first) {
    for (int i = 0; i < trial.level.parity.p; ++i)
      trial.disks["node-" + std::to_string((first + static_cast<std::uint64_t>(i)) %
                                           static_cast<std::uint64_t>(trial.nodes))] = std::make_shared<Disk>();
  }
};

TEST_P(crashpoints_of_rebuild, a_job_that_dies_at_any_operation_of_it_loses_nothing) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  for (int line = 0; line < lines_before; ++line) run_job(base, 0);
  crash(base.disks, kind, 1);
  std::uint64_t operations = 0;
  {
    Trial trial = base;
    trial.disks = copy_of(base.disks);
    lose_nodes(trial, 1);
    operations = count_operations_of_resume(trial);
    lose_nodes(trial, 1 + static_cast<std::uint64_t>(trial.level.parity.p));
    ASSERT_EQ(found_in(trial), lines_before) << "what was rebuilt protects what it was rebuilt from";
  }
  EXPECT_GT(operations, 20U);
  for (std::uint64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(operations));
    Trial trial = base;
    trial.disks = copy_of(base.disks);
    lose_nodes(trial, at);
    die_in_resume(trial, at);
    crash(trial.disks, kind, static_cast<unsigned>(at));
    ASSERT_EQ(found_in(trial), lines_before);
    lose_nodes(trial, at + static_cast<std::uint64_t>(trial.level.parity.p));
    ASSERT_EQ(found_in(trial), lines_before) << "the second resume has ended what the first began";
  }
}

INSTANTIATE_TEST_SUITE_P(
    , crashpoints_of_rebuild,
    ::testing::Combine(
        ::testing::Values(
            Way{"parity", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}},
            Way{"parity_with_statics", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}, StaticRegions::changing},
            Way{"three_and_one", LevelKind::local, Layout::file_per_rank, 0, {3, 1, {}}, StaticRegions::none, 4},
            Way{"two_and_two", LevelKind::local, Layout::file_per_rank, 0, {2, 2, {}}, StaticRegions::changing, 4}),
        ::testing::Values(Crash::keeps_all, Crash::keeps_nothing, Crash::keeps_some)),
    name_of);

/// The same on a real directory, where a process is killed and the file system is not.
class crashpoints_on_posix : public crashpoints {};

TEST_P(crashpoints_on_posix, a_job_that_dies_at_any_operation_leaves_the_last_line_or_the_new_one) {
  namespace fs = std::filesystem;
  const std::string base = dir_.path() + "/base", here = dir_.path() + "/here";
  std::uint64_t operations = 0;
  for (int line = 0; line < lines_before; ++line) operations = run_job({level(), base, {}, statics()}, 0).operations;
  for (std::uint64_t at = 1; at <= operations + 2; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at));
    fs::remove_all(here);
    fs::copy(base, here, fs::copy_options::recursive);
    ASSERT_EQ(run_job({level(), here, {}, statics()}, at).resumed, lines_before);
    const int found = found_in({level(), here, {}, statics()});
    ASSERT_TRUE(found == lines_before || found == lines_before + 1) << "state " << found;
  }
}

INSTANTIATE_TEST_SUITE_P(, crashpoints_on_posix,
                         ::testing::Combine(::testing::Values(Way{"partner", LevelKind::partner, Layout::file_per_rank},
                                                              Way{"one_file", LevelKind::shared, Layout::one_file}),
                                            ::testing::Values(Crash::keeps_all)),
                         name_of);

}  // namespace
}  // namespace backstay::engine::on_disks
