#include "check/access_check.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <thread>

#include "check/fences.h"
#include "check/place.h"

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
    const std::vector<View> views{view_of(u, 0), view_of(v, 0), view_of(inside, 1)};
    std::vector<Subject> subjects;
    for (const auto& view : views) subjects.push_back({view, 8, {{{0, 8}}, false}, true});
    EXPECT_TRUE(check.begin(number, std::move(subjects), *effects));
    body();
    std::vector<bool> moved;
    auto found = check.end({view_of(u, 0), view_of(v, 0), view_of(inside, 1)}, true, moved);
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
  AccessCheck check;
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
  EXPECT_TRUE(place_of(found[0].code, found[0].caller).program.ends_with("check_test"));
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

/// Of an array that a computation is declared to overwrite: how many of its elements have which fate.
class FatesTest : public AccessCheckTest {
 protected:
  std::vector<Fate> run_on(const View& view, const std::function<void()>& body, bool is_traced = false) {
    std::vector<Subject> subjects;
    subjects.push_back({view, 8, {{{0, 8}}, false}, true, is_traced, {}});
    const auto whole = select::BoxSet(select::box_of({view.shape.begin(), view.shape.end()}));
    EXPECT_TRUE(check.begin(0, std::move(subjects), {{0, {}, whole, whole}}, Closely::all));
    body();
    check.open();
    auto out = check.fates(0);
    std::vector<bool> moved;
    (void)check.end({view}, true, moved);
    return out;
  }
  /// All of it, with a pattern and without: alike but for how sure it is.
  std::map<Fate, std::int64_t> fates_of(const View& view, const std::function<void()>& body) {
    const auto count = [](const std::vector<Fate>& fates) {
      std::map<Fate, std::int64_t> out;
      for (const Fate fate : fates) ++out[fate];
      return out;
    };
    const auto values = v;
    auto sure = count(run_on(view, body));
    const auto after = v;
    v = values;
    auto traced = count(run_on(view, body, true));
    EXPECT_EQ(v, after);
    // What a memcpy does at its end may be missed then.
    const std::int64_t missed = sure[Fate::overwritten] - traced[Fate::seems_overwritten];
    EXPECT_GE(missed, 0);
    EXPECT_LE(missed, 8);
    EXPECT_EQ(traced[Fate::untouched], sure[Fate::untouched] + missed);
    for (const Fate fate : {Fate::unknown, Fate::read}) EXPECT_EQ(traced[fate], sure[fate]);
    std::erase_if(sure, [](const auto& one) { return one.second == 0; });
    return sure;
  }
  using Fates = std::map<Fate, std::int64_t>;
  static constexpr std::int64_t all = rows * columns;
};

TEST_F(FatesTest, all_that_is_overwritten_is_told_to_be_from_the_first_page_to_the_last) {
  const View view = view_of(v, 0);
  const Fates whole{{Fate::overwritten, all}};
  EXPECT_EQ(fates_of(view,
                     [&] {
                       for (double& x : v) x = 3;
                     }),
            whole);
  EXPECT_EQ(fates_of(view, [&] { std::memset(v.data(), 0, v.size() * 8); }), whole);
  EXPECT_EQ(fates_of(view, [&] { std::memcpy(v.data(), u.data(), v.size() * 8); }), whole);
  EXPECT_EQ(fates_of(view, [&] { std::fill(v.begin(), v.end() - 1, 5); }),
            (Fates{{Fate::overwritten, all - 1}, {Fate::untouched, 1}}));
  EXPECT_EQ(fates_of(view, [&] { std::fill(v.begin() + 1, v.end(), 5); }),
            (Fates{{Fate::overwritten, all - 1}, {Fate::untouched, 1}}));
}

TEST_F(FatesTest, halos_are_anybodys_and_what_they_surround_is_told_whole) {
  const auto set_inside = [&] {
    for (std::int64_t i = 1; i < rows - 1; ++i)
      for (std::int64_t k = 1; k < columns - 1; ++k) v[static_cast<std::size_t>(i * columns + k)] = 7;
  };
  EXPECT_EQ(fates_of(view_of(v, 1), set_inside), (Fates{{Fate::overwritten, (rows - 2) * (columns - 2)}}));
  EXPECT_EQ(fates_of(view_of(v, 1),
                     [&] {
                       for (std::int64_t i = 0; i < columns; ++i) sink = v[static_cast<std::size_t>(i)];
                       set_inside();
                     }),
            (Fates{{Fate::overwritten, (rows - 2) * (columns - 2)}}));
}

