#include "catalog/catalog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/posix_store.h"

namespace backstay::catalog {
namespace {

const Bytes text(10, std::byte{'m'});

void write(store::Store& store, std::uint64_t line) {
  ASSERT_TRUE(prepare(store, "shared", line).ok());
  ASSERT_TRUE(store::write_file(store, line_dir("shared", line) + "/all.h5", Bytes(100, std::byte{1})).ok());
  ASSERT_TRUE(stage(store, "shared", line, text, {"all.h5"}).ok());
  ASSERT_TRUE(commit(store, "shared", line).ok());
}

TEST(catalog, an_empty_store_holds_nothing) {
  const auto store = store::make_memory_store();
  EXPECT_TRUE(scan(*store, "shared")->empty());
}

TEST(catalog, a_number_that_would_not_be_found_again_is_refused) {
  const auto store = store::make_memory_store();
  write(*store, 1'000'000'000'000'000);
  EXPECT_EQ(scan(*store, "shared")->size(), 1U);
  const auto refused = prepare(*store, "shared", 1'000'000'000'000'001);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::limit);
  EXPECT_EQ(scan(*store, "shared")->size(), 1U);
}

TEST(catalog, a_line_exists_from_its_commit_to_its_retirement) {
  const auto store = store::make_memory_store();
  ASSERT_TRUE(prepare(*store, "shared", 1).ok());
  EXPECT_TRUE(scan(*store, "shared")->at(0).manifest.empty());
  ASSERT_TRUE(stage(*store, "shared", 1, text, {}).ok());
  EXPECT_TRUE(scan(*store, "shared")->at(0).manifest.empty());
  ASSERT_TRUE(commit(*store, "shared", 1).ok());
  EXPECT_EQ(scan(*store, "shared")->at(0).manifest, text);
  ASSERT_TRUE(retire(*store, "shared", 1).ok());
  EXPECT_TRUE(scan(*store, "shared")->at(0).manifest.empty());
}

TEST(catalog, a_retired_directory_is_used_again_and_loses_what_is_not_of_the_line) {
  const auto store = store::make_memory_store();
  write(*store, 1);
  write(*store, 2);
  ASSERT_TRUE(store::write_file(*store, "shared/line-00000001/old.h5", text).ok());
  ASSERT_TRUE(retire(*store, "shared", 1).ok());
  ASSERT_TRUE(prepare(*store, "shared", 3).ok());
  auto lines = *scan(*store, "shared");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].line, 3U);
  EXPECT_EQ(lines[1].files.at("all.h5"), 100U);
  ASSERT_TRUE(stage(*store, "shared", 3, text, {"all.h5"}).ok());
  lines = *scan(*store, "shared");
  EXPECT_FALSE(lines[1].files.contains("old.h5"));
}

TEST(catalog, a_whole_line_is_never_recycled) {
  const auto store = store::make_memory_store();
  write(*store, 1);
  ASSERT_TRUE(prepare(*store, "shared", 2).ok());
  EXPECT_EQ(scan(*store, "shared")->at(0).manifest, text);
}

TEST(catalog, a_line_that_is_whole_by_another_stores_manifest_is_never_recycled_or_swept) {
  const auto store = store::make_memory_store();
  for (std::uint64_t line : {1, 2}) ASSERT_TRUE(store->make_dir(line_dir("local", line)).ok());
  ASSERT_TRUE(prepare(*store, "local", 3, {2}).ok());
  ASSERT_TRUE(sweep(*store, "local", 0, {2}).ok());
  const auto lines = *scan(*store, "local");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].line, 2U);
}

TEST(catalog, a_line_whose_manifest_cannot_be_read_says_why_and_is_left_alone) {
  const std::shared_ptr<store::Store> behind = store::make_memory_store();
  write(*behind, 1);
  const auto plan = std::make_shared<store::FaultPlan>();
  const auto store = store::make_faulty_store(behind, plan);
  plan->fail_from(store::Operation::open, 1, {Code::permission, "cannot open it: Permission denied"});
  const auto lines = *scan(*store, "shared");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].unreadable, "cannot open it: Permission denied");
  EXPECT_FALSE(lines[0].manifest.empty()) << "it is not one that was never committed";
  EXPECT_TRUE(prepare(*store, "shared", 2).ok()) << "new lines are written beside it";
  EXPECT_TRUE(sweep(*store, "shared", 0).ok());
  EXPECT_EQ(scan(*behind, "shared")->at(0).manifest, text);
}

