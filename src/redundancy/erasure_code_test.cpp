#include "redundancy/erasure_code.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace backstay::redundancy {
namespace {

using Shards = std::vector<Bytes>;

Shards random_shards(std::size_t count, std::size_t bytes, unsigned seed) {
  std::mt19937 chance(seed);
  Shards shards(count, Bytes(bytes));
  for (auto& shard : shards)
    for (auto& byte : shard) byte = static_cast<std::byte>(chance());
  return shards;
}

Shards make(const ErasureCode& code, const std::vector<int>& from, const Shards& shards, const std::vector<int>& to) {
  std::vector<ByteView> in;
  for (const int shard : from) in.emplace_back(shards[static_cast<std::size_t>(shard)]);
  Shards made(to.size(), Bytes(shards[0].size()));
  const std::vector<MutableByteView> out(made.begin(), made.end());
  code.map(from, to).apply(in, out);
  return made;
}

std::vector<int> numbers(int first, int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// Data and parity of a random stripe.
Shards stripe_of(const ErasureCode& code, std::size_t bytes, unsigned seed) {
  auto shards = random_shards(static_cast<std::size_t>(code.k()), bytes, seed);
  for (auto& parity : make(code, numbers(0, code.k()), shards, numbers(code.k(), code.p()))) shards.push_back(parity);
  return shards;
}

TEST(erasure_code, any_k_shards_give_back_all_others) {
  for (const auto& [k, p] : {std::pair{1, 1}, {1, 3}, {4, 1}, {3, 2}, {6, 2}, {4, 4}}) {
    const auto code = ErasureCode::make(k, p);
    ASSERT_TRUE(code.ok());
    const auto shards = stripe_of(*code, 65, 7);
    for (unsigned left = 0; left < (1U << (k + p)); ++left) {  // every choice of k
      std::vector<int> from, to;
      for (int shard = 0; shard < k + p; ++shard) ((left >> shard & 1U) != 0 ? from : to).push_back(shard);
      if (static_cast<int>(from.size()) != k) continue;
      const auto made = make(*code, from, shards, to);
      for (std::size_t i = 0; i < to.size(); ++i) ASSERT_EQ(made[i], shards[static_cast<std::size_t>(to[i])]);
    }
  }
}

TEST(erasure_code, large_groups_survive_random_losses) {
  std::mt19937 chance(1);
  for (const auto& [k, p] : {std::pair{28, 4}, {14, 2}, {128, 127}, {254, 1}, {1, 254}}) {
    const auto code = ErasureCode::make(k, p);
    ASSERT_TRUE(code.ok());
    const auto shards = stripe_of(*code, 33, 3);
    for (int trial = 0; trial < 5; ++trial) {
      auto from = numbers(0, k + p);
      std::shuffle(from.begin(), from.end(), chance);
      const std::vector<int> to(from.begin() + k, from.end());
      from.resize(static_cast<std::size_t>(k));
      const auto made = make(*code, from, shards, to);
      for (std::size_t i = 0; i < to.size(); ++i) ASSERT_EQ(made[i], shards[static_cast<std::size_t>(to[i])]);
    }
  }
}

TEST(erasure_code, first_parity_is_the_xor_of_the_data) {
  const auto code = ErasureCode::make(5, 3);
  const auto shards = stripe_of(*code, 100, 9);
  for (std::size_t i = 0; i < 100; ++i) {
    std::byte sum{0};
    for (std::size_t shard = 0; shard < 5; ++shard) sum ^= shards[shard][i];
    EXPECT_EQ(shards[5][i], sum);
  }
}

TEST(erasure_code, shards_of_no_bytes_are_nothing) {
  const auto code = ErasureCode::make(2, 1);
  EXPECT_EQ(make(*code, {0, 1}, Shards(2), {2}), Shards(1));
}

TEST(erasure_code, impossible_sizes_are_refused) {
  for (const auto& [k, p] : {std::pair{0, 1}, {1, 0}, {-1, 2}, {200, 56}, {1, 255}}) {
    const auto code = ErasureCode::make(k, p);
    ASSERT_FALSE(code.ok());
    EXPECT_EQ(code.failure().code, Code::invalid_argument);
  }
}

}  // namespace
}  // namespace backstay::redundancy
