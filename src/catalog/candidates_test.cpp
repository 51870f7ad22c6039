#include "catalog/candidates.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "format/data_file.h"

namespace backstay::catalog {
namespace {

format::Manifest manifest(std::uint64_t line, bool copies = false) {
  format::Manifest m{"0123456789abcdef", line, copies ? "partner" : "local", 2, 1, 0, "p", {}, {}};
  m.files.push_back({"rank-00000.h5", {0}, 0, copies ? 1 : -1, 100, 1});
  m.files.push_back({"rank-00001.h5", {1}, 1, copies ? 0 : -1, 200, 2});
  return m;
}

Holding holding(const format::Manifest& m, std::map<std::string, std::uint64_t> files) {
  return {m.line, format::encode_manifest(m), std::move(files)};
}

TEST(candidates, contents_travel_between_ranks) {
  const std::vector<StoreContents> there{{1, 2, {holding(manifest(7), {{"a", 1}, {"b", 2}})}}, {0, 3, {}}};
  const Bytes message = encode_contents(there);
  Manifests manifests;
  decode_manifests(encode_manifests(manifests_of(there)), manifests);
  const auto back = decode_contents(message, manifests);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].holdings[0].files, there[0].holdings[0].files);
  EXPECT_EQ(back[0].holdings[0].manifest, there[0].holdings[0].manifest);
  EXPECT_EQ(back[1].server, 3);
  EXPECT_TRUE(decode_contents({}, {}).empty());
}

TEST(candidates, why_a_manifest_cannot_be_read_travels_and_is_said_before_damage) {
  Holding unreadable{7, Bytes(1), {}, "cannot open it: Permission denied"}, damaged{7, Bytes(2), {}};
  const std::vector<StoreContents> there{{0, 0, {damaged}}, {0, 1, {unreadable}}, {0, 2, {damaged}}};
  Manifests manifests;
  decode_manifests(encode_manifests(manifests_of(there)), manifests);
  const auto found = candidates(decode_contents(encode_contents(there), manifests));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, Code::io);
  EXPECT_EQ(found[0].trouble, unreadable.unreadable);
  const auto whole = holding(manifest(7), {{"rank-00000.h5", 100}, {"rank-00001.h5", 200}});
  EXPECT_EQ(candidates({{0, 0, {unreadable}}, {0, 1, {whole}}})[0].trouble, "") << "another store has it";
}

TEST(candidates, a_manifest_that_many_have_is_told_once) {
  std::vector<StoreContents> there;
  for (int rank = 0; rank < 5; ++rank) there.push_back({0, rank, {holding(manifest(7), {}), holding(manifest(8), {})}});
  EXPECT_EQ(manifests_of(there).size(), 2U);
  const auto keys = keys_in(encode_contents(there));
  EXPECT_EQ(keys.size(), 10U);
  EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), 2U);
  const auto damaged = decode_contents(encode_contents(there), {});  // nobody has told it
  EXPECT_EQ(candidates(damaged)[0].code, Code::corrupt);
}

/// As at level memory: every rank has its own file, and the manifest of all.
TEST(candidates, what_thousands_of_ranks_tell_each_other_is_little_more_than_their_own) {
  constexpr int ranks = 2000;
  format::Manifest all{"0123456789abcdef", 7, "memory", ranks, 1, 0, "p", {}, {}};
  for (int rank = 0; rank < ranks; ++rank) all.files.push_back({format::rank_file_name(rank), {rank}, 0, -1, 100, 1});
  const Bytes bytes = format::encode_manifest(all);
  const SharedBytes text(bytes);
  std::vector<Bytes> messages;
  std::size_t size = 0;
  Manifests manifests;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<StoreContents> mine{{0, rank, {{7, text, {{format::rank_file_name(rank), 100}}}}}};
    messages.push_back(encode_contents(mine));
    size += messages.back().size();
    if (rank == 0) decode_manifests(encode_manifests(manifests_of(mine)), manifests);
  }
  EXPECT_LT(size, 100U * ranks);
  std::vector<StoreContents> contents;
  for (const auto& message : messages)
    for (auto& store : decode_contents(message, manifests)) contents.push_back(std::move(store));
  const auto found = candidates(contents);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].trouble, "");
  EXPECT_TRUE(found[0].complete);
  EXPECT_EQ(found[0].sources[ranks - 1], (std::vector<Source>{{ranks - 1, format::rank_file_name(ranks - 1)}}));
}

TEST(candidates, newest_first_and_cheapest_first_among_equals) {
  const std::vector<StoreContents> c{{1, 0, {holding(manifest(7), {}), holding(manifest(9), {})}},
                                     {0, 0, {holding(manifest(7), {})}}};
  const auto found = candidates(c);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].line, 9U);
  EXPECT_EQ(found[1].level, 0);
  EXPECT_EQ(found[2].level, 1);
  EXPECT_EQ(newest_number(c), 9U);
}

TEST(candidates, a_lost_node_is_replaced_by_its_copies) {
  const auto m = manifest(5, true);
  const std::vector<StoreContents> c{{0, 0, {holding(m, {{"rank-00000.h5", 100}, {"copy-rank-00001.h5", 200}})}}};
  const auto found = candidates(c);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].trouble, "");
  EXPECT_FALSE(found[0].complete);
  EXPECT_EQ(found[0].sources[1], (std::vector<Source>{{0, "copy-rank-00001.h5"}}));
}