TEST(catalog, a_line_whose_manifest_is_a_link_to_where_nothing_is_now_is_left_alone) {
  const auto root = std::filesystem::temp_directory_path() / ("backstay-catalog-" + std::to_string(getpid()));
  const auto store = std::move(*store::make_posix_store(root.string()));
  write(*store, 1);
  const auto manifest = root / line_dir("shared", 1) / "manifest";
  std::filesystem::rename(manifest, root / "archived");
  std::filesystem::create_symlink(root / "unmounted", manifest);
  EXPECT_TRUE(prepare(*store, "shared", 2).ok());
  EXPECT_TRUE(sweep(*store, "shared", 0).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(manifest));
  EXPECT_TRUE(std::filesystem::exists(root / line_dir("shared", 1) / "all.h5"));
  std::filesystem::remove_all(root);
}

TEST(catalog, a_line_given_up_leaves_nothing) {
  const auto store = store::make_memory_store();
  ASSERT_TRUE(prepare(*store, "shared", 1).ok());
  ASSERT_TRUE(store::write_file(*store, line_dir("shared", 1) + "/all.h5", text).ok());
  ASSERT_TRUE(give_up(*store, "shared", 1).ok());
  EXPECT_TRUE(scan(*store, "shared")->empty());
  EXPECT_TRUE(give_up(*store, "shared", 1).ok());
}

TEST(catalog, a_line_that_is_there_is_not_given_up_for_one_of_its_number) {
  const auto store = store::make_memory_store();
  ASSERT_TRUE(prepare(*store, "shared", 1).ok());
  ASSERT_TRUE(store::write_file(*store, line_dir("shared", 1) + "/manifest", text).ok());
  ASSERT_TRUE(give_up(*store, "shared", 1).ok());
  EXPECT_TRUE(store::read_file(*store, line_dir("shared", 1) + "/manifest", 1000).ok());
}

TEST(catalog, a_line_whose_directory_is_gone_can_be_retired) {
  const auto store = store::make_memory_store();
  EXPECT_TRUE(retire(*store, "shared", 7).ok());
}

TEST(catalog, other_directories_are_left_alone) {
  const auto store = store::make_memory_store();
  for (const char* name : {"line-x", "line-1", "other", "line-00000001x"})
    ASSERT_TRUE(store->make_dir(std::string("shared/") + name).ok());
  EXPECT_TRUE(scan(*store, "shared")->empty());
  ASSERT_TRUE(sweep(*store, "shared", 0).ok());
  EXPECT_EQ(store->list("shared")->size(), 4U);
}

TEST(catalog, sweep_keeps_a_spare_and_all_whole_lines) {
  const auto store = store::make_memory_store();
  write(*store, 1);
  for (std::uint64_t line : {2, 3, 4}) {
    ASSERT_TRUE(store->make_dir(line_dir("shared", line)).ok());
  }
  ASSERT_TRUE(sweep(*store, "shared", 1).ok());
  const auto lines = *scan(*store, "shared");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].line, 1U);
  EXPECT_EQ(lines[1].line, 4U);
}

TEST(catalog, a_directory_that_cannot_be_removed_keeps_no_other_one) {
  const std::shared_ptr<store::Store> behind = store::make_memory_store();
  for (std::uint64_t line : {1, 2, 3}) ASSERT_TRUE(behind->make_dir(line_dir("shared", line)).ok());
  const auto plan = std::make_shared<store::FaultPlan>();
  const auto store = store::make_faulty_store(behind, plan);
  plan->fail_nth(store::Operation::remove, 1, {Code::io, "cannot remove it"});
  const auto swept = sweep(*store, "shared", 0);
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.failure().what, "cannot remove it");
  const auto left = *scan(*behind, "shared");
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].line, 1U);
}

