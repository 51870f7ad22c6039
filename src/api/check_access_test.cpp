// The option check_access: false declarations are found, right ones are not accused, and the program goes on.
#include <gtest/gtest.h>
#include <sys/mman.h>
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

#include "backstay/backstay.h"
#include "backstay/backstay.hpp"

namespace backstay {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 90, columns = 130;
constexpr std::int64_t whole = 20480;  ///< pages

/// Memory that shares no page with other memory, as malloc gives it for what is large.
template <class T>
struct Pages {
  using value_type = T;
  Pages() = default;
  template <class U>
  explicit Pages(const Pages<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  void deallocate(T* memory, std::size_t n) { munmap(memory, n * sizeof(T)); }
  bool operator==(const Pages&) const { return true; }
};
template <class T>
using Field = std::vector<T, Pages<T>>;

/// `grid` has a layer of halo that is not protected.
struct Fields {
  Field<double> u, f, g;
  Field<float> single;
  Field<std::int32_t> list;
  Field<std::int8_t> flags;
  Field<double> grid;

  Fields() : u(whole), f(whole), g(whole), single(whole), list(whole), flags(4 * whole), grid(rows * columns) {
    std::iota(u.begin(), u.end(), 1);
    std::iota(f.begin(), f.end(), 2);
    std::iota(g.begin(), g.end(), 3);
    std::iota(single.begin(), single.end(), 4.0F);
    std::iota(list.begin(), list.end(), 5);
    std::iota(grid.begin(), grid.end(), 6);
  }
  void protect(Session& run) {
    run.protect("u", array(u.data(), {whole}));
    run.protect("f", array(f.data(), {whole}));
    run.protect("g", array(g.data(), {whole}));
    run.protect("single", array(single.data(), {whole}));
    run.protect("list", array(list.data(), {whole}));
    run.protect("flags", array(flags.data(), {4 * whole}));
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
void fill(Field<T>& x, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) x[i] = static_cast<T>(i % 100);
}

using Plants = std::vector<Planted>;
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
         sink = x.g[20479];
       },
       "element [20479]"},
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
         x.g[20479] = 1;
       },
       "element [20479]"},
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
      {"the last is not", flux, [](Fields& x) { fill(x.f, 0, whole - 1); }, "does not, region 'f': element [20479]"},
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
       "does not, region 'f': element [1] of rank 0 and 10239 more"},
      {"none is", flux, [](Fields&) {}, "does not, region 'f': element [0] of rank 0 and 20479 more"},
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
         x.f[20479] = 0;
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
       "region 'list': element [20479]",
       2},
      {"bytes, two pages left out",
       {writes("flags")},
       [](Fields& x) { fill(x.flags, 8192, x.flags.size()); },
       "region 'flags': element [0] of rank 0 and"},
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
  EXPECT_EQ(findings({reads("u"), writes("f")}, [](Fields& x) { fill(x.f, 1, whole); }, 5).size(), 1U);
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
      fill(fields.f, 0, whole);
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
    Field<double> mesh(whole, 1);
    run.protect_static("mesh", array(mesh.data(), {whole}));
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

TEST_F(CheckAccessTest, computations_in_c_are_looked_at) {
  fs::create_directories(dir_);
  Fields fields;
  backstay_error e;
  backstay_session* run = nullptr;
  const std::string dir = "dir=" + dir_.string();
  const char* const options[] = {dir.c_str(), "log=quiet", "every=1", "check_access=on", nullptr};
  ASSERT_EQ(backstay_open_alone(options, &run, &e), BACKSTAY_OK) << e.message;
  const std::int64_t shape[] = {whole};
  for (auto [name, data] : {std::pair("u", fields.u.data()), std::pair("f", fields.f.data())}) {
    backstay_region region{};
    region.name = name;
    region.data = data;
    region.ndim = 1;
    region.shape = shape;
    region.type.kind = BACKSTAY_FLOATING;
    region.type.size = 8;
    ASSERT_EQ(backstay_protect(run, &region, &e), BACKSTAY_OK) << e.message;
  }
  backstay_access accesses[2] = {};
  accesses[0].region = "u";
  accesses[0].mode = BACKSTAY_READ;
  accesses[1].region = "f";
  accesses[1].mode = BACKSTAY_WRITE;
  int it = -1;
  ASSERT_EQ(backstay_declare(run, "it", accesses, 2, &it, &e), BACKSTAY_OK) << e.message;
  ASSERT_EQ(backstay_begin(run, it, &e), BACKSTAY_OK);
  fill(fields.f, 1, whole);
  fields.u[7] = 1;
  ASSERT_EQ(backstay_end(run, &e), BACKSTAY_OK);
  backstay_close(run);
  std::ifstream events(dir_ / "events.jsonl");
  const std::string all((std::istreambuf_iterator<char>(events)), std::istreambuf_iterator<char>());
  EXPECT_NE(all.find("'it' is declared to overwrite, and does not, region 'f': element [0]"), std::string::npos) << all;
  EXPECT_NE(all.find("'it' writes region 'u', which it does not declare: element [7]"), std::string::npos) << all;
}

}  // namespace
}  // namespace backstay