TEST_F(FatesTest, what_is_read_first_is_told_to_the_element) {
  EXPECT_EQ(fates_of(view_of(v, 0),
                     [&] {
                       sink = v[0] + v[777] + v[v.size() - 1];
                       for (double& x : v) x = 3;
                     }),
            (Fates{{Fate::overwritten, all - 3}, {Fate::read, 3}}));
  const auto fates = run_on(view_of(v, 0), [&] {
    sink = v[777];
    for (double& x : v) x = 3;
  });
  EXPECT_EQ(fates[777], Fate::read);
  EXPECT_EQ(fates_of(view_of(v, 0),
                     [&] {
                       for (double& x : v) x = 2 * x;
                     }),
            (Fates{{Fate::read, all}}));
}

TEST_F(FatesTest, what_is_overwritten_in_part_is_not_known) {
  EXPECT_EQ(fates_of(view_of(v, 0),
                     [&] {
                       *(reinterpret_cast<volatile char*>(v.data()) + 8 * 5 + 3) = 1;
                       for (double& x : v) x = 3;
                     }),
            (Fates{{Fate::overwritten, all - 1}, {Fate::unknown, 1}}));
}

#ifdef __x86_64__
/// Nothing shows that such an instruction is over if what follows it uses the same page.
TEST_F(FatesTest, what_is_read_behind_the_end_of_a_copy_by_one_instruction_is_seen) {
  const auto before = v;
  for (const bool is_traced : {true, false}) {
    double last = 0;
    const auto fates = run_on(
        view_of(v, 0),
        [&] {
          double* to = v.data() + 100;
          const double* from = u.data();
          std::size_t count = 1000;
          asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
          last = v[1100] + v[99];
          v[1100] = 0;
          v[99] = 0;
        },
        is_traced);
    EXPECT_EQ(last, before[1100] + before[99]);
    EXPECT_EQ(fates[1100], Fate::read);
    EXPECT_EQ(fates[99], Fate::read);
    EXPECT_LE(fates[100], Fate::overwritten);
    EXPECT_LE(fates[1099], Fate::overwritten);
    EXPECT_EQ(fates[1101], Fate::untouched);
    EXPECT_EQ(fates[98], Fate::untouched);
    v = before;
  }
}
#endif

