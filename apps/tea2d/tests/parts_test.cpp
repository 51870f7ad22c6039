// What needs no system: options, blocks, eigenvalues, output.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <stdexcept>

#include "eigenvalues.h"
#include "grid.h"
#include "history.h"
#include "loops.h"
#include "options.h"

namespace tea2d {
namespace {

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_options(arguments);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Options, all_of_them_are_taken) {
  const Options o =
      parse_options({"--nx", "64", "--ny=32", "--steps", "7", "--dt=0.5", "--solver", "ppcg", "--eps", "1e-8",
                     "--max-iterations", "99", "--csv", "a.csv", "--quiet", "--plain", "--stored"});
  EXPECT_EQ(o.cells, (Pair{64, 32}));
  EXPECT_EQ(o.steps, 7);
  EXPECT_EQ(o.dt, 0.5);
  EXPECT_EQ(o.solver, Method::ppcg);
  EXPECT_EQ(o.eps, 1e-8);
  EXPECT_EQ(o.max_iterations, 99);
  EXPECT_EQ(o.csv, "a.csv");
  EXPECT_TRUE(o.quiet && o.plain && o.stored && !o.help);
  EXPECT_EQ(parse_options({"--n", "48"}).cells, (Pair{48, 48}));
}

TEST(Options, what_cannot_work_is_refused_with_a_sentence) {
  EXPECT_EQ(refusal({"--stpes", "3"}), "unknown option '--stpes'; see tea2d --help");
  EXPECT_EQ(refusal({"--steps"}), "--steps needs a value; see tea2d --help");
  EXPECT_EQ(refusal({"--quiet=1"}), "--quiet takes no value; see tea2d --help");
  EXPECT_EQ(refusal({"--n", "1"}), "--n takes a number from 2 to 32768, not '1'");
  EXPECT_EQ(refusal({"--nx", "2x"}), "--nx takes a number from 2 to 32768, not '2x'");
  EXPECT_EQ(refusal({"--eps", "nan"}), "--eps takes a number from 1e-14 to 0.1, not 'nan'");
  EXPECT_EQ(refusal({"--solver", "jacobi"}), "--solver takes cg, chebyshev or ppcg, not 'jacobi'");
  EXPECT_EQ(refusal({"--n", "8", "--ny", "9"}), "give --n, or --nx and --ny, not both");
  EXPECT_EQ(refusal({"--csv="}), "--csv needs the name of a file");
  EXPECT_EQ(refusal({"--stored", "--information", "all"}),
            "--information takes none, initphase, fast-forward, list, list+fast-forward or triggered, not 'all'");
  EXPECT_EQ(refusal({"--information", "none"}),
            "--information needs --stored, and not --plain: it is about loops that are declared");
  EXPECT_EQ(refusal({"--trigger-every", "0"}), "--trigger-every takes a number from 1 to 1000000000, not '0'");
}

TEST(Blocks, every_cell_has_one_owner_and_neighbours_know_each_other) {
  const Pair cells{13, 7};
  for (int size : {1, 2, 3, 4, 6, 7, 12, 13}) {
    const Pair ranks = choose_ranks(size, cells);
    std::set<Pair> owned;
    for (int rank = 0; rank < size; ++rank) {
      const Block block = program::block_of(rank, ranks, cells);
      for (int j = block.lower[1]; j < block.upper[1]; ++j) {
        for (int i = block.lower[0]; i < block.upper[0]; ++i) EXPECT_TRUE(owned.insert({i, j}).second);
      }
      for (int axis : {x_axis, y_axis}) {
        const int above = block.neighbour(axis, 1);
        const auto a = static_cast<std::size_t>(axis);
        ASSERT_EQ(above < 0, block.upper[a] == cells[a]);
        if (above < 0) continue;
        EXPECT_EQ(program::block_of(above, ranks, cells).lower[a], block.upper[a]);
        EXPECT_EQ(program::block_of(above, ranks, cells).neighbour(axis, -1), rank);
      }
    }
    EXPECT_EQ(owned.size(), 13U * 7U) << size << " ranks";
  }
  EXPECT_EQ(choose_ranks(4, {64, 64}), (Pair{2, 2}));
  EXPECT_EQ(choose_ranks(2, {64, 64}), (Pair{1, 2}));
  EXPECT_THROW(choose_ranks(11, {8, 8}), std::invalid_argument);
}

// 2 on the diagonal and -1 beside it: 2 - 2 cos(k pi / (n + 1)), k = 1 to n.
TEST(Eigenvalues, of_a_matrix_whose_eigenvalues_are_known) {
  for (std::size_t n : {1U, 2U, 3U, 50U}) {
    const Interval found = extreme_eigenvalues(std::vector<double>(n, 2), std::vector<double>(n - 1, -1));
    const double angle = std::numbers::pi / (static_cast<double>(n) + 1);
    EXPECT_NEAR(found.lower, 2 - 2 * std::cos(angle), 1e-13) << n;
    EXPECT_NEAR(found.upper, 2 + 2 * std::cos(angle), 1e-13) << n;
  }
}

TEST(Loops, a_method_declares_loops_of_its_own_arrays_and_of_no_others) {
  for (const Form& form : {Form{Method::cg, false},
                           {Method::chebyshev, false},
                           {Method::ppcg, false},
                           {Method::cg, true},
                           {Method::chebyshev, true},
                           {Method::ppcg, true}}) {
    const auto fields = fields_of(form);
    const std::set<Field> known(fields.begin(), fields.end());
    EXPECT_EQ(known.size(), fields.size());
    std::set<Field> used, read;
    std::set<std::string> names;
    for (const LoopUses& loop : loops_of(form)) {
      EXPECT_TRUE(names.insert(loop.name).second) << loop.name;
      for (const auto& use : loop.uses) {
        used.insert(use.field);
        if (use.mode != program::Mode::write) read.insert(use.field);
        EXPECT_FALSE(is_constant(use.field) && use.mode != program::Mode::read) << loop.name;
      }
    }
    EXPECT_EQ(used, known) << name_of(form.method);
    EXPECT_EQ(read, known) << name_of(form.method) << ": an array that nothing uses";
  }
  EXPECT_EQ(fields_of({Method::ppcg, true}).size(), 20U);
}

TEST(History, numbers_come_back_from_csv_as_they_were) {
  const std::string csv = to_csv({{1, 0.1, 20, 1.0 / 3, 1e-11}});
  EXPECT_EQ(csv,
            "step,time,iterations,total_energy,residual\n1,0.10000000000000001,20,0.33333333333333331,"
            "9.9999999999999994e-12\n");
}

}  // namespace
}  // namespace tea2d
