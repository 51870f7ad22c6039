// The session of one process: the public calls without MPI. With MPI: tests/mpi.
#include "backstay/backstay.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <memory>
#include <memory_resource>
#include <random>
#include <regex>
#include <thread>
#include <utility>
#include <vector>

#include "api/exit_status.h"
#include "backstay/backstay.h"

namespace backstay {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() : dir_(std::filesystem::temp_directory_path() / ("backstay-session-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(dir_);
  }
  ~SessionTest() override { std::filesystem::remove_all(dir_); }
  Options options(Options more = {}) const {
    more.insert({{"dir", dir_.string()}, {"log", "quiet"}});
    return more;
  }
  /// What a session does behind its end, as it was not closed, is over when its line is whole.
  [[nodiscard]] bool comes_to_a_whole_line() const {
    for (int i = 0; i < 3000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
      std::ifstream events(dir_ / "events.jsonl");
      const std::string all{std::istreambuf_iterator<char>(events), {}};
      if (all.find("\"commit\"") != std::string::npos) return true;
    }
    return false;
  }
  std::filesystem::path dir_;
};

TEST_F(SessionTest, state_comes_back_in_a_new_session) {
  std::vector<double> u{1, 2, 3};
  std::string text = "hello";
  std::mt19937_64 random(7);
  random.discard(1000);
  int step = 5;
  const auto protect = [&](Session& run) {
    run.protect("u", u);
    run.protect("text", text);
    run.protect("random", random);
    run.protect("step", step);
  };
  {
    Session run(alone, options());
    protect(run);
    EXPECT_FALSE(run.resume().resumed);
    EXPECT_EQ(run.checkpoint(now), Outcome::taken);
  }
  const auto next = random();
  u = {9};
  text.clear();
  step = 0;
  Session run(alone, options());
  protect(run);
  const auto found = run.resume();
  EXPECT_TRUE(found.resumed);
  EXPECT_EQ(found.level, "shared");
  EXPECT_EQ(u, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(step, 5);
  EXPECT_EQ(random(), next);
}

/// Kept as text through its operators; they print as many digits as the stream says.
struct Angle {
  Angle() = default;
  explicit Angle(double value) : x(value) {}
  Angle(const Angle& other) : x(other.x) {}
  Angle& operator=(const Angle&) = default;
  double x = 0;
};
std::ostream& operator<<(std::ostream& out, const Angle& a) { return out << a.x << " rad"; }
std::istream& operator>>(std::istream& in, Angle& a) {
  std::string unit;
  return in >> a.x >> unit;
}

TEST_F(SessionTest, what_is_kept_as_text_loses_no_bit) {
  Angle angle(3.14159265358979312);
  Session run(alone, options());
  run.protect("angle", angle);
  run.checkpoint(now);
  run.wait();
  angle.x = 0;
  run.resume();
  EXPECT_EQ(angle.x, 3.14159265358979312);
}

/// Its operator>> reads one word of what its operator<< wrote.
struct Label {
  Label() = default;
  explicit Label(std::string text) : words(std::move(text)) {}
  std::string words;
};
std::ostream& operator<<(std::ostream& out, const Label& label) { return out << label.words; }
std::istream& operator>>(std::istream& in, Label& label) { return in >> label.words; }

TEST_F(SessionTest, a_text_that_would_not_come_back_is_not_saved) {
  Label label("word");
  Session run(alone, options());
  run.protect("label", label);
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().failed, 0U);
  label.words = "two words";
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().failed, 1U);
  EXPECT_NE(run.status().last_error.find("operator>> does not read"), std::string::npos) << run.status().last_error;
  run.resume();
  EXPECT_EQ(label.words, "word");
}

/// Its operators agree on a number that is not its own.
struct Rounded {
  std::string unit = "s";
  double x = 0;
  bool operator==(const Rounded&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Rounded& r) {
  return out << std::setprecision(6) << r.x << ' ' << r.unit;
}
std::istream& operator>>(std::istream& in, Rounded& r) { return in >> r.x >> r.unit; }

TEST_F(SessionTest, a_text_of_a_number_that_was_rounded_is_not_saved) {
  Rounded rounded{"s", 0.5};
  Session run(alone, options());
  run.protect("rounded", rounded);
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().failed, 0U) << run.status().last_error;
  rounded.x = 1.0 / 3;
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().failed, 1U);
}

TEST_F(SessionTest, distributions_in_pieces_come_back_as_they_were) {
  const std::vector<double> edges{0, 1, 3}, weights{1, 1, 2};
  std::piecewise_constant_distribution<double> constant(edges.begin(), edges.end(), weights.begin()), none;
  std::piecewise_linear_distribution<double> linear(edges.begin(), edges.end(), weights.begin());
  const auto before = std::pair(constant.densities(), linear.densities());
  Session run(alone, options());
  run.protect("constant", constant);
  run.protect("linear", linear);
  run.protect("none", none);
  run.checkpoint(now);
  run.wait();
  constant = {};
  linear = {};
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(run.resume());
    run.checkpoint(now);
    run.wait();
  }
  EXPECT_EQ(constant.intervals(), edges);
  EXPECT_EQ(linear.intervals(), edges);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(constant.densities()[i], before.first[i], 1e-14);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(linear.densities()[i], before.second[i], 1e-14);
  EXPECT_EQ(none, std::piecewise_constant_distribution<double>());
}

TEST_F(SessionTest, more_strides_than_lengths_are_refused) {
  std::vector<double> u(10);
  Session run(alone, options());
  for (const Extents& strides : {Extents{5, 1}, Extents(1000, 1)}) {
    try {
      run.protect("u", array(u.data(), {10}, strides));
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("a number of strides is out of range"), std::string::npos) << e.what();
    }
  }
}

