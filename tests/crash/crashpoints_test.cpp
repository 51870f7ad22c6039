// The program is stopped at every single operation of a checkpoint on its stores, at each level and layout; then what
// was not synced is dropped (or kept, or half of it), a new job opens the same stores, and must find the last committed
// line or the new one, with all bytes right. And once more during the checkpoint after that. What lies in the memory of
// processes outlives the job only as others go on: there a node, or one rank, is lost for good.
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
  std::size_t keep = 2;  ///< lines; 1: beside the one that is being written there is nothing but the last
  bool and_shared = false;

  [[nodiscard]] std::vector<LevelConfig> levels() const {
    std::vector<LevelConfig> out(1);
    out[0].kind = kind;
    out[0].layout = layout;
    out[0].files = files;
    out[0].parity = parity;
    out[0].keep = keep;
    if (and_shared) out.emplace_back().layout = layout;
    return out;
  }
};

std::string name_of(const ::testing::TestParamInfo<std::tuple<Way, Crash>>& test) {
  static constexpr std::array<const char*, 3> kinds{"killed", "power_cut", "torn"};
  return std::get<0>(test.param).name + "_" + kinds[static_cast<std::size_t>(std::get<1>(test.param))];
}

class crashpoints : public ::testing::TestWithParam<std::tuple<Way, Crash>> {
 protected:
  [[nodiscard]] static std::vector<LevelConfig> levels() { return std::get<0>(GetParam()).levels(); }
  [[nodiscard]] static StaticRegions statics() { return std::get<0>(GetParam()).statics; }
  /// A job on empty disks.
  [[nodiscard]] Trial fresh_trial() const {
    const Way& way = std::get<0>(GetParam());
    Trial out{levels(), dir_.path(), new_disks(way.nodes), statics(), way.nodes};
    if (way.kind == LevelKind::memory) out.memories = new_memories();
    return out;
  }
  /// As many nodes as the level bears the loss of, from `first` on.
  static void lose_nodes(Trial& trial, std::uint64_t first) {
    const auto nodes = static_cast<std::uint64_t>(trial.nodes);
    for (int i = 0; i < std::max(1, trial.strongest().parity.p); ++i)
      trial.lose(static_cast<int>((first + static_cast<std::uint64_t>(i)) % nodes));
  }
  static void TearDownTestSuite() {
    std::printf("jobs that were stopped: %d\nremains that were resumed from: %d\n", stopped, looked_at);
  }
  const store::TemporaryDirectory dir_;
};

/// Three lines: the first is retired by then, so that the next one takes over its directory.
constexpr int lines_before = 3;

/// Takes them. Gives how many operations the last one took.
std::uint64_t take_lines(const Trial& trial) {
  std::uint64_t operations = 0;
  for (int line = 0; line < lines_before; ++line) operations = run_job(trial, 0).operations;
  return operations;
}

