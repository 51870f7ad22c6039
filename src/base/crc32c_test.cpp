#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace backstay {
namespace {

/// The definition, bit by bit.
std::uint32_t crc_by_definition(ByteView bytes) {
  std::uint32_t state = ~0U;
  for (const std::byte b : bytes) {
    state ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~state;
}

Bytes noise(std::size_t size, std::uint32_t seed = 1) {
  Bytes bytes(size);
  for (auto& b : bytes) {
    seed = seed * 1664525U + 1013904223U;
    b = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

constexpr std::byte untouched{0xa5};

/// Copies from and to the given distances from a cache line, and checks the copy, its CRC and both neighbours.
void expect_exact_copy(std::size_t size, std::size_t source_offset, std::size_t target_offset) {
  SCOPED_TRACE(testing::Message() << size << " bytes, source + " << source_offset << ", target + " << target_offset);
  const Bytes source = noise(size + 64);
  Bytes target(size + 192, untouched);
  const std::size_t to_line = (64 - reinterpret_cast<std::uintptr_t>(target.data()) % 64) % 64;
  const std::size_t start = to_line + target_offset;
  const ByteView from(source.data() + source_offset, size);
  const std::uint32_t crc = copy_crc32c(target.data() + start, from);
  EXPECT_EQ(crc, crc32c(from));
  EXPECT_TRUE(std::equal(from.begin(), from.end(), target.begin() + static_cast<std::ptrdiff_t>(start)));
  EXPECT_TRUE(std::all_of(target.data(), target.data() + start, [](std::byte b) { return b == untouched; }));
  EXPECT_TRUE(std::all_of(target.data() + start + size, target.data() + target.size(),
                          [](std::byte b) { return b == untouched; }));
}

TEST(Crc32c, published_vectors_agree) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0})), 0x8a9136aaU);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xff})), 0x62a8ab43U);
  Bytes rising(32);
  for (std::size_t i = 0; i < 32; ++i) rising[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  std::reverse(rising.begin(), rising.end());
  EXPECT_EQ(crc32c(rising), 0x113fdb5cU);
}

TEST(Crc32c, nothing_adds_nothing) {
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c({}, 0xe3069283U), 0xe3069283U);
  EXPECT_EQ(copy_crc32c(nullptr, {}, 7U), 7U);
}

TEST(Crc32c, every_small_size_and_alignment_follows_the_definition) {
  const Bytes bytes = noise(400);
  for (std::size_t size = 0; size <= 300; ++size) {
    for (const std::size_t offset : {0, 1, 7, 63}) {
      const ByteView part(bytes.data() + offset, size);
      EXPECT_EQ(crc32c(part), crc_by_definition(part)) << size << " bytes at " << offset;
    }
  }
  const Bytes longer = noise(70001);
  EXPECT_EQ(crc32c(longer), crc_by_definition(longer));
}

TEST(Crc32c, parts_in_a_row_equal_the_whole) {
  const Bytes bytes = noise(5000);
  const std::uint32_t whole = crc32c(bytes);
  for (const std::size_t cut : {0, 1, 511, 512, 513, 4096, 5000}) {
    const ByteView all = bytes;
    EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), whole) << cut;
    Bytes target(bytes.size());
    const std::uint32_t first = copy_crc32c(target.data(), all.first(cut));
    EXPECT_EQ(copy_crc32c(target.data() + cut, all.subspan(cut), first), whole) << cut;
    EXPECT_EQ(target, bytes);
  }
}

TEST(Crc32c, combined_parts_equal_the_whole) {
  const Bytes bytes = noise(70000);
  const ByteView all = bytes;
  for (const std::size_t cut : {0, 1, 2, 255, 256, 4097, 65536, 69999, 70000}) {
    const ByteView second = all.subspan(cut);
    EXPECT_EQ(crc32c_combine(crc32c(all.first(cut)), crc32c(second), second.size()), crc32c(all)) << cut;
  }
}

TEST(Crc32c, combining_carries_sizes_beyond_32_bits) {
  // Zeros, doubled from 1 MiB to 8 GiB without having them: one more MiB in front or behind is the same string.
  std::uint32_t crc = crc32c(Bytes(1 << 20, std::byte{0}));
  std::uint64_t size = 1 << 20;
  const std::uint32_t unit = crc;
  for (; size < std::uint64_t{1} << 33; size *= 2) crc = crc32c_combine(crc, crc, size);
  const std::uint32_t one_more_before = crc32c_combine(unit, crc, size);
  const std::uint32_t one_more_after = crc32c_combine(crc, unit, 1 << 20);
  EXPECT_EQ(one_more_before, one_more_after);
}

TEST(Crc32c, small_copies_are_exact_at_every_size) {
  for (std::size_t size = 0; size <= 300; ++size) expect_exact_copy(size, size % 5, size % 11);
}

TEST(Crc32c, large_copies_are_exact_at_any_alignment) {
  for (const std::size_t size : {131071, 131072, 131073, 200000, 262144 + 511}) {
    for (const std::size_t offset : {0, 1, 32, 63}) {
      expect_exact_copy(size, offset, 0);
      expect_exact_copy(size, 0, offset);
      expect_exact_copy(size, offset, 64 - offset);
    }
  }
}

TEST(Crc32c, one_flipped_bit_changes_the_crc) {
  Bytes bytes = noise(3000);
  const std::uint32_t whole = crc32c(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    bytes[at] ^= std::byte{0x10};
    EXPECT_NE(crc32c(bytes), whole) << at;
    bytes[at] ^= std::byte{0x10};
  }
}

}  // namespace
}  // namespace backstay
