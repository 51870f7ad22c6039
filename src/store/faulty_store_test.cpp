#include "store/faulty_store.h"

#include <gtest/gtest.h>

#include <csignal>

#include "store/memory_store.h"
#include "store/posix_store.h"
#include "store/testing.h"

namespace backstay::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

const Failure full{Code::no_space, "the test says that the disk is full"};

class FaultyStore : public testing::Test {
 protected:
  std::shared_ptr<Store> inner = make_memory_store();
  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::unique_ptr<Store> store = make_faulty_store(inner, plan);

  Result<void> put(const std::string& path, std::string_view text = "x") {
    return write_file(*store, path, as_bytes(text));
  }
};

TEST_F(FaultyStore, each_kind_of_operation_fails_where_it_was_told_to) {
  const std::vector<std::pair<Operation, std::function<Result<void>()>>> calls{
      {Operation::open, [&] { return put("f"); }},
      {Operation::write, [&] { return put("f"); }},
      {Operation::resize, [&] { return put("f"); }},
      {Operation::sync, [&] { return put("f"); }},
      {Operation::read,
       [&]() -> Result<void> {
         auto bytes = read_file(*store, "f", 9);
         return bytes ? Result<void>{} : bytes.failure();
       }},
      {Operation::list,
       [&]() -> Result<void> {
         auto entries = store->list("");
         return entries ? Result<void>{} : entries.failure();
       }},
      {Operation::make_dir, [&] { return store->make_dir("d"); }},
      {Operation::sync_dir, [&] { return store->sync_dir(""); }},
      {Operation::rename, [&] { return store->rename("f", "f"); }},
      {Operation::remove, [&] { return store->remove("gone"); }},
  };
  ASSERT_TRUE(put("f").ok());
  for (const auto& [operation, call] : calls) {
    plan->fail_nth(operation, 2, full);
    EXPECT_EQ(say(call()), "ok") << name_of(operation);
    EXPECT_EQ(say(call()), starting_with(Code::no_space) + full.what) << name_of(operation);
    EXPECT_EQ(say(call()), "ok") << name_of(operation);
  }
}

TEST_F(FaultyStore, a_failed_operation_does_not_reach_the_store_behind) {
  ASSERT_TRUE(put("f", "old").ok());
  plan->fail_nth(Operation::write, 1, full);
  EXPECT_FALSE(put("f", "new").ok());
  plan->fail_nth(Operation::rename, 1, full);
  EXPECT_FALSE(store->rename("f", "g").ok());
  plan->fail_nth(Operation::remove, 1, full);
  EXPECT_FALSE(store->remove("f").ok());
  EXPECT_EQ(as_text(read_file(*inner, "f", 9).value()), "old");
}

TEST_F(FaultyStore, a_disk_that_is_full_stays_full_until_healed) {
  plan->fail_from(Operation::write, 2, full);
  EXPECT_TRUE(put("a").ok());
  EXPECT_FALSE(put("b").ok());
  EXPECT_FALSE(put("c").ok());
  plan->heal();
  EXPECT_TRUE(put("d").ok());
}

TEST_F(FaultyStore, writes_fail_under_a_prefix_only) {
  ASSERT_TRUE(store->make_dir("local").ok());
  ASSERT_TRUE(put("local/old").ok());
  plan->fail_writes_under("local/", full);
  EXPECT_FALSE(put("local/new").ok());
  EXPECT_FALSE(store->open_to_write("local/old").value()->resize(0).ok());
  EXPECT_TRUE(put("shared").ok());
  EXPECT_TRUE(read_file(*store, "local/old", 9).ok());
}

TEST_F(FaultyStore, operations_are_counted_by_kind_and_in_all) {
  ASSERT_TRUE(put("a").ok());
  ASSERT_TRUE(put("b").ok());
  ASSERT_TRUE(store->rename("a", "c").ok());
  EXPECT_EQ(plan->count(Operation::write), 2U);
  EXPECT_EQ(plan->count(Operation::sync), 2U);
  EXPECT_EQ(plan->count(Operation::rename), 1U);
  EXPECT_EQ(plan->count(Operation::remove), 0U);
  EXPECT_EQ(plan->count(), 9U);
}

TEST_F(FaultyStore, the_hook_sees_every_step_before_it_happens) {
  std::vector<std::string> steps;
  plan->before_each([&](const FaultPlan::Step& step) {
    steps.push_back(cat(step.number, " ", name_of(step.operation), " ", step.path));
    if (step.operation == Operation::open) {
      EXPECT_TRUE(inner->list("").value().empty());
    }
  });
  ASSERT_TRUE(put("f").ok());
  ASSERT_TRUE(store->sync_dir("").ok());
  EXPECT_EQ(steps, (std::vector<std::string>{"1 open f", "2 write f", "3 resize f", "4 sync f", "5 sync_dir "}));
}

TEST_F(FaultyStore, the_hook_may_change_the_plan) {
  plan->before_each([&](const FaultPlan::Step& step) {
    if (step.operation == Operation::sync) plan->fail_nth(Operation::rename, 1, full);
  });
  ASSERT_TRUE(put("f").ok());
  EXPECT_FALSE(store->rename("f", "g").ok());
}

TEST_F(FaultyStore, the_hook_may_end_the_process_at_any_step) {
  for (std::uint64_t last = 1; last <= 5; ++last) {
    const TemporaryDirectory dir;
    const std::string said = said_by_child([&] {
      plan->before_each([&](const FaultPlan::Step& step) {
        if (step.number == last) ::raise(SIGKILL);
      });
      const auto disk = make_faulty_store(make_posix_store(dir.path()).value(), plan);
      const bool done = write_file(*disk, "f.part", as_bytes("x")).ok() && disk->rename("f.part", "f").ok();
      return std::string(done ? "done" : "failed");
    });
    EXPECT_EQ(said, "ended by signal 9") << last;
    EXPECT_EQ(std::filesystem::exists(dir.path() + "/f.part"), last > 1) << last;
    EXPECT_FALSE(std::filesystem::exists(dir.path() + "/f")) << last;
  }
}

TEST_F(FaultyStore, delays_make_an_operation_longer) {
  plan->delay(Operation::write, milliseconds(30));
  const auto start = steady_clock::now();
  ASSERT_TRUE(put("f").ok());
  EXPECT_GE(steady_clock::now() - start, milliseconds(30));
}

TEST_F(FaultyStore, two_stores_share_one_plan_and_one_tree) {
  const auto next_job = make_faulty_store(inner, plan);
  plan->fail_nth(Operation::write, 2, full);
  EXPECT_TRUE(put("f", "first job").ok());
  EXPECT_FALSE(write_file(*next_job, "f", as_bytes("next job")).ok());
  EXPECT_EQ(as_text(read_file(*next_job, "f", 20).value()), "first job");
}

}  // namespace
}  // namespace backstay::store