/// It may be waited for in the kernel, which cannot use closed pages.
TEST_F(FatesTest, a_lock_in_the_halo_leaves_its_page_open) {
  const auto fates = run_on(view_of(v, 1), [&] {
    __atomic_fetch_add(reinterpret_cast<std::int64_t*>(v.data()), 1, __ATOMIC_SEQ_CST);
    for (double& x : v) x = 3;
  });
  EXPECT_EQ(fates.front(), Fate::unknown);
  EXPECT_EQ(fates.back(), Fate::overwritten);
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
    for (std::size_t i = 0; i < at(50, 0); ++i) u[at(50, 0) + i] = u[i];
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

#ifdef __x86_64__
TEST_F(AccessCheckTest, all_elements_of_a_vector_are_looked_at) {
  const std::vector<Access> row{{0, Mode::read, Box{{7, 8}, {3, 9}}}};
  const auto load = [&](std::int64_t column) {
    const double* const at = u.data() + 7 * columns + column;
    asm volatile("movupd (%0), %%xmm0" : : "r"(at) : "xmm0");
  };
  EXPECT_TRUE(run(row, [&] {
                for (const std::int64_t column : {3, 5, 7}) load(column);
              }).empty());
  const auto found = run(row, [&] { load(8); });
  ASSERT_TRUE(is_one(found, 0, Fault::reads));
  EXPECT_EQ(found[0].index, (std::vector<std::int64_t>{7, 9}));
  // What lies behind the row belongs to the next one, and behind `inside` there is a halo.
  EXPECT_TRUE(run({{2, Mode::read, Box{{7, 8}, {90, columns - 2}}}}, [&] {
                const double* const at = inside.data() + 9 * columns - 2;
                asm volatile("movupd (%0), %%xmm0" : : "r"(at) : "xmm0");
              }).empty());
}
#endif

TEST_F(AccessCheckTest, what_may_be_written_in_part_need_not_be) {
  EXPECT_TRUE(run({{0, Mode::write_some}}, [&] { u[5] = u[6]; }).empty());
  EXPECT_TRUE(run({{0, Mode::read_write}}, [&] { u[5] = u[6]; }).empty());
}

TEST_F(AccessCheckTest, given_up_it_finds_nothing_and_leaves_what_was_there) {
  const auto before = v;
  const auto found = run({{1, Mode::write}}, [&] {
    check.give_up();
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

/// One array of its own pages, of which a computation overwrites all.
template <class T>
class One {
 public:
  explicit One(std::size_t n) {
    mallopt(M_MMAP_THRESHOLD, 65536);  // before there is an array
    x.assign(n, T(1));
  }
  std::vector<Finding> run(const std::function<void()>& body) {
    View view;
    view.data = reinterpret_cast<std::byte*>(x.data());
    view.shape = {static_cast<std::int64_t>(x.size())};
    view.strides = {sizeof(T)};
    const auto effects =
        *select::effects_of({"set", {{0, Mode::write}}}, {{"x", view.shape, static_cast<std::int64_t>(sizeof(T))}});
    const Type type{Type::Kind::integer, sizeof(T), {}};
    EXPECT_TRUE(check.begin(0, {{view, sizeof(T), units_of(type, {}), true}}, effects));
    body();
    std::vector<bool> moved;
    return check.end({view}, true, moved);
  }
  std::vector<T> x;
  AccessCheck check;
};

TEST(access_check, values_of_four_bytes_are_accused_when_they_did_not_change_twice) {
  One<std::int32_t> one(80000);
  const auto left_out = [&] { std::fill(one.x.begin(), one.x.end() - 1, 7); };
  EXPECT_TRUE(one.run(left_out).empty());  // it may have held that
  const auto found = one.run(left_out);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].fault, Fault::skips);
  EXPECT_EQ(found[0].index, std::vector<std::int64_t>{79999});
  EXPECT_EQ(found[0].elements, 1U);
  EXPECT_EQ(one.x[79999], 1);
  EXPECT_EQ(one.x[79998], 7);
}

/// Loops are wrong at an end, and short ones as well as those that use more elements than are looked at.
TEST(access_check, the_ends_of_an_array_are_seen_whatever_its_length) {
  for (const std::size_t n : {5000, 30001, 100000, 1000000}) {
    One<double> one(n);
    volatile double* const x = one.x.data();
    const auto each = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) x[i] = 3;
    };
    const auto at_once = [&](std::size_t from, std::size_t to) {
      std::memset(one.x.data() + from, 0, (to - from) * sizeof(double));
    };
    for (const std::size_t left_out : {std::size_t{0}, n - 1})
      for (const bool is_in_a_loop : {true, false}) {
        const auto found = one.run([&] {
          const std::size_t from = left_out == 0 ? 1 : 0, to = from + n - 1;
          is_in_a_loop ? each(from, to) : at_once(from, to);
        });
        ASSERT_EQ(found.size(), 1U) << n << " elements, but " << left_out << (is_in_a_loop ? ", in a loop" : "");
        EXPECT_EQ(found[0].fault, Fault::skips);
        EXPECT_EQ(found[0].index, std::vector<std::int64_t>{static_cast<std::int64_t>(left_out)});
        EXPECT_EQ(found[0].elements, 1U);
      }
  }
}

/// Pages of what is overwritten take thousands of steps, those whose elements are not alike as many, and neither takes
/// those of the other.
TEST_F(AccessCheckTest, an_element_that_is_not_declared_is_seen_behind_many_uses) {
  constexpr std::int64_t n = 100000;
  for (auto* field : {&u, &v}) field->assign(n, 1);
  const auto all_of = [](std::vector<double>& field) {
    View view;
    view.data = reinterpret_cast<std::byte*>(field.data());
    view.shape = {n};
    view.strides = {8};
    return view;
  };
  const auto effects = select::effects_of({"computation", {{0, Mode::read, Box{{0, n - 1}}}, {1, Mode::write}}},
                                          {{"u", {n}, 8}, {"v", {n}, 8}});
  ASSERT_TRUE(effects.ok());
  std::vector<Subject> subjects;
  for (auto* field : {&u, &v}) subjects.push_back({all_of(*field), 8, {{{0, 8}}, false}, true});
  ASSERT_TRUE(check.begin(0, std::move(subjects), *effects));
  const volatile double* const from = u.data();
  volatile double* const to = v.data();
  for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
  std::vector<bool> moved;
  const auto found = check.end({all_of(u), all_of(v)}, true, moved);
  ASSERT_TRUE(is_one(found, 0, Fault::reads));
  EXPECT_EQ(found[0].index, std::vector<std::int64_t>{n - 1});
}

