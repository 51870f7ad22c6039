#include "engine/restore_plan.h"

#include <gtest/gtest.h>

#include "backstay/session.hpp"
#include "base/text.h"

namespace backstay::engine {
namespace {

format::Segment saved(int rank, Extents shape, Placement placement, std::uint32_t crc = 0) {
  std::uint64_t n = 8;
  for (auto s : shape) n *= static_cast<std::uint64_t>(s);
  return {rank, "u", "/u", {Type::Kind::floating, 8, {}}, std::move(shape), "", std::move(placement), 0, n, crc};
}

RegionSpec spec(Placement placement) {
  RegionSpec s;
  s.name = "u";
  s.type = {Type::Kind::floating, 8, {}};
  s.placement = std::move(placement);
  return s;
}

std::vector<format::Table> tables(std::vector<format::Segment> segments) {
  std::vector<format::Table> out;
  for (auto& s : segments) out.push_back({"j", 1, "f", {std::move(s)}});
  return out;
}

TEST(restore_plan, the_same_block_is_one_whole_piece) {
  const auto t =
      tables({saved(0, {2, 4}, block({4, 4}, {0, 0}, {2, 4})), saved(1, {2, 4}, block({4, 4}, {2, 0}, {4, 4}))});
  const auto plan = plan_region(spec(block({4, 4}, {2, 0}, {4, 4})), SavedRegions(t), 2, 1, 2);
  ASSERT_TRUE(plan.ok()) << plan.failure().what;
  EXPECT_TRUE(plan->whole);
  EXPECT_EQ(plan->pieces[0].from.file, 1U);
}

TEST(restore_plan, another_decomposition_takes_parts) {
  const auto t =
      tables({saved(0, {2, 4}, block({4, 4}, {0, 0}, {2, 4})), saved(1, {2, 4}, block({4, 4}, {2, 0}, {4, 4}))});
  const auto plan = plan_region(spec(block({4, 4}, {0, 1}, {4, 3})), SavedRegions(t), 2, 0, 3);
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->whole);
  ASSERT_EQ(plan->pieces.size(), 2U);
  EXPECT_EQ(plan->pieces[1].part, (region::Box{{2, 1}, {4, 3}}));
}

TEST(restore_plan, what_a_rank_left_out_gets_its_shape_and_no_data) {
  std::vector<format::Table> t = tables({saved(0, {4}, {})});
  t.push_back({"j", 1, "f", {}, {{1, "u", {6}}}});
  const SavedRegions regions(t);
  std::vector<double> data(4);
  RegionSpec u = spec({});
  u.view = [&] { return detail::dense_view(data.data(), {4}, sizeof(double)); };
  EXPECT_EQ(plan_own(u, regions, 0)->pieces.size(), 1U);
  for (const auto& plan : {plan_own(u, regions, 1), std::optional(*plan_region(u, regions, 2, 1, 2))}) {
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->shape, Extents{6});
    EXPECT_TRUE(plan->pieces.empty());
  }
  region::RegionSet all;
  ASSERT_TRUE(all.add(u).ok());
  EXPECT_TRUE(check_names(all, regions).ok());
}

/// It has nothing to put back, so its other boundaries do not matter.
TEST(restore_plan, a_block_that_was_left_out_has_the_shape_of_the_block_now) {
  std::vector<double> data(3);
  RegionSpec u = spec(block({4}, {0}, {3}));
  u.view = [&] { return detail::dense_view(data.data(), {3}, sizeof(double)); };
  const std::vector<format::Table> t{{"j", 1, "f", {}, {{0, "u", {2}}, {1, "u", {2}}}}};
  EXPECT_EQ(plan_own(u, SavedRegions(t), 0)->shape, Extents{3});
}

/// A rank without elements has saved nothing, and left nothing out.
TEST(restore_plan, empty_parts_are_on_either_side) {
  RegionSpec u = spec(distributed_list());
  std::vector<double> data(2);
  u.view = [&] { return detail::dense_view(data.data(), {2}, sizeof(double)); };
  std::vector<format::Table> t = tables({saved(0, {0}, distributed_list())});
  t.push_back({"j", 1, "f", {}, {{1, "u", {2}}}});
  const auto plan = plan_region(u, SavedRegions(t), 2, 0, 1);
  ASSERT_TRUE(plan.ok()) << plan.failure().what;
  EXPECT_TRUE(plan->pieces.empty());
}

