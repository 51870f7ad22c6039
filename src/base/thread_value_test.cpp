#include "base/thread_value.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace backstay {
namespace {

struct Word {
  std::string text;
};

/// Its end comes behind that of what is used later.
struct Late {
  bool* is_gone = nullptr;
  ~Late() { *is_gone = of_this_thread<Word>() == nullptr; }
};

TEST(thread_value, is_one_for_each_thread_and_gone_in_what_a_thread_does_behind_it) {
  of_this_thread<Word>()->text = "mine";
  bool is_gone = false;
  std::string there = "?";
  std::thread([&] {
    thread_local Late late;
    late.is_gone = &is_gone;
    there = of_this_thread<Word>()->text;
    of_this_thread<Word>()->text = "longer than what a string keeps within itself";
  }).join();
  EXPECT_EQ(there, "");
  EXPECT_TRUE(is_gone);
  EXPECT_EQ(of_this_thread<Word>()->text, "mine");
}

}  // namespace
}  // namespace backstay
