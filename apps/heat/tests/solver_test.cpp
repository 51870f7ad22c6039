// The solver against exact solutions and itself. Run on any number of ranks: each test takes all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <random>
#include <utility>

#include "stepper.h"
#include "wire.h"

namespace heat {
namespace {

constexpr double pi = std::numbers::pi;

/// A solution that was chosen, with the source that makes it one. Insulated on all sides.
struct Chosen {
  static double temperature(const Point& x, double t) {
    return 1 + std::cos(pi * x[0]) * std::cos(pi * x[1]) * std::cos(pi * x[2]) * std::cos(3 * t);
  }
  static double conductivity(const Point& x) { return 2 + std::cos(pi * x[0]); }
  static double capacity(const Point& x) { return 1 + 0.5 * x[1]; }
  static double source(const Point& x, double t) {
    const double product = std::cos(pi * x[0]) * std::cos(pi * x[1]) * std::cos(pi * x[2]);
    const double slope = -pi * std::sin(pi * x[0]) * std::cos(pi * x[1]) * std::cos(pi * x[2]);  // along x
    const double divergence = -3 * pi * pi * conductivity(x) * product - pi * std::sin(pi * x[0]) * slope;
    return -3 * capacity(x) * product * std::sin(3 * t) - divergence * std::cos(3 * t);
  }
};

Problem chosen_problem(int cells, double dt, double theta) {
  Problem p;
  p.cells = cells;
  p.dt = dt;
  p.theta = theta;
  p.tolerance = 1e-11;
  p.conductivity = Chosen::conductivity;
  p.capacity = Chosen::capacity;
  p.source = Chosen::source;
  p.initial_temperature = [](const Point& x) { return Chosen::temperature(x, 0); };
  return p;
}

/// A problem from its beginning.
struct Trial {
  explicit Trial(Problem given)
      : problem(std::move(given)),
        operators(make_operators(MPI_COMM_WORLD, problem)),
        stepper(MPI_COMM_WORLD, operators, problem) {
    for (const Point& x : operators.points) u.push_back(problem.initial_temperature(x));
  }
  void to(int steps) {
    for (; step < steps; ++step) iterations = std::max(iterations, stepper.advance(u, step * problem.dt));
  }
  /// In the norm of the heat.
  double norm(const std::vector<double>& x) {
    std::vector<double> weighted = x;
    for (std::size_t i = 0; i < x.size(); ++i) weighted[i] *= operators.heat_of[i];
    return std::sqrt(stepper.dot(weighted, x));
  }
  double error() {
    std::vector<double> e = u;
    for (std::size_t i = 0; i < u.size(); ++i) e[i] -= Chosen::temperature(operators.points[i], step * problem.dt);
    return norm(e);
  }

  Problem problem;
  Operators operators;
  Stepper stepper;
  std::vector<double> u;
  int step = 0;
  int iterations = 0;  ///< the most that a step took
};

double order(double coarse, double fine, double ratio) { return std::log(coarse / fine) / std::log(ratio); }

TEST(Solver, the_error_is_of_second_order_in_the_width_of_a_cell) {
  // Steps so short that their error is far below that of the mesh.
  Trial coarse(chosen_problem(8, 1e-3, 0.5)), fine(chosen_problem(16, 1e-3, 0.5));
  coarse.to(50);
  fine.to(50);
  EXPECT_LT(fine.error(), 3e-3);
  EXPECT_NEAR(order(coarse.error(), fine.error(), 2), 2, 0.25);
}

/// Of the time integration: differences between three lengths of steps, on one mesh.
double order_in_time(double theta) {
  std::vector<std::vector<double>> u;
  for (int steps : {16, 32, 64}) {
    Trial run(chosen_problem(6, 0.1 / steps, theta));
    run.to(steps);
    u.push_back(run.u);
  }
  Trial weights(chosen_problem(6, 0.1, theta));
  std::vector<double> first = u[0], second = u[1];
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] -= u[1][i];
    second[i] -= u[2][i];
  }
  return order(weights.norm(first), weights.norm(second), 2);
}

TEST(Solver, crank_nicolson_is_of_second_order_in_time) { EXPECT_NEAR(order_in_time(0.5), 2, 0.2); }
TEST(Solver, backward_euler_is_of_first_order_in_time) { EXPECT_NEAR(order_in_time(1), 1, 0.2); }

