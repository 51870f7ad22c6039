#include "engine/reunion.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "comm/fake_comm.h"

namespace backstay::engine {
namespace {

using std::chrono::milliseconds;

/// Carries `reunion` on in one call, as long as a program would stay in it.
bool agreed_in(Reunion& reunion, comm::Comm& comm, const Reunion::Here& here, milliseconds bound, bool stays = false) {
  const auto end = std::chrono::steady_clock::now() + bound;
  const auto long_end = end + milliseconds(5000);
  while (true) {
    const auto together = reunion.advance(comm, here);
    EXPECT_TRUE(together.ok()) << together.failure().what;
    if (!together || *together) return together.ok();
    if (std::chrono::steady_clock::now() >= (stays && reunion.must_stay(here.call) ? long_end : end)) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(Reunion, all_hear_of_a_call_that_none_has_left_and_of_the_maxima_of_their_states) {
  comm::run_ranks(3, [](comm::Comm& comm) {
    Reunion reunion;
    Reunion::Here here{static_cast<std::uint64_t>(10 * comm.rank() + 1), false, {comm.rank(), -comm.rank()}};
    while (!agreed_in(reunion, comm, here, milliseconds(comm.rank()))) {
      ASSERT_FALSE(reunion.must_stay(here.call));
      ++here.call;
      std::this_thread::sleep_for(milliseconds(2));
    }
    EXPECT_GE(reunion.last_alone(), 21U + 2);
    EXPECT_LE(here.call, reunion.last_alone() + 1);
    EXPECT_EQ(reunion.state(), (std::vector<std::int64_t>{2, 0}));
    const auto last = reunion.take()->all_max({static_cast<std::int64_t>(reunion.last_alone())});
    ASSERT_TRUE(last.ok());
    EXPECT_EQ(static_cast<std::uint64_t>(last->front()), reunion.last_alone());
  });
}

TEST(Reunion, ranks_that_stay_in_a_call_act_together_from_the_next_one) {
  comm::run_ranks(2, [](comm::Comm& comm) {
    Reunion reunion;
    ASSERT_TRUE(agreed_in(reunion, comm, {7, true, {}}, milliseconds(5000)));
    EXPECT_EQ(reunion.last_alone(), 7U);
  });
}

/// Two ranks in call 1, of which one has heard the first proposal, 3, and the other has not looked again.
void until_rank_0_has_said_yes(comm::Comm& comm, std::barrier<>& both, Reunion& reunion) {
  const Reunion::Here here{1, false, {}};
  for (const int looks : {0, 1, 0}) {  // comes; comes and brings what it has; brings what it has, and hears
    if (comm.rank() == looks) {
      EXPECT_FALSE(agreed_in(reunion, comm, here, milliseconds(0)));
    }
    both.arrive_and_wait();
  }
  EXPECT_FALSE(reunion.must_stay(3));
  EXPECT_EQ(reunion.must_stay(4), comm.rank() == 0);
}

TEST(Reunion, a_proposal_that_a_rank_has_passed_is_refused_and_the_next_one_is_further_ahead) {
  std::barrier<> both(2);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Reunion reunion;
    until_rank_0_has_said_yes(comm, both, reunion);
    const Reunion::Here here{comm.rank() == 0 ? 4U : 50U, false, {}};
    ASSERT_TRUE(agreed_in(reunion, comm, here, milliseconds(5000)));
    EXPECT_EQ(reunion.last_alone(), 50U + 2 + 49);
    both.arrive_and_wait();
  });
}

TEST(Reunion, a_rank_that_did_not_stay_begins_again_with_those_who_waited_for_it_in_vain) {
  std::barrier<> both(2);
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Reunion reunion;
        until_rank_0_has_said_yes(comm, both, reunion);
        if (comm.rank() == 0) {
          EXPECT_FALSE(agreed_in(reunion, comm, {5, false, {}}, milliseconds(0)));
        }
        both.arrive_and_wait();
        if (comm.rank() == 1) {
          ASSERT_TRUE(agreed_in(reunion, comm, {2, false, {}}, milliseconds(50))) << "rank 0 said yes";
          EXPECT_EQ(reunion.take()->all_max({1}).failure().code, Code::timeout);
          reunion = {};
        }
        ASSERT_TRUE(agreed_in(reunion, comm, {6, false, {}}, milliseconds(5000)));
        EXPECT_GE(reunion.last_alone(), 6U);
        both.arrive_and_wait();
      },
      milliseconds(100));
}

/// One says yes and may not stay; others have passed the proposal; rank 2 comes only later.
TEST(Reunion, a_rank_that_did_not_stay_goes_through_the_same_rounds_as_one_that_refused) {
  std::barrier<> all(3);
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Reunion reunion;
    Reunion::Here here{1, false, {}};
    for (int look = 0; look < 2; ++look) {  // the last one to look again hears the first proposal, and says yes
      EXPECT_FALSE(agreed_in(reunion, comm, here, milliseconds(0)));
      all.arrive_and_wait();
    }
    here.call = comm.rank() == 2 ? 2 : 1000 * (comm.rank() + 1);
    if (comm.rank() != 2) {
      EXPECT_FALSE(agreed_in(reunion, comm, here, milliseconds(comm.rank())));
    }
    all.arrive_and_wait();
    for (; !agreed_in(reunion, comm, here, milliseconds(1), true) && here.call < 100000; ++here.call) {
    }
    EXPECT_LE(here.call, reunion.last_alone() + 1);
    const auto last = reunion.take()->all_max({static_cast<std::int64_t>(reunion.last_alone())});
    ASSERT_TRUE(last.ok());
    EXPECT_EQ(static_cast<std::uint64_t>(last->front()), reunion.last_alone());
  });
}

}  // namespace
}  // namespace backstay::engine
