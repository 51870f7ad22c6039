// Declared computations: what a line leaves out, and that nothing is missed. docs/decisions/0016.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/random_seeds.h"
#include "backstay/backstay.hpp"

namespace backstay {
namespace {

namespace fs = std::filesystem;

class ComputeTest : public ::testing::Test {
 protected:
  ComputeTest() : dir_(fs::temp_directory_path() / ("backstay-compute-" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
  }
  ~ComputeTest() override { fs::remove_all(dir_); }
  /// A line at each call.
  Options options(Options more = {}) const {
    more.insert({{"dir", dir_.string()}, {"log", "quiet"}, {"every", "1"}, {"policy", "wait"}});
    return more;
  }
  /// What a new session puts back into regions that held -1.
  std::pair<std::vector<double>, std::vector<double>> put_back(std::size_t size) const {
    std::vector<double> u(size, -1), f(size, -1);
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    EXPECT_TRUE(run.resume().resumed);
    return {u, f};
  }
  /// The same for a region `f` alone.
  std::vector<double> put_back_alone(std::size_t size) const {
    std::vector<double> f(size, -1);
    Session run(alone, options());
    run.protect("f", f);
    EXPECT_TRUE(run.resume().resumed);
    return f;
  }
  static std::string refusal(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was refused";
  }
  fs::path dir_;
};

TEST_F(ComputeTest, staging_memory_is_made_before_the_first_checkpoint_for_what_is_saved_at_once) {
  std::vector<double> u(100'000), f(300'000);
  Session session(alone, options());
  session.protect("u", u);
  session.protect("f", f);
  session.declare("flux", {reads("u"), writes("f")});
  session.resume();
  EXPECT_GE(session.status().staging_bytes, 800'000U);
  EXPECT_LT(session.status().staging_bytes, 2'400'000U);
  EXPECT_EQ(session.status().blocked_seconds, 0);
}

TEST_F(ComputeTest, what_a_line_takes_inside_of_computations_counts_as_blocked) {
  std::vector<double> f(1'000'000);
  Session session(alone, options());
  session.protect("f", f);
  const auto flux = session.declare("flux", {writes("f")}), look = session.declare("look", {reads("f")});
  session.resume();
  session.checkpoint();
  const double in_the_call = session.status().blocked_seconds;
  session.compute(look, [] {});  // saves it
  const double with_it = session.status().blocked_seconds;
  EXPECT_GT(with_it, in_the_call);
  session.compute(flux, [] {});  // nothing waits any more
  EXPECT_EQ(session.status().blocked_seconds, with_it);
}

TEST_F(ComputeTest, what_is_overwritten_before_it_is_read_is_left_out) {
  std::vector<double> u(1000, 1), f(1000, 2);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    const auto flux = run.declare("flux", {reads("u"), writes("f")});
    const auto update = run.declare("update", {reads("f"), updates("u")});
    run.resume();
    run.checkpoint();
    EXPECT_EQ(run.status().in_flight, 1U);  // it waits
    run.compute(flux, [&] { std::fill(f.begin(), f.end(), 3); });
    EXPECT_EQ(run.status().left_out_bytes, 8000U);
    EXPECT_EQ(run.compute(update, [&] { return u[0] = 4; }), 4);
    run.wait();
    EXPECT_EQ(run.status().committed, 1U);
  }
  std::uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(dir_ / "shared/line-00000001")) bytes += file.file_size();
  EXPECT_GT(bytes, 8000U);
  EXPECT_LT(bytes, 8000U + 18000U);  // what every line has
  const auto [u_back, f_back] = put_back(1000);
  EXPECT_EQ(u_back, std::vector<double>(1000, 1));
  EXPECT_EQ(f_back, std::vector<double>(1000, -1));  // as it was: the program overwrites it
}

TEST_F(ComputeTest, what_is_read_first_is_saved_as_it_was) {
  std::vector<double> u(1000, 1), f(1000, 2);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    const auto update = run.declare("update", {reads("f"), updates("u")});
    const auto flux = run.declare("flux", {reads("u"), writes("f")});
    run.checkpoint();
    run.compute(update, [&] { u[0] = 4; });
    run.compute(flux, [&] { std::fill(f.begin(), f.end(), 3); });
    EXPECT_EQ(run.status().left_out_bytes, 0U);
  }
  const auto [u_back, f_back] = put_back(1000);
  EXPECT_EQ(u_back, std::vector<double>(1000, 1));
  EXPECT_EQ(f_back, std::vector<double>(1000, 2));
}

TEST_F(ComputeTest, of_a_region_that_is_overwritten_in_part_the_rest_is_saved) {
  std::vector<double> u(10, 1), f(10);
  std::iota(f.begin(), f.end(), 0);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    const auto inside = run.declare("inside", {writes("f").in({{1, 9}})});
    const auto read = run.declare("read", {reads("f").in({{2, 9}}).around({{-1, 1}}), updates("u")});
    run.checkpoint();
    run.compute(inside, [&] { std::fill(f.begin() + 1, f.end() - 1, 30); });
    EXPECT_EQ(run.status().in_flight, 1U);
    run.compute(read, [&] { u[0] = 4; });  // f[9]
    run.wait();                            // f[0], of which nobody said anything
    EXPECT_EQ(run.status().left_out_bytes, 64U);
  }
  const auto [u_back, f_back] = put_back(10);
  EXPECT_EQ(u_back, std::vector<double>(10, 1));
  EXPECT_EQ(f_back, (std::vector<double>{0, -1, -1, -1, -1, -1, -1, -1, -1, 9}));
}

/// A field with a halo, of which the faces along one dimension are kept, is saved as that: in the second line, when it
/// is known, at once.
TEST_F(ComputeTest, faces_are_saved_without_what_lies_between_them) {
  constexpr std::int64_t n = 6, m = 4;
  std::vector<double> f(n * m);
  std::iota(f.begin(), f.end(), 0);
  {
    Session run(alone, options());
    run.protect("f", Array<double>{f.data(), {n, m}, {}});
    const auto fill = run.declare("fill", {writes("f").in({{1, n - 1}, {0, m}})});
    const auto use = run.declare("use", {reads("f")});
    for (int step = 0; step < 2; ++step) {
      run.checkpoint();
      EXPECT_EQ(run.status().taken, static_cast<std::uint64_t>(step + 1));
      run.compute(fill, [&] { std::fill(f.begin() + m, f.end() - m, -5.0); });
      EXPECT_EQ(run.status().left_out_bytes, step == 0 ? 0U : 8U * (n - 2) * m);  // nothing waits for `use` then
      run.compute(use, [] {});
      EXPECT_EQ(run.status().left_out_bytes, 8U * (n - 2) * m);
    }
  }
  std::vector<double> back(n * m, -1), expected(n * m, -1);
  std::iota(expected.begin(), expected.begin() + m, 0);
  std::iota(expected.end() - m, expected.end(), (n - 1) * m);
  Session run(alone, options());
  run.protect("f", Array<double>{back.data(), {n, m}, {}});
  EXPECT_TRUE(run.resume().resumed);
  EXPECT_EQ(back, expected);
}

/// Each part is a dataset: where there would be hundreds, the rest is saved with them.
TEST_F(ComputeTest, many_small_parts_are_saved_with_what_lies_between_them) {
  std::vector<double> f(400);
  std::iota(f.begin(), f.end(), 0);
  {
    Session run(alone, options());
    run.protect("f", f);
    std::vector<Access> every_other;
    for (std::int64_t i = 0; i < 400; i += 2) every_other.push_back(reads("f").in({{i, i + 1}}));
    const auto comb = run.declare("comb", every_other);
    const auto fill = run.declare("fill", {writes("f")});
    run.checkpoint();
    run.compute(comb, [] {});
    run.compute(fill, [&] { std::fill(f.begin(), f.end(), -5.0); });
    EXPECT_EQ(run.status().left_out_bytes, 0U);
  }
  EXPECT_EQ(put_back_alone(400), [] {
    std::vector<double> all(400);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }());
}