TEST_F(SessionTest, a_text_with_another_allocator_comes_back_whole) {
  std::pmr::string text("two words"), empty;
  Session run(alone, options());
  run.protect("text", text);
  run.protect("empty", empty);
  run.checkpoint(now);
  run.wait();
  text.clear();
  empty = "x";
  run.resume();
  EXPECT_EQ(text, "two words");
  EXPECT_EQ(empty, "");
}

TEST_F(SessionTest, a_count_that_is_too_narrow_for_what_was_saved_is_refused) {
  std::vector<double> pool(1000);
  int wide = 400;
  {
    Session run(alone, options());
    run.protect("pool", used(pool.data(), wide, 1000));
    run.checkpoint(now);
  }
  std::uint8_t narrow = 7;
  Session run(alone, options());
  run.protect("pool", used(pool.data(), narrow, 1000));
  EXPECT_THROW(run.resume(), Error);
  EXPECT_EQ(narrow, 7);
}

TEST_F(SessionTest, a_history_that_nobody_resumed_from_is_not_retired_without_a_word) {
  double x = 1;
  {
    Session run(alone, options());
    run.protect("x", x);
    run.checkpoint(now);
  }
  const std::string word = "were not resumed from";
  auto loud = options();
  loud["log"] = "normal";
  for (const bool resumes : {true, false}) {
    ::testing::internal::CaptureStderr();
    {
      Session run(alone, loud);
      run.protect("x", x);
      if (resumes) run.resume();
      run.checkpoint(now);
      run.checkpoint(now);
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find(word) == std::string::npos, resumes) << said;
    EXPECT_EQ(said.find(word), said.rfind(word)) << said;
  }
}

TEST_F(SessionTest, a_history_that_could_not_be_resumed_from_is_not_retired_without_a_word_either) {
  double u = 1;
  for (const bool replays : {false, true}) {
    std::filesystem::remove_all(dir_);
    {
      Session run(alone, options());
      run.protect("u", u);
      run.checkpoint(now);
    }
    Session run(alone, options({{"log", "normal"}, {"regions", replays ? "lenient" : "strict"}}));
    run.protect("another", u);
    ::testing::internal::CaptureStderr();
    EXPECT_THROW(replays ? run.replay() : run.resume(), Error);
    EXPECT_EQ(run.checkpoint(now), Outcome::taken);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("the lines of an earlier run, up to line 1, were not resumed from"), std::string::npos) << said;
  }
}

TEST(exit_status, is_that_of_a_failure_also_where_an_older_handler_of_the_exit_finds_it) {
  const auto end = [] {
    std::atexit([] { api::fail_at_exit(); });
    api::watch_the_exit();
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(EXIT_FAILURE), "");
}

/// The job died between what was due at one call at two levels.
TEST_F(SessionTest, what_a_level_had_not_got_comes_with_the_next_line_of_the_run_that_goes_on) {
  const Options two{{"levels", "local,shared"}, {"local.every", "2"}, {"shared.every", "4"}, {"policy", "wait"}};
  int step = 0;
  const auto go = [&](int until) {
    Session run(alone, options(two));
    run.protect("step", step);
    run.resume();
    for (; step < until; ++step) run.checkpoint();
  };
  go(4);
  const auto line_of = [&](const char* number) { return dir_ / "shared" / (std::string("line-0000000") + number); };
  ASSERT_TRUE(std::filesystem::exists(line_of("2") / "manifest"));
  std::filesystem::remove_all(line_of("2"));
  step = 0;
  go(5);
  EXPECT_FALSE(std::filesystem::exists(line_of("3") / "manifest"));
  go(6);
  EXPECT_TRUE(std::filesystem::exists(line_of("3") / "manifest"));
}

TEST_F(SessionTest, calls_that_are_further_apart_than_the_interval_all_take_a_line) {
  double u = 1;
  Session run(alone, options({{"interval", "0.5"}}));
  run.protect("u", u);
  std::string taken;
  for (int call = 1; call <= 5; ++call) {
    if (run.checkpoint() == Outcome::taken) taken += std::to_string(call);
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  }
  EXPECT_EQ(taken, "345");
}

TEST_F(SessionTest, after_wait_the_next_checkpoint_is_taken) {
  double x = 1;
  auto skips = options();
  skips["policy"] = "skip";
  skips["every"] = "1";
  Session run(alone, skips);
  run.protect("x", x);
  for (int step = 0; step < 6; ++step) {
    EXPECT_EQ(run.checkpoint(), Outcome::taken) << step;
    run.wait();
  }
}

template <class Saved, class Protected>
std::string refusal_of_another_type(const Options& options, Saved was, Protected is) {
  {
    Session run(alone, options);
    run.protect("x", was);
    run.checkpoint(now);
  }
  Session run(alone, options);
  run.protect("x", is);
  try {
    run.resume();
  } catch (const Error& e) {
    return e.what();
  }
  return "no refusal";
}

TEST_F(SessionTest, another_engine_or_text_or_vector_is_refused) {
  const std::string word = "protect it with the type it was saved with";
  EXPECT_NE(refusal_of_another_type(options(), std::mt19937(1), std::minstd_rand(2)).find(word), std::string::npos);
  EXPECT_NE(refusal_of_another_type(options(), std::mt19937(1), std::mt19937_64(2)).find(word), std::string::npos);
  EXPECT_NE(refusal_of_another_type(options(), std::string("hello"), std::mt19937(2)).find(word), std::string::npos);
  EXPECT_NE(refusal_of_another_type(options(), std::vector<double>{1, 2}, std::string()).find(word), std::string::npos);
  EXPECT_NE(refusal_of_another_type(options(), std::string("12345678"), 1.0).find(word), std::string::npos);
}

