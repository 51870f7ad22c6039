// The courier with steps that are not MPI's: who runs them, and how waiting ends.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/mpi_comm.h"

namespace backstay::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds plenty = std::chrono::seconds(60);

TEST(Courier, a_step_runs_on_the_pumping_thread_until_it_says_true) {
  Courier courier;
  std::atomic<bool> returned = false;
  int steps = 0;  // not atomic: the answer orders the two threads
  std::thread::id ran_on;
  std::thread background([&] {
    const auto step = [&]() -> Result<bool> {
      ran_on = std::this_thread::get_id();
      return ++steps == 3;
    };
    EXPECT_TRUE(courier.run(step, plenty).ok());
    EXPECT_EQ(steps, 3);
    returned = true;
  });
  while (!returned) courier.pump();
  background.join();
  courier.pump();
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(Courier, a_failure_of_the_step_is_the_answer) {
  Courier courier;
  std::atomic<bool> returned = false;
  std::thread background([&] {
    const auto result = courier.run([]() -> Result<bool> { return fail(Code::comm, "no luck"); }, plenty);
    EXPECT_EQ(result.failure().what, "no luck");
    returned = true;
  });
  while (!returned) courier.pump();
  background.join();
}

TEST(Courier, without_a_pump_it_is_a_timeout_and_the_step_never_runs) {
  Courier courier;
  bool ran = false;
  std::thread background([&] {
    const auto step = [&]() -> Result<bool> { return ran = true; };
    EXPECT_EQ(courier.run(step, milliseconds(50)).failure().code, Code::timeout);
  });
  background.join();
  courier.pump();
  EXPECT_FALSE(ran);
}

TEST(Courier, several_threads_are_served_in_turn_and_a_stuck_one_holds_up_nobody) {
  Courier courier;
  std::atomic<int> returned = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      int steps = 0;
      const auto step = [&]() -> Result<bool> { return i != 0 && ++steps == i; };
      const auto result = courier.run(step, i == 0 ? milliseconds(200) : plenty);
      EXPECT_EQ(result.ok(), i != 0);
      ++returned;
    });
  while (returned < 4) {
    courier.pump();
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Courier, a_timeout_during_a_step_waits_for_that_step) {
  Courier courier;
  std::atomic<bool> returned = false;
  std::thread background([&] {
    auto memory = std::make_unique<int>(0);  // gone as soon as run() has returned
    const auto step = [&memory]() -> Result<bool> {
      std::this_thread::sleep_for(milliseconds(5));
      ++*memory;
      return false;
    };
    EXPECT_EQ(courier.run(step, milliseconds(50)).failure().code, Code::timeout);
    memory.reset();
    returned = true;
  });
  while (!returned) {
    courier.pump();
    std::this_thread::sleep_for(milliseconds(1));
  }
  background.join();
}

TEST(Courier, without_a_bound_it_waits_until_it_is_shut) {
  Courier courier;
  std::atomic<bool> returned = false;
  std::thread background([&] {
    const auto result = courier.run([]() -> Result<bool> { return false; }, std::nullopt);
    EXPECT_EQ(result.failure().code, Code::comm);
    returned = true;
  });
  for (int i = 0; i < 20; ++i) {
    courier.pump();
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_FALSE(returned);
  courier.shut();
  background.join();
}

TEST(Courier, the_thread_that_pumped_last_is_the_applications) {
  Courier courier;
  EXPECT_TRUE(courier.on_application_thread());
  std::thread([&] {
    EXPECT_FALSE(courier.on_application_thread());
    courier.pump();
    EXPECT_TRUE(courier.on_application_thread());
  }).join();
  EXPECT_FALSE(courier.on_application_thread());
  courier.pump();
  EXPECT_EQ(courier.run([]() -> Result<bool> { return true; }, plenty).failure().code, Code::internal);
}

}  // namespace
}  // namespace backstay::comm
