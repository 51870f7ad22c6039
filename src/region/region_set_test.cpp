#include "region/region_set.h"

#include <gtest/gtest.h>

namespace backstay::region {
namespace {

RegionSpec spec(std::string name, Extents shape = {4}, Placement placement = {}) {
  static double memory[4096];
  RegionSpec s;
  s.name = std::move(name);
  s.type = type_of<double>();
  s.placement = std::move(placement);
  s.view = [shape] { return detail::dense_view(memory, shape, 8); };
  s.reshape = [shape](const Extents&) { return detail::dense_view(memory, shape, 8); };
  return s;
}

TEST(region_set, a_name_is_used_once) {
  RegionSet set;
  ASSERT_TRUE(set.add(spec("u")).ok());
  const auto twice = set.add(spec("u"));
  EXPECT_EQ(twice.failure().code, Code::invalid_argument);
  EXPECT_NE(twice.failure().what.find("already protected"), std::string::npos);
  EXPECT_EQ(set.specs().size(), 1U);
}

TEST(region_set, a_region_is_not_below_another) {
  RegionSet set;
  ASSERT_TRUE(set.add(spec("a/b")).ok());
  EXPECT_FALSE(set.add(spec("a")).ok());
  EXPECT_FALSE(set.add(spec("a/b/c")).ok());
  EXPECT_TRUE(set.add(spec("a/c")).ok());
  EXPECT_TRUE(set.add(spec("ab")).ok());
}

TEST(region_set, a_name_leads_to_its_region_also_after_others_were_removed) {
  RegionSet set;
  for (const char* name : {"c", "a", "d", "b"}) ASSERT_TRUE(set.add(spec(name)).ok());
  ASSERT_TRUE(set.remove("a").ok());
  for (const char* name : {"b", "c", "d"}) {
    ASSERT_NE(set.find(name), nullptr);
    EXPECT_EQ(set.find(name)->name, name);
  }
  EXPECT_EQ(set.find("a"), nullptr);
  EXPECT_TRUE(set.add(spec("a")).ok());
  EXPECT_EQ(set.find("a")->name, "a");
}

TEST(region_set, what_is_added_once_more_comes_back_to_its_place_until_that_is_forgotten) {
  RegionSet set;
  for (const char* name : {"c", "a", "d", "b"}) ASSERT_TRUE(set.add(spec(name)).ok());
  for (const char* name : {"a", "c"}) ASSERT_TRUE(set.remove(name).ok());
  for (const char* name : {"a", "e", "c"}) ASSERT_TRUE(set.add(spec(name)).ok());
  EXPECT_EQ(set.names(), (std::vector<std::string>{"c", "a", "d", "b", "e"}));
  for (const char* name : {"a", "b", "c", "d", "e"}) EXPECT_EQ(set.find(name)->name, name);
  set.keep_only({"b", "a", "d"});
  ASSERT_TRUE(set.remove("b").ok());
  for (const char* name : {"e", "c", "b"}) ASSERT_TRUE(set.add(spec(name)).ok());
  EXPECT_EQ(set.names(), (std::vector<std::string>{"a", "d", "b", "e", "c"}));
  for (const char* name : {"a", "b", "c", "d", "e"}) EXPECT_EQ(set.find(name)->name, name);
}

TEST(region_set, lengths_and_strides_that_no_memory_has_are_refused) {
  for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 61}) {
    RegionSet set;
    auto odd = spec("odd");
    odd.type = {Type::Kind::compound, 8, {{"x", 0, {length}, type_of<double>()}}};
    EXPECT_FALSE(set.add(odd).ok()) << length;
  }
  for (const std::int64_t stride : {std::int64_t{1} << 61, std::int64_t{1} << 58}) {
    RegionSet set;
    auto odd = spec("odd");
    odd.view = [stride] {
      static double memory[4];
      View view = detail::dense_view(memory, {4}, 8);
      view.strides[0] = detail::stride_in_bytes(stride, 8);
      return view;
    };
    EXPECT_FALSE(set.add(odd).ok()) << stride;
  }
}