TEST(Solver, an_insulated_body_without_a_source_keeps_its_heat) {
  Problem p = moving_spot(12, 5e-3);
  p.cooling = 0;
  p.source = {};
  p.tolerance = 1e-12;
  p.initial_temperature = [](const Point& x) { return x[0] < 0.5 ? 1.0 : 0.0; };
  Trial run(p);
  const Totals before = run.stepper.totals(run.u);
  const double spread = run.norm(run.u);
  run.to(20);
  const Totals after = run.stepper.totals(run.u);
  EXPECT_NEAR(after.heat / before.heat, 1, 1e-11);
  EXPECT_LT(run.norm(run.u), 0.95 * spread);
}

TEST(Solver, the_floor_loses_what_the_boundary_condition_says) {
  Problem p = moving_spot(8, 1e-5);
  p.source = {};
  p.cooling = 2;
  p.tolerance = 1e-12;
  p.initial_temperature = [](const Point&) { return 3.0; };
  Trial run(p);
  const double before = run.stepper.totals(run.u).heat;
  run.to(1);
  // The temperature of the floor has hardly changed: 2 * 3 through an area of 1.
  EXPECT_NEAR((before - run.stepper.totals(run.u).heat) / p.dt, 6, 0.02);
}

TEST(Solver, the_source_brings_in_its_integral) {
  Problem p = moving_spot(16, 1e-3);
  p.cooling = 0;
  p.tolerance = 1e-12;
  Trial run(p);
  const double before = run.stepper.totals(run.u).heat;
  run.to(1);
  const double integral = 40 * std::pow(std::sqrt(pi) * 0.08, 3);  // of the spot, over all space
  EXPECT_NEAR((run.stepper.totals(run.u).heat - before) / p.dt / integral, 1, 0.02);
}

TEST(Solver, heat_at_temperature_one_is_the_integral_of_the_capacity) {
  Trial run(chosen_problem(8, 1, 0.5));
  EXPECT_NEAR(run.stepper.dot(run.operators.heat_of, std::vector<double>(run.u.size(), 1.0)), 1.25, 1e-12);
}

TEST(Solver, iterations_do_not_grow_with_the_mesh) {
  std::vector<int> iterations;
  for (int cells : {8, 16, 32}) {
    Trial run(moving_spot(cells, 0.05));  // so long that conduction outweighs storage
    run.to(3);
    iterations.push_back(run.iterations);
  }
  for (int i : iterations) EXPECT_LE(i, 25);
  EXPECT_LE(iterations[2], iterations[1] + 4);
}

TEST(Solver, a_temperature_that_is_not_finite_ends_the_run) {
  Trial run(moving_spot(6, 1e-3));
  run.u[0] = std::nan("");
  EXPECT_THROW(run.to(1), std::runtime_error);
}

/// The same on all ranks: a value for each vertex of the grid.
std::vector<double> random_values(const Operators& operators, unsigned seed) {
  std::vector<double> x;
  for (Global v : operators.vertices) {
    std::minstd_rand random(static_cast<unsigned>(v) * 7919U + seed);
    random.discard(10);
    x.push_back(std::uniform_real_distribution<double>(-1, 1)(random));
  }
  return x;
}

TEST(Operators, matrix_and_preconditioner_are_symmetric_and_positive) {
  Trial run(moving_spot(10, 0.02));
  for (unsigned seed : {1U, 2U, 3U}) {
    const std::vector<double> x = random_values(run.operators, seed), y = random_values(run.operators, seed + 10);
    const auto ax = run.stepper.multiply(x), ay = run.stepper.multiply(y);
    const double size = std::sqrt(run.stepper.dot(ax, ax) * run.stepper.dot(y, y));
    EXPECT_NEAR(run.stepper.dot(ax, y), run.stepper.dot(ay, x), 1e-13 * size);
    EXPECT_GT(run.stepper.dot(ax, x), 0);
    const auto px = run.stepper.precondition(x), py = run.stepper.precondition(y);
    const double p_size = std::sqrt(run.stepper.dot(px, px) * run.stepper.dot(y, y));
    EXPECT_NEAR(run.stepper.dot(px, y), run.stepper.dot(py, x), 1e-12 * p_size);
    EXPECT_GT(run.stepper.dot(px, x), 0);
  }
}

TEST(Operators, conduction_does_nothing_to_a_constant) {
  Problem p = moving_spot(10, 0.02);
  p.cooling = 0;
  Trial run(p);
  for (double k : run.stepper.conduct(std::vector<double>(run.u.size(), 1.0))) EXPECT_NEAR(k, 0, 1e-13);
}