TEST(restore_plan, on_other_ranks_all_or_none_have_left_a_region_out) {
  std::vector<double> data(3);
  RegionSpec u = spec(block({4}, {0}, {3}));
  u.view = [&] { return detail::dense_view(data.data(), {3}, sizeof(double)); };
  const std::vector<format::Table> all{{"j", 1, "f", {}, {{0, "u", {2}}, {1, "u", {2}}}}};
  const auto plan = plan_region(u, SavedRegions(all), 2, 0, 1);
  ASSERT_TRUE(plan.ok()) << plan.failure().what;
  EXPECT_TRUE(plan->pieces.empty());
  EXPECT_EQ(plan->shape, Extents{3});
  std::vector<format::Table> some = tables({saved(0, {2}, block({4}, {0}, {2}))});
  some.push_back({"j", 1, "f", {}, {{1, "u", {2}}}});
  EXPECT_NE(plan_region(u, SavedRegions(some), 2, 0, 1).failure().what.find("was left out in part"), std::string::npos);
  RegionSpec by_callbacks = spec({});
  by_callbacks.save = [] { return std::string(); };
  EXPECT_NE(plan_region(by_callbacks, SavedRegions(all), 2, 0, 2).failure().what.find("protected by callbacks now"),
            std::string::npos);
}

/// A vector that the line gives its length.
TEST(restore_plan, what_all_left_out_is_dealt_out_to_other_ranks_or_refused) {
  std::vector<double> data;
  const std::vector<format::Table> t{{"j", 1, "f", {}, {{0, "u", {5}}, {1, "u", {4}}}}};
  const auto shape_of = [&](Placement placement, int rank, int size) {
    RegionSpec u = spec(std::move(placement));
    u.view = [&] { return detail::dense_view(data.data(), {0}, sizeof(double)); };
    u.reshape = [&](const Extents& shape) { return detail::dense_view(data.data(), shape, sizeof(double)); };
    auto plan = plan_region(u, SavedRegions(t), 2, rank, size);
    return plan ? cat(plan->shape[0]) : plan.failure().what;
  };
  EXPECT_EQ(shape_of(distributed_list(), 0, 1), "9");
  EXPECT_EQ(shape_of(distributed_list(), 0, 4), "3");
  EXPECT_EQ(shape_of(distributed_list(), 3, 4), "2");
  EXPECT_EQ(shape_of(distributed_list(), 1, 2), "4");
  EXPECT_NE(shape_of(rank_private(), 0, 1).find("nobody knows how long it is to be; run on 2 ranks"),
            std::string::npos);
}

TEST(restore_plan, what_the_beginning_of_the_program_makes_is_there_beside_what_others_saved) {
  std::vector<double> data(6);
  RegionSpec u = spec(block({9}, {0}, {6}));
  u.view = [&] { return detail::dense_view(data.data(), {6}, sizeof(double)); };
  std::vector<format::Table> t = tables({saved(0, {3}, block({9}, {0}, {3}))});
  for (int rank : {1, 2}) {
    format::LeftOut entry{rank, "u", {3}};
    entry.lower = Extents{3 * rank};
    if (rank == 1) entry.made = 77;
    t.push_back({"j", 1, "f", {}, {entry}});
  }
  const auto plan = plan_region(u, SavedRegions(t), 3, 0, 2);
  ASSERT_TRUE(plan.ok()) << plan.failure().what;
  EXPECT_EQ(plan->pieces.size(), 1U);
  EXPECT_EQ(plan->made, (std::vector<region::Box>{{{3}, {6}}}));
  EXPECT_EQ(plan->as_made, nullptr);
  u.placement = block({9}, {6}, {9});
  u.view = [&] { return detail::dense_view(data.data(), {3}, sizeof(double)); };
  EXPECT_TRUE(plan_region(u, SavedRegions(t), 3, 1, 2)->made.empty());
}

