// The option check_access: false declarations are found, right ones are not accused, and the program goes on.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace backstay {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 90, columns = 130;

/// `grid` has a layer of halo that is not protected.
struct Fields {
  std::vector<double> u, f, g;
  std::vector<float> single;
  std::vector<std::int32_t> list;
  std::vector<std::int8_t> flags;
  std::vector<double> grid;

  Fields() : u(20000), f(20000), g(20000), single(20000), list(20000), flags(80000), grid(rows * columns) {
    std::iota(u.begin(), u.end(), 1);
    std::iota(f.begin(), f.end(), 2);
    std::iota(g.begin(), g.end(), 3);
    std::iota(single.begin(), single.end(), 4.0F);
    std::iota(list.begin(), list.end(), 5);
    std::iota(grid.begin(), grid.end(), 6);
  }
  void protect(Session& run) {
    run.protect("u", u);
    run.protect("f", f);
    run.protect("g", g);
    run.protect("single", single);
    run.protect("list", list);
    run.protect("flags", flags);
    run.protect("grid", inside(grid.data(), {rows, columns}, {1, 1}));
    // All are named, so that all are looked at.
    run.declare("all", {updates("u"), updates("f"), updates("g"), updates("single"), updates("list"), updates("flags"),
                        updates("grid")});
  }
  double& at(std::int64_t row, std::int64_t column) { return grid[static_cast<std::size_t>(row * columns + column)]; }
};

/// What a test reads, so that no compiler leaves it out.
volatile double sink = 0;

/// A false declaration.
struct Planted {
  std::string what;
  std::vector<Access> accesses;
  std::function<void(Fields&)> body;
  std::string expected;  ///< in a sentence
  int times = 1;
};

class CheckAccessTest : public ::testing::Test {
 protected:
  CheckAccessTest() : dir_(fs::temp_directory_path() / ("backstay-check-" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
    mallopt(M_MMAP_THRESHOLD, 65536);  // fields have pages of their own
  }
  ~CheckAccessTest() override { fs::remove_all(dir_); }
  Options options() const {
    return {{"dir", dir_.string()}, {"log", "quiet"}, {"every", "1"}, {"policy", "wait"}, {"check_access", "on"}};
  }
  /// The sentences of a session in which `body` runs so often as this computation.
  std::vector<std::string> findings(const std::vector<Access>& accesses, const std::function<void(Fields&)>& body,
                                    int times = 1) {
    fs::remove_all(dir_);
    Fields fields;
    {
      Session run(alone, options());
      fields.protect(run);
      const auto computation = run.declare("it", accesses);
      for (; times > 0; --times) {
        run.checkpoint();
        run.compute(computation, [&] { body(fields); });
      }
    }
    std::ifstream events(dir_ / "events.jsonl");
    std::vector<std::string> out;
    for (std::string line; std::getline(events, line);)
      if (line.find("\"false_declaration\"") != std::string::npos) out.push_back(line);
    return out;
  }
  void find(const Planted& plant) {
    const auto found = findings(plant.accesses, plant.body, plant.times);
    EXPECT_TRUE(std::ranges::any_of(found, [&](const auto& s) { return s.find(plant.expected) != s.npos; }))
        << plant.what << ": " << plant.expected << "\n"
        << (found.empty() ? "nothing was found" : found.front());
  }
  fs::path dir_;
};

template <class T>
void fill(std::vector<T>& x, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) x[i] = static_cast<T>(i % 100);
}

using Plants = std::vector<Planted>;
constexpr std::size_t whole = 20000;
const std::vector<Access> flux{reads("u"), writes("f")};

Plants reads_of_another_region() {
  return {
      {"the first element of another region", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         sink = x.g[0];
       },
       "reads region 'g', which it does not declare: element [0]"},
      {"its last element", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         sink = x.g[19999];
       },
       "element [19999]"},
      {"one in its middle", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         sink = x.g[7777];
       },
       "element [7777]"},
      {"all of it", flux,
       [](Fields& x) {
         for (std::size_t i = 0; i < whole; ++i) x.f[i] = x.u[i] + x.g[i];
       },
       "reads region 'g', which it does not declare: element [0] of rank 0 and"},
  };
}

