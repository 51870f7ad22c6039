// Levels, layouts, communicators, decisions: what an application sees of them.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "support.h"

namespace backstay::mpi_test {
namespace {

namespace fs = std::filesystem;

/// A small time-stepping code: its state after n steps is a plain function of n and the rank.
struct Stepper {
  int step = 0;
  std::vector<double> u;
  explicit Stepper(std::size_t count = 2000) : u(count, 0.0) {}

  void protect(Session& session) {
    const auto n = static_cast<std::int64_t>(u.size());
    session.protect("step", step);
    session.protect("u", u, block({n * session.size()}, {n * session.rank()}, {n * (session.rank() + 1)}));
  }
  void advance() {
    for (std::size_t i = 0; i < u.size(); ++i) u[i] += static_cast<double>(step + 1) * static_cast<double>(i % 7);
    ++step;
  }
  void expect_at(int steps) const {
    EXPECT_EQ(step, steps);
    const double sum = steps * (steps + 1) / 2.0;
    for (std::size_t i = 0; i < u.size(); ++i) ASSERT_EQ(u[i], sum * static_cast<double>(i % 7)) << i;
  }
  void forget() {
    step = -1;
    std::fill(u.begin(), u.end(), -1);
  }
};

/// `steps` steps with a checkpoint at the top of each: the newest line is that of step `steps - 1`.
void run(const Options& options, int steps, MPI_Comm comm = MPI_COMM_WORLD) {
  Session session(comm, options);
  Stepper code;
  code.protect(session);
  for (; code.step < steps; code.advance()) session.checkpoint();
  session.wait();
  EXPECT_EQ(session.status().last_error, "");
}

Resumed resumed_at(const Options& options, int step, MPI_Comm comm = MPI_COMM_WORLD) {
  Session session(comm, options);
  Stepper code;
  code.forget();
  code.protect(session);
  const Resumed found = session.resume();
  EXPECT_TRUE(found.resumed);
  code.expect_at(step);
  const Verified verified = session.verify();
  EXPECT_TRUE(verified.damage.empty()) << verified.damage.front();
  return found;
}

int files_in(const std::string& dir) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(dir)) count += entry.path().extension() == ".h5" ? 1 : 0;
  return count;
}

std::string newest_line(const std::string& level_dir) {
  std::string newest;
  for (const auto& entry : fs::directory_iterator(level_dir))
    if (fs::exists(entry.path() / "manifest")) newest = std::max(newest, entry.path().string());
  return newest;
}

struct Way {
  std::string name;
  Options options;
};
class levels : public ::testing::TestWithParam<Way> {};

TEST_P(levels, a_new_session_resumes_from_the_newest_line) {
  const SharedDirectory dir;
  auto options = with(usual(dir.path()), GetParam().options);
  if (size_of() == 1 && (options["levels"] == "partner" || options.contains("local.redundancy")))
    GTEST_SKIP() << "one rank has no partner";
  if (options.contains("nodes")) options["nodes"] = two_nodes();
  run(options, 5);
  const auto found = resumed_at(options, 4);
  EXPECT_EQ(found.level, options["levels"]);
  EXPECT_EQ(found.line, 5U);
}

TEST_P(levels, a_run_goes_on_from_where_it_was_resumed) {
  const SharedDirectory dir;
  auto options = with(usual(dir.path()), GetParam().options);
  if (size_of() == 1 && (options["levels"] == "partner" || options.contains("local.redundancy")))
    GTEST_SKIP() << "one rank has no partner";
  if (options.contains("nodes")) options["nodes"] = two_nodes();
  for (int steps : {3, 6, 9}) {
    Session session(MPI_COMM_WORLD, options);
    Stepper code;
    code.protect(session);
    EXPECT_EQ(session.resume().resumed, steps > 3);
    for (; code.step < steps; code.advance()) session.checkpoint();
    code.expect_at(steps);
  }
  EXPECT_EQ(resumed_at(options, 8).line, 9U);  // the state that was put back is not written again
}