/// As many ranks, which hold other blocks than those that saved.
TEST(restore_plan, what_was_left_out_of_a_block_lies_where_that_was) {
  std::vector<double> data(5);
  const auto plan_at = [&](std::int64_t lower, const std::vector<format::Table>& t, int rank) {
    RegionSpec u = spec(block({10}, {lower}, {lower + 5}));
    u.view = [&] { return detail::dense_view(data.data(), {5}, sizeof(double)); };
    return plan_region(u, SavedRegions(t), 2, rank, 2);
  };
  const auto left_out = [](int rank, std::optional<std::uint32_t> made) {
    format::LeftOut entry{rank, "u", {5}};
    entry.lower = Extents{5 * rank};
    entry.made = made;
    return format::Table{"j", 1, "f", {}, {entry}};
  };
  auto some = tables({saved(1, {5}, block({10}, {5}, {10}))});
  some.push_back(left_out(0, {}));
  EXPECT_TRUE(plan_at(0, some, 0)->is_own);
  EXPECT_TRUE(plan_at(5, some, 1)->whole);
  const auto swapped = plan_at(5, some, 0);
  ASSERT_TRUE(swapped.ok());
  EXPECT_TRUE(swapped->whole);
  EXPECT_FALSE(swapped->left_out);
  EXPECT_TRUE(plan_at(0, some, 1)->left_out);

  const std::vector<format::Table> all_made{left_out(0, 77), left_out(1, 88)};
  EXPECT_TRUE(plan_at(5, all_made, 1)->is_own);
  const auto elsewhere = plan_at(5, all_made, 0);
  EXPECT_NE(elsewhere->as_made, nullptr);
  EXPECT_FALSE(elsewhere->is_own);  // the sum is that of another block

  const auto mixed = plan_at(0, {left_out(0, 77), left_out(1, {})}, 1);
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed->made, (std::vector<region::Box>{{{0}, {5}}}));
}

format::Segment part(int rank, Extents at, Extents shape, Extents of, Placement placement) {
  auto out = saved(rank, std::move(shape), std::move(placement));
  out.part = format::Part{std::move(of), std::move(at)};
  return out;
}

TEST(restore_plan, parts_of_a_region_come_back_to_their_places) {
  auto t = tables({part(0, {1}, {2}, {6}, {}), part(0, {4}, {1}, {6}, {})});
  const auto plan = plan_own(spec({}), SavedRegions(t), 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->shape, Extents{6});
  EXPECT_TRUE(plan->left_out);
  ASSERT_EQ(plan->pieces.size(), 2U);
  EXPECT_EQ(plan->pieces[1].part, (region::Box{{4}, {5}}));
  const auto refused = plan_region(spec({}), SavedRegions(t), 1, 0, 2);
  EXPECT_NE(refused.failure().what.find("was left out in part"), std::string::npos);
  t[1].segments[0].part->of = {9};  // no such region was ever saved
  EXPECT_FALSE(plan_own(spec({}), SavedRegions(t), 0));
}

TEST(restore_plan, parts_that_are_all_of_a_region_leave_nothing_out) {
  const auto t = tables({part(0, {0}, {2}, {3}, {}), part(0, {2}, {1}, {3}, {})});
  EXPECT_FALSE(plan_own(spec({}), SavedRegions(t), 0)->left_out);
}

/// Rank 0 has saved [1, 3) of its block, rank 1 nothing of its own; nobody had [8, 9).
TEST(restore_plan, on_other_ranks_blocks_come_back_as_far_as_they_were_saved) {
  auto t = tables({part(0, {1}, {2}, {4}, block({9}, {0}, {4}))});
  t.push_back({"j", 1, "f", {}, {{1, "u", {4}, {}, false, Extents{4}}}});
  const auto plan = plan_region(spec(block({9}, {2}, {8})), SavedRegions(t), 2, 0, 1);
  ASSERT_TRUE(plan.ok()) << plan.failure().what;
  EXPECT_TRUE(plan->left_out);
  ASSERT_EQ(plan->pieces.size(), 1U);
  EXPECT_EQ(plan->pieces[0].part, (region::Box{{2}, {3}}));
  EXPECT_EQ(plan->pieces[0].source, (region::Box{{1}, {3}}));
  const auto refused = plan_region(spec(block({9}, {2}, {9})), SavedRegions(t), 2, 0, 1);
  EXPECT_NE(refused.failure().what.find("do not cover all of the block"), std::string::npos);
}

TEST(restore_plan, an_uncovered_block_is_refused) {
  const auto t = tables({saved(0, {2, 4}, block({4, 4}, {0, 0}, {2, 4}))});
  EXPECT_EQ(plan_region(spec(block({4, 4}, {0, 0}, {3, 4})), SavedRegions(t), 1, 0, 1).failure().code, Code::mismatch);
}

