#include "redundancy/parity_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "comm/checked_comm.h"
#include "comm/fake_comm.h"

namespace backstay::redundancy {
namespace {

/// One member's shards in memory.
struct Shards {
  Bytes data;                 // as long as it is
  std::vector<Bytes> parity;  // whole chunks
};

/// By member: those for which a rank acts.
using Held = std::map<int, Shards>;

ShardAccess access_to(Held& held, int k, std::uint64_t chunk) {
  ShardAccess access;
  access.read = [&held, k, chunk](const ShardPart& part, Scratch& scratch) -> Result<ByteView> {
    const Shards& shards = held.at(part.member);
    if (part.shard >= k)
      return ByteView(shards.parity[static_cast<std::size_t>(part.shard - k)]).subspan(part.offset, part.size);
    const std::uint64_t begin = static_cast<std::uint64_t>(part.shard) * chunk + part.offset;
    const MutableByteView room = scratch.of(part.size);
    std::fill(room.begin(), room.end(), std::byte{0});
    for (std::uint64_t i = 0; i < room.size() && begin + i < shards.data.size(); ++i) room[i] = shards.data[begin + i];
    return ByteView(room);
  };
  access.write = [&held, k, chunk](const ShardPart& part, ByteView bytes) -> Result<void> {
    Shards& shards = held.at(part.member);
    if (part.shard >= k) {
      auto& parity = shards.parity[static_cast<std::size_t>(part.shard - k)];
      std::copy(bytes.begin(), bytes.end(), parity.begin() + static_cast<std::ptrdiff_t>(part.offset));
      return {};
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(part.shard) * chunk + part.offset;
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

int ranks_in(const std::vector<int>& acting) { return *std::max_element(acting.begin(), acting.end()) + 1; }

/// Encodes on n ranks, or those of `encoding[member]`, loses `lost`, rebuilds on as many ranks or fewer
/// (`acting[member]`); every byte of data and parity must be back.
void go_round(int n, int p, Sizes sizes, const std::vector<int>& lost, std::vector<int> acting = {},
              std::vector<int> encoding = {}) {
  if (acting.empty()) acting = numbers(n);
  if (encoding.empty()) encoding = numbers(n);
  const Stripes stripes{n, p};
  const auto size = [&](int member) { return sizes.smallest + sizes.step * static_cast<std::size_t>(member); };
  const std::uint64_t chunk = stripes.chunk(size(n - 1));
  std::vector<Shards> encoded(static_cast<std::size_t>(n));
  comm::run_ranks(ranks_in(encoding), [&](comm::Comm& comm) {
    Held held;
    for (int member = 0; member < n; ++member)
      if (encoding[static_cast<std::size_t>(member)] == comm.rank())
        held[member] = {bytes_of(member, size(member)), std::vector<Bytes>(static_cast<std::size_t>(p), Bytes(chunk))};
    const ParityGroup group{encoding, static_cast<std::size_t>(n)};
    ASSERT_TRUE(
        exchange_shards(comm, group, p, chunk, plan_encoding(stripes), access_to(held, stripes.k(), chunk)).ok());
    for (auto& [member, shards] : held) {
      EXPECT_TRUE(shards.data == bytes_of(member, size(member)));
      encoded[static_cast<std::size_t>(member)] = std::move(shards);
    }
  });
  comm::run_ranks(ranks_in(acting), [&](comm::Comm& comm) {
    Held held;
    for (int member = 0; member < n; ++member) {
      if (acting[static_cast<std::size_t>(member)] != comm.rank()) continue;
      held[member] = encoded[static_cast<std::size_t>(member)];
      if (std::find(lost.begin(), lost.end(), member) == lost.end()) continue;
      std::fill(held[member].data.begin(), held[member].data.end(), std::byte{0x55});
      for (auto& chunk_of_parity : held[member].parity)
        std::fill(chunk_of_parity.begin(), chunk_of_parity.end(), std::byte{0x55});
    }
    const ParityGroup group{acting, static_cast<std::size_t>(n)};
    ASSERT_TRUE(
        exchange_shards(comm, group, p, chunk, plan_rebuild(stripes, lost), access_to(held, stripes.k(), chunk)).ok());
    for (const auto& [member, shards] : held) {
      EXPECT_TRUE(shards.data == encoded[static_cast<std::size_t>(member)].data) << member;
      EXPECT_TRUE(shards.parity == encoded[static_cast<std::size_t>(member)].parity) << member;
    }
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

/// The arithmetic in 8 bits has no more: see docs/options.md. Most members are one rank's, as messages among threads of
/// one process take long where there are many.
TEST(parity_exchange, the_largest_group_comes_back) {
  constexpr int n = 255;
  std::vector<int> acting;
  for (int member = 0; member < n; ++member) acting.push_back(member < 3 ? member : 0);
  go_round(n, 170, {50'000, 3}, {0, 2, 254}, acting, acting);
}

TEST(parity_exchange, fewer_ranks_act_for_more_members) {
  go_round(6, 2, {30'000, 11}, {1, 4}, {0, 0, 1, 1, 2, 2});
  go_round(6, 2, {30'000, 11}, {1, 4}, {2, 0, 2, 1, 1, 0});
  go_round(4, 1, {30'000, 11}, {3}, {0, 0, 0, 0});
}

TEST(parity_exchange, one_failure_to_write_is_told_and_stops_nobody) {
  const Stripes stripes{4, 1};
  const std::uint64_t chunk = stripes.chunk(3'000'000);
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Held held{{comm.rank(), {bytes_of(comm.rank(), 3'000'000), {Bytes(chunk)}}}};
    auto access = access_to(held, 3, chunk);
    if (comm.rank() == 2)
      access.write = [](const ShardPart&, ByteView) -> Result<void> { return fail(Code::no_space, "full"); };
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
  std::map<int, double> works;  // in stripes
  for (const auto& wave : plan_rebuild(stripes, {1, 6})) {
    std::set<int> workers;
    for (const auto& work : wave.works) {
      EXPECT_TRUE(workers.insert(work.worker).second) << "a member works on two stripes at once";
      works[work.worker] += 1.0 / wave.turns;
      EXPECT_EQ(work.inputs.size(), 6U);
    }
  }
  ASSERT_EQ(works.size(), 6U);
  for (const auto& [member, count] : works) EXPECT_NEAR(count, 8.0 / 6, 1e-9) << member;
}

TEST(parity_exchange, bytes_of_a_shard_are_read_and_written_in_order_also_where_stripes_are_shared) {
  const Stripes stripes{6, 2};
  const std::uint64_t chunk = stripes.chunk(5'000'000);
  comm::run_ranks(6, [&](comm::Comm& comm) {
    Held held{{comm.rank(), {bytes_of(comm.rank(), 5'000'000), {Bytes(chunk), Bytes(chunk)}}}};
    auto access = access_to(held, stripes.k(), chunk);
    std::map<int, std::uint64_t> read, written;  // by shard: where the next one begins
    access.read = [&, inner = access.read](const ShardPart& part, Scratch& room) {
      EXPECT_EQ(std::exchange(read[part.shard], part.offset + part.size), part.offset);
      return inner(part, room);
    };
    access.write = [&, inner = access.write](const ShardPart& part, ByteView bytes) {
      EXPECT_EQ(std::exchange(written[part.shard], part.offset + part.size), part.offset);
      return inner(part, bytes);
    };
    ASSERT_TRUE(exchange_shards(comm, {numbers(6), 6}, 2, chunk, plan_rebuild(stripes, {4, 5}), access).ok());
    for (const auto& [shard, end] : comm.rank() < 4 ? read : written) EXPECT_EQ(end, chunk) << "shard " << shard;
    EXPECT_EQ((comm.rank() < 4 ? read : written).size(), 6U) << "all stripes";
  });
}

/// Bytes that a rank sends and receives and has not yet waited for, now and at most.
struct UnderWay {
  std::size_t now = 0, most = 0;
};

class WatchedExchange final : public comm::Pending {
 public:
  WatchedExchange(std::unique_ptr<comm::Pending> inner, UnderWay& under_way, std::size_t bytes)
      : inner_(std::move(inner)), under_way_(under_way), bytes_(bytes) {
    under_way_.now += bytes_;
    under_way_.most = std::max(under_way_.most, under_way_.now);
  }
  Result<bool> test() override {
    auto done = inner_->test();
    if (done && *done) under_way_.now -= std::exchange(bytes_, 0);
    return done;
  }

 private:
  std::unique_ptr<comm::Pending> inner_;
  UnderWay& under_way_;
  std::size_t bytes_;
};

/// A group whose exchanges are counted; nothing else can be called.
class WatchedComm final : public comm::CheckedComm {
 public:
  WatchedComm(comm::Comm& inner, UnderWay& under_way)
      : CheckedComm(std::make_shared<comm::Health>(inner.rank(), inner.size())), inner_(inner), under_way_(under_way) {}
  void wait_for_all(std::function<void()> /*late*/) override {}

 private:
  static Failure unused() { return fail(Code::invalid_argument, "an exchange of parity does not call this"); }
  Result<std::unique_ptr<Comm>> do_duplicate() override { return unused(); }
  Result<void> do_barrier() override { return unused(); }
  Result<std::vector<Bytes>> do_all_gather(ByteView /*mine*/) override { return unused(); }
  Result<Bytes> do_broadcast(int /*root*/, ByteView /*mine*/) override { return unused(); }
  Result<std::vector<std::int64_t>> do_all_max(std::vector<std::int64_t> /*mine*/) override { return unused(); }
  Result<std::unique_ptr<comm::PendingMax>> do_start_all_max(std::vector<std::int64_t> /*mine*/) override {
    return unused();
  }
  Result<void> do_exchange(int /*to*/, ByteView /*out*/, int /*from*/, MutableByteView /*in*/, int /*tag*/,
                           comm::Keep /*keep*/) override {
    return unused();
  }
  Result<std::unique_ptr<comm::Pending>> do_start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                           comm::Keep keep) override {
    auto started = inner_.start_exchange(to, out, from, in, tag, std::move(keep));
    if (!started) return started.failure();
    return std::unique_ptr<comm::Pending>(
        std::make_unique<WatchedExchange>(std::move(*started), under_way_, out.size() + in.size()));
  }

  comm::Comm& inner_;
  UnderWay& under_way_;
};

/// In encoding by all members of a group, and in the rebuild of one of them; the members that each rank acts for are as
/// many.
void expect_little_memory(const Stripes& stripes, int members_each, std::size_t size, std::size_t limit) {
  const std::uint64_t chunk = stripes.chunk(size);
  comm::run_ranks(stripes.n / members_each, [&](comm::Comm& comm) {
    Held held;
    std::vector<int> acting;
    for (int member = 0; member < stripes.n; ++member) {
      acting.push_back(member / members_each);
      if (acting.back() == comm.rank())
        held[member] = {bytes_of(member, size), std::vector<Bytes>(static_cast<std::size_t>(stripes.p), Bytes(chunk))};
    }
    for (const bool encodes : {true, false}) {
      UnderWay under_way;
      WatchedComm watched(comm, under_way);
      auto access = access_to(held, stripes.k(), chunk);
      std::map<const Scratch*, std::size_t> rooms;
      std::size_t written = 0, alone = 0;
      access.read = [&, inner = access.read](const ShardPart& part, Scratch& room) {
        rooms[&room] = std::max(rooms[&room], part.size);
        return inner(part, room);
      };
      access.write = [&, inner = access.write](const ShardPart& part, ByteView bytes) {
        ++written;
        alone += under_way.now == 0 ? 1 : 0;
        return inner(part, bytes);
      };
      const auto plan = encodes ? plan_encoding(stripes) : plan_rebuild(stripes, {2});
      const ParityGroup group{acting, static_cast<std::size_t>(stripes.n)};
      ASSERT_TRUE(exchange_shards(watched, group, stripes.p, chunk, plan, access).ok());
      std::size_t bytes_of_rooms = 0;
      for (const auto& [room, bytes] : rooms) bytes_of_rooms += bytes;
      EXPECT_LE(bytes_of_rooms, limit);
      EXPECT_LE(under_way.most, limit);
      EXPECT_EQ(under_way.now, 0U);
      if (encodes && stripes.p == 1 && members_each == 1) {
        EXPECT_GT(written, 4U);
        EXPECT_EQ(alone, 1U) << "the last piece of " << written;
      }
    }
  });
}

TEST(parity_exchange, little_memory_is_used_and_the_next_piece_is_under_way_while_one_is_written) {
  expect_little_memory({4, 1}, 1, 12'000'000, 8 << 20);
}

TEST(parity_exchange, little_memory_is_used_in_larger_groups_and_by_ranks_that_act_for_several_members) {
  expect_little_memory({16, 4}, 1, 12'000'000, 8 << 20);
  expect_little_memory({16, 4}, 4, 6'000'000, 8 << 20);
}

}  // namespace
}  // namespace backstay::redundancy
