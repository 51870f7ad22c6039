// What every Comm promises, as one body of tests. A file that includes this instantiates it with its own `Ranks`.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/comm.h"

namespace backstay::comm::contract {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;  // one clock for all processes of a machine
using Body = std::function<void(Comm&)>;

/// A way to have ranks: threads, processes, or one of either.
struct Ranks {
  std::string name;
  /// Runs the body on every rank of a new group with that time-out. Called by all processes, if there are several.
  std::function<void(const Body&, milliseconds timeout)> run;
};
inline void PrintTo(const Ranks& ranks, std::ostream* out) { *out << ranks.name; }
inline std::string name_of(const ::testing::TestParamInfo<Ranks>& info) { return info.param.name; }

/// Bytes that tell who made them and where they belong.
inline Bytes pattern(std::size_t size, int seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + 7 * std::size_t(seed)) & 0xff);
  return bytes;
}

template <class T>
T expect_ok(Result<T> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.failure().what);
  if (!result) throw std::runtime_error(result.failure().what);
  return std::move(*result);
}
inline void expect_ok(const Result<void>& result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.failure().what);
}

class CommContract : public ::testing::TestWithParam<Ranks> {
 protected:
  /// The time-out is far above what the test needs: one that is used up is a hang.
  void on_all_ranks(const Body& body, milliseconds timeout = std::chrono::seconds(60)) {
    GetParam().run(body, timeout);
  }
};

TEST_P(CommContract, barrier_lets_nobody_leave_before_the_last_has_come) {
  on_all_ranks([](Comm& comm) {
    if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(milliseconds(30));
    const std::int64_t came = Clock::now().time_since_epoch().count();
    expect_ok(comm.barrier());
    const std::int64_t left = Clock::now().time_since_epoch().count();
    const auto most = expect_ok(comm.all_max({came, -left}));
    EXPECT_LE(most[0], -most[1]);
  });
}

TEST_P(CommContract, all_gather_keeps_rank_order_and_unequal_and_empty_sizes) {
  on_all_ranks([](Comm& comm) {
    const auto size_of = [](int rank) { return rank % 3 == 1 ? std::size_t{0} : std::size_t(rank) * 4099 + 1; };
    const auto all = expect_ok(comm.all_gather(pattern(size_of(comm.rank()), comm.rank())));
    ASSERT_EQ(all.size(), std::size_t(comm.size()));
    for (int rank = 0; rank < comm.size(); ++rank) EXPECT_EQ(all[std::size_t(rank)], pattern(size_of(rank), rank));
    for (const Bytes& nothing : expect_ok(comm.all_gather({}))) EXPECT_TRUE(nothing.empty());
  });
}

TEST_P(CommContract, broadcast_gives_what_the_root_gave_whoever_it_is) {
  on_all_ranks([](Comm& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      const Bytes others = pattern(17, 99);
      const Bytes wanted = pattern(std::size_t(root) * 100'003, root);
      EXPECT_EQ(expect_ok(comm.broadcast(root, comm.rank() == root ? wanted : others)), wanted);
    }
  });
}

TEST_P(CommContract, all_max_is_element_by_element) {
  on_all_ranks([](Comm& comm) {
    const std::int64_t rank = comm.rank();
    const std::int64_t last = comm.size() - 1;
    EXPECT_EQ(expect_ok(comm.all_max({rank, -rank, INT64_MIN, rank == last ? INT64_MAX : 0})),
              (std::vector<std::int64_t>{last, 0, INT64_MIN, INT64_MAX}));
    EXPECT_TRUE(expect_ok(comm.all_max({})).empty());
  });
}

