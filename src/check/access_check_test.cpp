#include "check/access_check.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

namespace backstay::check {
namespace {

using select::Access;
using select::Box;
using select::Mode;

/// Three fields of 100 rows and 120 columns, of which `inside` is protected without a layer of halo.
class AccessCheckTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t rows = 100, columns = 120;
  AccessCheckTest() {
    mallopt(M_MMAP_THRESHOLD, 65536);  // fields have pages of their own
    for (auto* field : {&u, &v, &inside}) field->resize(rows * columns);
    for (auto* field : {&u, &v, &inside}) std::iota(field->begin(), field->end(), 1);
    check = std::move(*AccessCheck::make());
  }

  static View view_of(std::vector<double>& field, std::int64_t halo) {
    View view;
    view.data = reinterpret_cast<std::byte*>(field.data() + halo * columns + halo);
    view.shape = {rows - 2 * halo, columns - 2 * halo};
    view.strides = {columns * 8, 8};
    return view;
  }

  std::vector<Finding> run(const std::vector<Access>& accesses, const std::function<void()>& body, int number = 0) {
    const std::vector<select::Region> regions{
        {"u", {rows, columns}, 8}, {"v", {rows, columns}, 8}, {"inside", {rows - 2, columns - 2}, 8}};
    const auto effects = select::effects_of({"computation", accesses}, regions);
    EXPECT_TRUE(effects.ok());
    check->begin(number, {Layout(view_of(u, 0), 8), Layout(view_of(v, 0), 8), Layout(view_of(inside, 1), 8)}, *effects);
    body();
    auto found = check->end();
    std::ranges::sort(found, {}, [](const Finding& f) { return std::pair(f.region, f.fault); });
    return found;
  }

  /// One of this kind in this region.
  static ::testing::AssertionResult is_one(const std::vector<Finding>& found, std::size_t region, Fault fault) {
    if (found.size() == 1 && found[0].region == region && found[0].fault == fault) return ::testing::AssertionSuccess();
    auto result = ::testing::AssertionFailure() << found.size() << " findings:";
    for (const auto& f : found) result << " region " << f.region << " fault " << static_cast<int>(f.fault);
    return result;
  }

  std::vector<double> u, v, inside;
  std::unique_ptr<AccessCheck> check;
  volatile double sink = 0;
};

TEST_F(AccessCheckTest, what_is_as_declared_is_left_alone) {
  const auto found = run({{0, Mode::read}, {1, Mode::write}, {2, Mode::read_write}}, [&] {
    for (std::size_t i = 0; i < u.size(); ++i) v[i] = u[i] / 2;
    for (std::size_t i = 0; i < u.size(); ++i) inside[i] += v[i];
  });
  EXPECT_TRUE(found.empty());
  EXPECT_EQ(v[777], u[777] / 2);
  EXPECT_EQ(inside[777], static_cast<double>(778) + v[777]);
}

TEST_F(AccessCheckTest, a_read_that_is_not_declared_is_found_with_its_place) {
  const auto found = run({{1, Mode::read}}, [&] { sink = u[3 * columns + 5]; });
  ASSERT_TRUE(is_one(found, 0, Fault::reads));
  EXPECT_EQ(found[0].index, (std::vector<std::int64_t>{3, 5}));
  EXPECT_NE(place_of(found[0].code).find("access_check_test"), std::string::npos) << place_of(found[0].code);
  EXPECT_EQ(sink, 3 * columns + 6);
}

TEST_F(AccessCheckTest, a_write_to_what_is_not_declared_or_is_read_only_is_found) {
  EXPECT_TRUE(is_one(run({{1, Mode::read}}, [&] { u[7] = 3; }), 0, Fault::writes));
  const auto found = run({{1, Mode::read}}, [&] { v[9] = v[8]; });
  EXPECT_TRUE(is_one(found, 1, Fault::writes));
  EXPECT_EQ(u[7], 3);
  EXPECT_EQ(v[9], v[8]);
}

TEST_F(AccessCheckTest, a_write_after_a_read_of_the_same_page_is_found_too) {
  const auto found = run({{1, Mode::read}}, [&] { u[7] += 3; });
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].fault, Fault::reads);
  EXPECT_EQ(found[1].fault, Fault::writes);
}

TEST_F(AccessCheckTest, what_is_left_unwritten_is_found_and_keeps_its_values) {
  const auto before = v;
  const auto found = run({{1, Mode::write}}, [&] { std::fill(v.begin() + columns, v.end() - 2, 0); });
  ASSERT_TRUE(is_one(found, 1, Fault::skips));
  EXPECT_EQ(found[0].elements, static_cast<std::uint64_t>(columns + 2));
  EXPECT_EQ(found[0].index, (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(std::equal(v.begin(), v.begin() + columns, before.begin()));
  EXPECT_EQ(v.back(), before.back());
  EXPECT_EQ(v[columns], 0);
}

TEST_F(AccessCheckTest, what_is_read_before_it_is_overwritten_is_found_and_read_as_it_was) {
  const auto before = v;
  const auto found = run({{1, Mode::write}}, [&] {
    for (double& x : v) x = 2 * x;
  });
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].fault, Fault::reads_early);
  for (std::size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], 2 * before[i]) << i;
}

TEST_F(AccessCheckTest, halos_are_anybodys) {
  const auto found = run({{0, Mode::read}}, [&] {
    for (std::int64_t i = 0; i < columns; ++i) inside[static_cast<std::size_t>(i)] = 0;
    for (std::int64_t i = 0; i < rows; ++i) inside[static_cast<std::size_t>(i * columns)] = 0;
  });
  EXPECT_TRUE(found.empty());
  EXPECT_TRUE(is_one(run({{0, Mode::read}}, [&] { sink = inside[5 * columns + 1]; }), 2, Fault::reads));
}