TEST(candidates, a_complete_line_prefers_originals) {
  const auto m = manifest(5, true);
  const std::vector<StoreContents> c{{0, 0, {holding(m, {{"rank-00000.h5", 100}, {"copy-rank-00001.h5", 200}})}},
                                     {0, 1, {holding(m, {{"rank-00001.h5", 200}, {"copy-rank-00000.h5", 100}})}}};
  const auto found = candidates(c);
  EXPECT_TRUE(found[0].complete);
  EXPECT_EQ(found[0].sources[1], (std::vector<Source>{{1, "rank-00001.h5"}, {0, "copy-rank-00001.h5"}}));
}

TEST(candidates, as_many_lost_members_as_parities_can_be_rebuilt) {
  format::Manifest m{"0123456789abcdef", 5, "local", 3, 1, 0, "p", {}, {}};
  for (int rank = 0; rank < 3; ++rank) m.files.push_back({cat("rank-0000", rank, ".h5"), {rank}, rank, -1, 100, 1});
  m.groups.push_back({{0, 1, 2}, 3, 1, 4096, {1, 2, 3}});
  const auto member = [&](int rank, std::uint64_t parity_size = 8192) {
    return StoreContents{
        0,
        rank,
        {holding(m, {{cat("rank-0000", rank, ".h5"), 100}, {cat("parity-00000-of-rank-0000", rank), parity_size}})}};
  };
  const auto whole = candidates({member(0), member(1), member(2)}).front();
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(whole.groups, (std::vector<GroupStores>{{0, 1, 2}}));
  const auto one_lost = candidates({member(0), member(2)}).front();
  EXPECT_EQ(one_lost.trouble, "");
  EXPECT_FALSE(one_lost.complete);
  EXPECT_EQ(one_lost.groups, (std::vector<GroupStores>{{0, std::nullopt, 1}}));
  const auto torn_parity = candidates({member(0), member(1), member(2, 4096)}).front();
  EXPECT_EQ(torn_parity.trouble, "") << "all data are there";
  EXPECT_FALSE(torn_parity.complete);
  for (const auto& two_lost : {candidates({member(1)}), candidates({member(0), member(2, 4096)})}) {
    EXPECT_EQ(two_lost.front().code, Code::corrupt);
    EXPECT_NE(two_lost.front().trouble.find("2 of the 3 ranks of its parity group"), std::string::npos);
  }
  EXPECT_EQ(group_of(m, 1), 0);
  EXPECT_EQ(group_of(m, 3), -1);
}

TEST(candidates, a_line_without_the_manifest_of_one_store_can_be_had_and_is_not_complete) {
  const auto m = manifest(5);
  Holding bare = holding(m, {{"rank-00001.h5", 200}});
  bare.manifest = {};  // a job died between the renames of two stores
  const std::vector<StoreContents> c{{0, 0, {holding(m, {{"rank-00000.h5", 100}})}}, {0, 1, {bare}}};
  const auto found = candidates(c);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].trouble, "");
  EXPECT_FALSE(found[0].complete);
}

TEST(candidates, a_file_of_another_size_is_no_source) {
  const std::vector<StoreContents> c{{0, 0, {holding(manifest(5), {{"rank-00000.h5", 99}, {"rank-00001.h5", 200}})}}};
  EXPECT_NE(candidates(c)[0].trouble.find("rank-00000.h5"), std::string::npos);
}

TEST(candidates, uncommitted_lines_are_none_but_count_their_number) {
  const std::vector<StoreContents> c{{0, 0, {Holding{12, {}, {{"rank-00000.h5", 5}}}}}};
  EXPECT_TRUE(candidates(c).empty());
  EXPECT_EQ(newest_number(c), 12U);
}

TEST(candidates, a_damaged_manifest_is_replaced_by_another_nodes) {
  auto bad = holding(manifest(5), {{"rank-00000.h5", 100}});
  auto bytes = format::encode_manifest(manifest(5));
  bytes[40] ^= std::byte{1};
  bad.manifest = bytes;
  const std::vector<StoreContents> c{{0, 0, {bad}}, {0, 1, {holding(manifest(5), {{"rank-00001.h5", 200}})}}};
  EXPECT_EQ(candidates(c)[0].trouble, "");
  EXPECT_NE(candidates({{0, 0, {bad}}})[0].trouble, "");
}

TEST(candidates, a_store_with_the_manifest_of_something_else_does_not_hide_the_line) {
  auto other = manifest(5);
  other.files = {{"rank-00000.h5", {0}, 0, -1, 40, 1}, {"rank-00001.h5", {1}, 1, -1, 50, 2}};
  other.time = 7;  // newer, but there is nothing of it
  const std::vector<StoreContents> c{{0, 0, {holding(other, {{"rank-00000.h5", 100}})}},
                                     {0, 1, {holding(manifest(5), {{"rank-00001.h5", 200}})}}};
  const auto found = candidates(c);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].trouble, "");
  EXPECT_EQ(found[0].manifest, manifest(5));
  EXPECT_FALSE(found[0].complete);
}

TEST(candidates, of_two_manifests_the_newer_counts_as_a_node_may_have_been_away) {
  auto again = manifest(5);
  again.job = "fedcba9876543210";
  again.time = 7;
  for (const bool first : {true, false}) {
    const auto old = holding(manifest(5), {{"rank-00000.h5", 100}}), newer = holding(again, {{"rank-00001.h5", 200}});
    const auto found = candidates({{0, 0, {first ? old : newer}}, {0, 1, {first ? newer : old}}});
    EXPECT_EQ(found[0].manifest, again);
    EXPECT_FALSE(found[0].complete);
  }
}

TEST(candidates, a_manifest_under_another_lines_name_is_damage) {
  auto moved = holding(manifest(5), {});
  moved.line = 6;
  EXPECT_EQ(candidates({{0, 0, {moved}}})[0].code, Code::corrupt);
}

}  // namespace
}  // namespace backstay::catalog
