// Session::replay(): the way back without computing. docs/decisions/0018.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/exit_status.h"
#include "api/random_seeds.h"
#include "backstay/backstay.hpp"

namespace backstay {
namespace {

namespace fs = std::filesystem;

/// What the test ends the program with, at any moment.
struct Killed {};

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() : dir_(fs::temp_directory_path() / ("backstay-replay-" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
  }
  ~ReplayTest() override { fs::remove_all(dir_); }
  Options options(Options more = {}) const {
    more.insert({{"dir", dir_.string()}, {"log", "quiet"}, {"every", "1"}, {"policy", "wait"}});
    return more;
  }
  /// The sentence of the Error that `f` throws.
  template <class F>
  static std::string refusal(F&& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was refused";
  }
  fs::path dir_;
};

/// Steps whose number of inner iterations depends on what is computed; nothing but the arrays is protected.
struct Solver {
  std::vector<double> u = std::vector<double>(50), r = std::vector<double>(50);
  int ran = 0;  // bodies
  std::vector<double> seen;

  void run(Session& session, int steps, int kill_at = -1) {
    session.protect("u", u);
    session.protect("r", r);
    const auto begin = session.declare("begin", {writes("u")});
    const auto residual = session.declare("residual", {reads("u"), writes("r")});
    const auto relax = session.declare("relax", {reads("r"), updates("u")});
    session.replay();
    session.compute(begin, [&] { ++ran, std::fill(u.begin(), u.end(), 1.0); });
    for (int step = 0; step < steps; ++step) {
      if (step == kill_at) throw Killed();
      session.checkpoint();
      double norm = 0;
      int iterations = 0;
      do {
        norm = session.compute(residual, [&] {
          ++ran;
          double sum = 0;
          for (std::size_t i = 0; i < u.size(); ++i) sum += r[i] = (static_cast<double>(step + 1) - u[i]) / 2;
          return sum;
        });
        session.compute(relax, [&] {
          ++ran;
          for (std::size_t i = 0; i < u.size(); ++i) u[i] += r[i];
        });
      } while (norm > 1 && ++iterations < 20);
      seen.push_back(norm + iterations);
    }
  }
};

TEST_F(ReplayTest, local_variables_and_control_flow_come_back_without_computing) {
  Solver right;
  {
    Session session(alone, {{"dir", dir_.string() + "-2"}, {"log", "quiet"}, {"levels", "memory"}, {"every", "1000"}});
    right.run(session, 9);
  }
  {
    Solver killed;
    Session session(alone, options());
    EXPECT_THROW(killed.run(session, 9, 6), Killed);
    session.wait();
  }
  Solver again;
  Session session(alone, options());
  again.run(session, 9);
  EXPECT_EQ(again.u, right.u);
  EXPECT_EQ(again.seen, right.seen);  // also of what was not computed again
  EXPECT_LT(again.ran, right.ran / 2);
  fs::remove_all(dir_.string() + "-2");
}

/// An inner computation that ran before the line alone: a replay skips it with the one around it.
TEST_F(ReplayTest, what_an_inner_computation_has_changed_stays_in_the_lines_of_later_launches) {
  const auto program = [&](int kill_at) {
    std::vector<double> u(100), table(100);
    Session run(alone, options());
    run.protect("u", u);
    run.protect("table", table);
    const auto start = run.declare("start", {writes("u")});
    const auto step = run.declare("step", {updates("u")});
    const auto fill = run.declare("fill", {updates("table")});
    run.replay();
    run.compute(start, [&] { u.assign(100, 1); });
    for (int s = 0; s < 8; ++s) {
      if (s == kill_at) throw Killed();
      run.checkpoint();
      run.compute(step, [&] {
        u.assign(100, 1.5 * u[0]);
        if (s == 0) run.compute(fill, [&] { table.assign(100, 7); });
      });
    }
    return u[0] + table[99];
  };
  for (const int kill_at : {3, 5, 6, 7}) EXPECT_THROW(program(kill_at), Killed);
  EXPECT_EQ(program(-1), std::pow(1.5, 8) + 7);
}

/// A vector, and a pool of which some cells are used: both get their sizes in a computation that a replay skips, and
/// the line has nothing else of them.
TEST_F(ReplayTest, what_is_left_out_has_its_size_again) {
  struct End {
    double u;
    std::size_t size;
    std::int64_t count;
    bool operator==(const End&) const = default;
  };
  const auto run = [&](std::size_t first_size, int kill_at) -> End {
    std::vector<double> u(8, 1), flux(first_size), pool(20);
    std::int64_t count = 0;
    Session session(alone, options());
    session.protect("u", u);
    session.protect("flux", flux);
    session.protect("pool", used(pool.data(), count, 20));
    const auto begin = session.declare("begin", {writes("flux"), writes("pool"), updates("u")});
    const auto fill = session.declare("fill", {reads("u"), writes("flux"), writes("pool")});
    const auto add = session.declare("add", {reads("flux"), reads("pool"), updates("u")});
    session.replay();
    session.compute(begin, [&] {
      flux.assign(8, 0);
      count = 5;
      std::fill(u.begin(), u.end(), 2);
    });
    for (int step = 0; step < 6; ++step) {
      if (step == kill_at) {
        session.wait();
        throw Killed();
      }
      session.checkpoint();
      session.compute(fill, [&] {
        for (std::size_t i = 0; i < flux.size(); ++i) flux[i] = u[i % 8] / 2 + static_cast<double>(i);
        for (std::int64_t i = 0; i < count; ++i) pool[static_cast<std::size_t>(i)] = u[0] / 4;
      });
      session.compute(add, [&] {
        for (std::size_t i = 0; i < flux.size(); ++i) u[i % 8] += flux[i];
        for (std::int64_t i = 0; i < count; ++i) u[0] += pool[static_cast<std::size_t>(i)];
      });
    }
    return {u[0], flux.size(), count};
  };
  const End right = run(0, -1);
  for (const std::size_t first_size : {0U, 12U}) {
    fs::remove_all(dir_);
    EXPECT_THROW((void)run(first_size, 4), Killed);
    EXPECT_EQ(run(first_size, -1), right) << first_size;
  }
}

TEST_F(ReplayTest, what_the_program_is_told_comes_back) {
  std::string name = "a";
  std::vector<int> list{1, 2, 3};
  double x = 0.5;
  int data = 0;
  const auto go = [&](Session& session) {
    session.protect("data", data);
    const auto change = session.declare("change", {updates("data")});
    session.replay();
    for (int i = 0; i < 3; ++i) {
      session.compute(change, [&] { ++data; });
      session.result(name);
      session.result(list);
      session.result(x);
      if (i == 1) session.checkpoint();
    }
  };
  {
    Session session(alone, options());
    go(session);
  }
  name = "another";
  list.clear();
  x = -1;
  data = 77;
  Session session(alone, options());
  go(session);
  EXPECT_EQ(name, "a");
  EXPECT_EQ(list, (std::vector{1, 2, 3}));
  EXPECT_EQ(x, 0.5);
  EXPECT_EQ(data, 3);
}

/// Hidden state: a time step that one body sets and another one reads, and a static variable in a routine. They are
/// regions, or what a computation returns; the whole final state is compared.
TEST_F(ReplayTest, what_bodies_set_comes_back_as_a_region_or_as_what_they_return) {
  static int calls;
  struct State {
    double u = 1, dt = 0;
    int calls = 0;
    bool operator==(const State&) const = default;
  };
  const auto go = [&](Session& session, int kill_at) {
    State state;
    double limit = 0;
    calls = 0;
    session.protect("u", state.u);
    session.protect("dt", state.dt);
    session.protect("calls", calls);
    const auto choose = session.declare("choose", {reads("u"), writes("dt"), updates("calls")});
    const auto bound = session.declare("bound", {reads("dt")});
    const auto advance = session.declare("advance", {reads("dt"), reads("calls"), updates("u")});
    session.replay();
    for (int step = 0; step < 9; ++step) {
      if (step % 3 == 0) {
        session.compute(choose, [&] { state.dt = 0.1 / (1 + state.u), ++calls; });
        limit = session.compute(bound, [&] { return 20 * state.dt; });
      }
      session.checkpoint();
      if (step == kill_at) throw Killed();
      session.compute(advance, [&] { state.u += std::min(limit, state.dt) * calls; });
    }
    state.calls = calls;
    return state;
  };
  State right;
  {
    Session session(alone, {{"dir", dir_.string() + "-2"}, {"log", "quiet"}, {"levels", "memory"}, {"every", "1000"}});
    right = go(session, -1);
  }
  EXPECT_EQ(right.calls, 3);
  for (int kill_at = 0; kill_at < 9; ++kill_at) {
    fs::remove_all(dir_);
    {
      Session session(alone, options());
      EXPECT_THROW(go(session, kill_at), Killed);
      session.wait();
    }
    Session session(alone, options());
    EXPECT_TRUE(go(session, -1) == right) << "killed in step " << kill_at;
  }
  fs::remove_all(dir_.string() + "-2");
}

TEST_F(ReplayTest, the_program_s_memory_stays_as_it_is_until_the_place) {
  std::vector<double> fixed(4, 1);
  std::vector<double> moving(2, 1);
  std::string text = "beginning";
  int loads = 0;
  const auto go = [&](Session& session, const std::function<void()>& before) {
    session.protect("fixed", array(fixed.data(), {4}));
    session.protect("moving", moving);
    session.protect("text", Callbacks{[&] { return text; },
                                      [&](std::span<const std::byte> bytes) {
                                        ++loads;
                                        text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                                      },
                                      {}});
    const auto grow = session.declare("grow", {updates("fixed")});
    session.replay();
    before();
    session.compute(grow, [&] {
      fixed.assign(4, 2);
      moving.assign(7, 3);
      text = "later";
    });
    session.checkpoint();
    session.wait();
  };
  {
    Session session(alone, options());
    go(session, [] {});
  }
  fixed.assign(4, -1);
  moving.assign(3, -1);
  text = "now";
  Session session(alone, options());
  go(session, [&] {
    EXPECT_TRUE(session.replaying());
    EXPECT_EQ(fixed, std::vector<double>(4, -1));
    EXPECT_EQ(moving, std::vector<double>(3, -1));
    EXPECT_EQ(text, "now");
  });
  EXPECT_FALSE(session.replaying());
  EXPECT_EQ(fixed, std::vector<double>(4, 2));
  EXPECT_EQ(moving, std::vector<double>(7, 3));
  EXPECT_EQ(text, "later");
  EXPECT_EQ(loads, 1);
}

TEST_F(ReplayTest, another_way_is_refused_where_it_begins_and_the_line_is_as_it_was) {
  const auto go = [&](int iterations) {
    std::vector<double> u(10);
    Session session(alone, options());
    session.protect("u", u);
    const auto step = session.declare("step", {updates("u")});
    const auto look = session.declare("look", {reads("u")});
    session.replay();
    for (int i = 0; i < 4; ++i) {
      for (int k = 0; k < iterations; ++k) session.compute(step, [&] { u[0] += 1; });
      session.compute(look, [] {});
      session.checkpoint();
    }
    return u[0];
  };
  EXPECT_EQ(go(2), 8);
  EXPECT_EQ(
      refusal([&] { go(3); }),
      "number 3 of the computations and results of the replay is the computation 'step' that updates u, and in the "
      "run that is replayed it was the computation 'look' that reads u: the program must go the same way, so its "
      "input and its options, place among them, must be the same, and what decides on it must come from computations "
      "or be told to "
      "result(), clocks and random numbers included");
  EXPECT_EQ(go(2), 8);
}

/// A program that goes `ways` of length `length`, one after another.
double way_of(const Options& options, int length, bool inside_loop = false) {
  std::vector<double> u(10);
  Session session(alone, options);
  const auto body = [&] {
    session.protect("u", u);
    const auto step = session.declare("step", {updates("u")});
    session.replay();
    for (int i = 0; i < length; ++i) {
      session.compute(step, [&] { u[0] += 1; });
      session.checkpoint();
    }
  };
  if (inside_loop)
    session.loop(body);
  else
    body();
  return u[0];
}

TEST_F(ReplayTest, a_program_that_ends_before_the_place_is_told_so) {
  way_of(options(), 5);
  EXPECT_EQ(refusal([&] { way_of(options(), 3, true); }),
            "the program came to its end before the place where line 5 was taken, after 6 of 10 computations, calls of "
            "checkpoint() and results: give it the input and the options that it had then; the line is as it was");
  EXPECT_FALSE(api::take_back_failure());
  way_of(options(), 3);
  EXPECT_TRUE(api::take_back_failure()) << "the process would have ended as if its result were one";
  EXPECT_EQ(way_of(options(), 7, true), 7);
}

TEST_F(ReplayTest, programs_with_resume_and_with_replay_do_not_take_each_other_s_lines) {
  way_of(options(), 2);
  std::vector<double> u(10);
  const auto resumed = [&] {
    Session session(alone, options());
    session.protect("u", u);
    session.resume();
    session.checkpoint();
  };
  EXPECT_EQ(refusal(resumed),
            "line 2 at level shared: it was saved by a program that called replay(), and this one does not: call it as "
            "then, or start in another directory");
  fs::remove_all(dir_);
  resumed();
  const std::string said = refusal([&] { way_of(options(), 2); });
  EXPECT_EQ(said,
            "line 1 at level shared: it was saved by a program that did not call replay(), and this one does: call "
            "resume() as then, or start in another directory");
  EXPECT_EQ(refusal([&] { way_of(options({{"regions", "lenient"}}), 2); }).substr(0, 53),
            "line 1 was saved by a program that did not call repla");
  Session session(alone, options());
  EXPECT_EQ(refusal([&] { session.protect("backstay.replay", u); }),
            "backstay keeps the name 'backstay.replay' for itself: take another one");
}

TEST_F(ReplayTest, a_replay_that_was_refused_leaves_the_program_to_begin_anew_or_to_resume) {
  for (const bool resumes : {false, true}) {
    fs::remove_all(dir_);
    std::vector<double> u(10, 1);
    {
      Session session(alone, options());
      session.protect("u", u);
      session.resume();
      session.checkpoint();
    }
    u.assign(10, 2);
    Session session(alone, options({{"regions", "lenient"}}));
    session.protect("u", u);
    const auto step = session.declare("step", {updates("u")});
    EXPECT_NE(refusal([&] { session.replay(); }).find("call resume(), or start in another directory"),
              std::string::npos);
    if (resumes) {
      EXPECT_TRUE(session.resume());
      EXPECT_EQ(u, std::vector<double>(10, 1));
      u.assign(10, 2);
    }
    session.checkpoint(now);
    EXPECT_EQ(u, std::vector<double>(10, 2));
    session.compute(step, [&] { u[0] = 3; });
    session.checkpoint(now);
    EXPECT_EQ(u[0], 3);
    session.wait();
    EXPECT_EQ(session.status().committed, 2U) << session.status().last_error;
  }
}

TEST_F(ReplayTest, what_cannot_be_replayed_is_refused) {
  std::vector<double> u(10);
  Session session(alone, options());
  session.protect("u", u);
  const auto step = session.declare("step", {updates("u")});
  session.replay();
  EXPECT_NE(refusal([&] { session.replay(); }).find("replay() was called twice"), std::string::npos);
  EXPECT_NE(refusal([&] { session.resume(); }).find("resume() was called after replay()"), std::string::npos);
  EXPECT_NE(refusal([&] { session.loop([] {}); }).find("call replay() inside of it"), std::string::npos);
  EXPECT_NE(refusal([&] {
              session.compute(step, [&]() -> std::vector<double>& { return u; });
            }).find("returns what a replay cannot give back"),
            std::string::npos);
  EXPECT_NE(refusal([&] { session.compute(step, [&] { session.checkpoint(); }); }).find("inside of a computation"),
            std::string::npos);
}

TEST_F(ReplayTest, a_way_begins_before_the_first_computation_and_without_replay_computations_return_anything) {
  std::vector<double> u(10);
  Session session(alone, options());
  session.protect("u", u);
  const auto step = session.declare("step", {updates("u")});
  EXPECT_EQ(&session.compute(step, [&]() -> std::vector<double>& { return u; }), &u);
  EXPECT_NE(refusal([&] { session.replay(); }).find("after a computation, result() or checkpoint()"),
            std::string::npos);
  Session other(alone, options({{"name", "other"}, {"dir", dir_.string() + "/other"}}));
  int seed = 1;
  other.result(seed);
  EXPECT_NE(refusal([&] { other.replay(); }).find("after a computation, result() or checkpoint()"), std::string::npos);
}

TEST_F(ReplayTest, behind_a_computation_that_threw_no_line_is_saved) {
  std::vector<double> u(10);
  Session session(alone, options());
  session.protect("u", u);
  const auto step = session.declare("step", {updates("u")});
  session.replay();
  session.checkpoint();
  EXPECT_THROW(session.compute(step, [&] { throw Killed(); }), Killed);
  session.checkpoint();
  session.wait();
  EXPECT_EQ(session.status().committed, 1U);
  EXPECT_NE(session.status().last_error.find("ended by an exception, which a replay cannot repeat"), std::string::npos)
      << session.status().last_error;
}

TEST_F(ReplayTest, a_body_that_is_rolled_back_is_replayed) {
  std::vector<double> u(10);
  int turns = 0, ran = 0;
  Session session(alone, options());
  session.loop([&] {
    u.assign(10, 0);
    session.protect("u", u);
    const auto step = session.declare("step", {updates("u")});
    session.replay();
    for (int i = 0; i < 6; ++i) {
      session.compute(step, [&] { u[0] += ++ran > 0 ? 1 : 0; });
      session.checkpoint();
      if (i == 3 && turns++ == 0) session.rollback("to see");
    }
  });
  EXPECT_EQ(turns, 2);
  EXPECT_EQ(u[0], 6);
  EXPECT_EQ(ran, 6);
}

TEST_F(ReplayTest, a_body_between_begin_and_end_is_skipped_or_runs_in_vain) {
  const auto go = [&](bool skips) {
    std::vector<double> u(10);
    Session session(alone, options());
    session.protect("u", u);
    const auto step = session.declare("step", {updates("u")});
    session.replay();
    int ran = 0;
    for (int i = 0; i < 4; ++i) {
      double told = -1;
      if (session.begin(step) || !skips) told = u[0] += 1, ++ran;
      session.result(told);
      EXPECT_EQ(told, i + 1);
      session.checkpoint();
    }
    return std::pair(u[0], ran);
  };
  EXPECT_EQ(go(true), std::pair(4.0, 4));
  EXPECT_EQ(go(true), std::pair(4.0, 0));
  EXPECT_EQ(go(false), std::pair(4.0, 4));
}

TEST_F(ReplayTest, what_is_protected_stays_so_and_the_beginning_ends_once) {
  std::vector<double> u(10), w(10);
  Session session(alone, options());
  session.protect("u", u);
  const auto step = session.declare("step", {updates("u")});
  session.replay();
  session.compute(step, [] {});
  EXPECT_NE(refusal([&] { session.protect("w", w); }).find("protect() was called after replay()"), std::string::npos);
  EXPECT_NE(refusal([&] { session.unprotect("u"); }).find("unprotect() was called after replay()"), std::string::npos);
  session.init_done();
  EXPECT_EQ(refusal([&] { session.init_done(); }), "init_done() was called twice: a program has one beginning");
  Session other(alone, options({{"dir", dir_.string() + "/other"}}));
  other.init_done();
  EXPECT_NE(refusal([&] { other.replay(); }).find("after init_done()"), std::string::npos);
}

TEST_F(ReplayTest, behind_the_place_what_is_computed_anew_belongs_to_the_data) {
  std::random_device device;  // other numbers in each launch
  for (int launch = 0; launch < 4; ++launch) {
    std::vector<double> u(10, 0), f(10, 0);
    double sum = 0;
    Session session(alone, options());
    session.protect("u", u);
    session.protect("f", f);
    const auto kick = session.declare("kick", {updates("u")});
    const auto flux = session.declare("flux", {reads("u"), writes("f")});
    session.replay();
    for (int i = 0; i < 3 + launch; ++i) {
      session.checkpoint();
      sum += session.compute(kick, [&] {
        const double by = device() % 1000;
        u[0] += by;
        return by;
      });
      session.compute(flux, [&] { f = u; });
    }
    session.wait();
    EXPECT_EQ(session.status().failed, 0U) << session.status().last_error;
    EXPECT_EQ(u[0], sum) << "launch " << launch;
    EXPECT_EQ(f[0], sum);
  }
}

TEST_F(ReplayTest, a_beginning_that_returns_something_else_is_refused) {
  const auto go = [&](int input, int steps) {
    std::vector<double> u(4);
    Session session(alone, options());
    session.protect("u", u);
    const auto read = session.declare("read", {writes("u")});
    const auto step = session.declare("step", {updates("u")});
    session.replay();
    session.compute(read, [&] { return u.assign(4, input), input; });
    session.init_done();
    for (int i = 0; i < steps; ++i) {
      session.compute(step, [&] { u[0] += 1; });
      session.checkpoint();
    }
  };
  go(1, 3);
  EXPECT_NE(refusal([&] { go(7, 5); }).find("returned something else than in the run that saved the line"),
            std::string::npos);
  go(1, 5);
}

// ---- what is never changed -----------------------------------------------------------------------------------------

/// A mesh that the program fills, a table that computations of its beginning fill, and u, which changes.
struct Beginning {
  std::vector<double> mesh, table = std::vector<double>(100), u = std::vector<double>(100);
  int tables = 0;
  void run(Session& session, int steps, double spacing = 1, bool says = true) {
    mesh.assign(100, spacing);
    session.protect("mesh", mesh);
    session.protect("table", table);
    session.protect("u", u);
    const auto fill = session.declare("fill", {reads("mesh"), writes("table"), writes("u")});
    const auto step = session.declare("step", {reads("mesh"), reads("table"), updates("u")});
    session.replay();
    session.compute(fill, [&] {
      ++tables;
      for (std::size_t i = 0; i < 100; ++i) table[i] = 2 * mesh[i], u[i] = 1;
    });
    if (says) session.init_done();
    for (int i = 0; i < steps; ++i) {
      session.compute(step, [&] {
        for (std::size_t k = 0; k < 100; ++k) u[k] += table[k] * mesh[k];
      });
      session.checkpoint();
    }
    session.wait();
  }
};

TEST_F(ReplayTest, what_no_computation_changes_after_the_beginning_is_in_no_line) {
  for (const bool says : {true, false}) {
    fs::remove_all(dir_);
    Beginning first, second, third;
    {
      Session session(alone, options());
      first.run(session, 3, 1, says);
      EXPECT_EQ(session.status().left_out_bytes, says ? 1600U : 800U);  // table and mesh, or the mesh alone
    }
    {
      Session session(alone, options());
      second.run(session, 5, 1, says);
      EXPECT_EQ(session.status().left_out_bytes, says ? 1600U : 800U);  // also by a run that went on
    }
    EXPECT_EQ(second.tables, says ? 1 : 0);
    EXPECT_EQ(second.u, std::vector<double>(100, 11));
    EXPECT_EQ(second.table, std::vector<double>(100, 2));
    Session session(alone, options());
    third.run(session, 7, 1, says);
    EXPECT_EQ(third.u, std::vector<double>(100, 15));
  }
}

/// The same, which jumps to its place instead of going the way again: with the step as its payload.
struct Jumping {
  std::vector<double> mesh, table = std::vector<double>(100), u = std::vector<double>(100);
  int step = 0, ran = 0;
  void run(Session& session, int steps, double spacing = 1, bool says_late = false) {
    mesh.assign(100, spacing);
    session.protect("mesh", mesh);
    session.protect("table", table);
    session.protect("u", u);
    session.protect("step", step);
    const auto fill = session.declare("fill", {reads("mesh"), writes("table"), writes("u")});
    const auto advance = session.declare("advance", {reads("mesh"), reads("table"), updates("u")});
    session.compute(fill, [&] {
      for (std::size_t i = 0; i < 100; ++i) table[i] = 2 * mesh[i], u[i] = 1;
    });
    if (!says_late) session.init_done();
    session.resume();
    if (says_late) session.init_done();
    for (; step < steps; ++step) {
      session.checkpoint();
      session.compute(advance, [&] {
        ++ran;
        for (std::size_t k = 0; k < 100; ++k) u[k] += table[k] * mesh[k];
      });
    }
    session.checkpoint(now);
    session.wait();
    EXPECT_EQ(session.status().last_error, "");
  }
};

TEST_F(ReplayTest, who_jumps_leaves_out_what_its_beginning_makes) {
  for (const bool says_late : {false, true}) {
    fs::remove_all(dir_);
    for (const int steps : {3, 3, 5, 7}) {  // the second goes on and saves before it computes
      Jumping program;
      Session session(alone, options());
      program.run(session, steps, 1, says_late);
      // Behind resume() nothing is told to be as the beginning makes it, so that all of it is saved.
      EXPECT_EQ(session.status().left_out_bytes, says_late ? 0U : 1600U) << steps;
      EXPECT_EQ(program.u, std::vector<double>(100, 1 + 2 * steps));
      EXPECT_LE(program.ran, 3);
      EXPECT_EQ(session.status().failed, 0U);
    }
  }
}

TEST_F(ReplayTest, who_jumps_with_another_beginning_is_refused) {
  {
    Jumping program;
    Session session(alone, options());
    program.run(session, 3);
  }
  Jumping program;
  Session session(alone, options());
  EXPECT_NE(refusal([&] { program.run(session, 5, 7); }).find("now the beginning has made something else"),
            std::string::npos);
}

TEST_F(ReplayTest, a_body_that_jumps_and_is_rolled_back_makes_its_beginning_again) {
  int bodies = 0;
  Session session(alone, options());
  session.loop([&] {
    Jumping program;
    program.run(session, ++bodies == 1 ? 3 : 5);
    EXPECT_EQ(session.status().left_out_bytes, 1600U);
    EXPECT_EQ(program.u, std::vector<double>(100, bodies == 1 ? 7 : 11));
    if (bodies == 1) session.rollback("once more");
  });
  EXPECT_EQ(bodies, 2);
}

TEST_F(ReplayTest, a_list_goes_with_a_replay) {
  for (const int steps : {3, 5}) {
    std::vector<double> u(10), f(10);
    Session session(alone, options());
    session.protect("u", u);
    session.protect("f", f);
    const auto advance = session.declare("advance", {updates("u"), writes("f")});
    session.replay();
    session.init_done();
    session.save_only({"u"});
    int ran = 0;
    for (int step = 0; step < steps; ++step) {
      session.checkpoint();
      session.compute(advance, [&] {
        ++ran;
        for (std::size_t i = 0; i < 10; ++i) u[i] += 1, f[i] = u[i];
      });
    }
    session.checkpoint();
    EXPECT_EQ(session.status().left_out_bytes, 80U);
    EXPECT_EQ(u, std::vector<double>(10, steps));
    EXPECT_EQ(ran, steps == 3 ? 3 : 2);
  }
}

TEST_F(ReplayTest, what_changed_after_the_beginning_is_in_lines_of_a_run_that_only_skipped_that) {
  for (int launch = 0; launch < 3; ++launch) {
    std::vector<double> u(100), w(100);
    int ran = 0;
    Session session(alone, options());
    session.protect("u", u);
    session.protect("w", w);
    const auto add = session.declare("add", {updates("u")}), other = session.declare("other", {updates("w")});
    session.replay();
    const auto grow = [&](int times) {
      for (int i = 0; i < times; ++i) session.compute(add, [&] { u[0] += 1, ++ran; });
    };
    grow(20);
    session.init_done();
    grow(20);
    for (int i = 0; i < 2 + launch; ++i) {
      session.checkpoint();
      session.compute(other, [&] { w[0] += 1; });
    }
    session.wait();
    EXPECT_EQ(session.status().left_out_bytes, 0U) << "launch " << launch;
    EXPECT_EQ(u[0], 40) << "launch " << launch;
    EXPECT_EQ(ran, launch == 0 ? 40 : 20);
  }
}

TEST_F(ReplayTest, a_way_of_many_equal_steps_is_left_where_it_ends_and_at_its_first_other_event) {
  const auto go = [&](int steps, int other_at = -1) {
    std::vector<double> u(10);
    double sum = 0;
    int ran = 0;
    {
      Session session(alone, options());
      session.protect("u", u);
      const auto add = session.declare("add", {updates("u")}), scale = session.declare("scale", {updates("u")});
      const auto look = session.declare("look", {reads("u")});
      session.replay();
      for (int i = 0; i < steps; ++i) {
        session.compute(add, [&] { u[0] += i, ++ran; });
        session.compute(i == other_at ? add : scale, [&] { u[0] /= 2; });
        sum += session.compute(look, [&] { return u[0]; });
        double told = i;
        session.result(told);
        sum += told;
        if (session.begin(scale)) u[0] += 1;
        session.end();
        EXPECT_EQ(session.replaying(), ran == 0);
        if (i == 499) session.checkpoint(now);
      }
    }
    return std::tuple(sum, u[0], ran);
  };
  const auto [sum, u, ran] = go(700);
  EXPECT_EQ(ran, 700);
  EXPECT_EQ(go(700), std::tuple(sum, u, 200));
  EXPECT_EQ(refusal([&] { go(700, 300); }).substr(0, 178),
            "number 1802 of the computations and results of the replay is the computation 'add' that updates u, and in "
            "the run that is replayed it was the computation 'scale' that updates u: ");
}

TEST_F(ReplayTest, a_beginning_that_makes_something_else_is_refused) {
  Beginning first, second;
  {
    Session session(alone, options());
    first.run(session, 3);
  }
  Session session(alone, options());
  EXPECT_EQ(
      refusal([&] { second.run(session, 5, 1.5); }),
      "region 'mesh' is not in the line, as the beginning of the program made it and no computation had changed it; "
      "now the beginning has made something else: its input is another one, or it makes it before loop() and "
      "protects it inside");
}

TEST_F(ReplayTest, what_was_made_before_a_loop_that_goes_back_is_saved) {
  std::vector<double> outer(10, 1), u(10);
  int turns = 0;
  Session session(alone, options());
  session.protect("outer", outer);
  session.loop([&] {
    std::vector<double> inner(10, 2);
    u.assign(10, 0);
    session.protect("inner", inner);
    session.protect("u", u);
    const auto step = session.declare("step", {reads("outer"), reads("inner"), updates("u")});
    const auto late = session.declare("late", {updates("outer")});
    session.replay();
    for (int i = 0; i < 4; ++i) {
      session.compute(step, [&] { u[0] += outer[0] + inner[0]; });
      session.checkpoint(now);
      EXPECT_EQ(session.status().left_out_bytes, 80U);  // `inner` alone
    }
    session.wait();
    if (turns++ == 0) {
      session.compute(late, [&] { outer[0] = 7; });
      session.rollback("to see");
    }
  });
  EXPECT_EQ(turns, 2);
  EXPECT_EQ(outer[0], 1);
  EXPECT_EQ(u[0], 12);
}

TEST_F(ReplayTest, the_beginning_ends_between_computations_and_where_it_ended) {
  std::vector<double> u(10);
  for (int computations : {2, 3}) {
    Session session(alone, options());
    session.protect("u", u);
    const auto step = session.declare("step", {updates("u")});
    session.replay();
    for (int i = 0; i < computations; ++i) session.compute(step, [] {});
    if (computations == 2) {
      session.init_done();
      session.compute(step, [] {});
      session.compute(step, [] {});
      session.checkpoint(now);
      session.wait();
    } else {
      EXPECT_NE(refusal([&] { session.init_done(); }).find("init_done() came after event 3 of the computations"),
                std::string::npos);
    }
  }
  Session session(alone, options({{"dir", dir_.string() + "/other"}}));
  session.protect("u", u);
  const auto step = session.declare("step", {updates("u")});
  session.replay();
  EXPECT_NE(refusal([&] { session.compute(step, [&] { session.init_done(); }); }).find("inside of a computation"),
            std::string::npos);
}

// ---- the place -----------------------------------------------------------------------------------------------------

/// Steps of three computations, without checkpoint(); a checkpoint needs u alone before 'flux', and more elsewhere.
struct Steps {
  std::vector<double> u = std::vector<double>(100), f = std::vector<double>(100), g = std::vector<double>(100);
  std::vector<std::uint64_t> left_out;  // after each step in which a line was taken
  double run(Session& session, int steps, int kill_at = -1) {
    session.protect("u", u);
    session.protect("f", f);
    session.protect("g", g);
    const auto begin = session.declare("begin", {writes("u")});
    const auto flux = session.declare("flux", {reads("u"), writes("f")});
    const auto limit = session.declare("limit", {reads("u"), reads("f"), writes("g")});
    const auto update = session.declare("update", {reads("f"), reads("g"), updates("u")});
    session.replay();
    session.compute(begin, [&] { std::fill(u.begin(), u.end(), 1); });
    for (int step = 0; step < steps; ++step) {
      if (step == kill_at) throw Killed();
      const auto taken = session.status().taken;
      session.compute(flux, [&] { std::transform(u.begin(), u.end(), f.begin(), [](double x) { return x / 2; }); });
      session.compute(limit, [&] { std::transform(u.begin(), u.end(), g.begin(), [](double x) { return x / 3; }); });
      session.compute(update, [&] {
        for (std::size_t i = 0; i < u.size(); ++i) u[i] += f[i] - g[i] + 1;
      });
      if (session.status().taken > taken) left_out.push_back(session.status().left_out_bytes);
    }
    return u[0];
  }
};

TEST_F(ReplayTest, checkpoints_find_the_place_where_they_need_least) {
  const Options best = options({{"place", "best"}});
  double right = 0;
  {
    Session session(alone, {{"levels", "memory"}, {"every", "100000"}, {"log", "quiet"}});
    right = Steps().run(session, 60);
  }
  {
    Session session(alone, best);
    Steps steps;
    EXPECT_THROW(steps.run(session, 60, 50), Killed);
    session.wait();
    ASSERT_EQ(steps.left_out.size(), 50U);
    for (std::size_t i = 10; i < 50; ++i) EXPECT_EQ(steps.left_out[i], 1600U) << "step " << i;
    EXPECT_LT(session.status().taken, 70U);  // at first before each computation, then one for each step
    EXPECT_EQ(session.checkpoint(), Outcome::not_due);
  }
  Session session(alone, best);
  Steps again;
  EXPECT_EQ(again.run(session, 60), right);
  EXPECT_LE(again.left_out.size(), 12U);  // of the steps that were not skipped
}

TEST_F(ReplayTest, another_place_is_found_when_the_program_does_something_else) {
  std::vector<double> a(10), b(10);
  Session session(alone, options({{"place", "best"}}));
  session.protect("a", a);
  session.protect("b", b);
  const auto make_a = session.declare("make a", {reads("b"), writes("a")});
  const auto make_b = session.declare("make b", {reads("a"), writes("b")});
  const auto look = session.declare("look", {reads("a")});
  session.replay();
  const auto both = [&] {
    session.compute(make_b, [] {});
    session.compute(make_a, [] {});
  };
  for (int i = 0; i < 100; ++i) both();
  EXPECT_EQ(session.status().left_out_bytes, 80U);
  for (int i = 0; i < 1000; ++i) session.compute(look, [] {});
  const auto before = session.status().taken;
  for (int i = 0; i < 3; ++i) session.compute(look, [] {});
  EXPECT_EQ(session.status().taken, before + 3);
}

TEST_F(ReplayTest, advice_is_told_in_the_end) {
  ::testing::internal::CaptureStderr();
  {
    Session session(alone, {{"dir", dir_.string()}, {"every", "1"}, {"policy", "wait"}, {"advise", "on"}});
    Steps().run(session, 10);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* sentence :
       {"a round of this program has 3 computations, and a checkpoint needs least before 'flux': 800 bytes of 2.34 KiB",
        "  u: 800 bytes, saved: read by 'flux'", "  f: 800 bytes, left out: overwritten by 'flux'",
        "  g: 800 bytes, left out: overwritten by 'limit'"})
    EXPECT_NE(said.find(sentence), std::string::npos) << sentence << "\n" << said;
}

// ---- random programs -----------------------------------------------------------------------------------------------

/// Loops in loops whose lengths follow from what is computed and from random numbers, over three arrays, of which
/// computations use all or a range, and which change their size where some overwrite them; a hash of all that the
/// program could know in the end.
class Program {
 public:
  /// Stopped at computation `until`, if it is not negative. `told`: the random numbers; more come as they are needed.
  Program(Session& session, unsigned seed, int until, std::vector<std::uint64_t> told = {})
      : session_(session), shape_(seed), until_(until), told_(std::move(told)) {
    for (std::size_t a = 0; a < data_.size(); ++a) {
      data_[a].assign(least_ + shape_() % 5, 1.0 + static_cast<double>(a));
      session_.protect("a" + std::to_string(a), data_[a]);
    }
    for (int c = 0; c < 5; ++c) declare(c);
    session_.replay();
    const auto beginning = shape_() % 40;  // computations that run again
    for (std::size_t i = 0; i < beginning; ++i) note(compute(i % 3));
    if (shape_() % 3 > 0) session_.init_done();
  }