TEST(restore_plan, overlapping_blocks_are_refused_also_where_their_volumes_add_up) {
  const auto t = tables({saved(0, {2}, block({4}, {0}, {2})), saved(1, {2}, block({4}, {0}, {2}))});
  const auto refused = plan_region(spec(block({4}, {0}, {4})), SavedRegions(t), 2, 0, 1).failure();
  EXPECT_EQ(refused.code, Code::mismatch);
  EXPECT_NE(refused.what.find("overlap (those of ranks 0 and 1)"), std::string::npos) << refused.what;
}

TEST(restore_plan, list_pieces_with_elements_of_different_shapes_are_refused) {
  const auto t = tables({saved(0, {2, 2}, distributed_list()), saved(1, {2, 3}, distributed_list())});
  EXPECT_EQ(plan_region(spec(distributed_list()), SavedRegions(t), 2, 0, 1).failure().code, Code::mismatch);
}

TEST(restore_plan, what_was_saved_as_another_kind_is_refused_for_callbacks_and_texts_too) {
  const auto t = tables({saved(0, {5}, rank_private())});
  for (const auto kind : {Type::Kind::text, Type::Kind::opaque}) {
    auto wanted = spec(rank_private());
    wanted.type = {kind, 1, {}};
    wanted.save = [] { return std::string(); };
    EXPECT_EQ(plan_region(wanted, SavedRegions(t), 1, 0, 1).failure().code, Code::mismatch);
  }
}

TEST(restore_plan, memory_takes_texts_of_its_own_length_and_callbacks_any) {
  auto segment = saved(0, {2}, rank_private());
  segment.type = {Type::Kind::text, 20, {}};
  const auto t = tables({segment});
  auto wanted = spec(rank_private());
  for (const std::size_t length : {10, 20, 30}) {
    wanted.type = {Type::Kind::text, length, {}};
    const auto plan = plan_region(wanted, SavedRegions(t), 1, 0, 1);
    EXPECT_EQ(plan.ok(), length == 20);
    EXPECT_EQ(plan_own(wanted, SavedRegions(t), 0).has_value(), length == 20);
    if (plan) continue;
    EXPECT_NE(plan.failure().what.find("text of 20 bytes"), std::string::npos) << plan.failure().what;
  }
  wanted.save = [] { return std::string(); };
  EXPECT_TRUE(plan_region(wanted, SavedRegions(t), 1, 0, 1).ok());
}

TEST(restore_plan, what_is_in_no_block_of_the_new_job_is_refused) {
  const auto t =
      tables({saved(0, {4, 2}, block({4, 4}, {0, 0}, {4, 2})), saved(1, {4, 1}, block({4, 4}, {0, 3}, {4, 4}))});
  const SavedRegions regions(t);
  const std::vector<region::Box> all{{{0, 0}, {1, 4}}, {{1, 0}, {4, 1}}, {{1, 1}, {4, 4}}};
  EXPECT_TRUE(check_all_taken("u", regions, all).ok());
  EXPECT_TRUE(check_all_taken("u", regions, {{{0, 0}, {4, 2}}, {{0, 1}, {4, 4}}}).ok()) << "they may overlap";
  EXPECT_TRUE(check_all_taken("u", regions, {{{0, 0}, {4, 2}}, {{0, 3}, {4, 4}}}).ok()) << "the gap was never saved";
  for (std::size_t out = 0; out < all.size(); ++out) {
    auto some = all;
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(out));
    EXPECT_EQ(check_all_taken("u", regions, some).failure().code, Code::mismatch) << out;
  }
  const auto refused = check_all_taken("u", regions, {{{0, 0}, {4, 3}}}).failure();
  EXPECT_NE(refused.what.find("saved by rank 1 from [0, 3] up to [4, 4]"), std::string::npos) << refused.what;
}

TEST(restore_plan, an_empty_block_needs_nothing) {
  const auto t = tables({saved(0, {4, 4}, block({4, 4}, {0, 0}, {4, 4}))});
  const auto plan = plan_region(spec(block({4, 4}, {4, 0}, {4, 4})), SavedRegions(t), 1, 1, 2);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->pieces.empty());
}

TEST(restore_plan, a_list_is_split_evenly_and_wholly) {
  const auto t = tables({saved(0, {5, 3}, distributed_list()), saved(1, {0, 3}, distributed_list()),
                         saved(2, {6, 3}, distributed_list())});
  for (int size : {1, 2, 4, 5, 20}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const auto plan = plan_region(spec(distributed_list()), SavedRegions(t), 3, rank, size);
      ASSERT_TRUE(plan.ok());
      EXPECT_EQ(plan->target.lower[0], next);
      next = plan->target.upper[0];
      std::int64_t rows = 0;
      for (const auto& piece : plan->pieces) rows += piece.part.upper[0] - piece.part.lower[0];
      EXPECT_EQ(rows, plan->shape[0]);
    }
    EXPECT_EQ(next, 11);
  }
}

