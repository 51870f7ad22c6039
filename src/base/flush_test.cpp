#include "base/flush.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
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

/// In a process of its own, whose standard output comes to the test.
[[noreturn]] void flush_while_a_thread_reads() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0 || dup2(ends[0], STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) _exit(1);
  std::thread([] {
    std::array<char, 8> line{};
    if (std::fgets(line.data(), static_cast<int>(line.size()), stdin) == nullptr) _exit(2);
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::fputs("held", stdout);
  flush_all_files();
  _exit(0);
}

TEST(flush, what_is_held_for_stdout_is_written_while_a_thread_waits_for_input) {
  EXPECT_EXIT(flush_while_a_thread_reads(), testing::ExitedWithCode(0), "held");
}

}  // namespace
}  // namespace backstay