TEST_P(crashpoints, a_job_that_dies_at_any_operation_leaves_the_last_line_or_the_new_one) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  const auto operations = take_lines(base);
  std::mt19937 random(11);
  int kept_old = 0, kept_new = 0;
  for (std::uint64_t at = 1; at <= operations + 2; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(operations));
    Trial trial = copy_of(base);
    const Ran ran = run_job(trial, at);
    ASSERT_EQ(ran.resumed, lines_before);
    const int oldest = lines_before + (ran.committed ? 1 : 0);
    for (const unsigned seed : other_seeds(kind, static_cast<unsigned>(at))) {
      Trial other = copy_of(trial);
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
    trial = fresh_trial();
    const Ran ran = run_job(trial, at);
    ASSERT_EQ(ran.resumed, 0);
    const int oldest = ran.committed ? 1 : 0;
    const Trial next = copy_of(trial);  // names that were made and not synced are durable before a job counts on them
    const Ran after = run_job(next, 0);
    for (const unsigned seed : all_seeds(kind, static_cast<unsigned>(at))) {
      const Trial other = copy_of(next);
      crash(other.disks, kind, seed);
      ASSERT_EQ(found_in(other), after.resumed + 1)
          << "a line that was committed behind a kill is gone, subset " << seed;
    }
    for (const unsigned seed : other_seeds(kind, static_cast<unsigned>(at))) {
      Trial other = copy_of(trial);
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
    Trial trial = copy_of(base);
    (void)run_job(trial, at);
    std::atomic<int> resumed = 0;
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      JobRank job(comm, trial, std::make_shared<store::FaultPlan>());
      const int n = job.resumed();
      if (comm.rank() == 0) resumed = n;
      job.prune();
    });
    for (const unsigned seed : all_seeds(kind, static_cast<unsigned>(at))) {
      const Trial other = copy_of(trial);
      crash(other.disks, kind, seed);
      ASSERT_EQ(found_in(other), resumed) << "subset " << seed;
    }
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
            Way{.name = "two_files",  // of two nodes each
                .kind = LevelKind::shared,
                .layout = Layout::file_per_node,
                .files = 2,
                .nodes = 4},
            Way{.name = "local_and_shared",
                .kind = LevelKind::local,
                .layout = Layout::file_per_rank,
                .and_shared = true},
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
  /// One for each way of losing data. Where only it matters who is lost, those are the losses, as many of them as the
  /// campaign's size asks for; in memory, where nothing else can be lost, at least each rank once.
  [[nodiscard]] static std::vector<unsigned> seeds_of_losses(const Trial& trial, unsigned seed, std::size_t losses) {
    const auto kind = std::get<1>(GetParam());
    if (kind == Crash::keeps_some) return all_seeds(kind, seed);
    const auto most = std::max<std::size_t>(number_from("CRASHPOINT_SUBSETS"), trial.memories.size());
    std::vector<unsigned> out;
    for (std::size_t i = 0; i < std::min(most, losses); ++i) out.push_back(seed + static_cast<unsigned>(i));
    return out;
  }
};

TEST_P(crashpoints_with_losses, a_node_that_is_lost_in_the_middle_of_an_update_takes_no_line) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  const auto operations = take_lines(base);
  const auto lost = losses(base.nodes, std::max(1, base.strongest().parity.p));
  int kept_old = 0, kept_new = 0;
  for (std::uint64_t at = 1; at <= operations + 2; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(operations));
    Trial trial = copy_of(base);
    const Ran ran = run_job(trial, at);
    ASSERT_EQ(ran.resumed, lines_before);
    const int oldest = lines_before + (ran.committed_at_strongest ? 1 : 0);
    std::uint64_t turn = at;  // points of one node follow each other: at each another one is lost
    for (const unsigned seed : seeds_of_losses(base, static_cast<unsigned>(at), lost.size())) {
      Trial other = copy_of(trial);
      crash(other.disks, kind, seed);
      for (const int node : lost[turn++ % lost.size()]) other.lose(node);
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
            Way{"two_and_two", LevelKind::local, Layout::file_per_rank, 0, {2, 2, {}}, StaticRegions::changing, 4},
            Way{.name = "local_and_shared",
                .kind = LevelKind::local,
                .layout = Layout::file_per_rank,
                .statics = StaticRegions::changing,
                .and_shared = true}),
        ::testing::Values(Crash::keeps_all, Crash::keeps_nothing, Crash::keeps_some)),
    name_of);

/// Parity in memory, of which no line is kept but the last: that of a line must be good until the next one is committed
/// everywhere.
Way in_memory(const std::string& name, ParityConfig parity, StaticRegions statics, int nodes) {
  return {.name = name,
          .kind = LevelKind::memory,
          .layout = Layout::file_per_rank,
          .parity = std::move(parity),
          .statics = statics,
          .nodes = nodes,
          .keep = 1};
}
const auto ways_in_memory =
    ::testing::Combine(::testing::Values(in_memory("of_two_nodes", {1, 1, {}}, StaticRegions::none, 2),
                                         in_memory("three_and_one", {3, 1, {}}, StaticRegions::none, 4),
                                         in_memory("two_and_two", {2, 2, {}}, StaticRegions::changing, 4)),
                       ::testing::Values(Crash::keeps_all));