INSTANTIATE_TEST_SUITE_P(
    , levels,
    ::testing::Values(Way{"local", {{"levels", "local"}, {"nodes", "2"}}},
                      Way{"partner", {{"levels", "partner"}, {"nodes", "2"}}},
                      Way{"parity", {{"levels", "local"}, {"nodes", "2"}, {"local.redundancy", "rs(2,1)"}}},
                      Way{"file_per_rank", {{"shared.layout", "file-per-rank"}}},
                      Way{"file_per_node", {{"shared.layout", "file-per-node"}, {"nodes", "2"}}},
                      Way{"two_files", {{"shared.layout", "file-per-node"}, {"shared.files", "2"}}},
                      Way{"more_files_than_ranks", {{"shared.files", "100"}}},
                      Way{"one_file", {{"shared.layout", "one-file"}}},
                      Way{"buffered", {{"shared.layout", "one-file"}, {"direct_io", "off"}}},
                      Way{"in_calls", {{"shared.layout", "one-file"}, {"progress", "calls"}}}),
    [](const auto& test) { return test.param.name; });

TEST(level, shared_has_as_many_files_as_its_layout_says) {
  const int size = size_of();
  const std::vector<std::pair<Options, int>> wanted{{{{"shared.layout", "file-per-rank"}}, size},
                                                    {{{"nodes", two_nodes()}}, std::min(size, 2)},
                                                    {{{"shared.files", "3"}}, std::min(size, 3)},
                                                    {{{"shared.layout", "one-file"}}, 1}};
  for (const auto& [options, files] : wanted) {
    const SharedDirectory dir;
    run(with(usual(dir.path()), options), 2);
    EXPECT_EQ(files_in(newest_line(dir.path() + "/shared")), files);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST(level, each_has_its_own_cadence_and_retention) {
  const SharedDirectory dir;
  auto options = with(usual(dir.path()), {{"levels", "memory,local,shared"},
                                          {"memory.every", "1"},
                                          {"local.every", "3"},
                                          {"shared.every", "5"},
                                          {"local.keep", "3"},
                                          {"shared.keep", "1"},
                                          {"nodes", two_nodes()}});
  {
    Session session(MPI_COMM_WORLD, options);
    Stepper code;
    code.protect(session);
    for (int call = 1; call <= 20; ++call, code.advance()) EXPECT_EQ(session.checkpoint(), Outcome::taken);
    session.wait();
    EXPECT_EQ(session.status().committed, 20U + 6U + 4U);
    EXPECT_EQ(session.verify().lines, 2U + 3U + 1U);
  }
  EXPECT_EQ(resumed_at(options, 19).level, "shared");  // call 20, against call 18 at local
}

TEST(level, the_lost_node_comes_back_from_its_partner) {
  if (size_of() == 1) GTEST_SKIP() << "one rank has no partner";
  const SharedDirectory dir;
  const auto options = with(usual(dir.path()), {{"levels", "partner"}, {"nodes", "2"}});
  for (const char* node : {"0", "1"}) {
    if (rank_of() == 0) fs::remove_all(dir.path());
    MPI_Barrier(MPI_COMM_WORLD);
    run(options, 4);
    if (rank_of() == 0) fs::remove_all(dir.path() + "/node-" + node);
    MPI_Barrier(MPI_COMM_WORLD);
    Session session(MPI_COMM_WORLD, options);
    Stepper code;
    code.forget();
    code.protect(session);
    EXPECT_EQ(session.resume().level, "partner");
    code.expect_at(3);
    // The line has one copy only now: the next call does not wait until a checkpoint is due, it mends it.
    EXPECT_EQ(session.checkpoint(), Outcome::taken);
    session.wait();
    session.prune(1);
    EXPECT_TRUE(session.verify().damage.empty());
  }
}

/// What a run of 4 steps at level local leaves, less the directories of these nodes, put back by a new session.
void expect_rebuilt(const Options& options, const std::vector<int>& lost, const std::string& dir) {
  run(options, 4);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of() == 0)
    for (const int node : lost) fs::remove_all(dir + "/node-" + std::to_string(node));
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, options);
  Stepper code;
  code.forget();
  code.protect(session);
  EXPECT_EQ(session.resume().line, 4U);
  code.expect_at(3);
  for (const auto& sentence : session.verify().damage)
    EXPECT_TRUE(has(sentence, "line 3")) << "line 4 is protected again: " << sentence;
}