/// Between the parts lies what was overwritten: it is not saved as if it were still there.
TEST_F(ComputeTest, many_small_parts_are_saved_without_what_was_overwritten_between_them) {
  std::vector<double> f(400), expected(400, -1);
  std::iota(f.begin(), f.end(), 0);
  {
    Session run(alone, options());
    run.protect("f", f);
    std::vector<Access> every_other;
    for (std::int64_t i = 0; i < 400; i += 2) every_other.push_back(writes("f").in({{i, i + 1}}));
    const auto comb = run.declare("comb", every_other);
    const auto use = run.declare("use", {reads("f")});
    run.checkpoint();
    run.compute(comb, [&] {
      for (std::size_t i = 0; i < 400; i += 2) f[i] = -5;
    });
    run.compute(use, [] {});
    EXPECT_EQ(run.status().left_out_bytes, 200 * sizeof(double));
  }
  for (std::size_t i = 1; i < 400; i += 2) expected[i] = static_cast<double>(i);
  EXPECT_EQ(put_back_alone(400), expected);
}

/// A list is dealt out again on other ranks, so it is saved whole or not at all, and as it was.
TEST_F(ComputeTest, a_list_is_not_saved_in_parts) {
  {
    std::vector<double> f(10, 7);
    Session run(alone, options());
    run.protect("f", f, distributed_list());
    const auto half = run.declare("half", {writes("f").in({{0, 5}})});
    const auto rest = run.declare("rest", {reads("f").in({{5, 10}})});
    run.checkpoint();
    run.compute(half, [&] { std::fill(f.begin(), f.begin() + 5, 1); });
    run.compute(rest, [] {});
    EXPECT_EQ(run.status().left_out_bytes, 0U);
    run.wait();
    EXPECT_EQ(run.status().committed, 1U) << run.status().last_error;
  }
  std::vector<double> f(10, -1);
  Session run(alone, options());
  run.protect("f", f, distributed_list());
  EXPECT_TRUE(run.resume().resumed);
  EXPECT_EQ(f, std::vector<double>(10, 7));
}

TEST_F(ComputeTest, what_is_still_undecided_at_the_next_call_is_saved) {
  std::vector<double> u(10, 1), f(10, 2);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    (void)run.declare("never", {writes("f")});
    run.checkpoint();
    u[0] = 5;  // in no declaration
    run.wait();
    EXPECT_EQ(run.status().committed, 1U);
  }
  EXPECT_EQ(put_back(10).second, std::vector<double>(10, 2));
  EXPECT_EQ(put_back(10).first, std::vector<double>(10, 1));
}

/// A line without f is there; `go` is what the run that goes on from it does.
class ComputeAgainTest : public ComputeTest {
 protected:
  void go_on(const std::function<void(Session&, Computation set, Computation look)>& go) const {
    for (const bool again : {false, true}) {
      std::vector<double> u(10, 1), f(10, 2);
      Session run(alone, options());
      run.protect("u", u);
      run.protect("f", f);
      const auto set = run.declare("set", {reads("u"), writes("f")});
      const auto look = run.declare("look", {reads("f")});
      EXPECT_EQ(run.resume().resumed, again);
      if (again) {
        go(run, set, look);
      } else {
        run.checkpoint();
        run.compute(set, [&] { f.assign(10, 3); });
        run.wait();
      }
    }
  }
};

TEST_F(ComputeAgainTest, who_goes_another_way_is_stopped_before_it_reads_what_is_not_there) {
  go_on([](Session& run, Computation set, Computation look) {
    EXPECT_EQ(
        refusal([&] { run.compute(look, [] { FAIL() << "it runs"; }); }),
        "the computation 'look' that reads f, needs region 'f', which the line that this run went on from has not: "
        "the run that saved it overwrote it first, so this one goes another way; let it go the same way (replay() "
        "keeps what decides on it), or save all by checkpoint(now); where save_only() says what a line holds, name it "
        "there, and protect it before resume()");
    int ran = 0;
    run.compute(set, [&] { ++ran; });
    run.compute(look, [&] { ++ran; });
    EXPECT_EQ(ran, 2);
  });
}

TEST_F(ComputeAgainTest, what_is_not_there_is_not_saved_as_if_it_were) {
  go_on([](Session& run, Computation, Computation) {
    run.checkpoint();  // this state is the one that was put back
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 80U);
    run.wait();
    EXPECT_EQ(run.status().last_error, "");
  });
  EXPECT_EQ(put_back(10).second, std::vector<double>(10, -1));
}

TEST_F(ComputeAgainTest, once_a_part_of_it_is_there_that_part_is_saved) {
  go_on([](Session& run, Computation, Computation) {
    const auto half = run.declare("half", {writes("f").in({{0, 5}})});
    run.compute(half, [] {});
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 40U);
    run.wait();
    EXPECT_EQ(run.status().last_error, "");
  });
  auto half_there = std::vector<double>(5, 2);
  half_there.resize(10, -1);
  EXPECT_EQ(put_back(10).second, half_there);
}

/// Vectors whose sizes change in computations, and a body that begins again after some steps.
TEST_F(ComputeTest, what_is_missing_is_known_in_the_sizes_of_the_moment) {
  const auto sum_of = [&](std::set<int> rollbacks) {
    fs::remove_all(dir_);
    std::vector<double> u(4), v(10);
    int step = 0;
    Session run(alone, options());
    run.protect("u", u);
    run.protect("v", v);
    run.protect("step", step);
    const auto fill = run.declare("fill", {reads("u"), writes("v")});
    const auto use = run.declare("use", {reads("v"), updates("u")});
    const auto fill_now = [&] {
      run.compute(fill, [&] {
        v.resize(static_cast<std::size_t>(10 + step));
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = u[i % 4] / 8 + static_cast<double>(i) + step;
      });
    };
    run.loop([&] {
      step = 0;
      u.assign(4, 1);
      v.assign(10, 0.5);
      run.resume();
      for (; step < 10; ++step) {
        run.checkpoint();
        if (step % 2 == 0) fill_now();
        run.compute(use, [&] {
          for (std::size_t i = 0; i < v.size(); ++i) u[i % 4] += v[i];
        });
        if (step % 2 != 0) fill_now();
        run.wait();
        if (rollbacks.erase(step) > 0) run.rollback("a test");
      }
    });
    EXPECT_TRUE(rollbacks.empty());
    return u;
  };
  const auto right = sum_of({});
  for (const auto& rollbacks : {std::set{2, 6, 7}, std::set{2, 4, 5}, std::set{4, 8, 9}, std::set{0, 1, 2, 3, 4, 5}})
    EXPECT_EQ(sum_of(rollbacks), right);
}

TEST_F(ComputeTest, what_was_made_longer_or_of_another_shape_is_as_missing_as_it_was) {
  for (const bool again : {false, true}) {
    std::vector<double> f(12, again ? 0.0 : 2.0);
    Session run(alone, options());
    run.protect("f", array(f.data(), {3, 4}));
    const auto set = run.declare("set", {writes("f")});
    run.resume();
    if (!again) {
      run.checkpoint();
      run.compute(set, [] {});
      run.wait();
      continue;
    }
    run.unprotect("f");
    run.protect("f", f);
    const auto look = run.declare("look", {reads("f").in({{8, 12}})});
    EXPECT_NE(refusal([&] { run.compute(look, [] {}); }).find("needs region 'f'"), std::string::npos);
    run.compute(set, [] {});
    EXPECT_EQ(refusal([&] { run.compute(look, [] {}); }), "nothing was refused");
  }
}