INSTANTIATE_TEST_SUITE_P(in_memory, crashpoints_with_losses, ways_in_memory, name_of);

// ---- one rank dies -------------------------------------------------------------------------------------------------

/// From its `operation`th operation from now a rank is dead: nothing of it reaches its store, or the other ranks.
/// Called on its own thread, which ends by an exception where it goes on; `dead` says it where that is at rest.
void die_alone(store::FaultPlan& plan, std::uint64_t operation, JobRank& job, std::atomic<bool>& dead) {
  const std::uint64_t last = plan.count() + operation;
  plan.before_each([&plan, &job, &dead, last, own = std::this_thread::get_id()](const store::FaultPlan::Step& step) {
    if (step.number < last) return;
    if (step.number == last)
      for (std::size_t kind = 0; kind < store::operation_kinds; ++kind)
        plan.fail_from(static_cast<store::Operation>(kind), 0, fail(Code::io, "the rank has died"));
    dead = true;
    job.fall_silent();
    if (std::this_thread::get_id() == own) throw std::runtime_error("the rank has died");
  });
}

/// A job in which rank `who` dies at its `operation`th operation of a checkpoint (0: not at all), and the others go on
/// until they hear of it, as in a repair: what they write meanwhile is in their stores. Counts operations of `who`.
Ran run_job_without(const Trial& trial, int who, std::uint64_t operation) {
  Ran ran;
  std::atomic<bool> committed = false;
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    const bool dies = comm.rank() == who;
    auto plan = std::make_shared<store::FaultPlan>();
    std::atomic<bool> dead = false;
    JobRank job(comm, trial, plan);
    const int n = job.resumed();
    const auto wait_until_idle = [&] {
      while (!job.is_idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    };
    const auto before = plan->count();
    if (dies && operation > 0) die_alone(*plan, operation, job, dead);
    try {
      job.begin_checkpoint(n + 1);
      if (dies) wait_until_idle();  // it comes to the others for nothing more if it is dead by then
      if (!dead) job.wait();
    } catch (const std::runtime_error& e) {
      EXPECT_GT(operation, 0U) << e.what();  // all hear of a death
    }
    if (dies) {
      ran.resumed = n;
      ran.operations = plan->count() - before;
      return;
    }
    wait_until_idle();
    if (job.committed_at_strongest()) committed = true;
  });
  ran.committed_at_strongest = committed;
  ++stopped;
  return ran;
}

class crashpoints_of_one_rank : public crashpoints {};

TEST_P(crashpoints_of_one_rank, its_death_takes_no_line_and_the_next_loss_takes_none_either) {
  const Trial base = fresh_trial();
  take_lines(base);
  int kept_old = 0, kept_new = 0;
  for (int who = 0; who < ranks; ++who) {
    const auto operations = run_job_without(copy_of(base), who, 0).operations;
    for (std::uint64_t at = 1; at <= operations + 1; ++at) {
      SCOPED_TRACE("rank " + std::to_string(who) + " died at operation " + std::to_string(at) + " of about " +
                   std::to_string(operations));
      Trial trial = copy_of(base);
      const Ran ran = run_job_without(trial, who, at);
      ASSERT_EQ(ran.resumed, lines_before);
      const auto node = static_cast<std::uint64_t>(trial.node_of(who));
      lose_nodes(trial, node);
      const int oldest = lines_before + (ran.committed_at_strongest ? 1 : 0);
      const int found = found_in(trial);
      ASSERT_TRUE(found >= oldest && found <= lines_before + 1)
          << "state " << found << ", " << oldest << " was committed";
      ++(found == lines_before ? kept_old : kept_new);
      // What was rebuilt bears a loss at once, and so does the line after it.
      Trial rebuilt = copy_of(trial);
      lose_nodes(rebuilt, node + 1);
      ASSERT_EQ(found_in(rebuilt), found);
      ASSERT_EQ(run_job(trial, 0).resumed, found);
      lose_nodes(trial, node + 1);
      ASSERT_EQ(found_in(trial), found + 1);
    }
  }
  EXPECT_GT(kept_old, 0);
  EXPECT_GT(kept_new, 0);
}