TEST_P(CommContract, started_all_max_goes_on_beside_other_calls) {
  on_all_ranks([](Comm& comm) {
    auto first = expect_ok(comm.start_all_max({comm.rank(), 1}));
    auto second = expect_ok(comm.start_all_max({-comm.rank()}));
    expect_ok(comm.barrier());
    EXPECT_EQ(expect_ok(comm.all_max({5})).front(), 5);
    for (PendingMax* pending : {second.get(), first.get()})
      while (!expect_ok(pending->test())) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(first->values(), (std::vector<std::int64_t>{comm.size() - 1, 1}));
    EXPECT_EQ(second->values(), (std::vector<std::int64_t>{0}));
    EXPECT_TRUE(expect_ok(first->test())) << "done stays done";
  });
}

TEST_P(CommContract, started_all_max_may_be_dropped_and_the_group_works_on) {
  on_all_ranks([](Comm& comm) {
    expect_ok(comm.start_all_max({comm.rank()})).reset();
    EXPECT_EQ(expect_ok(comm.all_max({comm.rank()})).front(), comm.size() - 1);
  });
}

TEST_P(CommContract, messages_of_0_bytes_1_byte_and_5_MiB_arrive) {
  on_all_ranks([](Comm& comm) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5} << 20}) {
      // Even ranks send first, to the right; a last rank without a partner rests.
      const int partner = comm.rank() ^ 1;
      if (partner >= comm.size()) continue;
      Bytes in(size);
      if (comm.rank() < partner) expect_ok(comm.send(partner, 0, pattern(size, comm.rank())));
      expect_ok(comm.rank() < partner ? Result<void>() : comm.receive(partner, 0, in));
      if (comm.rank() > partner) expect_ok(comm.send(partner, 32767, pattern(size, comm.rank())));
      expect_ok(comm.rank() > partner ? Result<void>() : comm.receive(partner, 32767, in));
      EXPECT_EQ(in, pattern(size, partner));
    }
  });
}

TEST_P(CommContract, exchange_round_a_ring_does_not_block_itself) {
  on_all_ranks([](Comm& comm) {
    const int right = (comm.rank() + 1) % comm.size();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    const auto size_of = [](int rank) { return std::size_t(rank + 1) * ((1 << 20) + 1); };
    for (const bool shared : {false, true}) {
      struct Memory {
        Bytes out, in;
      };
      auto memory = std::make_shared<Memory>(Memory{pattern(size_of(comm.rank()), comm.rank()), Bytes(size_of(left))});
      expect_ok(comm.exchange(right, memory->out, left, memory->in, 7, shared ? memory : nullptr));
      EXPECT_EQ(memory->in, pattern(size_of(left), left));
    }
  });
}