/// A range that did not fit when it was first looked at.
TEST_F(ComputeTest, a_range_that_does_not_fit_hides_nothing_that_is_missing) {
  std::vector<std::string> refusals;
  for (const bool again : {false, true}) {
    std::vector<double> f(8, 1), list(20, 1);
    Session run(alone, options());
    run.protect("f", f);
    run.protect("list", list);
    const auto resize = run.declare("resize", {updates("list")});
    const auto use = run.declare("use", {reads("f"), reads("list").in({{0, 20}})});
    run.save_only({"list"});
    run.resume();
    run.compute(resize, [&] { list.resize(10); });
    run.checkpoint(now);
    if (again) refusals.push_back(refusal([&] { run.compute(use, [] {}); }));
    run.compute(resize, [&] { list.resize(20); });
    if (again) refusals.push_back(refusal([&] { run.compute(use, [] {}); }));
    run.wait();
  }
  ASSERT_EQ(refusals.size(), 2U);
  EXPECT_NE(refusals[0], "nothing was refused");
  EXPECT_NE(refusals[1].find("needs region 'f'"), std::string::npos) << refusals[1];
}

/// Against the rule, as it changes outside of computations; people write it.
TEST_F(ComputeTest, a_count_of_steps_that_a_computation_reads_is_saved_though_none_changes_it) {
  const auto run_to = [&](int last) {
    std::vector<double> u(8);
    int step = 0;
    Session run(alone, options());
    run.protect("u", u);
    run.protect("step", step);
    const auto use = run.declare("use", {reads("step"), updates("u")});
    run.init_done();
    run.resume();
    for (; step < last; ++step) {
      run.checkpoint();
      run.compute(use, [&] {
        for (auto& x : u) x += step;
      });
    }
    run.wait();
    return u[0];
  };
  EXPECT_EQ(run_to(4), 6);
  EXPECT_EQ(run_to(6), 15);
}

/// A region that changes between the end of the beginning and the first line, or is protected as other memory then.
TEST_F(ComputeTest, what_changes_behind_the_beginning_is_not_as_made) {
  for (const bool as_other_memory : {false, true}) {
    fs::remove_all(dir_);
    const auto run_to = [&](int last) {
      std::vector<double> u(8), c(20000, 2), other(20000, 3);
      int step = 0;
      Session run(alone, options());
      run.protect("u", u);
      run.protect("c", c);
      run.protect("step", step);
      const auto use = run.declare("use", {reads("c"), updates("u")});
      run.init_done();
      const bool again = run.resume().resumed;
      if (as_other_memory) {
        run.unprotect("c");
        if (again) other = c;
        run.protect("c", other);
      } else if (!again) {
        std::fill(c.begin(), c.end(), 3);
      }
      for (; step < last; ++step) {
        run.checkpoint();
        run.compute(use, [&] { u[0] += as_other_memory ? other[19999] : c[19999]; });
      }
      run.wait();
      return u[0];
    };
    EXPECT_EQ(run_to(4), 12);
    EXPECT_EQ(run_to(6), 18);
  }
}

/// It makes the region longer that it writes only then, so that its range does not fit before.
TEST_F(ComputeTest, a_range_that_fits_later_refuses_nobody_who_overwrites_what_is_missing) {
  for (const bool again : {false, true}) {
    std::vector<double> f(8, 1), list(4, 1);
    Session run(alone, options());
    run.protect("f", f);
    run.protect("list", list);
    list.resize(8);
    const auto build = run.declare("build", {writes("list").in({{0, 8}}), writes("f")});
    list.resize(4);
    const auto look = run.declare("look", {reads("f")});
    run.resume();
    if (!again) run.checkpoint();
    EXPECT_EQ(refusal([&] {
                run.compute(build, [&] {
                  list.resize(8);
                  std::fill(f.begin(), f.end(), 2);
                });
                run.compute(look, [] {});
              }),
              "nothing was refused");
    run.wait();
  }
}

/// What the outer one overwrites the inner one finds as that has left it.
TEST_F(ComputeTest, a_computation_inside_of_one_that_overwrites_what_it_reads_needs_nothing_of_before) {
  for (const bool again : {false, true}) {
    std::vector<double> f(10, 7);
    Session run(alone, options());
    run.protect("f", f, distributed_list());
    const auto outer = run.declare("outer", {writes("f")});
    const auto inner = run.declare("inner", {reads("f").in({{0, 5}})});
    EXPECT_EQ(run.resume().resumed, again);
    run.checkpoint();
    run.compute(outer, [&] {
      std::fill(f.begin(), f.end(), 9);
      run.compute(inner, [] {});
    });
    EXPECT_EQ(run.status().left_out_bytes, again ? 0U : 80U);  // that line is there already
    run.wait();
    EXPECT_EQ(run.status().last_error, "");
  }
}

TEST_F(ComputeAgainTest, as_long_as_nothing_declares_it_no_line_is_saved) {
  go_on([](Session&, Computation, Computation) {});
  std::vector<double> u(10), f(10);
  Session run(alone, options());
  run.protect("u", u);
  run.protect("f", f);
  run.resume();
  run.checkpoint(now);
  run.wait();
  EXPECT_NE(run.status().last_error.find("none is declared now: declare them as then"), std::string::npos)
      << run.status().last_error;
}

TEST_F(ComputeTest, a_region_that_had_to_be_saved_is_not_waited_for_the_next_time) {
  std::vector<double> f(10, 2);
  Session run(alone, options());
  run.protect("f", f);
  const auto change = run.declare("change", {updates("f")});
  const auto set = run.declare("set", {writes("f")});
  run.checkpoint();
  run.compute(change, [&] { f[0] += 1; });
  run.checkpoint();
  run.compute(set, [&] { f.assign(10, 0); });
  EXPECT_EQ(run.status().left_out_bytes, 0U);  // it was saved at once, in vain
  run.checkpoint();
  run.compute(set, [&] { f.assign(10, 0); });
  EXPECT_EQ(run.status().left_out_bytes, 80U);
}

TEST_F(ComputeTest, checkpoint_now_waits_for_nothing) {
  std::vector<double> f(10, 2);
  Session run(alone, options());
  run.protect("f", f);
  const auto set = run.declare("set", {writes("f")});
  run.checkpoint(now);
  run.compute(set, [&] { f.assign(10, 3); });
  EXPECT_EQ(run.status().left_out_bytes, 0U);
}

TEST_F(ComputeTest, a_session_that_ends_before_it_is_decided_gives_the_line_up_and_reads_no_memory) {
  {
    Session run(alone, options());
    auto f = std::make_unique<std::vector<double>>(10, 2);
    std::vector<double> u(10, 1);
    run.protect("u", u);
    run.protect("f", *f);
    (void)run.declare("set", {writes("f")});
    run.checkpoint();
    f.reset();
  }
  std::vector<double> u(10), f(10);
  Session run(alone, options());
  run.protect("u", u);
  run.protect("f", f);
  EXPECT_FALSE(run.resume().resumed);
}

TEST_F(ComputeTest, what_the_body_of_a_loop_protected_is_not_looked_at_behind_it) {
  Session run(alone, options());
  run.loop([&] {
    std::vector<double> f(10, 2);
    run.protect("f", f);
    (void)run.declare("set", {writes("f")});
    run.resume();
    run.checkpoint();
  });
  run.wait();
  EXPECT_EQ(run.status().failed, 1U);
  EXPECT_NE(run.status().last_error.find("the program left the loop, or its session, before it was decided whether the "
                                         "line needs region 'f': checkpoint(now) saves all at once"),
            std::string::npos)
      << run.status().last_error;
}

TEST_F(ComputeTest, what_the_body_of_a_loop_protected_is_not_looked_at_behind_an_error_of_it) {
  for (const bool inner : {false, true}) {
    Session run(alone, options({{"dir", (dir_ / (inner ? "inner" : "outer")).string()}}));
    const auto body = [&] {
      std::vector<double> f(10, 2);
      run.protect("f", f);
      (void)run.declare("set", {writes("f")});
      run.resume();
      run.checkpoint();
      throw std::runtime_error("for the test");
    };
    if (inner)
      run.loop([&] {
        EXPECT_THROW(run.loop(body), std::runtime_error);
        run.unprotect("f");
      });
    else
      EXPECT_THROW(run.loop(body), std::runtime_error);
    run.wait();
    EXPECT_EQ(run.status().failed, 1U);
    EXPECT_NE(run.status().last_error.find("the program left the loop"), std::string::npos) << run.status().last_error;
  }
}

