#include "comm/unwinding.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace backstay::comm {
namespace {

/// What ends_at_noexcept() said at the innermost call.
std::vector<bool> found;

[[gnu::noinline]] void look(const void* limit) {
  found.push_back(ends_at_noexcept(limit));
  asm volatile("" ::: "memory");  // the call above is no tail call
}

struct Quiet {
  const void* limit;
  explicit Quiet(const void* at) : limit(at) {}
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { look(limit); }
};

struct Loud {
  const void* limit;
  explicit Loud(const void* at) : limit(at) {}
  Loud(const Loud&) = delete;
  Loud& operator=(const Loud&) = delete;
  ~Loud() noexcept(false) { look(limit); }
};

[[gnu::noinline]] void never_throws(const void* limit) noexcept { look(limit); }

[[gnu::noinline]] void has_much_to_clean_up(const void* limit) {
  const std::string text(100, 'a');
  const std::vector<int> numbers(100);
  look(limit);
  EXPECT_EQ(text.size(), numbers.size());
}

[[gnu::noinline]] void catches(const void* limit) {
  try {
    look(limit);
  } catch (const std::exception& e) {
    FAIL() << e.what();
  }
}

bool found_in(void (*call)(const void*)) {
  found.clear();
  call(__builtin_frame_address(0));
  EXPECT_EQ(found.size(), 1U);
  return found.at(0);
}

TEST(unwinding, an_exception_gets_out_of_functions_that_clean_up_or_catch_others) {
  EXPECT_FALSE(found_in(look));
  EXPECT_FALSE(found_in(has_much_to_clean_up));
  EXPECT_FALSE(found_in(catches));
  EXPECT_FALSE(found_in([](const void* limit) { const Loud loud(limit); }));
}

#if defined(__GNUC__) && !defined(__clang__)
TEST(unwinding, it_gets_out_of_no_destructor_and_no_noexcept_function) {
  EXPECT_TRUE(found_in(never_throws));
  EXPECT_TRUE(found_in([](const void* limit) { const Quiet quiet(limit); }));
  EXPECT_TRUE(found_in([](const void* limit) {
    const std::vector<int> numbers(100);
    const Quiet quiet(limit);
  }));
}
#endif

TEST(unwinding, what_lies_beyond_the_function_that_catches_is_not_looked_at) {
  found.clear();
  [](const std::string& text) noexcept {
    has_much_to_clean_up(__builtin_frame_address(0));
    EXPECT_FALSE(text.empty());
  }("text");
  EXPECT_EQ(found, std::vector<bool>{false});
}

}  // namespace
}  // namespace backstay::comm
