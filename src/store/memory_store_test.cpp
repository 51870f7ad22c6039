#include "store/memory_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace backstay::store {
namespace {

long faults_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(memory_store, overwriting_a_recycled_file_brings_no_new_pages) {
  constexpr std::size_t size = std::size_t{32} << 20;
  const auto store = make_memory_store();
  const Bytes bytes(size, std::byte{1});
  ASSERT_TRUE(write_file(*store, "f", bytes).ok());
  const long before = faults_so_far();
  for (int round = 0; round < 3; ++round) {
    auto file = store->open_to_write("f").value();
    ASSERT_TRUE(file->resize(10).ok());
    ASSERT_TRUE(file->write_at(0, bytes).ok());
  }
  EXPECT_LT(faults_so_far() - before, static_cast<long>(size / 4096 / 10));
}

TEST(memory_store, a_file_that_grows_in_small_steps_keeps_its_bytes) {
  const auto store = make_memory_store();
  auto file = store->open_to_write("f").value();
  std::string expected;
  for (int step = 0; step < 3000; ++step) {
    const std::string part = std::to_string(step) + ";";
    ASSERT_TRUE(file->write_at(expected.size(), as_bytes(part)).ok());
    expected += part;
  }
  EXPECT_EQ(as_text(read_file(*store, "f", expected.size()).value()), expected);
}

TEST(memory_store, more_than_there_is_memory_is_no_space) {
  const auto store = make_memory_store();
  auto file = store->open_to_write("f").value();
  const auto result = file->resize(std::uint64_t{1} << 60);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().code, Code::no_space);
  EXPECT_EQ(result.failure().what,
            "cannot grow memory/f to 1152921504606846976 bytes: the system has no more memory; keep fewer lines in "
            "memory or use a directory");
  EXPECT_EQ(file->size().value(), 0U);
}

TEST(memory_store, two_stores_share_nothing) {
  const auto one = make_memory_store();
  const auto two = make_memory_store();
  ASSERT_TRUE(write_file(*one, "f", as_bytes("x")).ok());
  EXPECT_TRUE(two->list("").value().empty());
}

}  // namespace
}  // namespace backstay::store