TEST_F(ComputeTest, a_computation_without_an_end_ends_with_calls_that_wait_for_lines_too) {
  std::vector<double> f(10, 2);
  Session run(alone, options());
  run.protect("f", f);
  const auto set = run.declare("set", {writes("f")});
  const std::vector<std::function<void()>> calls{[&] { run.wait(); }, [&] { (void)run.verify(); },
                                                 [&] { run.prune(1); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    run.checkpoint();
    run.begin(set);
    f.assign(10, 3);
    calls[i]();
    run.wait();
    EXPECT_EQ(run.status().committed, i + 1) << run.status().last_error;
  }
}

TEST_F(ComputeTest, a_computation_that_the_body_of_a_loop_began_last_has_decided) {
  Session run(alone, options());
  run.loop([&] {
    std::vector<double> f(10, 2);
    run.protect("f", f);
    const auto set = run.declare("set", {writes("f")});
    run.resume();
    run.checkpoint();
    run.begin(set);
    f.assign(10, 3);
  });
  run.wait();
  EXPECT_EQ(run.status().committed, 1U) << run.status().last_error;
}

TEST_F(ComputeTest, a_rollback_goes_to_the_line_that_was_waiting) {
  std::vector<double> f(10, 2);
  int rounds = 0;
  Session run(alone, options());
  run.protect("f", f);
  const auto set = run.declare("set", {writes("f").in({{0, 5}})});
  run.loop([&] {
    const auto found = run.resume();
    EXPECT_EQ(found.line, static_cast<std::uint64_t>(rounds));
    if (rounds++ == 1) return;
    run.checkpoint();
    run.compute(set, [&] { f[0] = 3; });
    run.rollback("for the test");
  });
  EXPECT_EQ(f[9], 2);
}

TEST_F(ComputeTest, a_region_that_is_unprotected_is_saved_before) {
  std::vector<double> u(10, 1), f(10, 2);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    (void)run.declare("set", {writes("f")});
    run.checkpoint();
    run.unprotect("f");
    run.wait();
  }
  EXPECT_EQ(put_back(10).second, std::vector<double>(10, 2));
}

TEST_F(ComputeTest, a_region_that_grows_gets_its_size_back_without_its_values) {
  {
    std::vector<double> f(30, 2);
    Session run(alone, options());
    run.protect("f", f);
    const auto set = run.declare("set", {writes("f")});
    run.checkpoint();
    run.compute(set, [&] { f.assign(30, 3); });
    run.wait();
  }
  std::vector<double> f(5, -1);
  Session run(alone, options());
  run.protect("f", f);
  EXPECT_TRUE(run.resume().resumed);
  EXPECT_EQ(f.size(), 30U);
}

TEST_F(ComputeTest, scalars_and_callbacks_are_saved_at_once) {
  int step = 3;
  std::string text = "here";
  {
    Session run(alone, options());
    run.protect("step", step);
    run.protect("text", text);
    const auto set = run.declare("set", {writes("step"), writes("text")});
    run.checkpoint();
    run.compute(set, [&] {
      step = 4;
      text = "there";
    });
    run.wait();
  }
  Session run(alone, options());
  run.protect("step", step);
  run.protect("text", text);
  EXPECT_TRUE(run.resume().resumed);
  EXPECT_EQ(step, 3);
  EXPECT_EQ(text, "here");
}

/// The sentence of the refusal.
template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "not refused";
}

TEST_F(ComputeTest, declarations_that_cannot_be_are_refused) {
  std::vector<double> u(10, 1);
  Session run(alone, options());
  run.protect("u", u);
  const auto step = run.declare("step", {updates("u")});
  EXPECT_EQ(run.declare("step", {updates("u")}).number, step.number);
  EXPECT_EQ(refusal([&] { run.declare("step", {reads("u")}); }),
            "computation 'step' was declared before with other accesses: give this one another name");
  EXPECT_EQ(refusal([&] { run.declare("other", {reads("v")}); }),
            "computation 'other' uses a region 'v' that is not protected: protect it first, or leave it out of the "
            "declaration");
  EXPECT_EQ(refusal([&] { run.declare("other", {writes("u").in({{0, 11}})}); }),
            "computation 'other', region 'u': the range 0 to 11 of dimension 0 is not inside 0 to 10");
  EXPECT_EQ(refusal([&] { run.declare("other", {writes("u").in({{8, 3}})}); }),
            "computation 'other', region 'u': the range 8 to 3 of dimension 0 is not inside 0 to 10");
  EXPECT_EQ(refusal([&] { run.declare("other", {reads("u").around({{INT64_MIN, INT64_MAX}})}); }),
            "region 'u': no stencil reaches that far");
  EXPECT_EQ(refusal([&] { run.declare("other", {{"u", static_cast<Access::Mode>(9)}}); }),
            "computation 'other', region 'u': 9 is no mode of access");
  EXPECT_EQ(refusal([&] { run.begin(Computation{}); }),
            "compute() was called with a computation that this session has not declared: call declare() before");
  EXPECT_EQ(run.declare("last", {reads("u")}).number, step.number + 1);  // the refused ones have no number
}

TEST_F(ComputeTest, static_regions_are_declared_too_and_may_not_be_changed) {
  std::vector<double> mesh(10, 1), u(10, 2);
  Session run(alone, options());
  run.protect_static("mesh", mesh);
  run.protect("u", u);
  const auto set = run.declare("set", {reads("mesh"), writes("u")});
  EXPECT_EQ(refusal([&] { run.declare("move", {reads("u"), updates("mesh")}); }),
            "computation 'move' changes region 'mesh', which is static: protect what changes with protect()");
  run.checkpoint();
  run.compute(set, [&] { u = mesh; });
  EXPECT_EQ(run.status().left_out_bytes, 80U);
  run.wait();
  EXPECT_EQ(run.status().last_error, "");
}

TEST_F(ComputeTest, a_region_of_a_declaration_that_is_gone_costs_only_what_it_would_save) {
  std::vector<double> u(10, 1), f(10, 2), g(10, 3);
  Session run(alone, options());
  run.protect("u", u);
  run.protect("f", f);
  run.protect("g", g);
  (void)run.declare("both", {writes("f"), writes("u")});
  const auto set = run.declare("set", {writes("g")});
  run.unprotect("f");
  (void)run.declare("another", {reads("g")});
  run.checkpoint();
  run.compute(set, [&] { g.assign(10, 4); });
  EXPECT_EQ(run.status().left_out_bytes, 80U);
  run.wait();
  EXPECT_EQ(run.status().last_error, "");
}

TEST_F(ComputeTest, a_checkpoint_inside_of_a_computation_saves_what_that_changes) {
  std::vector<double> u(10, 1), f(10, 1);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    const auto set = run.declare("set", {updates("u"), writes("f")});
    run.compute(set, [&] {
      f.assign(10, 2);
      run.checkpoint();
      f.assign(10, 3);
    });
    run.wait();
    EXPECT_EQ(run.status().committed, 1U);
  }
  EXPECT_EQ(put_back(10).second, std::vector<double>(10, 2));
}

TEST_F(ComputeTest, a_body_that_throws_costs_the_line_that_waits_for_it) {
  std::vector<double> u(10, 1), f(10, 2);
  Session run(alone, options());
  run.protect("u", u);
  run.protect("f", f);
  const auto set = run.declare("set", {reads("u"), writes("f")});
  run.checkpoint();
  EXPECT_THROW(run.compute(set,
                           [&] {
                             f[0] = 5;
                             throw std::runtime_error("half done");
                           }),
               std::runtime_error);
  run.wait();
  EXPECT_EQ(run.status().failed, 1U);
  EXPECT_NE(run.status().last_error.find("ended by an exception while the line waited for region 'f'"),
            std::string::npos)
      << run.status().last_error;
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().committed, 1U);
}