TEST(catalog, a_full_store_is_not_taken_for_one_where_something_is_in_the_way) {
  const std::shared_ptr<store::Store> behind = store::make_memory_store();
  const auto plan = std::make_shared<store::FaultPlan>();
  const auto store = store::make_faulty_store(behind, plan);
  ASSERT_TRUE(store->make_dir("shared").ok());
  plan->fail_nth(store::Operation::make_dir, 1, {Code::no_space, "no room"});
  const auto made = make_room(*store, "shared", 4);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.failure().code, Code::no_space);
  ASSERT_TRUE(store::write_file(*behind, "shared/line-00000004", text).ok());
  EXPECT_TRUE(make_room(*store, "shared", 4).ok());
  EXPECT_TRUE(store->list("shared/line-00000004")->empty());
  EXPECT_EQ(*store::read_file(*behind, "shared/line-00000004.aside-1", 100), text);
}

TEST(catalog, what_was_set_aside_is_never_replaced) {
  const auto store = store::make_memory_store();
  ASSERT_TRUE(store->make_dir("shared/line-00000004.aside-1").ok());
  ASSERT_TRUE(store::write_file(*store, "shared/line-00000004.aside-2", text).ok());
  ASSERT_TRUE(store::write_file(*store, "shared/line-00000004", Bytes(1)).ok());
  ASSERT_TRUE(make_room(*store, "shared", 4).ok());
  EXPECT_EQ(*store::read_file(*store, "shared/line-00000004.aside-2", 100), text);
  EXPECT_EQ(*store::read_file(*store, "shared/line-00000004.aside-3", 100), Bytes(1));
}

TEST(catalog, a_directory_that_fails_for_a_moment_is_not_set_aside) {
  const std::shared_ptr<store::Store> behind = store::make_memory_store();
  write(*behind, 1);
  const auto plan = std::make_shared<store::FaultPlan>();
  const auto store = store::make_faulty_store(behind, plan);
  plan->fail_nth(store::Operation::list, 1, {Code::io, "Input/output error"});
  EXPECT_FALSE(make_room(*store, "shared", 1));
  EXPECT_EQ(scan(*behind, "shared")->size(), 1U);
}

/// Its number may be that of a line in memory that is to be saved before the job ends.
TEST(catalog, a_line_of_no_use_is_not_written_over) {
  const auto store = store::make_memory_store();
  write(*store, 4);
  ASSERT_TRUE(prepare(*store, "shared", 4).ok());
  EXPECT_TRUE(scan(*store, "shared")->at(0).manifest.empty());
  EXPECT_EQ(*store::read_file(*store, "shared/line-00000004.aside-1/manifest", 100), text);
}

TEST(catalog, what_may_not_be_removed_is_set_aside_and_said_once) {
  const std::shared_ptr<store::Store> behind = store::make_memory_store();
  ASSERT_TRUE(behind->make_dir("shared/line-00000001").ok());
  ASSERT_TRUE(store::write_file(*behind, "shared/line-00000001/mine", text).ok());
  const auto plan = std::make_shared<store::FaultPlan>();
  const auto store = store::make_faulty_store(behind, plan);
  plan->fail_nth(store::Operation::remove, 1, {Code::permission, "cannot remove it"});
  const auto swept = sweep(*store, "shared", 0);
  ASSERT_FALSE(swept);
  EXPECT_NE(swept.failure().what.find("cannot remove it; it is shared/line-00000001.aside-1 from here on"),
            std::string::npos)
      << swept.failure().what;
  EXPECT_TRUE(sweep(*store, "shared", 0).ok());
  EXPECT_EQ(*store::read_file(*behind, "shared/line-00000001.aside-1/mine", 100), text);
}

TEST(catalog, the_newest_line_is_never_surplus) {
  EXPECT_EQ(surplus({5, 3, 9}, 2), (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(surplus({5, 3, 9}, 0), (std::vector<std::uint64_t>{3, 5}));
  EXPECT_TRUE(surplus({}, 1).empty());
  EXPECT_TRUE(surplus({4}, 1).empty());
}

}  // namespace
}  // namespace backstay::catalog