  std::uint64_t run() {
    for (int step = 0; step < 12; ++step) round(0);
    for (const auto& array : data_)
      for (const double x : array) note(x);
    return hash_;
  }
  [[nodiscard]] const std::vector<std::uint64_t>& told() const { return told_; }

 private:
  void declare(int c) {
    std::vector<Access> accesses;
    uses_.emplace_back();
    for (std::size_t a = 0; a < data_.size(); ++a) {
      if (shape_() % 4 == 0 && !accesses.empty()) continue;
      Access access{"a" + std::to_string(a), static_cast<Access::Mode>(shape_() % 4)};
      if (shape_() % 2 == 0) {
        const auto begin = static_cast<std::int64_t>(shape_() % least_);
        access.range = {{begin, begin + 1 + static_cast<std::int64_t>(shape_() % (least_ - begin))}};
      }
      if (access.mode == Access::Mode::read && shape_() % 3 == 0) access.stencil = {{-1, 2}};
      uses_.back().push_back({a, access});
      accesses.push_back(std::move(access));
    }
    computations_.push_back(session_.declare("c" + std::to_string(c), accesses));
  }

  static Access::Range range_of(const Access& access, const std::vector<double>& array) {
    return access.range.empty() ? Access::Range{0, static_cast<std::int64_t>(array.size())} : access.range[0];
  }
  static Access::Range read_by(const Access& access, const std::vector<double>& array) {
    auto [begin, end] = range_of(access, array);
    if (access.stencil.empty()) return {begin, end};
    return {std::max<std::int64_t>(0, begin + access.stencil[0].first),
            std::min(static_cast<std::int64_t>(array.size()), end + access.stencil[0].last)};
  }