TEST_F(ComputeTest, what_begins_inside_of_a_body_that_throws_has_not_ended_either) {
  std::vector<double> u(10, 1), f(10, 2);
  Session run(alone, options());
  run.protect("u", u);
  run.protect("f", f);
  const auto look = run.declare("look", {reads("u")});
  const auto set = run.declare("set", {writes("f")});
  run.checkpoint();
  EXPECT_THROW(run.compute(look,
                           [&] {
                             run.begin(set);
                             f[0] = 5;
                             throw std::runtime_error("half done");
                           }),
               std::runtime_error);
  EXPECT_EQ(run.status().left_out_bytes, 0U);
  run.wait();
  EXPECT_EQ(run.status().failed, 1U);
}

TEST_F(ComputeTest, a_call_of_the_session_inside_of_a_computation_costs_the_line_that_waits_for_it) {
  std::vector<double> u(10, 1), f(10, 2);
  Session run(alone, options());
  run.protect("u", u);
  run.protect("f", f);
  const auto set = run.declare("set", {reads("u"), writes("f")});
  run.checkpoint();
  run.compute(set, [&] {
    f[0] = 5;
    run.wait();
  });
  EXPECT_NE(run.status().last_error.find("a call of the session inside of a computation"), std::string::npos)
      << run.status().last_error;
}

TEST_F(ComputeTest, memory_that_is_exchanged_while_a_line_waits_costs_the_line) {
  for (const bool swaps : {true, false}) {
    fs::remove_all(dir_);
    std::vector<double> u(10, 1), f(10, 2);
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    const auto set = run.declare("set", {reads("u"), writes("f")});
    run.checkpoint();
    if (swaps)
      std::swap(u, f);
    else
      f.resize(20);
    run.compute(set, [&] { std::fill(f.begin(), f.end(), 3); });
    run.wait();
    EXPECT_NE(run.status().last_error.find("was exchanged, or changed its size, while the line waited for it"),
              std::string::npos)
        << run.status().last_error;
    run.checkpoint();  // from now on it is saved at once
    std::swap(u, f);
    run.compute(set, [&] { std::fill(f.begin(), f.end(), 3); });
    run.wait();
    EXPECT_EQ(run.status().committed, 1U);
    EXPECT_EQ(run.status().left_out_bytes, 0U);
  }
}

TEST_F(ComputeTest, counts_of_cells_are_saved_with_their_cells) {
  std::vector<double> cells(30, 1);
  std::vector<int> counts(3, 4);
  {
    Session run(alone, options());
    run.protect("p", filled_slots(cells.data(), counts.data(), 3, 10));
    const auto count = run.declare("count", {writes("p.counts")});
    run.checkpoint();
    run.compute(count, [&] { counts.assign(3, 2); });
    EXPECT_EQ(run.status().left_out_bytes, 0U);
    run.wait();
  }
  counts.assign(3, 0);
  Session run(alone, options());
  run.protect("p", filled_slots(cells.data(), counts.data(), 3, 10));
  EXPECT_TRUE(run.resume().resumed);
  EXPECT_EQ(counts, std::vector<int>(3, 4));
}

TEST_F(ComputeTest, a_view_that_throws_costs_one_line) {
  std::vector<double> u(10, 1), f(10, 2);
  bool throws = false;
  Session run(alone, options({{"timeout", "5"}}));
  RegionSpec spec;
  spec.name = "u";
  spec.type = type_of<double>();
  spec.view = [&] {
    if (throws) throw std::runtime_error("not now");
    return detail::dense_view(u.data(), {10}, sizeof(double));
  };
  run.protect(spec);
  run.protect("f", f);
  const auto set = run.declare("set", {reads("u"), writes("f")});
  for (int step = 0; step < 3; ++step) {
    throws = step == 1;
    run.checkpoint();
    run.compute(set, [&] { f.assign(10, step); });
    run.wait();
  }
  EXPECT_EQ(run.status().committed, 2U);
  EXPECT_NE(run.status().last_error.find("not now"), std::string::npos) << run.status().last_error;
}

TEST_F(ComputeTest, a_loop_that_runs_again_declares_again) {
  Session run(alone, options());
  int rounds = 0;
  run.loop([&] {
    std::vector<double> u(static_cast<std::size_t>(10 + rounds), 1), f(10, 2);
    run.protect("u", u);
    const auto first = run.declare("first", {updates("u").in({{0, 10 + rounds}})});
    run.protect("f", f);
    (void)run.declare("second", {reads("u"), writes("f")});
    if (rounds++ == 1) return;
    run.compute(first, [&] { u[0] = 3; });
    run.rollback("for the test");
  });
  EXPECT_EQ(rounds, 2);
}

TEST_F(ComputeTest, a_loop_that_runs_again_may_declare_as_many_others) {
  std::vector<double> u(100, 1), f(100, 2);
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    bool robust = false;
    run.loop([&] {
      const auto one =
          robust ? run.declare("relaxation", {updates("u")}) : run.declare("fluxes", {reads("u"), writes("f")});
      const auto two = robust ? run.declare("output", {reads("u"), writes("f")})
                              : run.declare("explicit update", {reads("f"), updates("u")});
      run.resume();
      run.checkpoint();
      run.compute(one, [&] { (robust ? u : f).assign(100, 5); });
      if (!std::exchange(robust, true)) run.rollback("does not converge");
      run.compute(two, [&] { f.assign(100, 7); });
      run.wait();
    });
  }
  const auto back = put_back(100);
  EXPECT_EQ(back.first, std::vector<double>(100, 1));  // and not what the relaxation made of it
  EXPECT_EQ(back.second, std::vector<double>(100, -1));
}

TEST_F(ComputeTest, a_loop_that_runs_again_makes_what_the_first_line_had_not) {
  const auto program = [&](int end, bool rolls_back) {
    std::vector<double> u(100), f(100);
    Session run(alone, options());
    int step = 0;
    run.loop([&] {
      step = 0;
      run.protect("step", step);
      run.protect("u", u);
      run.protect("f", f);
      const auto setup = run.declare("setup", {reads("f"), writes("u")});
      const auto flux = run.declare("flux", {reads("u"), writes("f")});
      const auto update = run.declare("update", {reads("f"), updates("u")});
      f.assign(100, 1);
      run.compute(setup, [&] { u.assign(100, 1 + f[0]); });
      run.init_done();
      for (run.resume(); step < end; ++step) {
        run.checkpoint();
        if (std::exchange(rolls_back, false)) run.rollback("a smaller step");
        run.compute(flux, [&] { f.assign(100, 0.5 * u[0]); });
        run.compute(update, [&] { u.assign(100, u[0] + f[0]); });
      }
    });
    return u[0];
  };
  EXPECT_EQ(program(3, false), 2 * 1.5 * 1.5 * 1.5);
  double last = 0;
  EXPECT_EQ(refusal([&] { last = program(5, true); }), "nothing was refused");
  EXPECT_EQ(last, 2 * 1.5 * 1.5 * 1.5 * 1.5 * 1.5);
}

TEST_F(ComputeTest, what_is_missing_stays_so_where_the_body_does_not_resume) {
  std::vector<double> u(100, 1), f(100, 2);
  const auto once = [&](const std::function<void(Session&, Computation, Computation)>& body) {
    Session run(alone, options());
    run.protect("u", u);
    run.protect("f", f);
    body(run, run.declare("flux", {reads("u"), writes("f")}), run.declare("update", {reads("f"), updates("u")}));
  };
  once([&](Session& run, Computation flux, Computation) {
    run.checkpoint();
    run.compute(flux, [&] { f.assign(100, 3); });
    run.wait();
  });
  const auto said = refusal([&] {
    once([&](Session& run, Computation, Computation update) {
      run.resume();
      bool again = false;
      run.loop([&] {
        if (!std::exchange(again, true)) run.rollback("for the test");
        run.checkpoint();
        run.compute(update, [] {});
      });
    });
  });
  EXPECT_NE(said.find("needs region 'f', which the line that this run went on from has not"), std::string::npos)
      << said;
}

