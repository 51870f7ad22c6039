#include "region/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crc32c.h"

namespace backstay::region {
namespace {

constexpr std::byte untouched{0xa5};

Bytes noise(std::size_t size, std::uint64_t seed = 1) {
  Bytes bytes(size);
  for (std::size_t at = 0; at < size; at += 8) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t mixed = seed ^ seed >> 29;
    std::memcpy(bytes.data() + at, &mixed, std::min<std::size_t>(8, size - at));
  }
  return bytes;
}

View strided(std::byte* data, Extents shape, Extents strides) {
  return {data, std::move(shape), std::move(strides), {}, true};
}

View dense(Bytes& bytes) { return strided(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, {1}); }

View ragged(std::byte* data, std::int64_t stride, std::vector<std::int64_t> lengths) {
  View view{data, {0}, {stride}, std::move(lengths), true};
  for (const auto n : view.run_lengths) view.shape[0] += n;
  return view;
}

/// Byte offsets of all elements from view.data, in C order: the definition that capture and put back must follow.
std::vector<std::int64_t> offsets(const View& view, std::size_t element_size) {
  std::vector<std::int64_t> at{0};
  if (!view.run_lengths.empty()) {
    at.clear();
    for (std::size_t row = 0; row < view.run_lengths.size(); ++row) {
      for (std::int64_t i = 0; i < view.run_lengths[row]; ++i) {
        at.push_back(static_cast<std::int64_t>(row) * view.strides[0] + i * static_cast<std::int64_t>(element_size));
      }
    }
    return at;
  }
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const auto start : at) {
      for (std::int64_t i = 0; i < view.shape[d]; ++i) next.push_back(start + i * view.strides[d]);
    }
    at = next;
  }
  return at;
}

Bytes packed_by_definition(const View& view, std::size_t element_size) {
  Bytes packed;
  for (const auto at : offsets(view, element_size)) {
    packed.insert(packed.end(), view.data + at, view.data + at + element_size);
  }
  return packed;
}

/// Captures `view` of `memory`, then puts other bytes back, and compares both with the definition; the bytes between
/// the elements and around the target must stay as they were.
void expect_there_and_back(Bytes& memory, const View& view, std::size_t element_size, int threads = 1) {
  const Bytes expected = packed_by_definition(view, element_size);
  ASSERT_EQ(packed_size(view, element_size), expected.size());
  Bytes target(expected.size() + 2, untouched);
  EXPECT_EQ(capture(view, element_size, target.data() + 1, threads), crc32c(expected));
  EXPECT_EQ(checksum(view, element_size), crc32c(expected));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), target.begin() + 1));
  EXPECT_EQ(target.front(), untouched);
  EXPECT_EQ(target.back(), untouched);

  const Bytes other = noise(expected.size(), 77);
  Bytes after = memory;
  std::size_t from = 0;
  for (const auto at : offsets(view, element_size)) {
    std::copy_n(other.data() + from, element_size, after.data() + (view.data - memory.data()) + at);
    from += element_size;
  }
  const Bytes before = memory;
  EXPECT_EQ(put_back(other, view, element_size), crc32c(other));
  EXPECT_EQ(memory, after);
  memory = before;
  for (std::size_t at = 0, size = 0; at < other.size(); at += size) {
    size = std::min<std::size_t>(at % 2 == 0 ? 997 : 8192, other.size() - at);
    const ByteView piece(other.data() + at, size);
    EXPECT_EQ(put_back(piece, view, element_size, at), crc32c(piece));
  }
  EXPECT_EQ(memory, after);
}

TEST(Pack, scalar_comes_back) {
  Bytes memory = noise(8);
  expect_there_and_back(memory, strided(memory.data(), {}, {}), 8);
}

TEST(Pack, one_byte_comes_back) {
  Bytes memory = noise(1);
  expect_there_and_back(memory, strided(memory.data(), {1}, {1}), 1);
}