TEST(level, lost_nodes_come_back_from_parity) {
  if (size_of() < 4) GTEST_SKIP() << "four nodes need four ranks";
  for (const auto& [redundancy, lost] : {std::pair<std::string, std::vector<int>>{"rs(3,1)", {0}},
                                         {"rs(3,1)", {2}},
                                         {"rs(2,2)", {0, 3}},
                                         {"rs(1,3)", {0, 1, 2}},
                                         {"rs(100,1)", {1}}}) {
    const SharedDirectory dir;
    expect_rebuilt(with(usual(dir.path()), {{"levels", "local"}, {"nodes", "4"}, {"local.redundancy", redundancy}}),
                   lost, dir.path());
  }
}

TEST(level, parity_over_sets_of_nodes_outlives_the_loss_of_a_set) {
  if (size_of() < 4) GTEST_SKIP() << "four nodes need four ranks";
  const SharedDirectory dir;
  const Options options{{"levels", "local"}, {"nodes", "4"}, {"local.redundancy", "rs(1,1)"}};
  expect_rebuilt(with(usual(dir.path()), with(options, {{"local.unit", "nodes:0-1/2,3"}})), {0, 1}, dir.path());
  const auto wrong = refusal_of([&] {
    Session session(MPI_COMM_WORLD, with(usual(dir.path()), with(options, {{"local.unit", "nodes:0-1/2"}})));
  });
  EXPECT_EQ(wrong.code, Code::invalid_argument);
  EXPECT_NE(wrong.what.find("node 3"), std::string::npos) << wrong.what;
}

TEST(level, units_come_from_a_variable_that_differs_among_ranks) {
  if (size_of() < 4) GTEST_SKIP() << "two racks of two nodes need four ranks";
  setenv("RACK_OF_BACKSTAY_TEST", rank_of() < size_of() / 2 ? "left" : "right", 1);
  const SharedDirectory dir;
  const Options options{{"levels", "local"}, {"nodes", "4"}, {"local.redundancy", "rs(1,1)"}};
  expect_rebuilt(with(usual(dir.path()), with(options, {{"local.unit", "env:RACK_OF_BACKSTAY_TEST"}})), {2, 3},
                 dir.path());
  const auto unset = refusal_of([&] {
    Session session(MPI_COMM_WORLD, with(usual(dir.path()), with(options, {{"local.unit", "env:NO_SUCH_RACK"}})));
  });
  EXPECT_NE(unset.what.find("NO_SUCH_RACK"), std::string::npos) << unset.what;
}

TEST(level, parity_for_more_units_than_there_are_is_refused) {
  const SharedDirectory dir;
  const auto refused = refusal_of([&] {
    Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"levels", "local"}, {"local.redundancy", "rs(4,2)"}}));
  });
  EXPECT_EQ(refused.code, Code::invalid_argument);
  EXPECT_NE(refused.what.find("local"), std::string::npos) << refused.what;
}

TEST(level, a_partner_at_a_distance_outlives_the_loss_of_two_neighbouring_nodes) {
  if (size_of() < 4) GTEST_SKIP() << "four nodes need four ranks";
  for (const std::string distance : {"1", "2"}) {
    const SharedDirectory dir;
    const auto options =
        with(usual(dir.path()), {{"levels", "partner"}, {"nodes", "4"}, {"partner.distance", distance}});
    run(options, 4);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_of() == 0)
      for (const char* node : {"/node-0", "/node-1"}) fs::remove_all(dir.path() + node);
    MPI_Barrier(MPI_COMM_WORLD);
    Session session(MPI_COMM_WORLD, options);
    Stepper code;
    code.forget();
    code.protect(session);
    const auto refusal = refusal_of([&] { EXPECT_EQ(session.resume().level, "partner"); });
    if (distance == "2") {
      EXPECT_EQ(refusal.code, Code::ok) << refusal.what;
      code.expect_at(3);
    } else {
      EXPECT_EQ(refusal.code, Code::corrupt);
      EXPECT_TRUE(has(refusal.what, "rank-00000.h5 of node 0 is missing") && has(refusal.what, "its copy on node 1"))
          << refusal.what;
    }
  }
}