TEST_F(SessionTest, callbacks_may_not_call_the_session) {
  int other = 0;
  std::string said;
  Session run(alone, options());
  const auto tried = [&](const auto& call) {
    try {
      call();
    } catch (const Error& e) {
      said += std::string(e.what()) + "\n";
    }
  };
  const auto try_all = [&] {
    tried([&] { run.protect("other", other); });
    tried([&] { run.unprotect("c"); });
    tried([&] { run.checkpoint(now); });
    tried([&] { run.resume(); });
  };
  run.protect("c", Callbacks{[&] {
                               try_all();
                               return std::string("bytes");
                             },
                             [&](std::span<const std::byte>) { try_all(); },
                             {}});
  EXPECT_EQ(run.checkpoint(now), Outcome::taken);
  run.wait();
  EXPECT_TRUE(run.resume());
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 8) << said;
  EXPECT_NE(said.find("unprotect() was called from within checkpoint() or resume()"), std::string::npos) << said;
}

/// Whichever call of the session it is that asks a callback.
TEST_F(SessionTest, no_callback_may_make_any_call_of_the_session) {
  Session run(alone, options());
  int callbacks = 0, refused = 0, x = 0, y = 0;
  run.protect("x", x);
  const auto loop = run.declare("loop", {reads("x")});
  const std::vector<std::function<void()>> calls{
      [&] { run.wait(); },
      [&] { (void)run.verify(); },
      [&] { run.prune(1); },
      [&] { run.loop([] {}); },
      [&] { run.init([] {}); },
      [&] { run.checkpoint(); },
      [&] { run.checkpoint(now); },
      [&] { run.resume(); },
      [&] { run.replay(); },
      [&] { run.init_done(); },
      [&] { run.save_only({}); },
      [&] { run.protect("y", y); },
      [&] { run.unprotect("c"); },
      [&] { run.declare("more", {reads("x")}); },
      [&] { run.compute(loop, [] {}); },
      [&] { run.begin(loop); },
      [&] { run.end(); },
      [&] { run.result(x); },
      [&] { run.rollback("no"); },
  };
  const auto try_all = [&] {
    ++callbacks;
    for (const auto& call : calls) try {
        call();
      } catch (const Error& e) {
        refused += e.code() == Code::invalid_argument && std::string(e.what()).find("a callback") != std::string::npos;
      }
  };
  std::vector<double> memory(3);
  RegionSpec region;
  region.name = "memory";
  region.type = type_of<double>();
  region.view = [&] {
    try_all();
    return detail::dense_view(memory.data(), {3}, sizeof(double));
  };
  run.protect(region);
  EXPECT_GT(callbacks, 0) << "protect() asks for the memory";
  run.protect("c", Callbacks{[&] {
                               try_all();
                               return std::string("bytes");
                             },
                             [&](std::span<const std::byte>) { try_all(); },
                             {}});
  EXPECT_EQ(run.checkpoint(now), Outcome::taken);
  run.wait();
  EXPECT_TRUE(run.resume());
  run.begin(loop);  // what is still to be decided of "memory" is, before it may change
  run.end();
  run.checkpoint();
  run.declare("another", {writes("memory")});
  run.compute(run.declare("another", {writes("memory")}), [] {});
  run.checkpoint();
  run.wait();
  EXPECT_EQ(run.verify().damage.size(), 0U);
  EXPECT_GT(callbacks, 3);
  EXPECT_EQ(refused, callbacks * static_cast<int>(calls.size()));
  EXPECT_NO_THROW(run.protect("y", y)) << "outside of them all is as before";
}

TEST_F(SessionTest, a_session_that_a_callback_closes_stays_open_in_c_and_says_so) {
  static backstay_session* session = nullptr;
  const auto save = [](void*, backstay_stream* stream) {
    backstay_close(session);
    return backstay_write(stream, "a", 1);
  };
  const auto load = [](void*, const void*, std::size_t) {
    backstay_close(session);
    return 0;
  };
  const std::string dir = "dir=" + dir_.string();
  const char* const options[] = {dir.c_str(), "log=normal", nullptr};
  backstay_error error;
  ASSERT_EQ(backstay_open_alone(options, &session, &error), 0) << error.message;
  backstay_callbacks callbacks{};
  callbacks.save = save, callbacks.load = load;
  ASSERT_EQ(backstay_protect_callbacks(session, "c", &callbacks, &error), 0) << error.message;
  ::testing::internal::CaptureStderr();
  int outcome = 0;
  EXPECT_EQ(backstay_checkpoint_now(session, &outcome, &error), 0) << error.message;
  EXPECT_EQ(backstay_wait(session, &error), 0) << error.message;
  backstay_resumed found{};
  EXPECT_EQ(backstay_resume(session, &found, &error), 0) << error.message;
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(found.line, 1U);
  EXPECT_NE(said.find("the session was to be closed from within checkpoint() or resume()"), std::string::npos) << said;
  backstay_close(session);
}