TEST(Pack, every_dense_size_comes_back_unaligned) {
  for (std::int64_t n = 0; n <= 300; ++n) {
    Bytes memory = noise(304);
    expect_there_and_back(memory, strided(memory.data() + 1 + n % 3, {n}, {1}), 1);
  }
}

TEST(Pack, every_strided_size_comes_back) {
  for (std::int64_t n = 0; n <= 300; ++n) {
    Bytes memory = noise(1000);
    expect_there_and_back(memory, strided(memory.data() + 1, {n}, {3}), 1);
  }
}

TEST(Pack, every_element_size_comes_back_from_columns_and_halos) {
  for (const std::int64_t size : {1, 2, 3, 4, 7, 8, 12, 16, 24, 40, 129, 1023, 1024, 1025, 5000}) {
    Bytes memory = noise(static_cast<std::size_t>(size * 7 * 9));
    const auto element = static_cast<std::size_t>(size);
    expect_there_and_back(memory, strided(memory.data(), {7, 3}, {9 * size, 3 * size}), element);
    expect_there_and_back(memory, strided(memory.data() + 11 * size, {5, 6}, {9 * size, size}), element);
    expect_there_and_back(memory, strided(memory.data(), {9, 7}, {size, 9 * size}), element);  // transposed
  }
}

TEST(Pack, null_memory_of_no_elements_is_never_read) {
  EXPECT_EQ(capture(strided(nullptr, {0}, {8}), 8, nullptr), 0U);
  EXPECT_EQ(put_back({}, strided(nullptr, {0}, {8}), 8), 0U);
  EXPECT_EQ(capture(ragged(nullptr, 64, {}), 8, nullptr), 0U);
  EXPECT_EQ(capture(ragged(nullptr, 64, {0, 0}), 8, nullptr), 0U);
  EXPECT_EQ(checksum(strided(nullptr, {0}, {8}), 8), 0U);
  EXPECT_EQ(checksum(ragged(nullptr, 64, {0, 0}), 8), 0U);
}

TEST(Pack, a_zero_extent_makes_overlapping_strides_harmless) {
  Bytes memory = noise(64);
  expect_there_and_back(memory, strided(memory.data(), {3, 0, 5}, {0, 0, 0}), 8);
  const View huge = strided(memory.data(), {1000000, 1000000, 0}, {1, 1, 1});
  EXPECT_EQ(packed_size(huge, 8), 0U);
  EXPECT_EQ(capture(huge, 8, nullptr, 2), 0U);
  EXPECT_EQ(put_back({}, huge, 8), 0U);
}

TEST(Pack, a_stride_of_zero_repeats_on_capture_and_keeps_the_last_on_put_back) {
  Bytes memory = noise(24);
  expect_there_and_back(memory, strided(memory.data(), {4, 3}, {0, 8}), 8);
  expect_there_and_back(memory, strided(memory.data(), {3, 4}, {8, 0}), 8);
}

TEST(Pack, seven_dimensions_come_back) {
  const Extents whole{3, 4, 3, 5, 3, 4, 6};
  const Extents shape{2, 3, 2, 4, 3, 2, 5};  // the fifth is whole and continues nothing, the others are parts
  Extents strides(7);
  std::int64_t stride = 4;
  for (std::size_t d = 7; d-- > 0; stride *= whole[d]) strides[d] = stride;
  Bytes memory = noise(static_cast<std::size_t>(stride));
  expect_there_and_back(memory, strided(memory.data() + 4, shape, strides), 4);
  expect_there_and_back(memory, strided(memory.data(), whole, strides), 4);  // joined to one row
  expect_there_and_back(memory, strided(memory.data(), {1, 4, 1, 5, 1, 4, 1}, strides), 4);
  std::reverse(strides.begin(), strides.end());
  expect_there_and_back(memory, strided(memory.data(), {6, 4, 3, 5, 3, 4, 3}, strides), 4);
}