  void note(double x) { hash_ = (hash_ ^ std::bit_cast<std::uint64_t>(x)) * 0x9e3779b97f4a7c15 + 1; }

  double compute(std::size_t c) {
    if (until_ >= 0 && until_-- == 0) throw Killed();
    return session_.compute(computations_[c], [&] {
      double sum = static_cast<double>(c);
      for (const auto& [a, access] : uses_[c])
        if (access.mode == Access::Mode::read || access.mode == Access::Mode::read_write)
          for (auto [i, end] = read_by(access, data_[a]); i < end; ++i)
            sum = sum * 0.5 + data_[a][static_cast<std::size_t>(i)];
      for (const auto& [a, access] : uses_[c]) {
        if (access.mode == Access::Mode::read) continue;
        if (access.mode == Access::Mode::write && access.range.empty() && c % 2 == 0)
          data_[a].resize(least_ + static_cast<std::uint64_t>(sum * 1000) % 6);
        for (auto [i, end] = range_of(access, data_[a]); i < end; ++i) {
          sum = sum * 0.75 + 0.125;
          if (access.mode == Access::Mode::write_some && static_cast<std::uint64_t>(sum * 1000) % 2 == 0) continue;
          data_[a][static_cast<std::size_t>(i)] = sum;
        }
      }
      return sum;
    });
  }