TEST_F(SessionTest, a_session_that_is_closed_inside_of_its_loop_ends_it_with_an_error) {
  struct Program {
    backstay_session* session = nullptr;
    int x = 3;
    bool fails = false;
  };
  const auto body = [](void* user) {
    auto& program = *static_cast<Program*>(user);
    backstay_error error;
    if (backstay_checkpoint_now(program.session, nullptr, &error) != 0) return 1;
    backstay_close(program.session);
    return program.fails ? 7 : 0;
  };
  const std::string dir = "dir=" + dir_.string();
  const char* const options[] = {dir.c_str(), "log=quiet", nullptr};
  const std::int64_t none = 0;
  for (const bool fails : {false, true}) {
    backstay_error error;
    Program program;
    program.fails = fails;
    ASSERT_EQ(backstay_open_alone(options, &program.session, &error), 0) << error.message;
    backstay_region region{};
    region.name = "x", region.type = {BACKSTAY_INTEGER, sizeof(int), nullptr, 0};
    region.shape = &none, region.data = &program.x;
    ASSERT_EQ(backstay_protect(program.session, &region, &error), 0) << error.message;
    EXPECT_EQ(backstay_loop(program.session, body, &program, &error),
              fails ? BACKSTAY_USER : BACKSTAY_INVALID_ARGUMENT);
    const std::string said = error.message;
    EXPECT_NE(said.find(fails ? "returned 7" : "the session was closed inside the body of loop()"), std::string::npos)
        << said;
  }
  Session run(alone, this->options());  // the first one has let go of the directory, and its line is whole
  int x = 0;
  run.protect("x", x);
  EXPECT_EQ(run.resume().line, 2U);
  EXPECT_EQ(x, 3);
}

TEST_F(SessionTest, a_body_that_is_rolled_back_out_of_its_session_is_not_run_again) {
  auto run = std::make_unique<Session>(alone, options());
  int times = 0;
  std::string said;
  try {
    run->loop([&] {
      ++times;
      const std::unique_ptr<Session> mine = std::move(run);
      mine->rollback("back");
    });
  } catch (const Error& e) {
    said = e.what();
  }
  EXPECT_EQ(times, 1);
  EXPECT_NE(said.find("the session was closed inside the body of loop()"), std::string::npos) << said;
}

TEST_F(SessionTest, a_session_that_the_phase_of_init_destroys_is_said_not_to_be_closed) {
  auto run = std::make_unique<Session>(alone, options({{"log", "normal"}}));
  ::testing::internal::CaptureStderr();
  run->init([&] { run.reset(); });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the session was to be closed from within"), std::string::npos) << said;
  EXPECT_TRUE(api::take_back_failure());
}

TEST_F(SessionTest, a_session_that_is_destroyed_as_protect_looks_at_memory_is_said_not_to_be_closed) {
  auto run = std::make_unique<Session>(alone, options({{"log", "normal"}}));
  double x = 0;
  RegionSpec region;
  region.name = "x";
  region.type = type_of<double>();
  region.view = [&] {
    run.reset();
    return detail::dense_view(&x, {}, sizeof x);
  };
  ::testing::internal::CaptureStderr();
  run->protect(region);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the session was to be closed from within"), std::string::npos) << said;
  EXPECT_TRUE(api::take_back_failure());
}

TEST_F(SessionTest, a_session_that_a_callback_destroys_is_said_not_to_be_closed) {
  auto run = std::make_unique<Session>(alone, options({{"log", "normal"}}));
  run->protect("c", Callbacks{[&] {
                                run.reset();
                                return std::string("bytes");
                              },
                              [](std::span<const std::byte>) {},
                              {}});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run->checkpoint(now), Outcome::taken);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the session was to be closed from within checkpoint() or resume()"), std::string::npos) << said;
  EXPECT_TRUE(api::take_back_failure()) << "the process would have ended as if all were saved";
  EXPECT_TRUE(comes_to_a_whole_line());
}

TEST_F(SessionTest, levels_that_a_later_run_has_not_are_named_and_numbered_past) {
  int x = 1;
  const auto run_with = [&](const char* level, int lines) {
    Session run(alone, options({{"levels", level}}));
    run.protect("x", x);
    const Resumed found = run.resume();
    for (int i = 0; i < lines; ++i) {
      run.checkpoint(now);
      run.wait();
    }
    return found;
  };
  EXPECT_FALSE(run_with("local", 5));
  x = 2;
  ::testing::internal::CaptureStderr();
  {
    Session run(alone, options({{"levels", "shared"}, {"log", "normal"}}));
    run.protect("x", x);
    EXPECT_FALSE(run.resume());
    run.checkpoint(now);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("line 5 lies at level local, which is not among the levels of this run"), std::string::npos)
      << said;
  x = 0;
  EXPECT_EQ(run_with("local,shared", 0).line, 6U);
  EXPECT_EQ(x, 2) << "the newest is that of the later run";
}

