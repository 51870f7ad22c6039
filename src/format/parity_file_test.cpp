#include "format/parity_file.h"

#include <gtest/gtest.h>

namespace backstay::format {
namespace {

ParityHeader sample(std::size_t shards) {
  ParityHeader header{"0123456789abcdef", 42, 3, 12, {}};
  for (std::size_t i = 0; i < shards; ++i) header.sums.push_back(static_cast<std::uint32_t>(i * 0x01020304U + 7));
  return header;
}

TEST(parity_file, a_header_of_up_to_255_shards_comes_back_as_it_was) {
  for (const std::size_t shards : {2, 8, 255}) {
    const Bytes page_of_it = encode_parity_header(sample(shards));
    EXPECT_EQ(page_of_it.size(), page);
    const auto back = decode_parity_header(page_of_it);
    ASSERT_TRUE(back.ok()) << back.failure().what;
    EXPECT_EQ(*back, sample(shards));
  }
}

TEST(parity_file, other_files_and_versions_are_refused) {
  EXPECT_EQ(decode_parity_header(Bytes(page)).failure().code, Code::corrupt);
  EXPECT_EQ(decode_parity_header({}).failure().code, Code::corrupt);
  EXPECT_EQ(decode_parity_header(as_bytes("backstay parity \n")).failure().code, Code::corrupt);
  Bytes other = encode_parity_header(sample(3));
  other[std::string_view("backstay parity ").size()] = std::byte{'2'};
  EXPECT_EQ(decode_parity_header(other).failure().code, Code::version);
  Bytes behind = encode_parity_header(sample(3));
  behind.back() = std::byte{1};
  EXPECT_EQ(decode_parity_header(behind).failure().code, Code::corrupt);
}

TEST(parity_file, no_flipped_byte_crashes_the_reader) {
  const Bytes good = encode_parity_header(sample(4));
  for (std::size_t i = 0; i < 120; ++i)
    for (const int bit : {0, 4, 7}) {
      Bytes bad = good;
      bad[i] ^= static_cast<std::byte>(1 << bit);
      const auto back = decode_parity_header(bad);
      EXPECT_TRUE(!back || *back != sample(4)) << i;  // the manifest has the checksum of the page
    }
}

TEST(parity_file, names_sort_by_group) {
  EXPECT_EQ(parity_file_name(3, 12), "parity-00003-of-rank-00012");
  GroupOfParity group{{0, 1, 2}, 3, 2, 8192, {0, 0, 0}};
  EXPECT_EQ(parity_file_size(group), 4096U + 2 * 8192U);
}

}  // namespace
}  // namespace backstay::format
