#include "format/data_file.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace backstay::format {
namespace {

Segment segment(int rank, std::string region, std::uint64_t offset, Extents shape, Placement placement = {}) {
  std::uint64_t n = 8;
  for (auto s : shape) n *= static_cast<std::uint64_t>(s);
  return {rank,
          std::move(region),
          "",
          {Type::Kind::floating, 8, {}},
          std::move(shape),
          "m",
          std::move(placement),
          offset,
          n,
          0};
}

TEST(area, large_segments_begin_at_a_page_and_small_ones_at_64) {
  const std::vector<std::uint64_t> sizes{1, 65535, 65536, 0, 3};
  const auto layout = layout_area(sizes);
  EXPECT_EQ(layout.offsets, (std::vector<std::uint64_t>{0, 64, 69632, 135168, 135168}));
  EXPECT_EQ(layout.size % page, 0U);
  EXPECT_EQ(layout_area({}).size, 0U);
}

TEST(header, comes_back_as_it_was_and_every_flip_is_found) {
  const Header h{8192, 100, 0x9af1, 12288, 500, 7, 12788};
  const Bytes good = encode_header(h);
  ASSERT_EQ(good.size(), page);
  EXPECT_EQ(*decode_header(good), h);
  const auto line = as_text(good).find('\n');
  for (std::size_t i = 0; i <= line; ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_FALSE(decode_header(bad).ok()) << i;
  }
}

TEST(header, another_version_is_named) {
  Bytes other = encode_header({8192, 100, 0, 12288, 500, 7, 12788});
  other[14] = std::byte{'2'};
  EXPECT_EQ(decode_header(other).failure().code, Code::version);
}

TEST(frame, one_rank_has_its_regions_at_the_root) {
  const auto frame =
      frame_file({"j", 1, "local", 0}, "rank-00000.h5", {{0, {segment(0, "u", 0, {4}), segment(0, "v/w", 64, {})}}});
  ASSERT_TRUE(frame.ok()) << frame.failure().what;
  EXPECT_EQ(frame->area_offsets, (std::vector<std::uint64_t>{first_area}));
  const auto header = decode_header(ByteView(frame->front).first(page));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->size, frame->size);
  EXPECT_EQ(frame->tail_offset + frame->tail.size(), frame->size);
  const auto table = decode_table(ByteView(frame->tail).first(header->table_length));
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->segments[0].dataset, "/u");
  EXPECT_EQ(table->segments[1].offset, first_area + 64);
}

TEST(frame, several_ranks_lie_one_after_the_other) {
  std::vector<Area> areas;
  for (int rank : {2, 5})
    areas.push_back({rank,
                     {segment(rank, "u", 0, {4}, block({8}, {rank == 2 ? 0 : 4}, {rank == 2 ? 4 : 8})),
                      segment(rank, "n", 64, {}, replicated()), segment(rank, "x", 128, {rank}, distributed_list()),
                      segment(rank, "private", 256, {1})}});
  const auto frame = frame_file({"j", 1, "shared", 0}, "all.h5", areas);
  ASSERT_TRUE(frame.ok()) << frame.failure().what;
  EXPECT_EQ(frame->area_offsets, (std::vector<std::uint64_t>{first_area, first_area + page}));
  const auto header = decode_header(ByteView(frame->front).first(page));
  const auto table = decode_table(ByteView(frame->tail).first(header->table_length));
  EXPECT_EQ(table->segments[4].dataset, "/by_rank/00005/u");
  EXPECT_EQ(table->segments[4].offset, first_area + page);
}

TEST(frame, lists_whose_elements_are_wider_on_some_ranks_are_no_list_together) {
  std::vector<Area> areas;
  for (int rank : {0, 1}) areas.push_back({rank, {segment(rank, "u", 0, {4, 2 + rank}, distributed_list())}});
  const auto frame = frame_file({"j", 1, "shared", 0}, "all.h5", areas);
  ASSERT_TRUE(frame.ok()) << frame.failure().what;
  const auto header = decode_header(ByteView(frame->front).first(page));
  const auto table = decode_table(ByteView(frame->tail).first(header->table_length));
  EXPECT_EQ(table->segments[1].shape, (Extents{4, 3}));
}

TEST(frame, a_file_without_regions_can_be_made) {
  EXPECT_TRUE(frame_file({"j", 1, "local", 0}, "rank-00000.h5", {{0, {}}}).ok());
}

TEST(region_name, awkward_names_are_fine_and_impossible_ones_are_explained) {
  for (const char* good : {"u", "velocity x", "flow/u", "Größe", "a.b", "..a", "by_rank2"})
    EXPECT_EQ(why_not_a_region_name(good), "") << good;
  for (const std::string& bad : {std::string(""), std::string("/u"), std::string("u/"), std::string("a//b"),
                                 std::string("a/./b"), std::string(".."), std::string("\xff"), std::string("\xc3"),
                                 std::string("a\0b", 3), std::string("by_rank/x"), std::string(2000, 'x')})
    EXPECT_NE(why_not_a_region_name(bad), "") << bad;
}

}  // namespace
}  // namespace backstay::format