TEST_F(ComputeTest, regions_in_the_same_memory_are_saved_as_they_are_together) {
  for (const bool whole_first : {true, false}) {
    std::vector<double> q(100, 1), f(100, 2);
    double* const rho = q.data();
    {
      Session run(alone, options({{"dir", (dir_ / (whole_first ? "q" : "rho")).string()}}));
      if (whole_first) run.protect("q", q);
      run.protect("rho", array(rho, {50}));
      if (!whole_first) run.protect("q", q);
      run.protect("f", f);
      const auto density = run.declare("density", {writes("rho")});
      const auto all = run.declare("all", {updates("q"), writes("f")});
      run.checkpoint();
      run.compute(density, [&] { std::fill_n(rho, 50, 3.0); });
      run.compute(all, [&] { q.assign(100, 4), f.assign(100, 5); });
      run.wait();
      EXPECT_EQ(run.status().committed, 1U);
    }
    q.assign(100, -1), f.assign(100, -1);
    Session run(alone, options({{"dir", (dir_ / (whole_first ? "q" : "rho")).string()}}));
    run.protect("q", q);
    run.protect("rho", array(rho, {50}));
    run.protect("f", f);
    EXPECT_TRUE(run.resume().resumed);
    EXPECT_EQ(q, std::vector<double>(100, 1)) << whole_first;
    EXPECT_EQ(f, std::vector<double>(100, -1)) << "what shares nothing is left out";
  }
}

TEST_F(ComputeTest, a_step_that_needs_too_much_costs_its_line_alone) {
  std::vector<double> u(1000, 1), f(1000, 2);
  Session run(alone, options({{"staging_limit", "12KiB"}}));
  run.protect("u", u);
  run.protect("f", f);
  const auto set = run.declare("set", {reads("u"), writes("f")});
  const auto look = run.declare("look", {reads("f")});
  for (int step = 0; step < 4; ++step) {
    run.checkpoint();
    if (step == 1) run.compute(look, [] {});
    run.compute(set, [&] { f.assign(1000, step); });
    run.wait();
  }
  EXPECT_EQ(run.status().committed, 3U) << run.status().last_error;
}

// ---- lists of what is saved --------------------------------------------------------------------------------------

/// u and f as in the first test, and a step that no computation uses.
struct Listed {
  std::vector<double> u = std::vector<double>(100, 1), f = std::vector<double>(100, 2);
  int step = 0;
  Computation flux{}, update{};
  void protect(Session& run) {
    run.protect("u", u);
    run.protect("f", f);
    run.protect("step", step);
    flux = run.declare("flux", {reads("u"), writes("f")});
    update = run.declare("update", {reads("f"), updates("u")});
  }
  void advance(Session& run) {
    run.compute(flux, [&] {
      for (std::size_t i = 0; i < 100; ++i) f[i] = 2 * u[i];
    });
    run.compute(update, [&] {
      for (std::size_t i = 0; i < 100; ++i) u[i] += f[i];
    });
    ++step;
  }
};

/// One line of a program that has computed nothing yet.
void save_only_these(const Options& options, const std::vector<std::string>& names) {
  Listed program;
  Session run(alone, options);
  program.protect(run);
  run.save_only(names);
  run.checkpoint();
  program.advance(run);
  run.wait();
  EXPECT_EQ(run.status().committed, 1U);
}

TEST_F(ComputeTest, a_list_is_all_that_a_line_holds_and_is_captured_at_once) {
  Listed first, second;
  {
    Session run(alone, options());
    first.protect(run);
    run.save_only({"u", "step"});
    run.checkpoint();
    EXPECT_EQ(run.status().left_out_bytes, 800U);  // before any computation
    first.advance(run);
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 800U);
    run.wait();
    EXPECT_EQ(run.status().last_error, "");
    run.save_only({});
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 0U);
    first.advance(run);
    run.save_only({"u", "step"});
    run.checkpoint();
  }
  Session run(alone, options());
  second.protect(run);
  EXPECT_TRUE(run.resume());
  EXPECT_EQ(second.step, 2);
  EXPECT_EQ(second.u, first.u);
  EXPECT_EQ(second.f, std::vector<double>(100, 2));  // as it was
  second.advance(run);
  EXPECT_EQ(second.u[0], 27);
}

/// A process that takes a place comes to loop() with the list of then, and the others go back there.
TEST_F(ComputeTest, a_body_that_is_run_again_has_the_list_of_before_the_loop) {
  Listed program;
  Session run(alone, options());
  program.protect(run);
  int rounds = 0;
  run.loop([&] {
    run.resume();
    if (rounds++ == 0) {
      run.save_only({"u", "step"});
      run.checkpoint(now);
      EXPECT_EQ(run.status().left_out_bytes, 800U);
      run.rollback("for the test");
    }
    program.advance(run);  // what the line has not is there again
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 0U);
  });
}

TEST_F(ComputeTest, a_list_without_what_is_needed_stops_the_run_that_reads_it) {
  save_only_these(options(), {"f", "step"});
  Listed second;
  Session run(alone, options());
  second.protect(run);
  EXPECT_TRUE(run.resume());
  const std::string said = refusal([&] { second.advance(run); });
  EXPECT_NE(said.find("needs region 'u', which the line that this run went on from has not"), std::string::npos)
      << said;
  EXPECT_NE(said.find("where save_only() says what a line holds, name it there"), std::string::npos) << said;
  EXPECT_EQ(second.step, 0);
}

TEST_F(ComputeTest, what_a_list_left_out_is_missed_also_where_it_is_protected_behind_resume) {
  save_only_these(options(), {"u", "step"});
  for (const std::string regions : {"strict", "lenient"}) {
    Session run(alone, options({{"regions", regions}}));
    Listed program;
    run.protect("u", program.u);
    run.protect("step", program.step);
    EXPECT_TRUE(run.resume());
    run.protect("f", program.f);
    const auto flux = run.declare("flux", {reads("u"), writes("f")});
    const auto update = run.declare("update", {reads("f"), updates("u")});
    const std::string said = refusal([&] { run.compute(update, [] {}); });
    EXPECT_NE(said.find("needs region 'f', which the line that this run went on from has not"), std::string::npos)
        << said;
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 800U) << "it has not been made: it is left out again";
    run.compute(flux, [&] { program.f.assign(100, 2); });
    run.compute(update, [] {});
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, 0U);
    run.save_only({"u", "step"});
    run.checkpoint(now);
    run.wait();
    EXPECT_EQ(run.status().committed, 3U) << run.status().last_error;
  }
}

TEST_F(ComputeTest, what_is_protected_behind_resume_is_made_by_computations_or_by_the_program_if_none_changes_it) {
  const auto come_back = [](Session& run, Listed& program, std::vector<double>& mesh) {
    run.protect("u", program.u);
    run.protect("step", program.step);
    run.resume();
    mesh.assign(100, 3);
    run.protect("mesh", mesh);
    run.protect("f", program.f);
    program.flux = run.declare("flux", {reads("u"), reads("mesh"), writes("f")});
    program.update = run.declare("update", {reads("f"), reads("mesh"), updates("u")});
    run.save_only({"u", "step"});
  };
  for (int launch = 0; launch < 3; ++launch) {
    Listed program;
    program.f.clear();
    std::vector<double> mesh;
    Session run(alone, options());
    come_back(run, program, mesh);
    EXPECT_EQ(program.step, launch);
    run.compute(program.flux, [&] { program.f.assign(100, 2); });  // grows, and is overwritten
    run.compute(program.update, [&] { program.u[0] += program.f[0]; });
    ++program.step;
    run.checkpoint(now);
    EXPECT_EQ(run.status().last_error, "");
    EXPECT_EQ(program.u[0], 1 + 2 * program.step);
  }
  Listed program;
  program.f.clear();
  std::vector<double> mesh;
  Session run(alone, options());
  come_back(run, program, mesh);
  run.checkpoint(now);  // while there is nothing of it
  program.f.assign(100, 2);
  EXPECT_NE(refusal([&] { run.compute(program.update, [] {}); }).find("needs region 'f'"), std::string::npos);
}