TEST_P(CommContract, exchanges_with_all_others_go_on_at_the_same_time) {
  on_all_ranks([](Comm& comm) {
    struct Memory {
      std::vector<Bytes> out, in;
    };
    const int size = comm.size(), me = comm.rank();
    const auto bytes_of = [](int from, int to) { return pattern(std::size_t(100'000 * from + 1000 * to), from - to); };
    for (int round = 0; round < 3; ++round) {
      auto memory = std::make_shared<Memory>();
      for (int other = 0; other < size; ++other) {
        memory->out.push_back(bytes_of(me + round, other));
        memory->in.emplace_back(bytes_of(other + round, me).size());
      }
      std::vector<std::unique_ptr<Pending>> under_way;
      for (int other = 0; other < size; ++other) {
        const auto i = std::size_t(other);
        under_way.push_back(expect_ok(comm.start_exchange(other, memory->out[i], other, memory->in[i], 9, memory)));
      }
      expect_ok(finish(under_way));
      for (int other = 0; other < size; ++other) EXPECT_EQ(memory->in[std::size_t(other)], bytes_of(other + round, me));
    }
    expect_ok(finish({}));
  });
}

TEST_P(CommContract, exchanges_of_one_tag_are_received_in_the_order_of_their_start) {
  on_all_ranks([](Comm& comm) {
    struct Memory {
      std::vector<Bytes> out, in;
    };
    const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
    auto memory = std::make_shared<Memory>();
    for (int i = 0; i < 8; ++i) {
      memory->out.push_back(pattern(70'000, 10 * comm.rank() + i));
      memory->in.emplace_back(70'000);
    }
    std::vector<std::unique_ptr<Pending>> under_way;
    for (std::size_t i = 0; i < 8; ++i)
      under_way.push_back(expect_ok(comm.start_exchange(right, memory->out[i], left, memory->in[i], 2, memory)));
    std::reverse(under_way.begin(), under_way.end());  // asked after in another order
    expect_ok(finish(under_way));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(memory->in[std::size_t(i)], pattern(70'000, 10 * left + i)) << i;
  });
}

TEST_P(CommContract, an_exchange_whose_other_side_never_comes_ends_in_time_and_breaks_the_group) {
  static constexpr milliseconds bound{BACKSTAY_TEST_PACE * 1000};
  on_all_ranks(
      [&](Comm& comm) {
        const auto begin = Clock::now();
        auto side = expect_ok(comm.duplicate());
        if (comm.rank() == 0) {
          auto memory = std::make_shared<Bytes>(8);
          std::vector<std::unique_ptr<Pending>> under_way;
          auto started = side->start_exchange(0, {}, comm.size() - 1, *memory, 3, memory);
          if (started) under_way.push_back(std::move(*started));
          const auto done = started ? finish(under_way) : Result<void>(started.failure());
          ASSERT_FALSE(done.ok());
          EXPECT_EQ(done.failure().code, Code::timeout) << done.failure().what;
          EXPECT_EQ(side->barrier().failure().what, done.failure().what);
        }
        std::this_thread::sleep_until(begin + 2 * bound);  // all go on together
      },
      bound);
}

TEST_P(CommContract, an_empty_side_of_an_exchange_sends_nothing_and_names_nobody) {
  on_all_ranks([](Comm& comm) {
    const int last = comm.size() - 1;
    Bytes in(comm.rank() == 0 ? 3 : 0);
    const Bytes out = comm.rank() == last ? pattern(3, last) : Bytes();
    expect_ok(comm.exchange(comm.rank() == last ? 0 : -1, out, comm.rank() == 0 ? last : -1, in, 1));
    if (comm.rank() == 0) {
      EXPECT_EQ(in, pattern(3, last));
    }
  });
}

TEST_P(CommContract, messages_keep_their_order_within_a_tag_and_tags_are_apart) {
  on_all_ranks([](Comm& comm) {
    const int last = comm.size() - 1;
    if (last == 0) return;
    if (comm.rank() == last)
      for (const int seed : {1, 2, 3}) expect_ok(comm.send(0, seed == 3 ? 9 : 8, pattern(100, seed)));
    if (comm.rank() != 0) return;
    const auto next = [&](int tag) {
      Bytes in(100);
      expect_ok(comm.receive(last, tag, in));
      return in;
    };
    EXPECT_EQ(next(9), pattern(100, 3));
    EXPECT_EQ(next(8), pattern(100, 1));
    EXPECT_EQ(next(8), pattern(100, 2));
  });
}

TEST_P(CommContract, messages_of_a_duplicate_never_meet_those_of_the_original) {
  on_all_ranks([](Comm& comm) {
    auto twin = expect_ok(comm.duplicate());
    EXPECT_EQ(std::pair(twin->rank(), twin->size()), std::pair(comm.rank(), comm.size()));
    const int last = comm.size() - 1;
    if (last > 0 && comm.rank() == last) {
      expect_ok(comm.send(0, 5, pattern(64, 1)));
      expect_ok(twin->send(0, 5, pattern(64, 2)));
    }
    if (last > 0 && comm.rank() == 0) {
      Bytes in(64);
      expect_ok(twin->receive(last, 5, in));
      EXPECT_EQ(in, pattern(64, 2));
      expect_ok(comm.receive(last, 5, in));
      EXPECT_EQ(in, pattern(64, 1));
    }
    auto pending = expect_ok(comm.start_all_max({1}));
    EXPECT_EQ(expect_ok(twin->all_max({2})).front(), 2);
    while (!expect_ok(pending->test())) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(pending->values().front(), 1);
  });
}

TEST_P(CommContract, wrong_arguments_are_refused_with_a_sentence_that_names_the_call) {
  on_all_ranks([](Comm& comm) {
    const auto refused = [&](const char* call, const std::function<Result<void>(Comm&)>& wrong) {
      auto twin = expect_ok(comm.duplicate());
      const auto result = wrong(*twin);
      ASSERT_FALSE(result.ok()) << call;
      EXPECT_EQ(result.failure().code, Code::invalid_argument);
      EXPECT_NE(result.failure().what.find(cat("rank ", comm.rank(), " of ", comm.size(), ": ", call)),
                std::string::npos)
          << result.failure().what;
    };
    const Bytes one(1);
    Bytes in(1);
    refused("send", [&](Comm& c) { return c.send(c.size(), 0, one); });
    refused("send", [&](Comm& c) { return c.send(0, 32768, one); });
    refused("receive", [&](Comm& c) { return c.receive(-1, 0, in); });
    refused("exchange", [&](Comm& c) { return c.exchange(-1, one, 0, {}, 0); });
    refused("exchange", [&](Comm& c) -> Result<void> {
      BACKSTAY_TRY(c.start_exchange(0, one, 0, {}, 0, nullptr));
      return {};
    });
    refused("broadcast", [&](Comm& c) -> Result<void> {
      BACKSTAY_TRY(c.broadcast(c.size(), one));
      return {};
    });
  });
}

TEST_P(CommContract, a_message_of_another_size_is_refused_and_breaks_the_group) {
  on_all_ranks([](Comm& comm) {
    const int right = (comm.rank() + 1) % comm.size();
    const int left = (comm.rank() + comm.size() - 1) % comm.size();
    for (const std::size_t sent : {std::size_t{3}, std::size_t{5}}) {
      // Open MPI cuts a message to oneself short without a word.
      if (comm.size() == 1 && sent == 5) continue;
      auto twin = expect_ok(comm.duplicate());
      Bytes in(4);
      const auto result = twin->exchange(right, pattern(sent, 1), left, in, 0);
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.failure().code, Code::mismatch) << result.failure().what;
      EXPECT_EQ(twin->barrier().failure().what, result.failure().what);
    }
    expect_ok(comm.barrier());
  });
}

TEST_P(CommContract, a_missing_rank_is_a_timeout_and_the_group_is_broken_afterwards) {
  static constexpr milliseconds bound{BACKSTAY_TEST_PACE * 1000};
  on_all_ranks(
      [&](Comm& comm) {
        if (comm.size() == 1) return;
        auto side = expect_ok(comm.duplicate());
        if (comm.rank() == 0) {
          std::this_thread::sleep_for(2 * bound);
          expect_ok(side->barrier());
          return;
        }
        const auto begin = Clock::now();
        const auto missed = comm.barrier();
        const auto waited = Clock::now() - begin;
        ASSERT_FALSE(missed.ok());
        EXPECT_EQ(missed.failure().code, Code::timeout) << missed.failure().what;
        EXPECT_NE(missed.failure().what.find("barrier"), std::string::npos) << missed.failure().what;
        EXPECT_GE(waited, bound);
        EXPECT_LT(waited, 20 * bound);
        EXPECT_FALSE(comm.works());
        EXPECT_TRUE(side->works());
        const auto later = Clock::now();
        EXPECT_EQ(comm.all_max({1}).failure().what, missed.failure().what);
        EXPECT_EQ(comm.send(0, 0, pattern(9, 9)).failure().code, Code::timeout);
        EXPECT_LT(Clock::now() - later, bound);
        std::this_thread::sleep_for(bound / 2);
        expect_ok(side->barrier());
      },
      bound);
}

TEST_P(CommContract, a_group_that_waits_for_all_tells_who_is_late_and_goes_on) {
  static constexpr milliseconds bound{BACKSTAY_TEST_PACE * 1000};
  on_all_ranks(
      [&](Comm& comm) {
        const bool late = comm.size() > 1 && comm.rank() == 0;
        int told = 0;
        auto group = expect_ok(comm.duplicate());
        group->wait_for_all([&] { ++told; });
        auto made = expect_ok(group->duplicate());  // waits as the one that it was made from
        auto started = expect_ok(group->start_all_max({comm.rank()}));
        if (late) std::this_thread::sleep_for(3 * bound);
        for (auto seen = started->test(); !expect_ok(seen); seen = started->test())
          std::this_thread::sleep_for(milliseconds(1));
        if (late) std::this_thread::sleep_for(3 * bound);
        EXPECT_EQ(expect_ok(made->all_max({comm.rank()})).front(), comm.size() - 1);
        auto given = std::make_shared<Bytes>(pattern(10, 3));
        auto got = std::make_shared<Bytes>(10);
        const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
        expect_ok(group->exchange(right, *given, left, *got, 1, std::make_shared<std::pair<Keep, Keep>>(given, got)));
        EXPECT_EQ(expect_ok(comm.all_max({1})).front(), 1);
        if (comm.size() > 1 && !late) {
          const bool carried = GetParam().name.find("courier") != std::string::npos;  // which tells nobody
          EXPECT_GE(told, carried ? 0 : 1);
          EXPECT_LE(told, 6) << "at each doubling only";
        }
      },
      bound);
}

TEST_P(CommContract, leaving_ends_a_wait_without_bound) {
  static constexpr milliseconds bound{BACKSTAY_TEST_PACE * 100};
  on_all_ranks(
      [&](Comm& comm) {
        if (comm.size() == 1) return;
        auto group = expect_ok(comm.duplicate_for_background());  // others leave with those that they were made from
        auto side = expect_ok(comm.duplicate());
        group->wait_for_all({});
        if (comm.rank() != 0) {
          std::thread leaves([&] {
            std::this_thread::sleep_for(2 * bound);
            group->leave();
          });
          const auto left = group->barrier();
          leaves.join();
          ASSERT_FALSE(left.ok());
          EXPECT_EQ(left.failure().code, Code::comm) << left.failure().what;
        }
        std::this_thread::sleep_for(3 * bound);  // it does not come to the group
        expect_ok(side->barrier());
      },
      std::chrono::seconds(60));
}

TEST_P(CommContract, a_message_that_never_comes_is_a_timeout) {
  static constexpr milliseconds bound{BACKSTAY_TEST_PACE * 500};
  on_all_ranks(
      [](Comm& comm) {
        auto never = std::make_shared<Bytes>(100);
        if (comm.size() == 1) return;
        const auto result = comm.receive((comm.rank() + 1) % comm.size(), 3, *never, never);
        ASSERT_FALSE(result.ok());
        EXPECT_EQ(result.failure().code, Code::timeout) << result.failure().what;
        std::this_thread::sleep_for(bound / 2);  // a rank that has ended would be another failure than a late one
      },
      bound);
}

TEST_P(CommContract, started_all_max_without_a_rank_is_a_timeout_for_those_who_ask) {
  static constexpr milliseconds bound{BACKSTAY_TEST_PACE * 1000};
  on_all_ranks(
      [](Comm& comm) {
        if (comm.size() == 1) return;
        auto side = expect_ok(comm.duplicate());
        if (comm.rank() != 0) {
          auto pending = expect_ok(comm.start_all_max({1}));
          auto seen = pending->test();
          for (; seen && !*seen; seen = pending->test()) std::this_thread::sleep_for(milliseconds(5));
          ASSERT_FALSE(seen.ok());
          EXPECT_EQ(seen.failure().code, Code::timeout) << seen.failure().what;
          EXPECT_EQ(pending->test().failure().what, seen.failure().what);
          EXPECT_EQ(comm.barrier().failure().what, seen.failure().what);
        }
        std::this_thread::sleep_for(comm.rank() == 0 ? 2 * bound : bound / 2);
        expect_ok(side->barrier());
      },
      bound);
}

}  // namespace backstay::comm::contract
