#include "engine/aside.h"

#include <gtest/gtest.h>

#include <numeric>

namespace backstay::engine {
namespace {

RegionSpec of_doubles(const std::string& name, std::vector<double>& x, bool moves) {
  RegionSpec spec;
  spec.name = name;
  spec.type = type_of<double>();
  spec.view = [&x] { return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, sizeof(double)); };
  if (moves)
    spec.reshape = [&x](const Extents& shape) {
      x.resize(static_cast<std::size_t>(shape[0]));
      return detail::dense_view(x.data(), shape, sizeof(double));
    };
  return spec;
}

/// As a line is read.
void fill(region::RegionSet& regions, const std::string& name, const std::vector<double>& values) {
  const auto* spec = regions.find(name);
  ASSERT_NE(spec, nullptr);
  const auto memory = region::memory_for(*spec, {static_cast<std::int64_t>(values.size())});
  ASSERT_TRUE(memory) << memory.failure().what;
  std::copy(values.begin(), values.end(), reinterpret_cast<double*>(memory->data));
}

TEST(aside, the_program_s_memory_is_filled_when_it_is_asked_for) {
  std::vector<double> fixed(3, 1), moving(2, 1), unread(2, 1);
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(of_doubles("fixed", fixed, false)));
  ASSERT_TRUE(regions.add(of_doubles("moving", moving, true)));
  ASSERT_TRUE(regions.add(of_doubles("unread", unread, true)));
  Aside aside(regions);
  fill(aside.regions(), "fixed", {1, 2, 3});
  fill(aside.regions(), "moving", {4, 5, 6, 7});
  aside.keep_only({"fixed", "moving"});
  EXPECT_EQ(fixed, std::vector<double>(3, 1));
  EXPECT_EQ(moving, std::vector<double>(2, 1));
  ASSERT_TRUE(aside.put_back(regions));
  EXPECT_EQ(fixed, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(moving, (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(unread, std::vector<double>(2, 1));
}

TEST(aside, memory_that_has_another_shape_by_then_is_refused) {
  std::vector<double> fixed(3, 1);
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(of_doubles("fixed", fixed, false)));
  Aside aside(regions);
  fill(aside.regions(), "fixed", {1, 2, 3});
  fixed.resize(2);
  const auto put = aside.put_back(regions);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.failure().code, Code::mismatch);
}

TEST(aside, callbacks_hear_what_they_would_have_heard_and_once) {
  std::vector<std::string> heard;
  RegionSpec spec;
  spec.name = "text";
  spec.type = {Type::Kind::opaque, 1, {}};
  spec.save = [] { return std::string("now"); };
  spec.load = [&](ByteView bytes) { heard.emplace_back(as_text(bytes)); };
  spec.redistribute = [&](const std::vector<ByteView>& all, int rank, int size) {
    for (const auto& bytes : all) heard.emplace_back(as_text(bytes));
    heard.push_back(std::to_string(rank) + " of " + std::to_string(size));
  };
  region::RegionSet regions;
  ASSERT_TRUE(regions.add(spec));
  {
    Aside aside(regions);
    aside.regions().find("text")->load(as_bytes("saved"));
    EXPECT_TRUE(heard.empty());
    EXPECT_TRUE(*aside.put_back_now("text", regions));
    ASSERT_TRUE(aside.put_back(regions));
    EXPECT_EQ(heard, std::vector<std::string>{"saved"});
  }
  heard.clear();
  Aside aside(regions);
  aside.regions().find("text")->redistribute({as_bytes("a"), as_bytes("b")}, 2, 3);
  ASSERT_TRUE(aside.put_back(regions));
  EXPECT_EQ(heard, (std::vector<std::string>{"a", "b", "2 of 3"}));
  EXPECT_FALSE(*aside.put_back_now("other", regions));
}

}  // namespace
}  // namespace backstay::engine