TEST(level, prune_does_not_trust_a_damaged_line) {
  const SharedDirectory dir;
  const auto options = with(usual(dir.path()), {{"levels", "shared"}, {"shared.layout", "one-file"}});
  run(options, 4);
  const std::string newest = newest_line(dir.path() + "/shared");
  if (rank_of() == 0) {
    std::fstream file(newest + "/all.h5", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8192 + 1).put('!').put('?');
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, options);
  Stepper code;
  code.protect(session);
  EXPECT_EQ(refusal_of([&] { session.prune(1); }).code, Code::corrupt);
  EXPECT_TRUE(session.resume().resumed);
  code.expect_at(2);
}

TEST(level, partner_on_one_node_keeps_its_lines_without_a_copy) {
  const SharedDirectory dir;
  const auto options = with(usual(dir.path()), {{"levels", "partner"}, {"nodes", "1"}});
  run(options, 3);
  EXPECT_EQ(resumed_at(options, 2).level, "partner");
}

// ---- communicators and sessions --------------------------------------------------------------------------------

TEST(session, works_on_a_communicator_of_the_users_own) {
  const SharedDirectory dir;
  const int colour = rank_of() % 2;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, colour, -rank_of(), &half);
  const auto options =
      with(usual(dir.path()), {{"name", colour == 0 ? "even" : "odd code"}, {"shared.layout", "one-file"}});
  run(options, 3 + colour, half);
  resumed_at(options, 2 + colour, half);
  MPI_Comm_free(&half);
}

TEST(session, two_in_one_program_do_not_meet) {
  const SharedDirectory dir;
  const auto ocean = with(usual(dir.path()), {{"name", "ocean"}}),
             air = with(usual(dir.path()), {{"name", "air"}, {"levels", "local"}});
  {
    Session first(MPI_COMM_WORLD, ocean), second(MPI_COMM_WORLD, air);
    Stepper wet(100), dry(300);
    wet.protect(first);
    dry.protect(second);
    for (; wet.step < 4; wet.advance()) {
      first.checkpoint();
      dry.advance();
      dry.advance();
      second.checkpoint();
    }
  }
  Session second(MPI_COMM_WORLD, air), first(MPI_COMM_WORLD, ocean);
  Stepper wet(100), dry(300);
  wet.protect(first);
  dry.protect(second);
  EXPECT_TRUE(first.resume());
  EXPECT_TRUE(second.resume());
  wet.expect_at(3);
  dry.expect_at(8);
}

TEST(session, a_second_one_on_the_same_directory_is_refused_on_every_rank) {
  const SharedDirectory dir;
  for (const char* levels : {"shared", "local"}) {
    const auto options = with(usual(dir.path()), {{"levels", levels}, {"nodes", two_nodes()}});
    auto first = std::make_unique<Session>(MPI_COMM_WORLD, options);
    const auto refusal = refusal_of([&] { Session second(MPI_COMM_WORLD, options); });
    EXPECT_EQ(refusal.code, Code::locked);
    EXPECT_TRUE(has(refusal.what, "is in use by another")) << refusal.what;
    Stepper code;
    code.protect(*first);
    EXPECT_EQ(first->checkpoint(now), Outcome::taken);  // the first one is not disturbed
    first.reset();
    EXPECT_EQ(refusal_of([&] { Session third(MPI_COMM_WORLD, options); }).code, Code::ok);
  }
}