TEST(restore_plan, the_same_ranks_get_their_own_pieces_of_a_list) {
  const auto t = tables({saved(0, {5}, distributed_list()), saved(1, {1}, distributed_list())});
  EXPECT_EQ(plan_region(spec(distributed_list()), SavedRegions(t), 2, 1, 2)->shape, (Extents{1}));
}

TEST(restore_plan, private_data_come_back_on_the_same_ranks_only) {
  const auto t = tables({saved(0, {5}, rank_private()), saved(1, {1}, rank_private())});
  EXPECT_TRUE(plan_region(spec(rank_private()), SavedRegions(t), 2, 1, 2).ok());
  const auto refused = plan_region(spec(rank_private()), SavedRegions(t), 2, 0, 3);
  EXPECT_EQ(refused.failure().code, Code::mismatch);
  EXPECT_NE(refused.failure().what.find("run on 2 ranks"), std::string::npos);
}

TEST(restore_plan, replicated_values_must_be_equal_to_come_back_on_other_ranks) {
  const auto same = tables({saved(0, {}, replicated(), 7), saved(1, {}, replicated(), 7)});
  const auto other = tables({saved(0, {}, replicated(), 7), saved(1, {}, replicated(), 8)});
  EXPECT_TRUE(plan_region(spec(replicated()), SavedRegions(same), 2, 2, 3).ok());
  EXPECT_FALSE(plan_region(spec(replicated()), SavedRegions(other), 2, 2, 3).ok());
  EXPECT_TRUE(plan_region(spec(replicated()), SavedRegions(other), 2, 1, 2).ok());
}

TEST(restore_plan, another_type_placement_or_shape_is_explained) {
  const auto t = tables({saved(0, {4}, block({4}, {0}, {4}))});
  auto type = spec(block({4}, {0}, {4}));
  type.type = {Type::Kind::floating, 4, {}};
  EXPECT_NE(plan_region(type, SavedRegions(t), 1, 0, 1).failure().what.find("float64"), std::string::npos);
  EXPECT_NE(plan_region(spec(replicated()), SavedRegions(t), 1, 0, 1).failure().what.find("a block"),
            std::string::npos);
  EXPECT_NE(plan_region(spec(block({5}, {0}, {5})), SavedRegions(t), 1, 0, 1).failure().what.find("[4]"),
            std::string::npos);
}

TEST(restore_plan, what_this_rank_saved_needs_no_other_table_if_it_is_what_it_wants) {
  const auto lower = block({4}, {0}, {2}), upper = block({4}, {2}, {4});
  const auto t = tables({saved(1, {2}, upper)});  // the file of rank 1, and nothing of rank 0
  const auto plan = plan_own(spec(upper), SavedRegions(t), 1);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->whole);
  EXPECT_EQ(plan->shape, (Extents{2}));
  EXPECT_FALSE(plan_own(spec(upper), SavedRegions(t), 0));           // this rank saved nothing there
  EXPECT_FALSE(plan_own(spec(lower), SavedRegions(t), 1));           // another block than it had
  EXPECT_FALSE(plan_own(spec(rank_private()), SavedRegions(t), 1));  // another placement
  auto type = spec(upper);
  type.type = {Type::Kind::floating, 4, {}};
  EXPECT_FALSE(plan_own(type, SavedRegions(t), 1));
}

TEST(restore_plan, regions_of_one_side_only_are_named_with_the_nearest) {
  const auto t = tables({saved(0, {}, replicated())});
  region::RegionSet set;
  double x = 0;
  auto s = spec(replicated());
  s.name = "v";
  s.view = [&x] { return detail::dense_view(&x, {}, 8); };
  s.reshape = [&x](const Extents&) { return detail::dense_view(&x, {}, 8); };
  ASSERT_TRUE(set.add(s).ok());
  const auto refused = check_names(set, SavedRegions(t));
  EXPECT_EQ(refused.failure().code, Code::mismatch);
  EXPECT_NE(refused.failure().what.find("'v'"), std::string::npos);
}

}  // namespace
}  // namespace backstay::engine
