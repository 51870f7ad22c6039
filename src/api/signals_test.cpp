#include "api/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace backstay::api {
namespace {

bool ends_the_process(int signal) {
  struct sigaction current{};
  sigaction(signal, nullptr, &current);
  return current.sa_handler == SIG_DFL;
}

TEST(signals, are_noted_while_somebody_listens_and_end_the_process_before_and_after) {
  EXPECT_TRUE(ends_the_process(SIGTERM) && ends_the_process(SIGUSR1));
  for (int signal : {SIGTERM, SIGUSR1}) {
    const SignalListener listener;
    EXPECT_FALSE(SignalListener::asked()) << "what came before the first listener is not for it";
    std::raise(signal);
    EXPECT_TRUE(SignalListener::asked());
    EXPECT_FALSE(ends_the_process(signal));
    SignalListener::served();
  }
  EXPECT_TRUE(ends_the_process(SIGTERM) && ends_the_process(SIGUSR1));
}

TEST(signals, end_the_process_again_once_every_listener_has_its_last_checkpoint) {
  const SignalListener first, second;
  std::raise(SIGTERM);
  SignalListener::served();
  EXPECT_FALSE(ends_the_process(SIGTERM)) << "the other session is still writing";
  SignalListener::served();
  EXPECT_TRUE(ends_the_process(SIGTERM) && ends_the_process(SIGUSR1));
  EXPECT_TRUE(SignalListener::asked()) << "that it was asked stays known";
}

TEST(signals, that_nobody_served_end_the_process_when_the_last_listener_ends) {
  for (int signal : {SIGTERM, SIGUSR1}) {
    const auto end_two = [signal] {
      auto first = std::make_unique<SignalListener>(), second = std::make_unique<SignalListener>();
      std::raise(signal);
      first.reset();
      std::fputs("the first is over", stderr);
      second.reset();
      std::exit(0);
    };
    EXPECT_EXIT(end_two(), testing::KilledBySignal(signal), "the first is over");
  }
}

TEST(signals, that_nobody_served_wait_while_an_exception_leaves_the_program) {
  const auto leave = [] {
    try {
      const SignalListener listener;
      std::raise(SIGTERM);
      throw 1;
    } catch (int) {
      std::exit(3);
    }
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(3), "");
}

/// A worker of Python's multiprocessing is ended in this way.
TEST(signals, end_a_forked_process_in_which_nobody_listens) {
  for (const bool still_listens : {true, false})
    for (int signal : {SIGTERM, SIGUSR1}) {
      auto listener = std::make_unique<SignalListener>();
      const pid_t child = fork();
      if (child == 0)
        for (alarm(30);;) pause();
      if (!still_listens) listener.reset();
      kill(child, signal);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
      EXPECT_FALSE(SignalListener::asked());
    }
}

TEST(signals, are_noted_in_a_forked_process_that_listens_itself) {
  const SignalListener of_parent;
  const pid_t child = fork();
  if (child == 0) {
    const auto* const own = new SignalListener;
    std::raise(SIGTERM);
    const bool noted = SignalListener::asked();
    SignalListener::served();
    const bool ends = ends_the_process(SIGTERM);
    delete own;
    _exit(noted && ends ? 7 : 8);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(signals, that_the_program_handles_itself_are_left_to_it) {
  const auto before = std::signal(SIGUSR1, [](int) {});
  struct sigaction mine{}, now{};
  sigaction(SIGUSR1, nullptr, &mine);
  {
    const SignalListener listener;
    sigaction(SIGUSR1, nullptr, &now);
    EXPECT_EQ(now.sa_handler, mine.sa_handler);
    std::raise(SIGUSR1);
    EXPECT_FALSE(SignalListener::asked());
    EXPECT_FALSE(ends_the_process(SIGTERM));
    SignalListener::served();
  }
  sigaction(SIGUSR1, nullptr, &now);
  EXPECT_EQ(now.sa_handler, mine.sa_handler);
  std::signal(SIGUSR1, before);
}

}  // namespace
}  // namespace backstay::api