TEST(session, alone_needs_no_other_rank) {
  const SharedDirectory dir;
  const auto options =
      with(usual(dir.path()), {{"name", "rank " + std::to_string(rank_of())}, {"levels", "memory,local,shared"}});
  if (rank_of() % 2 == 0) {
    {
      Session session(alone, options);
      EXPECT_EQ(session.size(), 1);
      Stepper code;
      code.protect(session);
      for (; code.step < 4; code.advance()) session.checkpoint();
    }
    Session session(alone, options);
    Stepper code;
    code.protect(session);
    EXPECT_TRUE(session.resume());
    code.expect_at(3);
  }
}

TEST(session, unknown_options_are_refused_with_the_nearest_real_one) {
  const SharedDirectory dir;
  const auto refusal = refusal_of([&] { Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"evry", "3"}})); });
  EXPECT_EQ(refusal.code, Code::unknown_option);
  EXPECT_TRUE(has(refusal.what, "did you mean every")) << refusal.what;
}

TEST(session, options_that_only_one_rank_has_wrong_are_refused_on_every_rank) {
  const SharedDirectory dir;
  const bool last = rank_of() == size_of() - 1;
  const auto refusal =
      refusal_of([&] { Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"keep", last ? "0" : "2"}})); });
  EXPECT_EQ(refusal.code, Code::invalid_argument);
}

TEST(session, no_line_is_a_fresh_start) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  Stepper code;
  code.protect(session);
  EXPECT_FALSE(session.resume());
  code.expect_at(0);
}

// ---- when --------------------------------------------------------------------------------------------------------

/// A region that makes writing slow enough to be met in flight: 64 MiB for all ranks together, and a sync.
struct Slow {
  std::vector<char> bytes = std::vector<char>((std::size_t{64} << 20) / static_cast<std::size_t>(size_of()), 'x');
};

TEST(decision, what_falls_due_in_flight_is_skipped_alike_on_every_rank) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"policy", "skip"}}));
  Slow slow;
  session.protect("slow", slow.bytes);
  std::string story;
  for (int call = 0; call < 30; ++call) story += std::to_string(static_cast<int>(session.checkpoint()));
  expect_same_on_all_ranks(story);
  EXPECT_TRUE(has(story, "1") && has(story, "2")) << story;
  session.wait();
  const auto status = session.status();
  EXPECT_EQ(status.taken + status.skipped, 30U);
  EXPECT_EQ(status.committed, status.taken);
}

TEST(decision, the_policy_wait_takes_every_one) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"policy", "wait"}}));
  Slow slow;
  session.protect("slow", slow.bytes);
  for (int call = 0; call < 4; ++call) EXPECT_EQ(session.checkpoint(), Outcome::taken);
  session.wait();
  EXPECT_EQ(session.status().committed, 4U);
}

TEST(decision, the_policy_degrade_writes_the_cheaper_level) {
  const SharedDirectory dir;
  Session session(
      MPI_COMM_WORLD,
      with(usual(dir.path()),
           {{"policy", "degrade"}, {"levels", "local,shared"}, {"local.every", "1000"}, {"shared.every", "1"}}));
  Slow slow;
  session.protect("slow", slow.bytes);
  std::string story;
  for (int call = 0; call < 20; ++call) story += std::to_string(static_cast<int>(session.checkpoint()));
  expect_same_on_all_ranks(story);
  session.wait();
  EXPECT_EQ(session.status().committed, session.status().taken);
  EXPECT_GT(session.status().taken, 1U) << "calls in flight were passed over instead of degraded: " << story;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of() == 0) {
    EXPECT_NE(newest_line(dir.path() + "/node-0/local"), "") << story;
    EXPECT_NE(newest_line(dir.path() + "/shared"), "") << story;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(decision, by_time_every_rank_takes_the_same_ones) {
  const SharedDirectory dir;
  auto options = with(usual(dir.path()), {{"interval", "0.05"}});
  options.erase("every");
  Session session(MPI_COMM_WORLD, options);
  Stepper code(10);
  code.protect(session);
  std::string story;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(600);
  for (int more = 1; more != 0; code.advance()) {
    story += std::to_string(static_cast<int>(session.checkpoint()));
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + rank_of() % 2));
    more = std::chrono::steady_clock::now() < end ? 1 : 0;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  expect_same_on_all_ranks(story);
  EXPECT_TRUE(has(story, "1") && has(story, "0")) << story;
}

