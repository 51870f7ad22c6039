#include "redundancy/parity_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include "comm/fake_comm.h"

namespace backstay::redundancy {
namespace {

/// One member's shards in memory.
struct Shards {
  Bytes data;                 // as long as it is
  std::vector<Bytes> parity;  // whole chunks
};

ShardAccess access_to(Shards& shards, int k, std::uint64_t chunk) {
  ShardAccess access;
  access.read = [&shards, k, chunk](int shard, std::uint64_t offset, MutableByteView room) -> Result<ByteView> {
    if (shard >= k) return ByteView(shards.parity[static_cast<std::size_t>(shard - k)]).subspan(offset, room.size());
    const std::uint64_t begin = static_cast<std::uint64_t>(shard) * chunk + offset;
    std::fill(room.begin(), room.end(), std::byte{0});
    for (std::uint64_t i = 0; i < room.size() && begin + i < shards.data.size(); ++i) room[i] = shards.data[begin + i];
    return ByteView(room);
  };
  access.write = [&shards, k, chunk](int shard, std::uint64_t offset, ByteView bytes) -> Result<void> {
    if (shard >= k) {
      std::copy(bytes.begin(), bytes.end(),
                shards.parity[static_cast<std::size_t>(shard - k)].begin() + static_cast<std::ptrdiff_t>(offset));
      return {};
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(shard) * chunk + offset;
    for (std::uint64_t i = 0; i < bytes.size() && begin + i < shards.data.size(); ++i)
      shards.data[begin + i] = bytes[i];
    return {};
  };
  return access;
}

Bytes bytes_of(int member, std::size_t size) {
  std::mt19937 chance(static_cast<unsigned>(member) + 1);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(chance());
  return bytes;
}

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

struct Sizes {
  std::size_t smallest, step;
};

/// Encodes on n ranks, loses `lost`, rebuilds; every byte of data and parity must be back.
void go_round(int n, int p, Sizes sizes, const std::vector<int>& lost) {
  const Stripes stripes{n, p};
  const auto size = [&](int member) { return sizes.smallest + sizes.step * static_cast<std::size_t>(member); };
  const std::uint64_t chunk = stripes.chunk(size(n - 1));
  const ParityGroup group{numbers(n), static_cast<std::size_t>(n)};
  comm::run_ranks(n, [&](comm::Comm& comm) {
    const int me = comm.rank();
    const std::vector<Bytes> no_parity(static_cast<std::size_t>(p), Bytes(chunk));
    Shards shards{bytes_of(me, size(me)), no_parity};
    const auto access = access_to(shards, stripes.k(), chunk);
    ASSERT_TRUE(exchange_shards(comm, group, p, chunk, plan_encoding(stripes), access).ok());
    const Shards whole = shards;
    if (std::find(lost.begin(), lost.end(), me) != lost.end())
      shards = {Bytes(size(me), std::byte{0x55}),
                std::vector<Bytes>(static_cast<std::size_t>(p), Bytes(chunk, std::byte{0x55}))};
    ASSERT_TRUE(exchange_shards(comm, group, p, chunk, plan_rebuild(stripes, lost), access).ok());
    EXPECT_TRUE(shards.data == whole.data);
    EXPECT_TRUE(shards.parity == whole.parity);
    EXPECT_TRUE(shards.data == bytes_of(me, size(me)));
  });
}

TEST(parity_exchange, one_lost_member_comes_back_by_xor) {
  for (int lost = 0; lost < 4; ++lost) go_round(4, 1, {10'000, 0}, {lost});
}

TEST(parity_exchange, any_two_lost_members_come_back) {
  for (int a = 0; a < 5; ++a)
    for (int b = a + 1; b < 5; ++b) go_round(5, 2, {3000, 777}, {a, b});
}

TEST(parity_exchange, members_of_any_size_come_back_among_them_empty_ones) {
  go_round(4, 2, {0, 1}, {0, 3});
  go_round(3, 1, {0, 0}, {1});
  go_round(3, 1, {1, 0}, {2});
  go_round(6, 3, {0, 100'003}, {0, 4, 5});
}

TEST(parity_exchange, copies_are_the_case_of_one_data_shard) {
  go_round(2, 1, {5000, 3}, {1});
  go_round(4, 3, {5000, 3}, {0, 1, 2});
}

TEST(parity_exchange, many_pieces_of_large_data_come_back) { go_round(3, 1, {9'000'000, 1'234'567}, {1}); }

TEST(parity_exchange, larger_groups_with_fewer_losses_than_parities_come_back) { go_round(9, 3, {20'000, 31}, {2, 7}); }

TEST(parity_exchange, one_failure_to_write_is_told_and_stops_nobody) {
  const Stripes stripes{4, 1};
  const std::uint64_t chunk = stripes.chunk(3'000'000);
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Shards shards{bytes_of(comm.rank(), 3'000'000), {Bytes(chunk)}};
    auto access = access_to(shards, 3, chunk);
    if (comm.rank() == 2)
      access.write = [](int, std::uint64_t, ByteView) -> Result<void> { return fail(Code::no_space, "full"); };
    const auto done = exchange_shards(comm, {numbers(4), 4}, 1, chunk, plan_encoding(stripes), access);
    ASSERT_EQ(done.ok(), comm.rank() != 2);
    if (!done) {
      EXPECT_EQ(done.failure().what, "full");
    }
    EXPECT_TRUE(comm.barrier().ok());
  });
}

TEST(parity_exchange, rebuilding_is_spread_over_all_who_are_left) {
  const Stripes stripes{8, 2};
  std::map<int, int> works;
  for (const auto& wave : plan_rebuild(stripes, {1, 6})) {
    std::set<int> workers;
    for (const auto& work : wave) {
      EXPECT_TRUE(workers.insert(work.worker).second) << "a member works on two stripes at once";
      ++works[work.worker];
      EXPECT_EQ(work.inputs.size(), 6U);
    }
  }
  ASSERT_EQ(works.size(), 6U);
  for (const auto& [member, count] : works) EXPECT_LE(count, 2) << member;
}

}  // namespace
}  // namespace backstay::redundancy
