#include "base/flush.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

namespace backstay {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(flush, what_is_held_for_all_files_is_written) {
  const std::string path = testing::TempDir() + "backstay-flush-" + std::to_string(getpid());
  std::FILE* const output = std::fopen(path.c_str(), "w");
  ASSERT_GT(std::fputs("held", output), 0);
  EXPECT_EQ(text_of(path), "");
  flush_all_files();
  EXPECT_EQ(text_of(path), "held");
  std::fclose(output);
  std::remove(path.c_str());
}

void wait_until_locked(std::FILE* file) {
  while (ftrylockfile(file) == 0) {
    funlockfile(file);
    std::this_thread::yield();
  }
}

/// In a process of its own, whose standard output comes to the test. The pipe never ends.
[[noreturn]] void flush_while_a_thread_reads(bool stdin_itself) {
  alarm(60);
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) _exit(1);
  std::FILE* const output = fdopen(dup(STDERR_FILENO), "w");
  if (output == nullptr || std::setvbuf(output, nullptr, _IOFBF, BUFSIZ) != 0) _exit(1);
  std::FILE* const input = stdin_itself ? stdin : fdopen(ends[0], "r");
  if (stdin_itself && dup2(ends[0], STDIN_FILENO) < 0) _exit(1);
  std::thread([input] {
    std::array<char, 8> line{};
    if (std::fgets(line.data(), static_cast<int>(line.size()), input) == nullptr) _exit(2);
  }).detach();
  wait_until_locked(input);
  std::fputs("held for stdout;", stdout);
  std::fputs("held for another file;", output);
  flush_all_files();
  _exit(0);
}

TEST(flush, what_is_held_for_all_files_is_written_while_a_thread_waits_for_input) {
  EXPECT_EXIT(flush_while_a_thread_reads(true), testing::ExitedWithCode(0), "held for stdout;held for another file;");
}

TEST(flush, what_is_held_for_stdout_is_written_while_a_thread_reads_what_does_not_come) {
  EXPECT_EXIT(flush_while_a_thread_reads(false), testing::ExitedWithCode(0), "held for stdout;");
}

/// The pipe is full, and nobody reads it.
[[noreturn]] void flush_while_a_thread_prints() {
  alarm(60);
  std::array<int, 2> ends{};
  std::FILE* const output = fdopen(dup(STDERR_FILENO), "w");
  if (output == nullptr || pipe(ends.data()) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(1);
  std::thread([] {
    while (std::puts("more") >= 0) continue;
  }).detach();
  std::array<pollfd, 1> full{{{ends[1], POLLOUT, 0}}};
  while (poll(full.data(), 1, 0) > 0) std::this_thread::yield();
  wait_until_locked(stdout);
  std::fputs("held for another file;", output);
  flush_all_files();
  _exit(0);
}

TEST(flush, what_is_held_for_other_files_is_written_while_a_thread_prints_what_nobody_reads) {
  EXPECT_EXIT(flush_while_a_thread_prints(), testing::ExitedWithCode(0), "held for another file;");
}

TEST(flush, a_call_that_does_not_end_keeps_nobody) {
  const auto begins = std::make_shared<std::promise<void>>(), may_end = std::make_shared<std::promise<void>>();
  call_in_time([begins, may_end] {
    begins->set_value();
    may_end->get_future().wait();
  });
  begins->get_future().wait();
  may_end->set_value();
}

}  // namespace
}  // namespace backstay
