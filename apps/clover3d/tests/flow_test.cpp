// The numbers: conservation, an exact solution, symmetry, walls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "flows.h"
#include "problem.h"
#include "riemann.h"

namespace clover3d {
namespace {

/// Steps up to exactly `end`.
void run_to(System& system, double end) {
  double time = 0;
  double dt = end / 1000;
  for (int s = 0; time < end; ++s) {
    dt = step(system, s, std::min(1.5 * dt, end - time));
    time += dt;
  }
}

/// A cube of gas that moves through gas at rest, away from the walls.
State moving_cube(double x, double y, double z) {
  const auto is_inside = [](double a) { return a > 3 && a < 6; };
  if (!is_inside(x) || !is_inside(y) || !is_inside(z)) return {1, 2, {}};
  return {1.5, 1 + x / 10, {0.4, -0.3, 0.2}};
}

TEST(Conservation, gas_at_rest_stays_as_it_is) {
  // Powers of two: no rounding hides anything.
  System system =
      started(MPI_COMM_WORLD, {{8, 8, 8}, {8, 8, 8}}, [](double, double, double) { return State{2, 0.5, {}}; });
  for (int s = 0; s < 4; ++s) (void)step(system, s, 1);
  for_own(system, centred, [&](int, int, int, std::ptrdiff_t c) {
    ASSERT_EQ(system.data(Field::density0)[c], 2);
    ASSERT_EQ(system.data(Field::energy0)[c], 0.5);
  });
}

/// What lagrangian_step() and remap() have left is put where totals() looks.
Totals totals_with(System& system, std::initializer_list<std::pair<Field, Field>> copies) {
  for (const auto& [from, to] : copies) std::copy_n(system.data(from), system.layout().points, system.data(to));
  return totals(system);
}

// The pressure does the same work on the gas and on the nodes; the cells keep their masses.
TEST(Conservation, the_lagrangian_step_keeps_the_total_energy_to_rounding) {
  System system = started(MPI_COMM_WORLD, domain_of({20, 18, 16}), moving_cube);
  for (int s = 0; s < 6; ++s) (void)step(system, s, 1);
  const Totals before = totals(system);
  lagrangian_step(system, time_step(system, 1));
  const Totals after = totals_with(system, {{Field::energy1, Field::energy0},
                                            {Field::xvel1, Field::xvel0},
                                            {Field::yvel1, Field::yvel0},
                                            {Field::zvel1, Field::zvel0}});
  EXPECT_GT(std::abs(after.kinetic_energy / before.kinetic_energy - 1), 1e-3);
  EXPECT_NEAR((after.internal_energy + after.kinetic_energy) / (before.internal_energy + before.kinetic_energy), 1,
              1e-14);
}

TEST(Conservation, the_remap_keeps_mass_and_internal_energy_and_most_of_the_kinetic_energy) {
  for (const int number : {0, 1}) {
    System system = started(MPI_COMM_WORLD, domain_of({20, 18, 16}), moving_cube);
    for (int s = 0; s < 6; ++s) (void)step(system, s, 1);
    const double dt = time_step(system, 1);
    lagrangian_step(system, dt);
    System moved = started(MPI_COMM_WORLD, domain_of({20, 18, 16}), moving_cube);
    for (const auto& [from, to] : {std::pair{Field::density0, Field::density0},
                                   {Field::energy1, Field::energy0},
                                   {Field::xvel1, Field::xvel0},
                                   {Field::yvel1, Field::yvel0},
                                   {Field::zvel1, Field::zvel0}})
      std::copy_n(system.data(from), system.layout().points, moved.data(to));
    const Totals before = totals(moved);
    remap(system, dt, number);
    system.reset();
    const Totals after = totals(system);
    EXPECT_NEAR(after.mass / before.mass, 1, 1e-14);
    EXPECT_NEAR(after.internal_energy / before.internal_energy, 1, 1e-14);
    EXPECT_LT(after.kinetic_energy, before.kinetic_energy);
    EXPECT_GT(after.kinetic_energy, 0.95 * before.kinetic_energy);
  }
}

/// Of all nodes, each with the mass of the eighths of cells around it that are in the box.
std::array<double, 3> momentum(System& system) {
  std::array<double, 3> sum{};
  const auto& stride = system.layout().stride;
  for_own(system, centred, [&](int, int, int, std::ptrdiff_t c) {
    const double mass = system.data(Field::density0)[c] * system.data(Field::volume)[c];
    for (int corner = 0; corner < 8; ++corner) {
      const std::ptrdiff_t n = c + (corner & 1) * stride[0] + (corner >> 1 & 1) * stride[1] + (corner >> 2) * stride[2];
      for (int a = 0; a < 3; ++a) sum[static_cast<std::size_t>(a)] += mass / 8 * system.data(along(Field::xvel0, a))[n];
    }
  });
  return sum;
}

TEST(Conservation, momentum_changes_at_walls_only) {
  System system = started(MPI_COMM_SELF, domain_of({24, 24, 24}), moving_cube);
  const std::array<double, 3> before = momentum(system);
  for (int s = 0; s < 4; ++s) (void)step(system, s, 1);  // too few to reach a wall
  const std::array<double, 3> after = momentum(system);
  for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(after[a], before[a], 1e-12 * std::abs(before[0])) << a;
}

/// The part of the total energy that is lost up to t = 2.
double lost_energy(int n, const Start& start) {
  System system = started(MPI_COMM_WORLD, domain_of({n, n, n}), start);
  const Totals before = totals(system);
  run_to(system, 2);
  const Totals after = totals(system);
  EXPECT_NEAR(after.mass / before.mass, 1, 1e-13);
  const double energy = before.internal_energy + before.kinetic_energy;
  return 1 - (after.internal_energy + after.kinetic_energy) / energy;
}

TEST(Conservation, where_the_flow_is_smooth_the_lost_energy_vanishes_on_finer_grids) {
  const auto pulse = [](double x, double y, double z) {
    const double r2 = (x - 5) * (x - 5) + (y - 5) * (y - 5) + (z - 5) * (z - 5);
    return State{1, 1 + 0.5 * std::exp(-r2 / 4), {}};
  };
  const double coarse = lost_energy(12, pulse), fine = lost_energy(24, pulse);
  EXPECT_LT(std::abs(fine), 1e-7);
  EXPECT_LT(std::abs(fine), std::abs(coarse) / 8);
}

// At a shock the remap loses kinetic energy however fine the grid is: the jump is always a few cells wide.
TEST(Conservation, a_shock_loses_a_few_thousandths_of_the_energy) {
  const double coarse = lost_energy(15, hot_box_in_a_corner), fine = lost_energy(30, hot_box_in_a_corner);
  EXPECT_LT(coarse, 0.0035);
  EXPECT_LT(fine, 0.0025);
  EXPECT_GT(fine, 0);
}

struct Error {
  double density, velocity, pressure;  ///< means of absolute values
};

/// Sod's problem at t = 0.2 along `axis` on `n` cells, against the exact solution.
Error error_of_sod(int n, std::size_t axis) {
  const Gas left{1, 0, 1}, right{0.125, 0, 0.1};
  Domain domain{{2, 2, 2}, {1, 1, 1}};
  domain.cells[axis] = n;
  domain.length = {2.0 / n, 2.0 / n, 2.0 / n};
  domain.length[axis] = 1;
  System system = started(MPI_COMM_SELF, domain, [&](double x, double y, double z) {
    const Gas& gas = std::array{x, y, z}[axis] < 0.5 ? left : right;
    return State{gas.density, gas.pressure / (0.4 * gas.density), {}};
  });
  constexpr double end = 0.2;
  run_to(system, end);
  const Riemann exact(left, right);
  Error error{};
  const double* velocity = system.data(along(Field::xvel0, static_cast<int>(axis)));
  for_own(system, centred, [&](int i, int j, int k, std::ptrdiff_t c) {
    const double lower = static_cast<double>(std::array{i, j, k}[axis]) / n;
    const Gas gas = exact.at((lower + 0.5 / n - 0.5) / end);
    const double density = system.data(Field::density0)[c];
    error.density += std::abs(density - gas.density) / (4 * n);
    error.velocity += std::abs(velocity[c] - exact.at((lower - 0.5) / end).velocity) / (4 * n);
    error.pressure += std::abs(0.4 * density * system.data(Field::energy0)[c] - gas.pressure) / (4 * n);
  });
  return error;
}

TEST(Sod, the_exact_solution_is_approached_along_every_axis) {
  const Error coarse = error_of_sod(64, 0), fine = error_of_sod(128, 0);
  EXPECT_LT(fine.density, 0.0045);
  EXPECT_LT(fine.velocity, 0.012);
  EXPECT_LT(fine.pressure, 0.004);
  EXPECT_LT(fine.density, 0.6 * coarse.density);
  EXPECT_LT(fine.velocity, 0.6 * coarse.velocity);
  EXPECT_LT(fine.pressure, 0.6 * coarse.pressure);
  for (const std::size_t axis : {1U, 2U}) {
    const Error turned = error_of_sod(64, axis);
    EXPECT_NEAR(turned.density, coarse.density, 1e-13) << axis;
    EXPECT_NEAR(turned.velocity, coarse.velocity, 1e-13) << axis;
    EXPECT_NEAR(turned.pressure, coarse.pressure, 1e-13) << axis;
  }
}

constexpr std::array<Field, 5> state = {Field::density0, Field::energy0, Field::xvel0, Field::yvel0, Field::zvel0};

TEST(Symmetry, what_is_mirrored_stays_so_bit_for_bit) {
  const Domain domain = domain_of({12, 15, 10});
  System system = started(MPI_COMM_SELF, domain, boxes);
  for (int s = 0; s < 8; ++s) (void)step(system, s, 1);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    System mirrored = started(MPI_COMM_SELF, domain, [&](double x, double y, double z) {
      std::array<double, 3> at = {x, y, z};
      at[axis] = 10 - at[axis];
      return boxes(at[0], at[1], at[2]);
    });
    for (int s = 0; s < 8; ++s) (void)step(mirrored, s, 1);
    for (const Field field : state) {
      const int last = values_of(domain.cells, stagger_of(field))[axis] - 1;
      const double sign = odd_axis_of(field) == static_cast<int>(axis) ? -1 : 1;
      for_own(system, stagger_of(field), [&](int i, int j, int k, std::ptrdiff_t c) {
        Triple image = {i, j, k};
        image[axis] = last - image[axis];
        ASSERT_EQ(sign * mirrored.data(field)[system.layout().at(image[0], image[1], image[2])], system.data(field)[c])
            << name_of(field) << " " << i << " " << j << " " << k << " mirrored along " << axis;
      });
    }
  }
}

TEST(Symmetry, with_x_and_z_exchanged_and_the_sweeps_turned_round_the_bits_are_the_same) {
  System system = started(MPI_COMM_SELF, domain_of({12, 15, 10}), boxes);
  System turned =
      started(MPI_COMM_SELF, domain_of({10, 15, 12}), [](double x, double y, double z) { return boxes(z, y, x); });
  for (int s = 0; s < 8; ++s) EXPECT_EQ(step(system, s, 1), step(turned, s + 1, 1));
  for (const Field field : state) {
    const Field other = field == Field::xvel0 ? Field::zvel0 : field == Field::zvel0 ? Field::xvel0 : field;
    for_own(system, stagger_of(field), [&](int i, int j, int k, std::ptrdiff_t c) {
      ASSERT_EQ(turned.data(other)[turned.layout().at(k, j, i)], system.data(field)[c]) << name_of(field);
    });
  }
}

TEST(Walls, nothing_goes_through_them) {
  const Domain domain = domain_of({12, 15, 10});
  System system = started(MPI_COMM_WORLD, domain, boxes);
  for (int s = 0; s < 20; ++s) (void)step(system, s, 1);
  double fastest = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Field field = along(Field::xvel0, static_cast<int>(axis));
    for_own(system, nodal, [&](int i, int j, int k, std::ptrdiff_t c) {
      const int at = std::array{i, j, k}[axis];
      if (at == 0 || at == domain.cells[axis]) {
        ASSERT_EQ(system.data(field)[c], 0) << name_of(field);
      }
      fastest = std::max(fastest, std::abs(system.data(field)[c]));
    });
  }
  MPI_Allreduce(MPI_IN_PLACE, &fastest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_GT(fastest, 0.1);
}

TEST(Damage, a_state_that_is_not_finite_is_refused_on_every_rank) {
  for (const double wrong : {std::nan(""), -1.0, HUGE_VAL}) {
    System system = started(MPI_COMM_WORLD, domain_of({8, 8, 8}), [&](double x, double y, double z) {
      return State{1, x < 2 && y < 2 && z < 2 ? wrong : 1, {}};
    });
    EXPECT_THROW((void)step(system, 0, 1), std::runtime_error) << wrong;
  }
}

}  // namespace
}  // namespace clover3d
