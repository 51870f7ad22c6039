// What needs no flow: options, blocks, sums, output.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <sstream>

#include "../../exact_sum.h"
#include "grid.h"
#include "history.h"
#include "loops.h"
#include "options.h"

namespace tgv {
namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Options, defaults_are_those_of_the_help) {
  const Options o = parse_options({});
  EXPECT_EQ(o.n, 64);
  EXPECT_EQ(o.t_end, 12);
  EXPECT_FALSE(o.steps);
  EXPECT_EQ(o.cfl, 0.6);
}

TEST(Options, values_come_after_a_space_or_an_equals_sign) {
  const Options o = parse_options({"--n", "32", "--steps=7", "--csv", "a=b.csv", "--quiet", "--plain", "--stored"});
  EXPECT_EQ(o.n, 32);
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(o.csv, "a=b.csv");
  EXPECT_TRUE(o.quiet && o.plain && o.stored);
}

TEST(Options, what_cannot_work_is_refused_with_a_sentence) {
  EXPECT_EQ(refusal({"--nn", "3"}), "unknown option '--nn'; see tgv --help");
  EXPECT_EQ(refusal({"64"}), "unknown option '64'; see tgv --help");
  EXPECT_EQ(refusal({"--n", "7"}), "--n takes a number from 8 to 1024, not '7'");
  EXPECT_EQ(refusal({"--n", "64x"}), "--n takes a number from 8 to 1024, not '64x'");
  EXPECT_EQ(refusal({"--n="}), "--n takes a number from 8 to 1024, not ''");
  EXPECT_EQ(refusal({"--cfl", "nan"}), "--cfl takes a number from 0.001 to 1.4, not 'nan'");
  EXPECT_EQ(refusal({"--t-end", "-1"}), "--t-end takes a number from 0.001 to 1000000.0, not '-1'");
  EXPECT_EQ(refusal({"--steps", "99999999999999"}),
            "--steps takes a number from 1 to 1000000000, not '99999999999999'");
  EXPECT_EQ(refusal({"--steps"}), "--steps needs a value; see tgv --help");
  EXPECT_EQ(refusal({"--quiet=yes"}), "--quiet takes no value; see tgv --help");
  EXPECT_EQ(refusal({"--t-end", "1", "--steps", "2"}), "give --t-end or --steps, not both");
}

TEST(Grid, blocks_tile_the_cube_and_fit_their_halos) {
  for (int n : {8, 17, 30}) {
    for (int size : {1, 2, 3, 4, 6, 8, 12, 27, 64}) {
      const Triple ranks = choose_ranks(size, n);
      std::vector<int> owners(static_cast<std::size_t>(n * n * n));
      for (int rank = 0; rank < size; ++rank) {
        const Block b = block_of(rank, ranks, n);
        for (int s : b.size()) EXPECT_GE(s, halo);
        for (int k = b.lower[2]; k < b.upper[2]; ++k) {
          for (int j = b.lower[1]; j < b.upper[1]; ++j) {
            for (int i = b.lower[0]; i < b.upper[0]; ++i) ++owners[static_cast<std::size_t>((k * n + j) * n + i)];
          }
        }
      }
      EXPECT_TRUE(std::all_of(owners.begin(), owners.end(), [](int o) { return o == 1; })) << n << " " << size;
    }
  }
}

TEST(Grid, neighbours_are_mutual) {
  for (int rank = 0; rank < 12; ++rank) {
    const Block b = block_of(rank, {2, 3, 2}, 16);
    for (int axis = 0; axis < 3; ++axis) {
      EXPECT_EQ(block_of(b.neighbour(axis, 1), {2, 3, 2}, 16).neighbour(axis, -1), rank);
    }
  }
}

TEST(Grid, too_many_ranks_are_refused) {
  EXPECT_THROW(choose_ranks(7, 8), std::invalid_argument);
  EXPECT_THROW(choose_ranks(65, 8), std::invalid_argument);
}

TEST(Loops, the_table_names_every_loop_and_every_array) {
  ASSERT_EQ(all_loops().size(), loop_count);
  std::set<std::string> names;
  std::set<Field> read, changed;
  for (std::size_t l = 0; l < loop_count; ++l) {
    const LoopUses& loop = all_loops()[l];
    EXPECT_EQ(loop.loop, static_cast<Loop>(l)) << loop.name;
    EXPECT_TRUE(names.insert(loop.name).second) << loop.name;
    std::set<Field> once;
    for (const auto& use : loop.uses) {
      EXPECT_TRUE(once.insert(use.field).second) << loop.name << " names " << name_of(use.field) << " twice";
      if (use.mode != program::Mode::write) read.insert(use.field);
      if (use.mode != program::Mode::read) changed.insert(use.field);
    }
  }
  EXPECT_EQ(read.size(), field_count);
  EXPECT_EQ(changed.size(), field_count);
}

using program::ExactSum;

TEST(ExactSum, the_order_of_the_terms_does_not_matter) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-40, 10);
  std::vector<double> terms(10'000);
  long double sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i] = std::exp2(exponent(random)) * (i % 2 == 0 ? 1 : -1);
    sum += terms[i];
  }
  ExactSum forward;
  for (double t : terms) forward.add(t);
  std::shuffle(terms.begin(), terms.end(), random);
  ExactSum shuffled;
  for (double t : terms) shuffled.add(t);
  EXPECT_EQ(forward.value(), shuffled.value());
  EXPECT_NEAR(forward.value(), static_cast<double>(sum), 1e-11);
}

TEST(ExactSum, what_it_cannot_hold_is_counted) {
  ExactSum sum;
  for (double t : {std::nan(""), std::numeric_limits<double>::infinity(), -ExactSum::limit}) sum.add(t);
  EXPECT_EQ(sum.refused, 3);
  sum.add(std::nextafter(ExactSum::limit, 0.0));
  EXPECT_EQ(sum.value(), std::nextafter(ExactSum::limit, 0.0));
}

TEST(History, csv_keeps_every_bit_and_replaces_the_file_whole) {
  const auto path = std::filesystem::temp_directory_path() / ("tgv_parts_test_" + std::to_string(getpid()) + ".csv");
  const History history = {{3, 1.0 / 3, 0.1, 5e-324, -0.0, 1e300}};
  write_csv(path, {});
  write_csv(path, history);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(),
            "step,time,kinetic_energy,enstrophy,dissipation,enstrophy_dissipation\n"
            "3,0.33333333333333331,0.10000000000000001,4.9406564584124654e-324,-0,1.0000000000000001e+300\n");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
  std::filesystem::remove(path);
}

TEST(History, a_directory_that_is_not_there_is_named) {
  try {
    write_csv("/nowhere/at/all.csv", {});
    FAIL() << "accepted";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()),
              "cannot write the results to /nowhere/at/all.csv: No such file or directory; name another file "
              "with --csv");
  }
}

}  // namespace
}  // namespace tgv