TEST(Pack, halo_of_three_dimensions_is_left_out) {
  const std::int64_t n = 20;
  const std::int64_t width = n + 6;
  Bytes memory = noise(static_cast<std::size_t>(width * width * width * 8));
  const std::int64_t first = ((3 * width + 3) * width + 3) * 8;
  expect_there_and_back(memory, strided(memory.data() + first, {n, n, n}, {width * width * 8, width * 8, 8}), 8);
}

TEST(Pack, nan_payloads_keep_every_bit) {
  std::vector<std::uint64_t> bits{0x7ff0000000000001, 0x7ff8000000000000, 0xfff7ffffffffffff, 0x7ff4dead0000beef};
  const auto original = bits;
  const View view = strided(reinterpret_cast<std::byte*>(bits.data()), {2}, {16});
  std::vector<std::uint64_t> packed(2);
  capture(view, 8, reinterpret_cast<std::byte*>(packed.data()));
  EXPECT_EQ(packed, (std::vector<std::uint64_t>{original[0], original[2]}));
  bits = {0, original[1], 0, original[3]};
  put_back({reinterpret_cast<const std::byte*>(packed.data()), 16}, view, 8);
  EXPECT_EQ(bits, original);
}

TEST(Pack, ragged_rows_come_back) {
  const std::int64_t slots = 9;
  for (const std::int64_t size : {1, 8, 13, 200}) {
    Bytes memory = noise(static_cast<std::size_t>(7 * slots * size));
    const auto element = static_cast<std::size_t>(size);
    expect_there_and_back(memory, ragged(memory.data(), slots * size, {3, 0, 9, 1, 0, 0, 5}), element);
    expect_there_and_back(memory, ragged(memory.data(), slots * size, {0, 0, 0, 0, 0, 0, 1}), element);
    expect_there_and_back(memory, ragged(memory.data(), slots * size, {9, 9, 9, 9, 9, 9, 0}), element);
    expect_there_and_back(memory, ragged(memory.data(), slots * size, {0}), element);
  }
}

TEST(Pack, many_short_ragged_rows_come_back) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t cell = 0; cell < 3000; ++cell) lengths.push_back(cell * cell % 9);
  Bytes memory = noise(3000 * 8 * 24);
  expect_there_and_back(memory, ragged(memory.data(), 8 * 24, lengths), 24);
}

TEST(Pack, threads_do_not_change_bytes_or_crc) {
  const std::int64_t rows = 40961;  // no multiple of any slice
  const std::int64_t row = 1000;
  Bytes memory = noise(static_cast<std::size_t>(rows * (row + 24)));
  const View view = strided(memory.data() + 5, {rows, row / 8}, {row + 24, 8});
  ASSERT_GT(packed_size(view, 8), std::uint64_t{32} << 20);
  Bytes alone(packed_size(view, 8));
  const std::uint32_t crc = capture(view, 8, alone.data(), 1);
  EXPECT_EQ(crc, crc32c(alone));
  for (const int threads : {2, 64}) {
    Bytes together(alone.size(), untouched);
    EXPECT_EQ(capture(view, 8, together.data(), threads), crc) << threads;
    EXPECT_EQ(std::memcmp(together.data(), alone.data(), alone.size()), 0) << threads;
  }
  Bytes copy(memory.size());
  EXPECT_EQ(capture(dense(memory), 1, copy.data(), 3), crc32c(memory));
  EXPECT_EQ(std::memcmp(copy.data(), memory.data(), memory.size()), 0);
}

TEST(Pack, threads_split_ragged_rows_too) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t cell = 0; cell < 70000; ++cell) lengths.push_back(cell * 7 % 31 == 0 ? 0 : 100 - cell % 50);
  Bytes memory = noise(70000 * 100 * 8);
  const View view = ragged(memory.data(), 800, lengths);
  ASSERT_GE(packed_size(view, 8), std::uint64_t{32} << 20);
  Bytes alone(packed_size(view, 8));
  Bytes together(alone.size());
  EXPECT_EQ(capture(view, 8, alone.data(), 1), capture(view, 8, together.data(), 2));
  EXPECT_EQ(std::memcmp(together.data(), alone.data(), alone.size()), 0);
}