Plants writes_to_what_is_not_written() {
  return {
      {"a write to another region", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         x.g[300] = 1;
       },
       "writes region 'g', which it does not declare: element [300]"},
      {"of its last element", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         x.g[19999] = 1;
       },
       "element [19999]"},
      {"a read and a write of it", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         x.g[20] += 1;
       },
       "writes region 'g', which it does not declare: element [20]"},
      {"a write to what is only read", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         x.u[5000] = 1;
       },
       "writes region 'u', which it does not declare: element [5000]"},
      {"an update of what is only read",
       {reads("u")},
       [](Fields& x) {
         for (double& v : x.u) v *= 2;
       },
       "writes region 'u', which it does not declare: element [0]"},
  };
}

Plants elements_that_are_left_out() {
  return {
      {"the first element is not written", flux, [](Fields& x) { fill(x.f, 1, whole); },
       "is declared to overwrite, and does not, region 'f': element [0]"},
      {"the last is not", flux, [](Fields& x) { fill(x.f, 0, whole - 1); }, "does not, region 'f': element [19999]"},
      {"one in the middle is not", flux,
       [](Fields& x) {
         fill(x.f, 0, 9999);
         fill(x.f, 10000, whole);
       },
       "does not, region 'f': element [9999]"},
      {"every other one is not", flux,
       [](Fields& x) {
         for (std::size_t i = 0; i < whole; i += 2) x.f[i] = 1;
       },
       "does not, region 'f': element [1] of rank 0 and 9999 more"},
      {"none is", flux, [](Fields&) {}, "does not, region 'f': element [0] of rank 0 and 19999 more"},
      {"the wrong one is", flux, [](Fields& x) { fill(x.g, 0, whole); }, "does not, region 'f'"},
      {"and that is told, too", flux, [](Fields& x) { fill(x.g, 0, whole); }, "writes region 'g'"},
      {"only where a condition holds", flux,
       [](Fields& x) {
         for (std::size_t i = 0; i < whole; ++i)
           if (x.u[i] > 100) x.f[i] = 0;
       },
       "does not, region 'f': element [0] of rank 0 and 99 more"},
  };
}

Plants early_reads_and_small_elements() {
  return {
      {"a sum that begins with the old values", flux,
       [](Fields& x) {
         for (std::size_t i = 0; i < whole; ++i) x.f[i] += x.u[i];
       },
       "reads before that, region 'f': element [0]"},
      {"the old neighbour", flux,
       [](Fields& x) {
         for (std::size_t i = 0; i + 1 < whole; ++i) x.f[i] = x.f[i + 1];
         x.f[19999] = 0;
       },
       "reads before that, region 'f': element [1]"},
      {"single precision, one left out",
       {writes("single")},
       [](Fields& x) {
         fill(x.single, 0, 500);
         fill(x.single, 501, whole);
       },
       "region 'single': element [500]",
       2},
      {"integers, the last left out",
       {writes("list")},
       [](Fields& x) { fill(x.list, 0, whole - 1); },
       "region 'list': element [19999]",
       2},
      {"bytes, ten left out",
       {writes("flags")},
       [](Fields& x) { fill(x.flags, 10, x.flags.size()); },
       "region 'flags': element [0] of rank 0 and 9 more",
       8},
  };
}

Plants others_that_do_it() {
  return {
      {"a library function that reads", flux, [](Fields& x) { std::memcpy(x.f.data(), x.g.data(), whole * 8); },
       "reads region 'g'"},
      {"a library function that writes", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         std::memset(x.g.data() + 6000, 0, 80000);
       },
       "writes region 'g'"},
      {"another thread", flux,
       [](Fields& x) {
         fill(x.f, 0, whole);
         std::thread([&] { x.g[9000] = 1; }).join();
       },
       "writes region 'g', which it does not declare: element [9000]"},
  };
}