/// All entries of the finest matrix, by the vertices of the grid that they belong to.
std::map<std::pair<Global, Global>, double> entries(const Operators& operators, MPI_Comm comm) {
  Wire wire(comm);
  const std::vector<Global> vertices = wire.gather_lists(operators.vertices);  // in the order of their numbers
  const Level& level = operators.levels[0];
  std::vector<Global> rows, columns;
  std::vector<double> values;
  for (int i = 0; i < level.matrix.rows(); ++i) {
    for (auto e = level.matrix.starts[static_cast<std::size_t>(i)];
         e < level.matrix.starts[static_cast<std::size_t>(i) + 1]; ++e) {
      const int column = level.matrix.columns[static_cast<std::size_t>(e)];
      const Global number = column < level.ghosts.owned
                                ? level.ghosts.first + column
                                : level.ghosts.numbers[static_cast<std::size_t>(column - level.ghosts.owned)];
      rows.push_back(operators.vertices[static_cast<std::size_t>(i)]);
      columns.push_back(vertices[static_cast<std::size_t>(number)]);
      values.push_back(level.matrix.values[static_cast<std::size_t>(e)]);
    }
  }
  rows = wire.gather_lists(rows);
  columns = wire.gather_lists(columns);
  values = wire.gather_lists(values);
  wire.close();
  std::map<std::pair<Global, Global>, double> all;
  for (std::size_t e = 0; e < rows.size(); ++e) EXPECT_TRUE(all.insert({{rows[e], columns[e]}, values[e]}).second);
  return all;
}

TEST(Operators, the_matrix_is_the_same_on_any_number_of_ranks) {
  const Problem p = moving_spot(7, 0.02);
  const auto together = entries(make_operators(MPI_COMM_WORLD, p), MPI_COMM_WORLD);
  const auto alone = entries(make_operators(MPI_COMM_SELF, p), MPI_COMM_SELF);
  EXPECT_EQ(alone.size(), 22U * 22 * 22);  // 3 n + 1 pairs along each axis
  ASSERT_EQ(together.size(), alone.size());
  for (const auto& [at, value] : alone) EXPECT_NEAR(together.at(at), value, 1e-14) << at.first << ", " << at.second;
}

TEST(Operators, the_solution_is_the_same_on_any_number_of_ranks) {
  Problem p = moving_spot(9, 0.01);
  p.tolerance = 1e-12;
  Trial together(p);
  together.to(3);
  const Operators operators = make_operators(MPI_COMM_SELF, p);
  Stepper stepper(MPI_COMM_SELF, operators, p);
  std::vector<double> u;
  for (const Point& x : operators.points) u.push_back(p.initial_temperature(x));
  for (int step = 0; step < 3; ++step) stepper.advance(u, step * p.dt);
  std::map<Global, double> alone;
  for (std::size_t i = 0; i < u.size(); ++i) alone[operators.vertices[i]] = u[i];
  for (std::size_t i = 0; i < together.u.size(); ++i) {
    EXPECT_NEAR(together.u[i], alone.at(together.operators.vertices[i]), 1e-11);
  }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

TEST(Operators, made_twice_they_have_the_same_bits_and_so_has_the_solution_in_another_communicator) {
  const Problem p = moving_spot(12, 0.01);
  Trial first(p), second(p);
  ASSERT_EQ(first.operators.levels.size(), second.operators.levels.size());
  for (std::size_t l = 0; l < first.operators.levels.size(); ++l) {
    const Level &a = first.operators.levels[l], &b = second.operators.levels[l];
    EXPECT_TRUE(same_bits(a.matrix.values, b.matrix.values) && same_bits(a.matrix.columns, b.matrix.columns));
    EXPECT_TRUE(same_bits(a.prolongation.values, b.prolongation.values));
    EXPECT_TRUE(same_bits(a.ghosts.numbers, b.ghosts.numbers));
  }
  EXPECT_TRUE(same_bits(first.operators.coarse.lower, second.operators.coarse.lower));
  EXPECT_TRUE(same_bits(first.operators.conduction, second.operators.conduction));
  EXPECT_EQ(first.operators.received, second.operators.received);

  first.to(4);
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  Stepper stepper(other, second.operators, p);
  for (int step = 0; step < 4; ++step) stepper.advance(second.u, step * p.dt);
  MPI_Comm_free(&other);
  EXPECT_TRUE(same_bits(first.u, second.u));
}

TEST(Operators, static_data_is_more_than_fifty_times_the_dynamic) {
  const Operators operators = make_operators(MPI_COMM_WORLD, moving_spot(16, 1e-3));
  EXPECT_GT(operators.bytes(), 50 * 8 * operators.vertices.size());
}

TEST(Operators, more_ranks_than_the_cells_can_be_shared_among_are_refused) {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size <= 1) GTEST_SKIP() << "one rank has every cell";
  EXPECT_THROW(make_operators(MPI_COMM_WORLD, moving_spot(1, 1e-3)), std::invalid_argument);
}

}  // namespace
}  // namespace heat
