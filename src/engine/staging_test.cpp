#include "engine/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backstay/session.hpp"
#include "base/crc32c.h"

namespace backstay::engine {
namespace {

RegionSpec vector_spec(std::string name, std::vector<double>& x) {
  RegionSpec s;
  s.name = std::move(name);
  s.type = type_of<double>();
  s.view = [&x] { return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, 8); };
  s.reshape = [&x](const Extents& shape) {
    x.resize(static_cast<std::size_t>(shape[0]));
    return detail::dense_view(x.data(), shape, 8);
  };
  return s;
}

RegionSpec bytes_spec(std::string name, std::function<std::string()> save) {
  RegionSpec s;
  s.name = std::move(name);
  s.type = {Type::Kind::text, 1, {}};
  s.save = std::move(save);
  s.load = [](std::span<const std::byte>) {};
  return s;
}

TEST(staging, regions_that_are_captured_later_lie_behind_the_others) {
  std::vector<double> u(20000, 1), v(3, 2);
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(vector_spec("u", u)).ok());
  ASSERT_TRUE(regions.add(vector_spec("v", v)).ok());
  Capture once, later;
  ASSERT_TRUE(capture_more({{regions.find("v")}}, {}, later).ok());
  v[0] = 9;                                                          // it is in the capture as it was
  ASSERT_TRUE(capture_more({{regions.find("u")}}, {}, later).ok());  // which has to grow for it
  v[0] = 2;
  ASSERT_EQ(later.segments.size(), 2U);
  EXPECT_EQ(later.segments[1].offset % format::page, 0U);
  EXPECT_EQ(later.size, format::area_size(later.segments));
  ASSERT_TRUE(capture_regions(regions, {}, once).ok());
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 0)}) {
    const auto &first = later.segments[static_cast<std::size_t>(a)],
               &second = once.segments[static_cast<std::size_t>(b)];
    EXPECT_EQ(first.region, second.region);
    EXPECT_EQ(first.crc, second.crc);
    EXPECT_TRUE(std::ranges::equal(later.bytes().subspan(first.offset, first.bytes),
                                   once.bytes().subspan(second.offset, second.bytes)));
  }
  for (auto at = later.segments[0].bytes; at < later.segments[1].offset; ++at)
    ASSERT_EQ(later.bytes()[at], std::byte{0});
}

TEST(staging, captures_every_region_with_its_checksum_and_zero_padding) {
  std::vector<double> big(10000), small(3);
  std::iota(big.begin(), big.end(), 0.0);
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(vector_spec("small", small)).ok());
  ASSERT_TRUE(regions.add(vector_spec("big", big)).ok());
  ASSERT_TRUE(regions.add(bytes_spec("text", [] { return std::string("hello"); })).ok());
  ASSERT_TRUE(regions.add(bytes_spec("nothing", [] { return std::string(); })).ok());
  Capture capture;
  ASSERT_TRUE(capture.buffer.reserve(1 << 20).ok());
  std::memset(capture.buffer.data(), 0xff, 1 << 20);
  ASSERT_TRUE(capture_regions(regions, {3, 1, 0}, capture).ok());
  std::vector<bool> used(capture.size);
  for (const auto& s : capture.segments) {
    EXPECT_EQ(s.rank, 3);
    EXPECT_EQ(s.crc, crc32c(capture.bytes().subspan(s.offset, s.bytes)));
    for (std::uint64_t i = 0; i < s.bytes; ++i) used[s.offset + i] = true;
  }
  for (std::size_t i = 0; i < capture.size; ++i) {
    ASSERT_TRUE(used[i] || capture.bytes()[i] == std::byte{0}) << i;
  }
  EXPECT_EQ(capture.segments[2].type.size, 5U);
  EXPECT_TRUE(capture.segments[2].shape.empty());
  EXPECT_EQ(capture.segments[3].shape, (Extents{0}));
}

TEST(staging, puts_back_what_it_captured_and_only_into_elements_of_the_same_type) {
  std::vector<double> x(100, 7);
  std::string text = "hello", put_back;
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(vector_spec("x", x)).ok());
  auto spec = bytes_spec("text", [&] { return text; });
  spec.load = [&](std::span<const std::byte> bytes) {
    put_back.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  ASSERT_TRUE(regions.add(std::move(spec)).ok());
  Capture capture;
  ASSERT_TRUE(capture_regions(regions, {}, capture).ok());
  x.assign(100, -1);
  text = "longer than before";
  ASSERT_TRUE(put_back_regions(regions, capture).ok());
  EXPECT_EQ(x, std::vector<double>(100, 7));
  EXPECT_EQ(put_back, "hello");
  region::RegionSet others;
  auto wider = vector_spec("x", x);
  wider.type = type_of<std::complex<double>>();
  ASSERT_TRUE(others.add(std::move(wider)).ok());
  const auto refused = put_back_regions(others, capture);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().code, Code::mismatch);
  EXPECT_NE(refused.failure().what.find("region 'x' was of float64"), std::string::npos) << refused.failure().what;
}

TEST(staging, memory_is_kept_from_one_capture_to_the_next) {
  std::vector<double> x(100000);
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(vector_spec("x", x)).ok());
  Capture capture;
  ASSERT_TRUE(capture_regions(regions, {}, capture).ok());
  const auto* first = capture.buffer.data();
  x.resize(50000);
  ASSERT_TRUE(capture_regions(regions, {}, capture).ok());
  EXPECT_EQ(capture.buffer.data(), first);
}

TEST(staging, memory_that_grows_keeps_its_bytes_and_stays_where_it_is_as_long_as_somebody_reads_there) {
  for (const bool is_read : {true, false}) {
    StagingBuffer buffer;
    ASSERT_TRUE(buffer.reserve(10'000));
    std::memset(buffer.data(), 7, 10'000);
    const std::byte* before = buffer.data();
    const auto kept = is_read ? buffer.keep() : nullptr;
    ASSERT_TRUE(buffer.reserve(50'000'000, 10'000));
    EXPECT_GE(buffer.capacity(), 50'000'000U);
    EXPECT_EQ(std::count(buffer.data(), buffer.data() + 10'000, std::byte{7}), 10'000);
    buffer.data()[49'999'999] = std::byte{1};
    EXPECT_TRUE(!is_read || std::count(before, before + 10'000, std::byte{7}) == 10'000);
  }
}

TEST(staging, a_limit_is_kept_with_a_sentence) {
  std::vector<double> x(100000);
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(vector_spec("x", x)).ok());
  Capture capture;
  const auto refused = capture_regions(regions, {0, 1, 1000}, capture);
  EXPECT_EQ(refused.failure().code, Code::limit);
  EXPECT_EQ(capture.buffer.capacity(), 0U);
}

TEST(staging, a_callback_that_throws_is_a_failure) {
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(bytes_spec("bad", []() -> std::string { throw std::runtime_error("no state"); })).ok());
  Capture capture;
  const auto failed = capture_regions(regions, {}, capture);
  EXPECT_EQ(failed.failure().code, Code::user);
  EXPECT_NE(failed.failure().what.find("no state"), std::string::npos);
}

TEST(staging, no_regions_make_an_empty_area) {
  Capture capture;
  ASSERT_TRUE(capture_regions({}, {}, capture).ok());
  EXPECT_EQ(capture.size, 0U);
}

}  // namespace
}  // namespace backstay::engine