INSTANTIATE_TEST_SUITE_P(, crashpoints_of_one_rank,
                         ::testing::Combine(::testing::Values(Way{
                                                "parity", LevelKind::local, Layout::file_per_rank, 0, {1, 1, {}}}),
                                            ::testing::Values(Crash::keeps_all)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(in_memory, crashpoints_of_one_rank, ways_in_memory, name_of);

// ---- the end saves what memory holds -------------------------------------------------------------------------------

struct Saved {
  std::uint64_t line = 0;  ///< 0: all ranks heard of a failure
  std::uint64_t operations = 0;
};

/// A job that saves the newest line of its memory at level shared, and dies at an operation of that (0: not at all).
Saved die_in_rescue(const Trial& trial, std::uint64_t operation) {
  auto plan = std::make_shared<store::FaultPlan>();
  Saved out;
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    JobRank job(comm, trial, plan);
    (void)comm.barrier().ok();
    const auto before = plan->count();
    (void)comm.barrier().ok();
    if (comm.rank() == 0 && operation > 0) die_at(*plan, operation);
    (void)comm.barrier().ok();
    const auto saved = job.rescue();
    EXPECT_TRUE(saved.ok() || operation > 0) << saved.failure().what;
    (void)comm.barrier().ok();
    if (comm.rank() == 0) out = {saved ? saved->line : 0, plan->count() - before};
  });
  ++stopped;
  return out;
}

class crashpoints_of_rescue : public crashpoints {
 protected:
  /// Line 1 is at both levels, line 2 in memory alone; and of the static regions at level shared, which both need, one
  /// segment is damaged.
  [[nodiscard]] Trial before_the_end() const {
    Trial trial = fresh_trial();
    EXPECT_EQ(run_job(trial, 0).resumed, 0);
    const auto both = trial.levels;
    trial.levels.pop_back();
    EXPECT_EQ(run_job(trial, 0).resumed, 1);
    trial.levels = both;
    int damaged = 0;
    for (const auto& [path, bytes] : trial.disks.at("shared")->files())
      if (path.starts_with("shared-static/line-00000001/") && path.ends_with(".h5") && damaged++ == 0)
        (*bytes)[8192 + 40] ^= std::byte{1};
    EXPECT_GT(damaged, 0);
    return trial;
  }
  /// The launch after it, of a program that makes its static regions itself before it resumes, or does not.
  [[nodiscard]] static int found_at_shared(Trial trial, bool mesh_is_made) {
    trial.memories.clear();
    trial.levels.erase(trial.levels.begin());
    trial.mesh_is_made = mesh_is_made;
    return found_in(trial);
  }
};

TEST_P(crashpoints_of_rescue, what_a_resume_took_before_it_can_be_taken_at_each_operation_of_it) {
  const auto kind = std::get<1>(GetParam());
  const Trial base = before_the_end();
  ASSERT_EQ(found_at_shared(copy_of(base), true), 1) << "memory has what the damaged file should hold";
  const Trial whole = copy_of(base);
  const Saved saved = die_in_rescue(whole, 0);
  ASSERT_EQ(saved.line, 2U);
  int kept_old = 0, kept_new = 0;
  for (std::uint64_t at = 1; at <= saved.operations + 1; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(saved.operations));
    const Trial trial = copy_of(base);
    const bool committed = die_in_rescue(trial, at).line > 0;
    for (const unsigned seed : all_seeds(kind, static_cast<unsigned>(at))) {
      const Trial left = copy_of(trial);
      crash(left.disks, kind, seed);
      const int found = found_at_shared(copy_of(left), true);
      ASSERT_TRUE(found == 2 || (found == 1 && !committed)) << "state " << found << ", subset " << seed;
      ASSERT_TRUE(found == 1 || found_at_shared(copy_of(left), false) == 2) << "subset " << seed;
      ++(found == 1 ? kept_old : kept_new);
    }
  }
  EXPECT_GT(kept_old, 0);
  EXPECT_GT(kept_new, 0);
}

