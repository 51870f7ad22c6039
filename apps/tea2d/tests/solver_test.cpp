// The numbers, on any number of ranks: conservation, symmetry, an exact solution, agreement of the methods; and each
// rank compares its block, bit for bit, with the whole rectangle computed alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "../../blinkers.h"
#include "problem.h"
#include "solvers.h"

namespace tea2d {
namespace {

constexpr std::array<Form, 6> forms = {{{Method::cg, false},
                                        {Method::chebyshev, false},
                                        {Method::ppcg, false},
                                        {Method::cg, true},
                                        {Method::chebyshev, true},
                                        {Method::ppcg, true}}};
std::string name_of(const Form& form) { return tea2d::name_of(form.method) + (form.stored ? ", stored" : ""); }
constexpr std::array<Pair, 7> cuts = {{{1, 1}, {1, 2}, {2, 1}, {1, 3}, {3, 1}, {2, 2}, {4, 1}}};

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

using Start = std::function<Material(double x, double y)>;

System started(MPI_Comm comm, const Domain& domain, double dt, const Form& form, const Start& start, Pair ranks = {}) {
  System system(comm, domain, dt, form, ranks);
  system.start(start);
  return system;
}

/// Of this rank's cells, with their indices in the rectangle.
template <class Visit>
void for_own_cells(System& system, const Visit& visit) {
  const Block& b = system.block();
  for (int j = b.lower[y_axis]; j < b.upper[y_axis]; ++j) {
    for (int i = b.lower[x_axis]; i < b.upper[x_axis]; ++i) {
      visit(i, j, system.layout().at(i - b.lower[x_axis], j - b.lower[y_axis]));
    }
  }
}

TEST(Conservation, the_total_energy_stays_to_rounding) {
  for (const Form& form : forms) {
    System system = started(MPI_COMM_WORLD, domain_of({48, 36}), 0.1, form, hot_spot_in_a_channel);
    (void)system.load();
    const double before = system.total();
    for (int s = 0; s < 10; ++s) (void)step(system, {1e-8, 10000});
    EXPECT_NEAR(system.total() / before, 1, 1e-13) << name_of(form);
  }
}

TEST(Conservation, what_is_even_stays_as_it_is_without_an_iteration) {
  for (const Form& form : forms) {
    // Powers of two: the row sums of A are exactly 1.
    System system =
        started(MPI_COMM_WORLD, {{16, 16}, {16, 16}}, 0.5, form, [](double, double) { return Material{2, 3}; });
    EXPECT_EQ(step(system, {}).iterations, 0) << name_of(form);
    for_own_cells(system, [&](int, int, std::ptrdiff_t c) { ASSERT_EQ(system.data(Field::energy)[c], 3); });
  }
}

// cos(m pi x / Lx) cos(n pi y / Ly) at the centres of the cells is an eigenvector of the matrix, also where it is not a
// good one of the differential operator: one step divides it by an eigenvalue that is known.
TEST(Cosine, decays_by_the_factor_of_the_discrete_operator) {
  const Domain domain{{40, 24}, {2, 3}};
  constexpr double density = 0.5, dt = 0.01;
  const auto mode = [&](double x, double y) {
    return std::cos(3 * std::numbers::pi * x / domain.length[0]) *
           std::cos(2 * std::numbers::pi * y / domain.length[1]);
  };
  const auto second_difference = [&](std::size_t axis, int m) {
    const double h = domain.length[axis] / domain.cells[axis];
    return std::pow(2 / h * std::sin(m * std::numbers::pi / (2 * domain.cells[axis])), 2);
  };
  const double lambda = (second_difference(0, 3) + second_difference(1, 2)) / density;
  for (const Form& form : forms) {
    System system = started(MPI_COMM_WORLD, domain, dt, form,
                            [&](double x, double y) { return Material{density, 5 + mode(x, y)}; });
    for (int s = 0; s < 4; ++s) (void)step(system, {1e-13, 10000});
    const double factor = std::pow(1 + dt * lambda, -4);
    for_own_cells(system, [&](int i, int j, std::ptrdiff_t c) {
      const double x = (i + 0.5) * domain.length[0] / domain.cells[0];
      const double y = (j + 0.5) * domain.length[1] / domain.cells[1];
      ASSERT_NEAR(system.data(Field::energy)[c], 5 + factor * mode(x, y), 1e-11) << name_of(form) << i << " " << j;
    });
  }
}

/// Error at t = 0.1 against the solution of the differential equation.
double error_of(int n) {
  const double dt = 1.6 / (n * n);
  const Domain domain{{n, n}, {1, 1}};
  const auto mode = [](double x, double y) { return std::cos(std::numbers::pi * x) * std::cos(std::numbers::pi * y); };
  System system =
      started(MPI_COMM_SELF, domain, dt, {Method::cg}, [&](double x, double y) { return Material{1, mode(x, y)}; });
  for (int s = 0; s < n * n / 16; ++s) (void)step(system, {1e-12, 10000});
  const double factor = std::exp(-2 * std::numbers::pi * std::numbers::pi * 0.1);
  double error = 0;
  for_own_cells(system, [&](int i, int j, std::ptrdiff_t c) {
    error = std::max(error, std::abs(system.data(Field::energy)[c] - factor * mode((i + 0.5) / n, (j + 0.5) / n)));
  });
  return error;
}

TEST(Cosine, converges_with_second_order_in_space_and_first_in_time) {
  const double order = std::log2(error_of(16) / error_of(32));  // the step shrinks with the square of the spacing
  EXPECT_NEAR(order, 2, 0.1);
}

TEST(Symmetry, what_is_mirrored_and_turned_stays_so_bit_for_bit) {
  const auto square = [](double x, double y) {
    const double out = std::max(std::abs(x - 5), std::abs(y - 5));
    return out < 1 ? Material{0.3, 20} : out < 3 ? Material{4, 0.1} : Material{70, 0.01};
  };
  constexpr int n = 30;
  for (const Form& form : forms) {
    System system = started(MPI_COMM_SELF, domain_of({n, n}), 0.04, form, square);
    for (int s = 0; s < 3; ++s) (void)step(system, {});
    const double* energy = system.data(Field::energy);
    for_own_cells(system, [&](int i, int j, std::ptrdiff_t c) {
      ASSERT_EQ(energy[c], energy[system.layout().at(n - 1 - i, j)]) << name_of(form);
      ASSERT_EQ(energy[c], energy[system.layout().at(i, n - 1 - j)]) << name_of(form);
      ASSERT_EQ(energy[c], energy[system.layout().at(j, i)]) << name_of(form);
    });
  }
}

TEST(Methods, agree_to_the_residual_that_was_asked_for) {
  const auto run = [](const Form& form) {
    System system = started(MPI_COMM_WORLD, domain_of({60, 40}), 0.04, form, hot_spot_in_a_channel);
    for (int s = 0; s < 5; ++s) EXPECT_LE(step(system, {1e-12, 10000}).residual, 1e-12) << name_of(form);
    return system;
  };
  System cg = run({Method::cg});
  for (const Form& form : forms) {
    System other = run(form);
    for_own_cells(cg, [&](int i, int j, std::ptrdiff_t c) {
      ASSERT_NEAR(other.data(Field::u)[c], cg.data(Field::u)[c], 1e-10) << name_of(form) << " " << i << " " << j;
    });
  }
}

TEST(Methods, too_few_iterations_are_refused_on_every_rank) {
  for (const Form& form : forms) {
    System system = started(MPI_COMM_WORLD, domain_of({32, 32}), 0.04, form, hot_spot_in_a_channel);
    try {
      (void)step(system, {1e-10, 12});
      ADD_FAILURE() << name_of(form);
    } catch (const std::runtime_error& e) {
      const std::string said = e.what();
      EXPECT_NE(said.find("the solver " + name_of(form.method) + " has a residual of "), std::string::npos) << said;
      EXPECT_NE(said.find(" after 12 iterations instead of 1e-10: give a larger --max-iterations"), std::string::npos);
    }
  }
}

TEST(Stored, energy_and_what_is_told_have_the_same_bits_as_in_the_other_form) {
  for (const Form& form : forms) {
    if (!form.stored) continue;
    System usual = started(MPI_COMM_WORLD, domain_of({29, 22}), 0.04, {form.method}, hot_spot_in_a_channel);
    System stored = started(MPI_COMM_WORLD, domain_of({29, 22}), 0.04, form, hot_spot_in_a_channel);
    for (int s = 0; s < 4; ++s) {
      const Solved expected = step(usual, {});
      const Solved solved = step(stored, {});
      EXPECT_EQ(solved.iterations, expected.iterations) << name_of(form);
      EXPECT_EQ(solved.residual, expected.residual) << name_of(form);
      EXPECT_EQ(stored.total(), usual.total()) << name_of(form);
    }
    for_own_cells(usual, [&](int, int, std::ptrdiff_t c) {
      ASSERT_EQ(stored.data(Field::energy)[c], usual.data(Field::energy)[c]) << name_of(form);
    });
  }
}

// A run can go on before any loop with the insides of the arrays alone, and the mesh.
TEST(Stored, no_loop_needs_a_halo) {
  for (const Form& form : forms) {
    if (!form.stored) continue;
    System clean = started(MPI_COMM_WORLD, domain_of({36, 30}), 0.04, form, hot_spot_in_a_channel);
    System spoilt = started(MPI_COMM_WORLD, domain_of({36, 30}), 0.04, form, hot_spot_in_a_channel);
    const auto spoil_halo = [&](Field field) {
      if (field >= Field::volume && field <= Field::y_span) return;
      std::vector<double> inside;
      for_own_cells(spoilt, [&](int, int, std::ptrdiff_t c) { inside.push_back(spoilt.data(field)[c]); });
      // As in a program that begins: zeros, which are the coefficients of the rectangle's edge.
      std::fill_n(spoilt.data(field), spoilt.layout().points, 0.0);
      auto value = inside.begin();
      for_own_cells(spoilt, [&](int, int, std::ptrdiff_t c) { spoilt.data(field)[c] = *value++; });
    };
    spoilt.watch([&](Loop) {
      for (const Field field : fields_of(form)) spoil_halo(field);
      return true;
    });
    for (int s = 0; s < 2; ++s) EXPECT_EQ(step(clean, {}).residual, step(spoilt, {}).residual) << name_of(form);
    for_own_cells(clean, [&](int, int, std::ptrdiff_t c) {
      ASSERT_EQ(clean.data(Field::energy)[c], spoilt.data(Field::energy)[c]) << name_of(form);
    });
  }
}

TEST(Ranks, every_array_has_the_same_bits_however_the_rectangle_is_cut) {
  const Domain domain = domain_of({29, 22});
  for (const Form& form : forms) {
    System whole = started(MPI_COMM_SELF, domain, 0.04, form, hot_spot_in_a_channel);
    std::vector<Solved> alone;
    for (int s = 0; s < 4; ++s) alone.push_back(step(whole, {}));
    for (const Pair& ranks : cuts) {
      if (ranks[0] * ranks[1] != world_size()) continue;
      System part = started(MPI_COMM_WORLD, domain, 0.04, form, hot_spot_in_a_channel, ranks);
      for (const Solved& expected : alone) {
        const Solved solved = step(part, {});
        EXPECT_EQ(solved.iterations, expected.iterations);
        EXPECT_EQ(solved.residual, expected.residual);
      }
      EXPECT_EQ(part.total(), whole.total());
      for (const Field field : fields_of(form)) {
        for_own_cells(part, [&](int i, int j, std::ptrdiff_t c) {
          ASSERT_EQ(std::memcmp(part.data(field) + c, whole.data(field) + whole.layout().at(i, j), sizeof(double)), 0)
              << name_of(form) << " " << name_of(field) << " " << i << " " << j;
        });
      }
    }
  }
}

class Blinkers : public program::Blinkers<System, Loop, Field> {
 public:
  explicit Blinkers(System& system)
      : program::Blinkers<System, Loop, Field>(
            system, loops_of(system.form()), fields_of(system.form()), [&system](Field field, const auto& visit) {
              for_own_cells(system, [&, data = system.data(field)](int, int, std::ptrdiff_t c) { visit(data[c]); });
            }) {}
};

// Nothing checks a declaration when a program runs: a wrong one is a wrong restart.
TEST(Loops, read_and_change_only_what_they_declare) {
  for (const Form& form : forms) {
    System clean = started(MPI_COMM_WORLD, domain_of({36, 36}), 0.04, form, hot_spot_in_a_channel);
    System blinkered = started(MPI_COMM_WORLD, domain_of({36, 36}), 0.04, form, hot_spot_in_a_channel);
    Blinkers blinkers(blinkered);
    for (int s = 0; s < 2; ++s) {
      EXPECT_EQ(step(clean, {}).residual, step(blinkered, {}).residual) << name_of(form);
      EXPECT_EQ(clean.total(), blinkered.total()) << name_of(form);
    }
    blinkers.take_off();
    EXPECT_TRUE(blinkers.all_were_run()) << name_of(form);
    for (const Field field : fields_of(form)) {
      for_own_cells(clean, [&](int, int, std::ptrdiff_t c) {
        ASSERT_EQ(clean.data(field)[c], blinkered.data(field)[c]) << name_of(form) << " " << name_of(field);
      });
    }
  }
}

// So a line needs no more of a step's beginning.
TEST(Loops, a_step_needs_what_is_constant_and_the_energy_alone) {
  for (const Form& form : forms) {
    System clean = started(MPI_COMM_WORLD, domain_of({36, 36}), 0.04, form, hot_spot_in_a_channel);
    System spoilt = started(MPI_COMM_WORLD, domain_of({36, 36}), 0.04, form, hot_spot_in_a_channel);
    for (int s = 0; s < 2; ++s) {
      for (const Field field : fields_of(form)) {
        if (is_constant(field) || field == Field::energy) continue;
        for_own_cells(spoilt, [&](int, int, std::ptrdiff_t c) { spoilt.data(field)[c] = std::nan(""); });
      }
      EXPECT_EQ(step(clean, {}).residual, step(spoilt, {}).residual) << name_of(form);
    }
    for_own_cells(clean, [&](int, int, std::ptrdiff_t c) {
      ASSERT_EQ(clean.data(Field::energy)[c], spoilt.data(Field::energy)[c]) << name_of(form);
    });
  }
}

}  // namespace
}  // namespace tea2d