TEST(Boxes, common_part_is_the_overlap) {
  const Box a{{0, 2}, {4, 9}};
  const Box b{{3, 0}, {8, 5}};
  EXPECT_EQ(intersect(a, b), (Box{{3, 2}, {4, 5}}));
  EXPECT_EQ(intersect(b, a), intersect(a, b));
  EXPECT_EQ(shape_of(intersect(a, b)), (Extents{1, 3}));
  EXPECT_FALSE(is_empty(intersect(a, b)));
}

TEST(Boxes, boxes_that_only_touch_share_nothing) {
  const Box a{{0, 0}, {4, 4}};
  EXPECT_TRUE(is_empty(intersect(a, {{4, 0}, {8, 4}})));
  EXPECT_TRUE(is_empty(intersect(a, {{7, 0}, {8, 4}})));
  EXPECT_EQ(shape_of(intersect(a, {{7, 0}, {8, 4}})), (Extents{0, 4}));
  EXPECT_TRUE(is_empty({{1, 1}, {5, 1}}));
}

/// Fills each target box of a split of the global array from all source boxes of another split, and checks each
/// element against its global index.
void expect_resplit(const Extents& global, const std::vector<Box>& sources, const std::vector<Box>& targets) {
  const auto index_of = [&](std::int64_t i, std::int64_t j) { return i * global[1] + j; };
  for (const Box& target : targets) {
    const Extents shape = shape_of(target);
    const std::int64_t width = shape[1] + 2;  // one halo column on each side
    std::vector<std::int64_t> memory(static_cast<std::size_t>(shape[0] * width), -1);
    const View view = strided(reinterpret_cast<std::byte*>(memory.data() + 1), shape, {width * 8, 8});
    for (const Box& source : sources) {
      std::vector<std::int64_t> values;
      for (auto i = source.lower[0]; i < source.upper[0]; ++i) {
        for (auto j = source.lower[1]; j < source.upper[1]; ++j) values.push_back(index_of(i, j));
      }
      const ByteView bytes(reinterpret_cast<const std::byte*>(values.data()), values.size() * 8);
      copy_part(bytes, source, view, target, intersect(source, target), 8);
    }
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      EXPECT_EQ(memory[static_cast<std::size_t>(i * width)], -1);
      EXPECT_EQ(memory[static_cast<std::size_t>(i * width + width - 1)], -1);
      for (std::int64_t j = 0; j < shape[1]; ++j) {
        EXPECT_EQ(memory[static_cast<std::size_t>(i * width + 1 + j)],
                  index_of(target.lower[0] + i, target.lower[1] + j));
      }
    }
  }
}

TEST(CopyPart, another_split_of_the_same_array_gets_every_element) {
  const std::vector<Box> rows{{{0, 0}, {5, 300}}, {{5, 0}, {6, 300}}, {{6, 0}, {17, 300}}, {{17, 0}, {17, 300}}};
  const std::vector<Box> columns{{{0, 0}, {17, 1}}, {{0, 1}, {17, 170}}, {{0, 170}, {17, 300}}};
  expect_resplit({17, 300}, rows, columns);
  expect_resplit({17, 300}, columns, rows);
  expect_resplit({17, 300}, rows, {{{0, 0}, {17, 300}}});
}

TEST(CopyPart, scalar_is_copied_whole) {
  std::int64_t from = 41;
  std::int64_t to = 0;
  copy_part({reinterpret_cast<const std::byte*>(&from), 8}, {}, strided(reinterpret_cast<std::byte*>(&to), {}, {}), {},
            {}, 8);
  EXPECT_EQ(to, 41);
}

TEST(CopyPart, empty_part_touches_nothing) {
  const Box left{{0}, {4}};
  const Box right{{4}, {8}};
  copy_part({}, left, strided(nullptr, {4}, {8}), right, intersect(left, right), 8);
}

}  // namespace
}  // namespace backstay::region