TEST_F(AccessCheckTest, parts_are_told_from_each_other) {
  const Box upper{{0, 50}, {0, columns}}, lower{{50, rows}, {0, columns}};
  const std::vector<Access> copy{{0, Mode::read, upper}, {0, Mode::write, lower}};
  const auto at = [](std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(row * columns + column);
  };
  EXPECT_TRUE(run(copy, [&] { std::copy(u.begin(), u.begin() + at(50, 0), u.begin() + at(50, 0)); }).empty());
  const auto found = run(copy, [&] {
    std::copy(u.begin(), u.begin() + at(50, 0), u.begin() + at(50, 0));
    u[at(49, 119)] = 0;
  });
  EXPECT_TRUE(is_one(found, 0, Fault::writes));
  const auto early = run(copy, [&] {
    sink = u[at(50, 3)];
    std::copy(u.begin(), u.begin() + at(50, 0), u.begin() + at(50, 0));
  });
  EXPECT_TRUE(is_one(early, 0, Fault::reads_early));
  const auto row = run({{0, Mode::read, Box{{7, 8}, {3, 9}}}}, [&] {
    for (std::int64_t i = 3; i < 10; ++i) sink = u[at(7, i)];
  });
  ASSERT_TRUE(is_one(row, 0, Fault::reads));
  EXPECT_EQ(row[0].index, (std::vector<std::int64_t>{7, 9}));
}

TEST_F(AccessCheckTest, what_may_be_written_in_part_need_not_be) {
  EXPECT_TRUE(run({{0, Mode::write_some}}, [&] { u[5] = u[6]; }).empty());
  EXPECT_TRUE(run({{0, Mode::read_write}}, [&] { u[5] = u[6]; }).empty());
}

TEST_F(AccessCheckTest, given_up_it_finds_nothing_and_leaves_what_was_there) {
  const auto before = v;
  const auto found = run({{1, Mode::write}}, [&] {
    check->give_up();
    u[0] = v[3];
  });
  EXPECT_TRUE(found.empty());
  EXPECT_EQ(v, before);
  EXPECT_EQ(u[0], before[3]);
}

TEST_F(AccessCheckTest, threads_are_seen) {
  const auto found = run({{0, Mode::read}, {1, Mode::write}}, [&] {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t * u.size() / 4; i < (t + 1) * u.size() / 4; ++i) v[i] = u[i];
        if (t == 3) inside[50 * columns + 50] = 0;
      });
    for (auto& thread : threads) thread.join();
  });
  EXPECT_TRUE(is_one(found, 2, Fault::writes));
  EXPECT_EQ(v, u);
}

TEST_F(AccessCheckTest, one_at_a_time) {
  EXPECT_NE(AccessCheck::make().failure().what.find("another session of this process"), std::string::npos);
  check.reset();
  EXPECT_TRUE(AccessCheck::make().ok());
}

/// An element of one byte holds a pattern by chance, but not eight different ones one after the other.
TEST(access_check, small_elements_are_accused_when_they_were_skipped_often_enough) {
  mallopt(M_MMAP_THRESHOLD, 65536);
  std::vector<char> flags(80000, 1);
  View view;
  view.data = reinterpret_cast<std::byte*>(flags.data());
  view.shape = {80000};
  view.strides = {1};
  const auto effects = *select::effects_of({"set", {{0, Mode::write}}}, {{"flags", {80000}, 1}});
  const auto check = std::move(*AccessCheck::make());
  const auto skips_of = [&](std::size_t written) {
    check->begin(0, {Layout(view, 1)}, effects);
    std::fill(flags.begin(), flags.begin() + static_cast<std::ptrdiff_t>(written), 2);
    const auto found = check->end();
    return found.empty() ? 0 : found[0].elements;
  };
  for (int run = 0; run < 20; ++run) ASSERT_EQ(skips_of(80000), 0U);
  for (int run = 1; run < 8; ++run) ASSERT_EQ(skips_of(79990), 0U);
  EXPECT_EQ(skips_of(79990), 10U);
  EXPECT_EQ(flags[79995], 2);
}

/// Their memory lies beside other memory, which system calls may use: its pages stay open.
TEST(access_check, of_small_regions_changes_are_seen) {
  std::vector<double> a(20, 1), b(20, 2);
  const auto view_of = [](std::vector<double>& x) {
    View view;
    view.data = reinterpret_cast<std::byte*>(x.data());
    view.shape = {20};
    view.strides = {8};
    return view;
  };
  const auto effects = *select::effects_of({"read", {{0, Mode::read}}}, {{"a", {20}, 8}, {"b", {20}, 8}});
  const auto check = std::move(*AccessCheck::make());
  check->begin(0, {Layout(view_of(a), 8), Layout(view_of(b), 8)}, effects);
  b[19] = a[3] + b[4];
  const auto found = check->end();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].region, 1U);
  EXPECT_EQ(found[0].fault, Fault::writes);
  EXPECT_EQ(found[0].index, std::vector<std::int64_t>{19});
  EXPECT_EQ(b[19], 3);
}

/// As a program that breaks without us.
TEST(access_check, a_fault_that_is_none_of_ours_ends_the_program) {
  EXPECT_EXIT(
      {
        const auto check = std::move(*AccessCheck::make());
        volatile int* nowhere = nullptr;
        *nowhere = 1;
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace backstay::check