Plants what_is_beside_a_range() {
  const Access upper = reads("grid").in({{0, 40}, {0, columns - 2}});
  return {
      {"a row behind the range",
       {upper},
       [](Fields& x) { sink = x.at(41, 5); },
       "reads region 'grid', which it does not declare: element [40, 4]"},
      {"a column behind the range",
       {reads("grid").in({{0, rows - 2}, {0, 60}})},
       [](Fields& x) { sink = x.at(50, 61); },
       "element [49, 60]"},
      {"a neighbour that the stencil does not name",
       {reads("grid").in({{10, 12}, {0, 128}}).around({{0, 1}, {0, 0}})},
       [](Fields& x) { sink = x.at(10, 5); },
       "element [9, 4]"},
      {"a write behind the range",
       {writes("grid").in({{0, 40}, {0, columns - 2}})},
       [](Fields& x) {
         for (std::int64_t i = 1; i <= 41; ++i)
           for (std::int64_t j = 1; j <= columns - 2; ++j) x.at(i, j) = 0;
       },
       "writes region 'grid', which it does not declare: element [40, "},
      {"a row of the range is left out",
       {writes("grid").in({{0, 40}, {0, columns - 2}})},
       [](Fields& x) {
         for (std::int64_t i = 1; i < 40; ++i)
           for (std::int64_t j = 1; j <= columns - 2; ++j) x.at(i, j) = 0;
       },
       "does not, region 'grid': element [39, 0] of rank 0 and 127 more"},
  };
}

TEST_F(CheckAccessTest, every_planted_false_declaration_is_found) {
  std::size_t planted = 0;
  for (const auto& plants : {reads_of_another_region(), writes_to_what_is_not_written(), elements_that_are_left_out(),
                             early_reads_and_small_elements(), others_that_do_it(), what_is_beside_a_range()}) {
    for (const auto& plant : plants) find(plant);
    planted += plants.size();
  }
  EXPECT_EQ(planted, 30U);
}

TEST_F(CheckAccessTest, right_declarations_are_not_accused_and_values_are_those_of_the_program) {
  Fields checked, plain;
  const auto set_flux = [](Fields& x) {
    for (std::size_t i = 0; i < x.u.size(); ++i) x.f[i] = x.u[i] / 3;
  };
  const auto update = [](Fields& x) {
    for (std::size_t i = 0; i < x.u.size(); ++i) x.u[i] += x.f[i];
    for (std::size_t i = 0; i < x.flags.size(); i += 3) x.flags[i] = 1;
  };
  const auto smooth = [](Fields& x) {
    for (std::int64_t j = 0; j < columns; ++j) x.at(0, j) = x.at(rows - 1, j) = 1;  // the halo is nobody's
    for (std::int64_t i = 1; i < rows - 1; ++i)
      for (std::int64_t j = 1; j < columns - 1; ++j) x.at(i, j) = (x.at(i - 1, j) + x.at(i + 1, j)) / 2;
  };
  const auto small = [](Fields& x) {
    fill(x.list, 0, x.list.size());
    fill(x.single, 0, x.single.size());
  };
  {
    Session run(alone, options());
    checked.protect(run);
    const auto c1 = run.declare("flux", {reads("u"), writes("f")});
    const auto c2 = run.declare("update", {reads("f"), updates("u"), writes_some("flags")});
    const auto c3 = run.declare("smooth", {updates("grid").around({{-1, 1}, {0, 0}})});
    const auto c4 = run.declare("small", {writes("list"), writes("single")});
    for (int step = 0; step < 12; ++step) {
      run.checkpoint();
      run.compute(c1, [&] { set_flux(checked); });
      run.compute(c2, [&] { update(checked); });
      run.compute(c3, [&] { smooth(checked); });
      run.compute(c4, [&] { small(checked); });
    }
  }
  for (int step = 0; step < 12; ++step)
    for (const auto& body : std::vector<std::function<void(Fields&)>>{set_flux, update, smooth, small}) body(plain);
  std::ifstream events(dir_ / "events.jsonl");
  const std::string all((std::istreambuf_iterator<char>(events)), std::istreambuf_iterator<char>());
  EXPECT_EQ(all.find("false_declaration"), std::string::npos) << all;
  EXPECT_EQ(checked.u, plain.u);
  EXPECT_EQ(checked.f, plain.f);
  EXPECT_EQ(checked.grid, plain.grid);
  EXPECT_EQ(checked.list, plain.list);
  EXPECT_EQ(checked.single, plain.single);
  EXPECT_EQ(checked.flags, plain.flags);
}