TEST_F(SessionTest, the_same_failure_is_said_once_and_then_shortly) {
  std::vector<double> u(1 << 12);
  ::testing::internal::CaptureStderr();
  {
    Session run(alone, options({{"log", "normal"}}));
    run.protect("u", u);
    std::filesystem::remove_all(dir_);
    for (int i = 0; i < 5; ++i) {
      run.checkpoint(now);
      run.wait();
    }
    EXPECT_NE(run.status().last_error.find("if the next ones are given up, too, start the job again"),
              std::string::npos);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("line 2 at level shared was given up for the same reason as line 1 (2 times so far)"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("line 4 at level shared was given up for the same reason as line 1 (4 times so far)"),
            std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 3) << said;
  EXPECT_EQ(said.find("was removed"), said.rfind("was removed")) << said;
}

TEST_F(SessionTest, reasons_that_take_turns_are_each_said_once_and_again_after_a_whole_line) {
  int calls = 0;
  const auto save = [&calls]() -> std::string {
    if (++calls == 7) return "all is well";
    throw std::runtime_error(calls % 2 == 0 ? "the left one is full" : "the right one is full");
  };
  ::testing::internal::CaptureStderr();
  {
    Session run(alone, options({{"log", "normal"}}));
    run.protect("x", Callbacks{save, [](std::span<const std::byte>) {}, {}});
    for (int i = 0; i < 9; ++i) {
      run.checkpoint(now);
      run.wait();
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto times = [&said](const std::string& words) {
    int count = 0;
    for (auto at = said.find(words); at != std::string::npos; at = said.find(words, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(times("the left one is full"), 2) << said;
  EXPECT_EQ(times("the right one is full"), 2) << said;
  EXPECT_EQ(times("for the same reason as line 1 (2 times so far)"), 1) << said;
  EXPECT_EQ(times("for the same reason as line 2 (2 times so far)"), 1) << said;
}

TEST_F(SessionTest, a_forked_child_leaves_the_session_to_its_parent) {
  int step = 1;
  auto run = std::make_unique<Session>(alone, options());
  run->protect("step", step);
  run->checkpoint(now);
  const pid_t child = fork();
  if (child == 0) {
    const std::string refusal = [&] {
      try {
        run->checkpoint(now);
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string();
    }();
    run.reset();
    _exit(refusal.starts_with("checkpoint() was called in a process that fork() made") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(run->checkpoint(now), Outcome::taken);
  run->wait();
  EXPECT_EQ(run->status().committed, 2U);
  EXPECT_THROW(Session(alone, options()), Error) << "the child's end has let go of the lock";
}

TEST_F(SessionTest, a_checkpoint_of_nothing_is_given_up_with_a_sentence) {
  Session run(alone, options());
  run.checkpoint(now);
  run.wait();
  EXPECT_NE(run.status().last_error.find("nothing is protected"), std::string::npos);
  EXPECT_EQ(run.status().failed, 1U);
}

TEST_F(SessionTest, errors_can_be_thrown) {
  Session run(alone, options({{"on_error", "throw"}}));
  run.checkpoint(now);
  EXPECT_THROW(
      {
        for (int i = 0; i < 1000; ++i) {
          run.checkpoint();
          usleep(1000);
        }
      },
      Error);
}

TEST_F(SessionTest, keep_limits_the_lines_and_the_newest_stays) {
  int x = 0;
  Session run(alone, options({{"keep", "3"}}));
  run.protect("x", x);
  for (x = 0; x < 10; ++x) {
    run.checkpoint(now);
    run.wait();
  }
  EXPECT_EQ(run.verify().lines, 3U);
  run.prune(1);
  EXPECT_EQ(run.verify().lines, 1U);
  EXPECT_THROW(run.prune(0), Error);
  x = -1;
  run.resume();
  EXPECT_EQ(x, 9);
}

TEST_F(SessionTest, a_second_session_on_the_same_directory_is_refused) {
  Session run(alone, options());
  try {
    Session other(alone, options());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::locked);
  }
  Session other(alone, options({{"name", "other"}}));
}

TEST_F(SessionTest, another_session_of_the_program_is_told_of_the_option_name) {
  Session run(alone, options());
  try {
    Session(alone, options());
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("another session of this very process"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("option name"), std::string::npos) << e.what();
  }
}

TEST_F(SessionTest, what_it_writes_ends_where_its_lock_was_taken_away) {
  int x = 1;
  auto first = std::make_unique<Session>(alone, options({{"keep", "1"}}));
  first->protect("x", x);
  first->checkpoint(now);
  first->wait();
  std::filesystem::remove_all(dir_);  // a person starts afresh, and forgets that the job is still there
  Session second(alone, options());
  second.protect("x", x);
  x = 2;
  second.checkpoint(now);
  second.wait();
  for (int i = 0; i < 3; ++i) first->checkpoint(now), first->wait();
  EXPECT_EQ(first->status().committed, 1U);
  EXPECT_NE(first->status().last_error.find("another job may be at work"), std::string::npos)
      << first->status().last_error;
  first.reset();
  x = 0;
  EXPECT_EQ(second.resume().line, 1U);
  EXPECT_EQ(x, 2);
  EXPECT_TRUE(second.verify().damage.empty());
}

TEST_F(SessionTest, rollback_goes_to_the_newest_line_in_memory) {
  int x = 0, tries = 0;
  Session run(alone, options({{"levels", "memory"}, {"every", "1"}, {"policy", "wait"}}));
  run.protect("x", x);
  run.loop([&] {
    for (run.resume(); x < 10; ++x) {
      run.checkpoint();
      if (x == 6 && ++tries == 1) run.rollback("a wrong value");
    }
  });
  EXPECT_EQ(x, 10);
  EXPECT_EQ(tries, 2);
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(SessionTest, staging_memory_does_not_grow) {
  std::vector<double> u(1 << 18);
  Session run(alone, options({{"levels", "memory"}}));
  run.protect("u", u);
  std::uint64_t held = 0;
  for (int i = 0; i < 6; ++i) {
    run.checkpoint(now);
    run.wait();
    if (i == 1) held = run.status().staging_bytes;
  }
  EXPECT_EQ(run.status().staging_bytes, held);
  EXPECT_GE(held, u.size() * sizeof(double));
}

TEST_F(SessionTest, resume_says_in_one_line_what_it_did_and_how_long_it_took) {
  std::vector<double> u(1 << 16);
  const auto said_by_run = [&] {
    ::testing::internal::CaptureStderr();
    {
      Session run(alone, options({{"log", "normal"}}));
      run.protect("u", u);
      run.resume();
      run.checkpoint(now);
      run.wait();
    }
    return ::testing::internal::GetCapturedStderr();
  };
  const auto lines_with = [](const std::string& said, const char* pattern) {
    const std::regex wanted(pattern);
    return std::distance(std::sregex_iterator(said.begin(), said.end(), wanted), std::sregex_iterator());
  };
  const std::string first = said_by_run(), second = said_by_run();
  EXPECT_EQ(lines_with(first, "backstay: [^\n]*a fresh start[^\n]*\n"), 1) << first;
  EXPECT_EQ(lines_with(first, "resumed"), 0) << first;
  EXPECT_EQ(lines_with(second, "backstay: resumed from line 1 at level shared, saved by 1 rank, in [0-9.]+ [a-z]+\n"),
            1)
      << second;
  EXPECT_EQ(lines_with(second, "fresh start"), 0) << second;
}

/// Threads of this process whose niceness is `nice`, and of them those that take no core from who wakes them.
std::pair<int, int> threads_at(int nice) {
  int count = 0, patient = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto id = std::stoi(task.path().filename());
    if (getpriority(PRIO_PROCESS, static_cast<id_t>(id)) != nice) continue;
    ++count;
    patient += sched_getscheduler(id) == SCHED_BATCH ? 1 : 0;
  }
  return {count, patient};
}

TEST_F(SessionTest, has_one_thread_and_that_at_low_priority) {
  const int mine = getpriority(PRIO_PROCESS, 0);
  if (mine > 12) GTEST_SKIP() << "this process is at niceness " << mine << " itself";
  ASSERT_EQ(threads_at(mine + 7), std::pair(0, 0));
  int x = 0;
  Session run(alone, options({{"nice", "7"}}));
  run.protect("x", x);
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(threads_at(mine + 7), std::pair(1, 1));
}

/// Of all threads of this process so far, seconds.
double cpu_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

TEST_F(SessionTest, with_nothing_to_do_costs_no_processor_time) {
  int x = 0;
  Session run(alone, options());
  run.protect("x", x);
  run.checkpoint(now);
  run.wait();
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu_seconds() - before, 0.01);
}

TEST_F(SessionTest, a_limit_on_staging_memory_fails_the_checkpoint_and_not_the_run) {
  std::vector<double> u(1 << 18);
  Session run(alone, options({{"staging_limit", "1MiB"}}));
  run.protect("u", u);
  run.checkpoint(now);
  run.wait();
  EXPECT_NE(run.status().last_error.find("staging_limit"), std::string::npos);
  u.resize(1000);
  run.checkpoint(now);
  run.wait();
  EXPECT_EQ(run.status().committed, 1U);
}

TEST_F(SessionTest, status_counts_each_checkpoint_once_at_every_moment) {
  std::vector<double> u(1 << 16);
  Session run(alone, options({{"policy", "wait"}}));
  run.protect("u", u);
  for (std::uint64_t taken = 1; taken <= 50; ++taken) {
    run.checkpoint(now);
    for (auto status = run.status();; status = run.status()) {
      ASSERT_EQ(status.committed + status.failed + status.in_flight, taken);
      if (status.in_flight == 0) break;
    }
  }
}

TEST_F(SessionTest, an_old_line_that_cannot_be_removed_is_said_and_the_new_one_counts) {
  int x = 0;
  Session run(alone, options({{"keep", "2"}}));
  run.protect("x", x);
  for (int i = 0; i < 2; ++i) {
    run.checkpoint(now);
    run.wait();
  }
  const auto manifest = dir_ / "shared" / "line-00000001" / "manifest";
  ASSERT_TRUE(std::filesystem::remove(manifest));
  std::filesystem::create_directories(manifest / "in the way");
  run.checkpoint(now);
  run.wait();
  const auto status = run.status();
  EXPECT_EQ(status.committed, 3U);
  EXPECT_EQ(status.failed, 0U);
  EXPECT_NE(status.last_error.find("line 3 at level shared is whole, but an older line could not be removed: "),
            std::string::npos)
      << status.last_error;
}

static_assert(detail::points_elsewhere<double*>::value && detail::points_elsewhere<std::string_view>::value &&
              detail::points_elsewhere<std::span<int>>::value &&
              detail::points_elsewhere<std::reference_wrapper<int>>::value &&
              detail::points_elsewhere<std::array<int*, 2>>::value && !detail::points_elsewhere<double>::value);

struct Padded {
  char c;
  double d;
};

TEST_F(SessionTest, what_could_not_be_written_or_read_again_is_refused_when_it_is_protected) {
  struct Named {
    double v;
  } named{};
  Session run(alone, options());
  const auto refused = [&](Type type, Extents shape, const std::string& why, std::string units = "") {
    RegionSpec spec;
    spec.name = "odd";
    spec.type = std::move(type);
    spec.units = std::move(units);
    spec.view = [&named, shape, size = spec.type.size] { return detail::dense_view(&named, shape, size); };
    try {
      run.protect(spec);
      ADD_FAILURE() << why;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::invalid_argument);
      EXPECT_NE(std::string(e.what()).find("region 'odd'"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  using K = Type::Kind;
  const Type number{K::floating, 8, {}};
  refused({K::compound, 8, {{"temp\xe9rature", 0, {}, number}}}, {}, "the name of member 1 of its struct is not UTF-8");
  refused({K::compound, 8, {{"a", 0, {}, number}, {"b", 0, {}, number}}}, {}, "");
  refused({K::integer, 16, {}}, {}, "16 bytes");
  refused({K::integer, 3, {}}, {}, "3 bytes");
  refused({K::boolean, 4, {}}, {}, "");
  refused(number, {std::int64_t{1} << 40, std::int64_t{1} << 40}, "is larger than any memory");
  refused(number, {std::int64_t{1} << 62, 0}, "is larger than any memory");
  refused(number, {}, "its units are not UTF-8", "\xb5m");
  run.protect("odd", named);  // what was refused is not there
  double other = 0;
  run.protect("other", other);
  run.unprotect("odd");
  refused(number, {}, "its units are not UTF-8", "\xb5m");  // in a place of before
  run.protect("odd", named);
  EXPECT_EQ(run.checkpoint(now), Outcome::taken);
}

TEST_F(SessionTest, padding_of_replicated_values_is_saved_as_zeros) {
  const auto crc_of = [&](unsigned char fill) {
    alignas(Padded) std::array<unsigned char, sizeof(Padded)> memory;
    memory.fill(fill);
    auto* p = reinterpret_cast<Padded*>(memory.data());
    p->c = 'x';
    p->d = 1.5;
    alignas(long double) std::array<unsigned char, 2 * sizeof(long double)> more;
    more.fill(fill);
    auto* x = reinterpret_cast<long double*>(more.data());
    x[0] = x[1] = 0.25L;
    std::filesystem::remove_all(dir_);
    {
      Session run(alone, options());
      run.protect("p", *p);
      run.protect("x", array(x, {2}), replicated());
      run.checkpoint(now);
    }
    std::ifstream file(dir_ / "shared" / "line-00000001" / "rank-00000.h5", std::ios::binary);
    if (!file) file.open(dir_ / "shared" / "line-00000001" / "node-00000.h5", std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    return bytes.substr(8192, 4096);
  };
  const auto first = crc_of(0x11);
  EXPECT_EQ(first.size(), 4096U);
  EXPECT_EQ(first, crc_of(0xee));
}

TEST_F(SessionTest, static_memory_that_was_changed_comes_back_and_is_told_and_its_padding_is_no_change) {
  alignas(Padded) std::array<unsigned char, sizeof(Padded)> memory;
  memory.fill(0x11);
  auto* p = reinterpret_cast<Padded*>(memory.data());
  p->c = 'x';
  p->d = 1.5;
  std::vector<double> table(100, 2.5), values(10, 1);
  Session run(alone, options({{"log", "normal"}}));
  run.protect_static("p", *p);
  run.protect_static("table", array(table.data() + 1, {9}, {10}));
  run.protect("values", values);
  run.checkpoint(now);
  run.wait();
  const auto said_by_resume = [&run] {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(run.resume());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_by_resume().find("is not as it was when the line was saved"), std::string::npos);
  memory.fill(0xee);
  p->c = 'x';
  p->d = 1.5;
  table[2] = 7;  // not a part of it
  EXPECT_EQ(said_by_resume().find("is not as it was when the line was saved"), std::string::npos);
  table[11] = 7;
  const auto said = said_by_resume();
  EXPECT_NE(said.find("region 'table' of rank 0 is static, and is not as it was when the line was saved"),
            std::string::npos)
      << said;
  EXPECT_EQ(table[11], 2.5);
  EXPECT_EQ(table[2], 7);
}

TEST_F(SessionTest, a_line_behind_an_older_one_that_was_put_back_has_the_static_regions_of_that_one) {
  double u = 1;
  std::vector<double> table(100, 0);
  const auto save = [&](Session& run) {
    run.checkpoint(now);
    run.wait();
  };
  {
    Session run(alone, options());
    run.protect("u", u);
    run.protect_static("table", table);
    save(run);
    run.unprotect("table");
    table.assign(100, 2);
    run.protect_static("table", table);
    u = 2;
    save(run);
    for (const auto& file : std::filesystem::directory_iterator(dir_ / "shared" / "line-00000002"))
      if (file.path().extension() == ".h5") std::filesystem::resize_file(file.path(), 100);
    EXPECT_TRUE(run.resume());
    EXPECT_EQ(u, 1);
    EXPECT_EQ(table, std::vector<double>(100, 0));
    u = 7;
    save(run);
    EXPECT_EQ(run.status().last_error, "");
  }
  u = 0;
  table.assign(100, 5);
  Session run(alone, options());
  run.protect("u", u);
  run.protect_static("table", table);
  EXPECT_TRUE(run.resume());
  EXPECT_EQ(u, 7);
  EXPECT_EQ(table, std::vector<double>(100, 0));
}

TEST_F(SessionTest, many_regions_are_protected_in_time_that_grows_with_their_number) {
  constexpr std::size_t some = 2000 / BACKSTAY_TEST_PACE;
  std::vector<double> values(4 * some);
  Session run(alone, options());
  const auto seconds_for = [&](std::size_t from, std::size_t to) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = from; i < to; ++i) run.protect("group/" + std::to_string(i), values[i]);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double first = seconds_for(0, some);
  seconds_for(some, 3 * some);
  EXPECT_LT(seconds_for(3 * some, 4 * some), 4 * first + 0.2);
  EXPECT_THROW(run.protect("group", values), Error);
  EXPECT_THROW(run.protect("group/7/x", values), Error);
  run.protect("grou", values);
  run.unprotect("group/7");
  run.protect("group/7/x", values);
}

TEST_F(SessionTest, a_loop_inside_a_loop_leaves_the_outer_one_as_it_was) {
  int outer = 0;
  Session run(alone, options());
  run.loop([&] {
    run.loop([] {});
    if (++outer == 1) run.rollback("once more");
  });
  EXPECT_EQ(outer, 2);
  EXPECT_THROW(run.rollback("outside"), Error);
}

TEST_F(SessionTest, a_rollback_goes_to_the_loop_of_its_session) {
  int outer = 0, inner = 0;
  Session run(alone, options()), other(alone, options({{"dir", dir_ / "other"}}));
  run.loop([&] {
    ++outer;
    other.loop([&] {
      if (++inner == 1) run.rollback("both");
      if (inner == 2) other.rollback("the inner one");
    });
  });
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 3);
}

TEST_F(SessionTest, a_cell_list_that_is_unprotected_leaves_nothing_protected) {
  std::vector<int> slots(8, 1), counts(2, 4);
  Session run(alone, options());
  for (int turn = 0; turn < 2; ++turn) {
    run.protect("cells", filled_slots(slots.data(), counts.data(), 2, 4));
    run.unprotect("cells");
    EXPECT_THROW(run.unprotect("cells.counts"), Error);
  }
  run.protect("cells", filled_slots(slots.data(), counts.data(), 2, 4));
  run.unprotect("cells.counts");
  run.unprotect("cells");
}

TEST_F(SessionTest, only_the_last_pattern_of_a_node_directory_is_one) {
  const auto odd = dir_ / "50%new" / "ck";
  int x = 0;
  {
    Session run(alone, {{"dir", odd.string()}, {"log", "quiet"}, {"levels", "local"}, {"name", "a%nb"}});
    run.protect("x", x);
    run.checkpoint(now);
  }
  EXPECT_TRUE(std::filesystem::exists(odd / "node-0" / "a%nb" / "local" / "line-00000001" / "manifest"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "500ew"));
}

TEST_F(SessionTest, a_directory_behind_a_link_is_the_one_that_the_system_finds) {
  std::filesystem::create_directories(dir_ / "far" / "away");
  std::filesystem::create_directory_symlink(dir_ / "far" / "away", dir_ / "link");
  int x = 0;
  {
    Session run(alone, {{"dir", (dir_ / "link" / ".." / "ck").string()}, {"log", "quiet"}});
    run.protect("x", x);
    run.checkpoint(now);
  }
  EXPECT_TRUE(std::filesystem::exists(dir_ / "far" / "ck" / "shared" / "line-00000001" / "manifest"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "ck"));
}

TEST_F(SessionTest, pipes_in_the_place_of_files_are_damage_and_no_hang) {
  int x = 4;
  {
    Session run(alone, options());
    run.protect("x", x);
    for (int i = 0; i < 2; ++i) {
      run.checkpoint(now);
      run.wait();
    }
  }
  const auto manifest = dir_ / "shared" / "line-00000002" / "manifest";
  std::filesystem::remove(manifest);
  std::filesystem::remove(dir_ / "events.jsonl");
  ASSERT_EQ(mkfifo(manifest.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((dir_ / "events.jsonl").c_str(), 0600), 0);
  x = 0;
  Session run(alone, options());
  run.protect("x", x);
  EXPECT_EQ(run.resume().line, 1U);
  EXPECT_EQ(x, 4);
}

TEST_F(SessionTest, in_a_directory_that_is_gone_is_refused_with_the_reason) {
  std::filesystem::create_directories(dir_ / "gone");
  EXPECT_EXIT(
      {
        std::filesystem::current_path(dir_ / "gone");
        std::filesystem::remove(dir_ / "gone");
        try {
          Session run(alone, {{"dir", "ck"}, {"log", "quiet"}});
        } catch (const Error& e) {
          std::fputs(e.what(), stderr);
          std::exit(4);
        }
        std::exit(0);
      },
      testing::ExitedWithCode(4), "the directory 'ck' cannot be found, because the directory that this program");
}

TEST_F(SessionTest, names_that_no_file_can_hold_are_refused) {
  int x = 0;
  Session run(alone, options());
  EXPECT_THROW(run.protect("", x), Error);
  EXPECT_THROW(run.protect("/x", x), Error);
  run.protect("größe der welle/x 1", x);
  EXPECT_THROW(run.protect("größe der welle/x 1", x), Error);
  EXPECT_THROW(run.unprotect("y"), Error);
}

/// A body in C that returns 1 where a call fails, and throws the sentence away.
TEST_F(SessionTest, what_a_body_in_c_has_thrown_away_is_in_the_sentence_of_its_loop) {
  struct Program {
    backstay_session* session;
    std::int64_t n;
    std::vector<double> u;
  };
  const auto body = [](void* user) {
    auto& program = *static_cast<Program*>(user);
    backstay_error thrown_away;
    if (backstay_resume(program.session, nullptr, &thrown_away) != 0) return 1;
    return program.n == 4 ? backstay_checkpoint_now(program.session, nullptr, &thrown_away) : 7;
  };
  for (const std::int64_t n : {4, 5, 4}) {
    const std::string dir = "dir=" + dir_.string();
    const char* const options[] = {dir.c_str(), "log=quiet", nullptr};
    backstay_error error;
    Program program{nullptr, n, std::vector<double>(static_cast<std::size_t>(n))};
    ASSERT_EQ(backstay_open_alone(options, &program.session, &error), 0) << error.message;
    backstay_region region{};
    region.name = "u", region.type = {BACKSTAY_FLOATING, sizeof(double), nullptr, 0};
    region.ndim = 1, region.shape = &n, region.data = program.u.data();
    ASSERT_EQ(backstay_protect(program.session, &region, &error), 0) << error.message;
    EXPECT_EQ(backstay_loop(program.session, body, &program, &error), n == 4 ? BACKSTAY_OK : BACKSTAY_USER);
    if (n == 5) {
      const std::string said = error.message;
      EXPECT_NE(said.find("the body of backstay_loop returned 1; the last call of backstay in it that failed said: "),
                std::string::npos)
          << said;
      EXPECT_NE(said.find("'u'"), std::string::npos) << said;
    }
    backstay_close(program.session);
  }
}

}  // namespace
}  // namespace backstay
