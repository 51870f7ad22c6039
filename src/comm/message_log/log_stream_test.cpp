#include "comm/message_log/log_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace backstay::comm {
namespace {

Bytes random_bytes(std::size_t size, unsigned below = 256) {
  std::mt19937 random(1);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random() % below);
  return bytes;
}

TEST(LogStream, what_was_written_is_read) {
  const std::vector<std::int64_t> numbers = {0,
                                             1,
                                             -1,
                                             63,
                                             64,
                                             -64,
                                             -65,
                                             1 << 20,
                                             std::numeric_limits<int>::min(),
                                             std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::int64_t>::min()};
  const auto bytes = random_bytes(1000);
  LogWriter writer;
  writer.begin("first", -1, {});
  for (const auto n : numbers) writer.number(n);
  std::ranges::copy(bytes, writer.room(bytes.size()).begin());
  writer.end(false);
  writer.begin("second", 3, {7, -8});
  writer.end(false);
  LogReader reader(writer.take());
  EXPECT_EQ(reader.begin().name, "first");
  for (const auto n : numbers) EXPECT_EQ(reader.number(), n);
  EXPECT_TRUE(std::ranges::equal(reader.data(bytes.size()), bytes));
  reader.end(false);
  const auto head = reader.begin();
  EXPECT_EQ(head.name, "second");
  EXPECT_EQ(head.comm, 3);
  EXPECT_EQ(head.facts, (Facts{7, -8}));
  reader.end(false);
  EXPECT_TRUE(reader.complete());
  EXPECT_TRUE(reader.at_end());
  (void)reader.number();
  EXPECT_FALSE(reader.complete());
}

TEST(LogStream, idle_entries_that_are_equal_are_written_once_and_read_as_often_as_they_were_made) {
  LogWriter writer;
  const std::vector<std::pair<std::int64_t, int>> runs = {{1, 1}, {2, 1000000}, {1, 2}, {3, 1}, {3, 0}};
  for (const auto& [fact, times] : runs) {
    for (int i = 0; i < times; ++i) {
      writer.begin("poll", 0, {fact});
      writer.number(0);
      writer.end(true);
    }
    writer.begin("other", 0, {fact});
    writer.end(false);
  }
  const Bytes log = writer.take();
  EXPECT_LT(log.size(), 150U);
  LogReader reader(log);
  for (const auto& [fact, times] : runs) {
    for (int i = 0; i < times; ++i) {
      const auto head = reader.begin();
      ASSERT_EQ(head.name, "poll");
      ASSERT_EQ(head.facts, Facts{fact});
      ASSERT_EQ(reader.number(), 0);
      reader.end(true);
    }
    ASSERT_EQ(reader.begin().name, "other");
    reader.end(false);
  }
  EXPECT_TRUE(reader.at_end() && reader.complete());
}

TEST(LogStream, a_reader_of_any_bytes_stays_inside_them) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Bytes bytes(random() % 200);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() % (seed % 2 == 0 ? 256 : 8));
    LogReader reader(bytes);
    for (int i = 0; i < 200 && reader.complete() && !reader.at_end(); ++i) {
      (void)reader.begin();
      (void)reader.data(static_cast<std::size_t>(reader.number()));
      reader.end(random() % 2 == 0);
    }
  }
}

TEST(LogStream, what_was_sealed_comes_back_at_any_size) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{300000}, std::size_t{20000000}})
    for (const unsigned below : {1U, 4U, 256U}) {
      const auto raw = random_bytes(size, below);
      const auto back = unseal(seal(raw));
      ASSERT_TRUE(back.ok()) << back.failure().what;
      EXPECT_EQ(*back, raw);
    }
  EXPECT_LT(seal(Bytes(1000000)).size(), 10000U);
}

TEST(LogStream, a_damaged_seal_is_refused) {
  const auto sealed = seal(random_bytes(300, 4));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto damaged = sealed;
      damaged[i] ^= static_cast<std::byte>(1 << bit);
      const auto back = unseal(damaged);
      ASSERT_FALSE(back.ok());
      EXPECT_EQ(back.failure().code, Code::corrupt);
    }
    const auto back = unseal(ByteView(sealed).first(i));
    ASSERT_FALSE(back.ok());
    EXPECT_EQ(back.failure().code, Code::corrupt);
  }
}

}  // namespace
}  // namespace backstay::comm