/// They hold any pattern by chance, so they are given none, and only whole pages are seen.
TEST(access_check, bytes_are_never_changed_by_looking) {
  One<std::uint8_t> one(80000);
  for (int run = 0; run < 40; ++run) {
    std::vector<std::uint8_t> values(one.x.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(run));
    const auto found = one.run([&] {
      for (std::size_t i = 0; i < values.size(); ++i) one.x[i] = values[i];
    });
    ASSERT_TRUE(found.empty());
    ASSERT_EQ(one.x, values);
  }
  const auto found = one.run([&] { std::fill(one.x.begin() + 10000, one.x.end(), 3); });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(found[0].elements, 8000U);
  EXPECT_LE(found[0].elements, 10000U);
}

/// What is written in parts is never left with a part of a pattern.
TEST(access_check, stores_of_all_widths_leave_what_they_would) {
  One<double> one(20000);
  const auto write_some = [](std::vector<double>& x) {
    auto* const bytes = reinterpret_cast<volatile unsigned char*>(x.data());
    auto* const shorts = reinterpret_cast<volatile std::uint16_t*>(x.data());
    auto* const words = reinterpret_cast<volatile std::uint32_t*>(x.data());
    auto* const longs = reinterpret_cast<volatile std::uint64_t*>(x.data());
    bytes[3] = 9;
    shorts[9] = 77;
    words[13] = 5;
    // One instruction that reads and writes.
    asm volatile("addl $5, 64(%0)\n\txorq $255, 96(%0)" : : "r"(x.data()) : "memory");
    words[23] = static_cast<std::uint32_t>(longs[14]);
    std::memset(x.data() + 40, 3, 77);
    std::memcpy(x.data() + 60, x.data() + 30, 83);
    std::memmove(reinterpret_cast<char*>(x.data() + 512) - 3, x.data() + 100, 7);
    std::memset(x.data() + 1000, 1, 60000);
  };
  auto plain = one.x;
  std::iota(plain.begin(), plain.end(), 0.5);
  for (int run = 0; run < 3; ++run) {
    one.x = plain;
    auto expected = plain;
    write_some(expected);
    EXPECT_FALSE(one.run([&] { write_some(one.x); }).empty());
    ASSERT_EQ(std::memcmp(one.x.data(), expected.data(), expected.size() * 8), 0);
  }
}

/// Their memory lies beside other memory, which system calls may use: its pages stay open.
TEST(access_check, each_is_looked_at_thrice_but_once_only_where_that_takes_long) {
  for (const bool is_quick : {true, false}) {
    AccessCheck check(is_quick ? 1000 : 0);
    std::map<int, int> looked_at;
    for (int time = 0; time < 6; ++time)
      for (const int computation : {0, 1}) {
        if (!check.is_due(computation)) continue;
        ++looked_at[computation];
        ASSERT_TRUE(check.begin(computation, {}, {}));
        std::this_thread::sleep_for(std::chrono::milliseconds(400));  // far more than the rest takes
        std::vector<bool> moved;
        (void)check.end({}, true, moved);
      }
    EXPECT_EQ(looked_at, (std::map<int, int>{{0, is_quick ? 3 : 1}, {1, is_quick ? 3 : 1}}));
    std::this_thread::sleep_for(std::chrono::milliseconds(is_quick ? 1000 : 400));
    EXPECT_FALSE(check.is_due(0)) << "it may have waited for another rank";
    check.pass_over(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(is_quick ? 1000 : 400));
    check.end_passed_over();
    EXPECT_TRUE(check.is_due(0)) << "the computations have taken long enough";
  }
}

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
  AccessCheck check;
  const Units units{{{0, 8}}, false};
  ASSERT_TRUE(check.begin(0, {{view_of(a), 8, units, true}, {view_of(b), 8, units, true}}, effects));
  b[19] = a[3] + b[4];
  std::vector<bool> moved;
  const auto found = check.end({view_of(a), view_of(b)}, true, moved);
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
        One<double> one(20000);
        (void)one.run([] {
          volatile int* nowhere = nullptr;
          *nowhere = 1;
        });
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace backstay::check
