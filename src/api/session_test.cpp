// The session of one process: the public calls without MPI. With MPI: tests/mpi.
#include "backstay/backstay.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>

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

TEST_F(SessionTest, a_forked_child_leaves_the_session_to_its_parent) {
  int step = 1;
  auto run = std::make_unique<Session>(alone, options());
  run->protect("step", step);
  run->checkpoint(now);
  const pid_t child = fork();
  if (child == 0) {
    run.reset();
    _exit(0);
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

TEST_F(SessionTest, names_that_no_file_can_hold_are_refused) {
  int x = 0;
  Session run(alone, options());
  EXPECT_THROW(run.protect("", x), Error);
  EXPECT_THROW(run.protect("/x", x), Error);
  run.protect("größe der welle/x 1", x);
  EXPECT_THROW(run.protect("größe der welle/x 1", x), Error);
  EXPECT_THROW(run.unprotect("y"), Error);
}

}  // namespace
}  // namespace backstay
