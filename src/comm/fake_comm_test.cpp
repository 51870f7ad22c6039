#include "comm/fake_comm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace backstay::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds never = std::chrono::minutes(5);

TEST(FakeComm, an_exception_in_one_rank_ends_the_others_and_is_thrown_again) {
  std::atomic<int> told = 0;
  const auto body = [&](Comm& comm) {
    if (comm.rank() == 2) throw std::runtime_error("rank 2 gave up");
    const auto met = comm.barrier();
    ASSERT_FALSE(met.ok());
    EXPECT_EQ(met.failure().code, Code::comm);
    EXPECT_NE(met.failure().what.find("barrier: rank 2 has ended"), std::string::npos) << met.failure().what;
    ++told;
  };
  EXPECT_THROW(run_ranks(4, body, never), std::runtime_error);
  EXPECT_EQ(told, 3);
}

TEST(FakeComm, a_rank_that_returned_is_a_failure_for_those_who_wait_for_its_message) {
  run_ranks(
      2,
      [](Comm& comm) {
        if (comm.rank() == 0) return;
        Bytes in(4);
        EXPECT_EQ(comm.receive(0, 1, in).failure().code, Code::comm);
      },
      never);
}

TEST(FakeComm, a_message_sent_before_the_end_still_arrives) {
  run_ranks(
      2,
      [](Comm& comm) {
        Bytes in(4);
        const Result<void> result = comm.rank() == 0 ? comm.send(1, 1, in) : comm.receive(0, 1, in);
        EXPECT_TRUE(result.ok());
      },
      never);
}

TEST(FakeComm, ranks_that_make_different_calls_are_told_so) {
  std::atomic<int> mismatches = 0;
  run_ranks(
      2,
      [&](Comm& comm) {
        const auto result = comm.rank() == 0 ? comm.barrier() : Result<void>(comm.all_gather({}).failure());
        if (result.failure().code == Code::mismatch) ++mismatches;
      },
      milliseconds(200));
  EXPECT_EQ(mismatches, 1) << "the second to come is told; the first waits until the second has ended";
}

TEST(FakeComm, maxima_of_unequal_numbers_of_values_are_refused) {
  run_ranks(3, [](Comm& comm) {
    const auto result = comm.all_max(std::vector<std::int64_t>(comm.rank() == 1 ? 2 : 1));
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.failure().code, Code::mismatch);
  });
}

}  // namespace
}  // namespace backstay::comm