TEST_F(CheckAccessTest, a_program_that_declares_falsely_computes_what_it_would_without) {
  Fields checked;
  const auto body = [](Fields& x) {
    for (std::size_t i = 0; i < x.f.size(); i += 2) x.f[i] += x.g[i];
  };
  {
    Session run(alone, options());
    checked.protect(run);
    const auto it = run.declare("it", {reads("u"), writes("f")});
    run.checkpoint();
    run.compute(it, [&] { body(checked); });
  }
  Fields plain;
  body(plain);
  EXPECT_EQ(checked.f, plain.f);
}

TEST_F(CheckAccessTest, each_false_declaration_is_told_once) {
  EXPECT_EQ(findings({reads("u"), writes("f")}, [](Fields& x) { fill(x.f, 1, 20000); }, 5).size(), 1U);
}

TEST_F(CheckAccessTest, a_computation_inside_another_is_looked_at_and_the_outer_one_is_not_accused) {
  Fields fields;
  {
    Session run(alone, options());
    fields.protect(run);
    const auto outer = run.declare("outer", {writes("f"), reads("u")});
    const auto inner = run.declare("inner", {reads("u")});
    run.checkpoint();
    run.compute(outer, [&] {
      run.compute(inner, [&] { sink = fields.g[3]; });
      fill(fields.f, 0, 20000);
    });
  }
  std::ifstream events(dir_ / "events.jsonl");
  const std::string all((std::istreambuf_iterator<char>(events)), std::istreambuf_iterator<char>());
  EXPECT_NE(all.find("the computation 'inner' reads region 'g'"), std::string::npos);
  EXPECT_EQ(all.find("'outer'"), std::string::npos) << all;
}

TEST_F(CheckAccessTest, a_computation_that_nobody_ends_ends_with_the_next_call) {
  Fields fields;
  Session run(alone, options());
  fields.protect(run);
  run.begin(run.declare("it", {reads("u"), writes("f")}));
  fill(fields.f, 0, whole);
  EXPECT_EQ(run.checkpoint(), Outcome::taken);
  sink = fields.g[7];
  run.wait();
  std::ifstream events(dir_ / "events.jsonl");
  const std::string all((std::istreambuf_iterator<char>(events)), std::istreambuf_iterator<char>());
  EXPECT_EQ(all.find("false_declaration"), std::string::npos) << all;
}

TEST_F(CheckAccessTest, computations_that_begin_one_after_the_other_are_each_looked_at) {
  Fields fields;
  {
    Session run(alone, options());
    std::vector<double> mesh(20000, 1);
    run.protect_static("mesh", mesh);
    fields.protect(run);
    const auto first = run.declare("first", {reads("u"), writes("f")});
    const auto second = run.declare("second", {reads("f"), reads("mesh"), updates("u")});
    run.begin(first);
    fill(fields.f, 1, whole);
    run.begin(second);
    mesh[5] = 3;
    run.begin(first);
    fill(fields.f, 0, whole);
    run.end();
    sink = fields.g[8];
  }
  std::ifstream events(dir_ / "events.jsonl");
  const std::string all((std::istreambuf_iterator<char>(events)), std::istreambuf_iterator<char>());
  EXPECT_NE(all.find("'first' is declared to overwrite, and does not, region 'f': element [0]"), std::string::npos);
  EXPECT_NE(all.find("'second' writes region 'mesh', which it does not declare: element [5]"), std::string::npos)
      << all;
  EXPECT_EQ(all.find("region 'g'"), std::string::npos) << all;
}

TEST_F(CheckAccessTest, two_sessions_cannot_check_at_once) {
  Session first(alone, options());
  auto other = options();
  other["dir"] = (dir_ / "other").string();
  EXPECT_THROW(Session(alone, other), Error);
}

}  // namespace
}  // namespace backstay