TEST(decision, each_level_can_have_an_interval_of_its_own) {
  const SharedDirectory dir;
  auto options =
      with(usual(dir.path()), {{"levels", "local,shared"}, {"local.interval", "0.02"}, {"shared.interval", "3600"}});
  options.erase("every");
  Session session(MPI_COMM_WORLD, options);
  Stepper code(10);
  code.protect(session);
  for (int call = 0; call < 300; ++call, code.advance()) {
    session.checkpoint();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  session.wait();
  EXPECT_GE(session.status().committed, 3U);
  expect_same_on_all_ranks(std::to_string(session.status().committed));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_NE(newest_line(dir.path() + "/node-0/local"), "");
  EXPECT_TRUE(!fs::exists(dir.path() + "/shared") || newest_line(dir.path() + "/shared").empty());
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(decision, a_level_that_is_seldom_due_is_written_beside_one_that_is_always_in_flight) {
  for (const char* policy : {"skip", "degrade"}) {
    const SharedDirectory dir;
    Session session(
        MPI_COMM_WORLD,
        with(usual(dir.path()),
             {{"policy", policy}, {"levels", "local,shared"}, {"local.every", "1"}, {"shared.every", "10"}}));
    std::vector<double> u(300000);
    session.protect("u", u);
    for (int i = 0; i < 200; ++i) {
      session.checkpoint();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    session.wait();
    EXPECT_TRUE(fs::exists(dir.path() + "/shared") && !newest_line(dir.path() + "/shared").empty()) << policy;
  }
}

TEST(decision, now_is_now_whatever_the_cadence) {
  const SharedDirectory dir;
  const auto options = with(usual(dir.path()), {{"every", "1000"}, {"policy", "skip"}});
  Session session(MPI_COMM_WORLD, options);
  Stepper code;
  code.protect(session);
  EXPECT_EQ(session.checkpoint(), Outcome::not_due);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(session.checkpoint(now), Outcome::taken);
  session.wait();
  EXPECT_EQ(session.status().committed, 3U);
  EXPECT_EQ(session.status().newest_line, 3U);
}

TEST(decision, a_signal_to_one_rank_stops_all_at_the_same_call_with_a_durable_line) {
  for (int signal : {SIGUSR1, SIGTERM}) {
    const SharedDirectory dir;
    const auto options = with(usual(dir.path()), {{"every", "1000"}});
    int stopped_at = -1;
    {
      Session session(MPI_COMM_WORLD, options);
      Stepper code;
      code.protect(session);
      for (; code.step < 500 && stopped_at < 0; code.advance()) {
        if (code.step == 7 && rank_of() == size_of() - 1) raise(signal);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (session.checkpoint() == Outcome::stop) stopped_at = code.step;
      }
      EXPECT_TRUE(session.stopping());
      EXPECT_EQ(session.checkpoint(), Outcome::stop);
      EXPECT_EQ(session.status().in_flight, 0U);
    }
    expect_same_on_all_ranks(std::to_string(stopped_at));
    EXPECT_GE(stopped_at, 7);
    EXPECT_LT(stopped_at, 100);
    resumed_at(options, stopped_at);
  }
}

TEST(decision, a_last_checkpoint_that_fails_is_not_called_written) {
  const SharedDirectory dir;
  for (const char* on_error : {"continue", "throw"}) {
    Session session(MPI_COMM_WORLD,
                    with(usual(dir.path() + "/" + on_error), {{"every", "1000"}, {"on_error", on_error}}));
    Stepper code;
    code.protect(session);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_of() == 0) fs::remove_all(dir.path() + "/" + on_error);
    raise(SIGTERM);
    bool stopped = false, threw = false;
    for (; code.step < 500 && !stopped; code.advance()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      try {
        stopped = session.checkpoint() == Outcome::stop;
      } catch (const Error&) {
        stopped = threw = true;
      }
    }
    EXPECT_TRUE(stopped);
    EXPECT_EQ(threw, std::string(on_error) == "throw");
    EXPECT_EQ(session.status().failed, 1U);
  }
}

TEST(decision, signals_off_leaves_the_programs_own_handler_alone) {
  const SharedDirectory dir;
  static volatile std::sig_atomic_t own = 0;
  const auto before = std::signal(SIGUSR1, [](int) { own = 1; });
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    raise(SIGUSR1);
    EXPECT_EQ(own, 1);
  }
  std::signal(SIGUSR1, before);
}

TEST(decision, a_rollback_in_a_loop_goes_on_from_the_newest_line) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"every", "4"}, {"levels", "memory,shared"}}));
  Stepper code;
  code.protect(session);
  int rollbacks = 0, resumed_step = -1;
  session.loop([&] {
    if (session.resume()) resumed_step = code.step;
    for (; code.step < 20; code.advance()) {
      session.checkpoint();
      if (code.step == 13 && rollbacks < 2) {
        ++rollbacks;
        for (auto& x : code.u) x = -777;
        session.rollback("the test says so");
      }
    }
  });
  EXPECT_EQ(rollbacks, 2);
  EXPECT_EQ(resumed_step, 11);  // call 12 is the step after eleven
  code.expect_at(20);
  session.wait();
  EXPECT_EQ(session.status().last_error, "");
}