  std::uint64_t chance() {
    if (asked_ == told_.size()) told_.push_back(device_());
    session_.result(told_[asked_]);
    return told_[asked_++];
  }

  void round(int depth) {
    const auto number = chance();
    const double sum = compute(number % 5);
    note(sum);
    const int rounds = 1 + static_cast<int>(static_cast<std::uint64_t>(sum * 1000) % 3);
    for (int i = 0; i < rounds; ++i) {
      note(compute(static_cast<std::size_t>(i + depth) % 5));
      if (depth < 2) round(depth + 1);
      if (number % 3 == 0) session_.checkpoint();
    }
  }

  static constexpr std::int64_t least_ = 3;  // elements of an array

  Session& session_;
  std::mt19937 shape_;
  int until_;
  std::vector<std::uint64_t> told_;
  std::size_t asked_ = 0;
  std::random_device device_;  // other numbers in each launch
  std::array<std::vector<double>, 3> data_;
  std::vector<Computation> computations_;
  std::vector<std::vector<std::pair<std::size_t, Access>>> uses_;
  std::uint64_t hash_ = 0;
};

TEST_F(ReplayTest, random_programs_that_are_stopped_at_random_moments_end_as_if_they_were_not) {
  int stopped = 0, ended = 0;
  for (const unsigned seed : random_seeds(24)) {
    fs::remove_all(dir_);
    std::mt19937 random(seed);
    const Options now =
        options({{"every", std::to_string(1 + random() % 3)}, {"place", seed % 2 == 0 ? "calls" : "best"}});
    for (int launch = 0; launch < 6; ++launch) {
      std::uint64_t hash = 0;
      std::vector<std::uint64_t> told;
      try {
        Session session(alone, now);
        Program program(session, seed, launch % 3 == 2 ? -1 : static_cast<int>(random() % 400));
        hash = program.run();
        told = program.told();
        ++ended;
      } catch (const Killed&) {
        ++stopped;
        continue;
      }
      Session session(alone, {{"levels", "memory"}, {"every", "100000"}, {"log", "quiet"}});
      EXPECT_EQ(Program(session, seed, -1, told).run(), hash) << "seed " << seed << ", launch " << launch;
    }
  }
  EXPECT_GT(stopped, 25);
  EXPECT_GT(ended, 40);
}

}  // namespace
}  // namespace backstay