TEST_F(ComputeTest, what_nobody_would_miss_must_be_on_the_list) {
  Listed program;
  Session run(alone, options());
  program.protect(run);
  std::string text = "x";
  run.protect("text", text);
  run.save_only({"u", "text"});
  run.checkpoint();
  run.wait();
  EXPECT_EQ(run.status().committed, 0U);
  EXPECT_NE(
      run.status().last_error.find("save_only() does not name region 'step', and no declared computation uses it, "
                                   "so that nobody would notice that a line has it not"),
      std::string::npos)
      << run.status().last_error;
  run.save_only({"u", "step"});
  run.checkpoint();
  run.wait();
  EXPECT_NE(run.status().last_error.find("region 'text', and callbacks save it"), std::string::npos)
      << run.status().last_error;
  run.save_only({"u", "step", "text"});
  run.checkpoint();
  run.wait();
  EXPECT_EQ(run.status().committed, 1U);
  run.unprotect("text");
  run.checkpoint();
  run.wait();
  EXPECT_NE(run.status().last_error.find("save_only() names region 'text', which is not protected any more"),
            std::string::npos)
      << run.status().last_error;
}

TEST_F(ComputeTest, lists_that_cannot_be_are_refused) {
  Listed program;
  std::vector<double> mesh(10);
  {
    Session run(alone, options());
    program.protect(run);
    run.protect_static("mesh", mesh);
    const auto said_of = [&](const std::vector<std::string>& list) { return refusal([&] { run.save_only(list); }); };
    EXPECT_EQ(said_of({"u", "x"}), "save_only() names region 'x', which is not protected: protect it before");
    EXPECT_NE(said_of({"u", "mesh"}).find("region 'mesh', which is static"), std::string::npos);
    EXPECT_EQ(said_of({}), "nothing was refused");
  }
  Session run(alone, options({{"place", "best"}}));
  program.protect(run);
  EXPECT_NE(refusal([&] { run.save_only({"u"}); }).find("place=best finds"), std::string::npos);
}

TEST_F(ComputeTest, what_a_line_has_not_stays_also_where_making_room_forgets_it) {
  const auto forgetful = [](std::vector<double>& x) {
    RegionSpec out;
    out.name = "x";
    out.type = type_of<double>();
    const auto view = [&x] {
      return detail::dense_view(reinterpret_cast<std::byte*>(x.data()), {static_cast<std::int64_t>(x.size())}, 8);
    };
    out.view = view;
    out.reshape = [&x, view](const Extents& shape) {
      x = std::vector<double>(static_cast<std::size_t>(shape[0]), -99);
      return view();
    };
    return out;
  };
  for (const bool is_replay : {false, true})
    for (int launch = 0; launch < 2; ++launch) {
      std::vector<double> x(100, 1 + launch);
      Session run(alone, options({{"name", is_replay ? "replay" : "resume"}}));
      run.protect(forgetful(x));
      Access half = writes("x");
      half.range = {{0, 50}};
      const auto write = run.declare("write", {half});
      const auto read = run.declare("read", {reads("x")});
      if (is_replay) {
        run.replay();
        run.compute(read, [] {});
        run.compute(write, [&] { std::fill(x.begin(), x.begin() + 50, 1); });  // no longer as it was made
      } else {
        run.resume();
      }
      run.checkpoint();
      EXPECT_EQ(x[0], 1 + launch) << "as it was";
      EXPECT_EQ(x[99], 1) << "at first, and from the line";
      run.compute(write, [&] { std::fill(x.begin(), x.begin() + 50, 3); });
      run.compute(read, [] {});
      run.wait();
      if (launch == 0) {
        EXPECT_EQ(run.status().left_out_bytes, 400U);
      }
    }
}

struct Gapped {
  double volume;
  char kind;
};

TEST_F(ComputeTest, what_lies_in_the_gaps_of_structs_does_not_make_them_others) {
  std::vector<Gapped> mesh(100);
  for (int launch = 0; launch < 2; ++launch) {
    double u = 0;
    Session run(alone, options());
    std::memset(static_cast<void*>(mesh.data()), 17 * launch, sizeof(Gapped) * mesh.size());
    for (auto& cell : mesh) cell.volume = 2, cell.kind = 'x';
    run.protect("mesh", mesh);
    run.protect("u", u);
    const auto add = run.declare("add", {reads("mesh"), updates("u")});
    run.init_done();
    EXPECT_EQ(refusal([&] { run.resume(); }), "nothing was refused");
    EXPECT_EQ(u, 2 * launch);
    run.compute(add, [&] { u += mesh[0].volume; });
    run.checkpoint(now);
    EXPECT_EQ(run.status().left_out_bytes, sizeof(Gapped) * mesh.size());
  }
}

TEST_F(ComputeTest, cells_on_a_list_have_their_counts) {
  std::vector<double> slots(8, 3);
  std::vector<int> counts{1, 2};
  const auto go = [&](Session& run) {
    run.protect("cells", filled_slots(slots.data(), counts.data(), 2, 4));
    (void)run.declare("move", {updates("cells"), updates("cells.counts")});
  };
  {
    Session run(alone, options());
    go(run);
    run.save_only({"cells"});
    run.checkpoint();
    run.wait();
    EXPECT_EQ(run.status().last_error, "");
  }
  counts = {0, 0};
  Session run(alone, options());
  go(run);
  EXPECT_TRUE(run.resume());
  EXPECT_EQ(counts, (std::vector<int>{1, 2}));
}

TEST_F(ComputeTest, cells_that_a_list_leaves_out_stay_as_the_program_has_them) {
  std::vector<double> slots(8, 3), u(4, 1);
  std::vector<int> counts{1, 2};
  Computation fill{};
  const auto go = [&](Session& run) {
    run.protect("cells", filled_slots(slots.data(), counts.data(), 2, 4));
    run.protect("u", u);
    fill = run.declare("fill", {reads("u"), writes("cells"), writes("cells.counts")});
  };
  {
    Session run(alone, options());
    go(run);
    run.save_only({"u"});
    run.checkpoint(now);
    run.wait();
    EXPECT_EQ(run.status().committed, 1U) << run.status().last_error;
  }
  counts = {3, 1};
  u.assign(4, 0);
  Session run(alone, options());
  go(run);
  EXPECT_TRUE(run.resume());
  EXPECT_EQ(u, std::vector<double>(4, 1));
  EXPECT_EQ(counts, (std::vector<int>{3, 1}));
  run.compute(fill, [&] { std::fill(slots.begin(), slots.end(), u[0]); });
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().committed, 1U) << run.status().last_error;
}

// ---- random programs ------------------------------------------------------------------------------------------

/// A program of random computations, which do exactly what they declare. Some regions get another size where they are
/// overwritten.
class RandomProgram {
 public:
  static constexpr int length = 8, steps = 12;  // the least length
  using State = std::vector<std::vector<double>>;

  explicit RandomProgram(unsigned seed) : random_(seed) {
    const int count = pick(2, 6);
    for (int c = 0; c < count; ++c) {
      auto& accesses = computations_.emplace_back();
      for (int a = pick(1, 3); a > 0; --a) accesses.push_back(random_access());
    }
    for (auto& changes : changes_size_) changes = pick(0, 2) == 0;
    for (int variant = 0; variant < 3; ++variant)
      for (int i = pick(1, 8); i > 0; --i) order_[static_cast<std::size_t>(variant)].push_back(pick(0, count - 1));
  }

  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  static State start() {
    State state(regions, std::vector<double>(length));
    for (std::size_t r = 0; r < regions; ++r)
      for (std::size_t i = 0; i < length; ++i) state[r][i] = static_cast<double>(r * 10 + i) / 7;
    return state;
  }

  std::vector<Computation> set_up(Session& run, State& state, int& step) const {
    for (std::size_t r = 0; r < regions; ++r) run.protect("r" + std::to_string(r), state[r]);
    run.protect("step", step);
    std::vector<Computation> declared;
    for (const auto& accesses : computations_)
      declared.push_back(run.declare("c" + std::to_string(declared.size()), accesses));
    return declared;
  }