TEST(region_set, blocks_must_fit) {
  RegionSet set;
  EXPECT_TRUE(set.add(spec("good", {2, 4}, block({4, 4}, {2, 0}, {4, 4}))).ok());
  EXPECT_FALSE(set.add(spec("shape", {2, 3}, block({4, 4}, {2, 0}, {4, 4}))).ok());
  EXPECT_FALSE(set.add(spec("outside", {4}, block({4}, {1}, {5}))).ok());
  EXPECT_FALSE(set.add(spec("backwards", {0}, block({4}, {3}, {2}))).ok());
  EXPECT_FALSE(set.add(spec("dimensions", {4}, block({4, 4}, {0}, {4}))).ok());
  EXPECT_TRUE(set.add(spec("empty", {0}, block({4}, {2}, {2}))).ok());
}

TEST(region_set, what_cannot_be_saved_is_refused) {
  RegionSet set;
  RegionSpec nothing;
  nothing.name = "nothing";
  EXPECT_FALSE(set.add(nothing).ok());
  EXPECT_FALSE(set.add(spec("eight dimensions", {1, 1, 1, 1, 1, 1, 1, 1})).ok());
  EXPECT_FALSE(set.add(spec("negative", {-1})).ok());
  EXPECT_FALSE(set.add(spec("scalar list", {}, distributed_list())).ok());
  auto null = spec("null");
  null.view = [] { return detail::dense_view(nullptr, {4}, 8); };
  EXPECT_FALSE(set.add(null).ok());
  auto struct_outside = spec("struct");
  struct_outside.type = {Type::Kind::compound, 8, {{"x", 4, {}, type_of<double>()}}};
  EXPECT_FALSE(set.add(struct_outside).ok());
  EXPECT_TRUE(set.specs().empty());
}

TEST(region_set, unknown_names_cannot_be_removed) {
  RegionSet set;
  ASSERT_TRUE(set.add(spec("u")).ok());
  EXPECT_EQ(set.remove("v").failure().code, Code::not_found);
  EXPECT_TRUE(set.remove("u").ok());
  EXPECT_EQ(set.find("u"), nullptr);
}

TEST(region_set, the_signature_has_all_that_ranks_must_share) {
  RegionSet set;
  ASSERT_TRUE(set.add(spec("u", {2}, block({4}, {0}, {2}))).ok());
  EXPECT_EQ(set.signature(), (std::vector<std::string>{"region 'u' of float64, block of [4]"}));
}

TEST(region_set, whatever_a_function_of_the_program_throws_is_a_failure) {
  auto odd = spec("odd");
  odd.view = []() -> View { throw 1; };
  odd.reshape = nullptr;
  EXPECT_EQ(look_at(odd).failure().code, Code::user);
  EXPECT_FALSE(has_shape(odd, {2}));
  EXPECT_EQ(memory_for(odd, {2}).failure().what,
            "region 'odd': its memory could not be made ready: an exception of another kind");
}

struct Particle {
  double x[3];
  int id;
};

}  // namespace
}  // namespace backstay::region

template <>
struct backstay::describe<backstay::region::Particle> {
  static constexpr auto members = std::make_tuple(backstay::member("x", &backstay::region::Particle::x),
                                                  backstay::member("id", &backstay::region::Particle::id));
};

namespace backstay::region {
TEST(type, structs_and_numbers_describe_themselves) {
  EXPECT_EQ(describe_type(type_of<Particle>()), "32-byte struct {x: float64[3], id: int32}");
  EXPECT_EQ(describe_type(type_of<std::complex<float>>()), "complex64");
  EXPECT_EQ(describe_type(type_of<bool>()), "bool");
  enum class Colour : std::uint16_t { red };
  EXPECT_EQ(describe_type(type_of<Colour>()), "uint16");
}
}  // namespace backstay::region