/// In the same files as those of memory, whose metadata are others, and in others.
Way saved_from_memory(const std::string& name, Layout layout) {
  return {.name = name,
          .kind = LevelKind::memory,
          .layout = layout,
          .parity = {1, 1, {}},
          .statics = StaticRegions::fixed,
          .and_shared = true};
}
INSTANTIATE_TEST_SUITE_P(, crashpoints_of_rescue,
                         ::testing::Combine(::testing::Values(saved_from_memory("same_files", Layout::file_per_rank),
                                                              saved_from_memory("one_file", Layout::one_file)),
                                            ::testing::Values(Crash::keeps_all, Crash::keeps_nothing,
                                                              Crash::keeps_some)),
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
  ++stopped;
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

class crashpoints_of_rebuild : public crashpoints {};

TEST_P(crashpoints_of_rebuild, a_job_that_dies_at_any_operation_of_it_loses_nothing) {
  const auto kind = std::get<1>(GetParam());
  Trial base = fresh_trial();
  take_lines(base);
  crash(base.disks, kind, 1);
  const auto others = static_cast<std::uint64_t>(base.strongest().parity.p);  // that come after those that are lost
  std::uint64_t operations = 0;
  {
    Trial trial = copy_of(base);
    lose_nodes(trial, 1);
    operations = count_operations_of_resume(trial);
    for (const unsigned seed : all_seeds(kind, 2)) {
      Trial other = copy_of(trial);
      crash(other.disks, kind, seed);
      lose_nodes(other, 1 + others);
      ASSERT_EQ(found_in(other), lines_before) << "what was rebuilt protects what it was rebuilt from; subset " << seed;
    }
  }
  EXPECT_GT(operations, 20U);
  for (std::uint64_t at = 1; at <= operations; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at) + " of about " + std::to_string(operations));
    Trial trial = copy_of(base);
    lose_nodes(trial, at);
    die_in_resume(trial, at);
    for (const unsigned seed : all_seeds(kind, static_cast<unsigned>(at))) {
      Trial other = copy_of(trial);
      crash(other.disks, kind, seed);
      ASSERT_EQ(found_in(other), lines_before) << "subset " << seed;
      crash(other.disks, kind, seed + 1);
      lose_nodes(other, at + others);
      ASSERT_EQ(found_in(other), lines_before) << "the second resume has ended what the first began; subset " << seed;
    }
    lose_nodes(trial, at);  // what was to take the place of the lost ones is lost in its turn
    ASSERT_EQ(found_in(trial), lines_before) << "nothing was taken from the others";
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
INSTANTIATE_TEST_SUITE_P(in_memory, crashpoints_of_rebuild, ways_in_memory, name_of);

/// The same on a real directory, where a process is killed and the file system is not.
class crashpoints_on_posix : public crashpoints {};

TEST_P(crashpoints_on_posix, a_job_that_dies_at_any_operation_leaves_the_last_line_or_the_new_one) {
  namespace fs = std::filesystem;
  const std::string base = dir_.path() + "/base", here = dir_.path() + "/here";
  const auto operations = take_lines({levels(), base, {}, statics()});
  for (std::uint64_t at = 1; at <= operations + 2; ++at) {
    SCOPED_TRACE("stopped at operation " + std::to_string(at));
    fs::remove_all(here);
    fs::copy(base, here, fs::copy_options::recursive);
    ASSERT_EQ(run_job({levels(), here, {}, statics()}, at).resumed, lines_before);
    const int found = found_in({levels(), here, {}, statics()});
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