  /// Goes on from `step`, until `stops` says so before a computation.
  void advance(Session& run, const std::vector<Computation>& declared, State& state, int& step,
               const std::function<bool()>& stops) const {
    for (; step < steps; ++step) {
      run.checkpoint();
      for (const int c : order_[static_cast<std::size_t>(step % 3)]) {
        if (stops()) return;
        run.compute(declared[static_cast<std::size_t>(c)],
                    [&] { compute(state, computations_[static_cast<std::size_t>(c)], step); });
      }
    }
  }

  /// Stops before computation `stop_at` of all that it runs.
  void go(Session& run, State& state, int& step, int stop_at, const std::vector<std::string>& list = {}) const {
    const auto declared = set_up(run, state, step);
    run.save_only(list);
    run.resume();
    int done = 0;
    advance(run, declared, state, step, [&] { return done++ == stop_at; });
  }

 private:
  static constexpr std::size_t regions = 4;

  Access random_access() {
    Access access{"r" + std::to_string(pick(0, regions - 1)), static_cast<Access::Mode>(pick(0, 3))};
    if (pick(0, 1) == 0) {
      const int begin = pick(0, length - 1);
      access.range = {{begin, pick(begin + 1, length)}};
    }
    if (access.mode == Access::Mode::read && pick(0, 2) == 0) access.stencil = {{-pick(0, 2), pick(0, 2)}};
    return access;
  }

  /// All reading comes before all writing.
  void compute(State& state, const std::vector<Access>& accesses, int step) const {
    double sum = step;
    const auto range_of = [&](const Access& access) {
      const auto size = static_cast<std::int64_t>(state[static_cast<std::size_t>(access.region[1] - '0')].size());
      return access.range.empty() ? Access::Range{0, size} : access.range[0];
    };
    for (const auto& access : accesses) {
      if (access.mode != Access::Mode::read && access.mode != Access::Mode::read_write) continue;
      const auto& region = state[static_cast<std::size_t>(access.region[1] - '0')];
      auto [begin, end] = range_of(access);
      if (!access.stencil.empty()) {
        begin = std::max<std::int64_t>(0, begin + access.stencil[0].first);
        end = std::min(static_cast<std::int64_t>(region.size()), end + access.stencil[0].last);
      }
      for (auto i = begin; i < end; ++i)
        sum = sum * 0.7 + region[static_cast<std::size_t>(i)] * static_cast<double>(i + 1);
    }
    for (const auto& access : accesses) {
      if (access.mode == Access::Mode::read) continue;
      const auto r = static_cast<std::size_t>(access.region[1] - '0');
      auto& region = state[r];
      if (changes_size_[r] && access.mode == Access::Mode::write && access.range.empty())
        region.resize(static_cast<std::size_t>(length + step % 4));
      const auto [begin, end] = range_of(access);
      for (auto i = begin; i < end; ++i)
        if (access.mode != Access::Mode::write_some || i % 3 == step % 3)
          region[static_cast<std::size_t>(i)] = sum / static_cast<double>(i + 2);
    }
  }

  std::mt19937 random_;
  std::vector<std::vector<Access>> computations_;
  std::vector<int> order_[3];
  bool changes_size_[regions] = {};
};

/// Stopped at a random moment, with everything in memory lost, and gone on with: the same state in the end, bit for
/// bit.
TEST_F(ComputeTest, random_programs_that_are_stopped_end_as_if_they_were_not) {
  std::uint64_t left_out = 0;
  for (const unsigned seed : random_seeds(100)) {
    RandomProgram program(seed);
    const auto every = std::to_string(program.pick(1, 3));
    RandomProgram::State expected = RandomProgram::start(), state = expected;
    {
      int step = 0;
      Session run(alone, options({{"dir", (dir_ / "undisturbed").string()}, {"levels", "memory"}, {"every", "1000"}}));
      program.go(run, expected, step, -1);
    }
    int stops = program.pick(1, 3), step = 0;
    do {
      Session run(alone, options({{"every", every}}));
      program.go(run, state, step, stops > 0 ? program.pick(0, 40) : -1);
      left_out += run.status().left_out_bytes;
      if (stops == 0) break;
      for (auto& region : state) std::fill(region.begin(), region.end(), 1e30 * stops);
      step = 0;
      // Without a line the program starts from its beginning, which makes its state.
      if (run.status().newest_line == 0) state = RandomProgram::start();
    } while (stops-- > 0);
    ASSERT_EQ(state, expected) << "seed " << seed;
    fs::remove_all(dir_);
  }
  EXPECT_GT(left_out, 0U);
}

/// In one session, which was set up before its loop.
TEST_F(ComputeTest, random_programs_that_roll_back_end_as_if_they_did_not) {
  int rollbacks = 0;
  for (const unsigned seed : random_seeds(100)) {
    RandomProgram program(seed);
    RandomProgram::State expected = RandomProgram::start(), state = expected;
    {
      int step = 0;
      Session run(alone, options({{"dir", (dir_ / "undisturbed").string()}, {"levels", "memory"}, {"every", "1000"}}));
      program.go(run, expected, step, -1);
    }
    std::set<int> moments;
    for (int i = program.pick(1, 6); i > 0; --i) moments.insert(program.pick(0, 60));
    int step = 0, done = 0;
    {
      Session run(alone, options({{"every", std::to_string(program.pick(1, 3))}}));
      const auto declared = program.set_up(run, state, step);
      run.loop([&] {
        step = 0;
        for (std::size_t r = 0; r < state.size(); ++r) state[r] = RandomProgram::start()[r];
        run.resume();
        program.advance(run, declared, state, step, [&] {
          if (moments.erase(done++) > 0 && run.status().newest_line > 0) {
            ++rollbacks;
            run.rollback("a test");
          }
          return false;
        });
      });
    }
    ASSERT_EQ(state, expected) << "seed " << seed;
    fs::remove_all(dir_);
  }
  EXPECT_GT(rollbacks, 50);
}

/// The same with lists that somebody guessed: the same state in the end, or the run is stopped.
TEST_F(ComputeTest, random_lists_lead_to_the_same_end_or_are_refused) {
  int equal = 0, refused = 0;
  for (const unsigned seed : random_seeds(100)) {
    RandomProgram program(seed);
    std::vector<std::string> list{"step"};
    for (const char* name : {"r0", "r1", "r2", "r3"})
      if (program.pick(0, 3) > 0 || seed % 4 == 0) list.emplace_back(name);
    RandomProgram::State expected = RandomProgram::start(), state = expected;
    {
      int step = 0;
      Session run(alone, options({{"dir", (dir_ / "undisturbed").string()}, {"levels", "memory"}, {"every", "1000"}}));
      program.go(run, expected, step, -1);
    }
    bool has_line = false;
    {
      int step = 0;
      Session run(alone, options());
      program.go(run, state, step, program.pick(1, 40), list);
      run.wait();
      has_line = run.status().committed > 0;
    }
    if (has_line) {
      for (auto& region : state) std::fill(region.begin(), region.end(), 1e30);
      int step = 0;
      Session run(alone, options());
      const auto said = refusal([&] { program.go(run, state, step, -1, list); });
      if (said == "nothing was refused") {
        // What was never used is where the list left it.
        const auto is_listed = [&](std::size_t r) {
          return std::ranges::find(list, "r" + std::to_string(r)) != list.end();
        };
        for (std::size_t r = 0; r < state.size(); ++r) {
          ASSERT_EQ(state[r].size(), expected[r].size()) << "seed " << seed;
          for (std::size_t i = 0; i < state[r].size(); ++i)
            ASSERT_TRUE(state[r][i] == expected[r][i] || (!is_listed(r) && state[r][i] == 1e30)) << "seed " << seed;
        }
        ++equal;
      } else {
        ASSERT_NE(said.find("where save_only() says what a line holds, name it there"), std::string::npos) << said;
        ++refused;
      }
    }
    fs::remove_all(dir_);
  }
  EXPECT_GT(equal, 10);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace backstay