TEST(decision, a_signal_after_a_rollback_is_still_heard) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"every", "100000"}}));
  Stepper code(10);
  code.protect(session);
  int rollbacks = 0;
  bool stopped = false;
  session.loop([&] {
    session.resume();
    for (; code.step < 400 && !stopped; code.advance()) {
      if (code.step == 10 && rollbacks == 0)
        session.checkpoint(now);
      else
        stopped = session.checkpoint() == Outcome::stop;
      if (code.step == 200 && rollbacks++ == 0) session.rollback("the test says so");
      if (code.step == 30 && rollbacks == 1) raise(SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(stopped);
  EXPECT_LT(code.step, 150);
}

// ---- memory ------------------------------------------------------------------------------------------------------

/// Memory of its own: what MPI shares with its neighbours grows as it comes into use, and is no business of ours.
long resident_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (long kilobytes = 0; word == "RssAnon:" && status >> kilobytes) return kilobytes;
  return 0;
}

TEST(memory, does_not_grow_after_the_second_checkpoint) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD,
                  with(usual(dir.path()),
                       {{"levels", size_of() > 1 ? "local,partner,shared" : "local,shared"}, {"nodes", two_nodes()}}));
  std::vector<double> u(std::size_t{1} << 20, 1.0);
  session.protect("u", u);
  const auto take = [&](int count) {
    for (int i = 0; i < count; ++i) session.checkpoint(now);
    session.wait();
  };
  take(2);
  const auto staging = session.status().staging_bytes;
  EXPECT_GE(staging, std::uint64_t{8} << 20);
  take(4);  // the heap finds its size
  const long resident = resident_kilobytes();
  take(10);
  EXPECT_EQ(session.status().staging_bytes, staging);
  EXPECT_LT(resident_kilobytes(), resident + 2000) << "KiB; the region has 8192";
}

TEST(memory, beyond_its_limit_is_refused_with_a_sentence_and_the_run_goes_on) {
  const SharedDirectory dir;
  const auto options = with(usual(dir.path()), {{"staging_limit", "1MiB"}});
  Session session(MPI_COMM_WORLD, options);
  Stepper code;
  code.protect(session);
  session.checkpoint(now);
  std::vector<double> big(std::size_t{1} << 20);
  session.protect("big", big);
  session.checkpoint(now);
  session.wait();
  const auto status = session.status();
  EXPECT_EQ(status.committed, 1U);
  EXPECT_EQ(status.failed, 1U);
  EXPECT_TRUE(has(status.last_error, "staging_limit is 1.00 MiB")) << status.last_error;
  session.unprotect("big");
  session.checkpoint(now);
  session.wait();
  EXPECT_EQ(session.status().committed, 2U);
}

}  // namespace
}  // namespace backstay::mpi_test
