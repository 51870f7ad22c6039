// The numbers: order of accuracy in space and time, conservation, the known start of the vortex. One rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "solver.h"

namespace tgv {
namespace {

using Point = std::array<double, 3>;
using Vector5 = std::array<double, 5>;

Flow flow_of(int n, double reynolds, double mach = 0.5) {
  Flow flow;
  flow.n = n;
  flow.reynolds = reynolds;
  flow.mach = mach;
  return flow;
}

/// log2 of the ratio of each error to the next: the order, when the spacing halves.
std::vector<double> slopes(const std::vector<double>& errors) {
  std::vector<double> out;
  for (std::size_t i = 1; i < errors.size(); ++i) out.push_back(std::log2(errors[i - 1] / errors[i]));
  return out;
}

/// Smooth, periodic, with every derivative in every equation.
Primitive made_up(double x, double y, double z) {
  return {1 + 0.2 * std::sin(x + y) * std::cos(z),
          {0.5 * std::sin(x) * std::cos(y + z), 0.4 * std::cos(x - z) + 0.2 * std::sin(y),
           0.3 * std::sin(x + y + z) - 0.1 * std::cos(z)},
          2.9 + 0.3 * std::cos(x) * std::sin(y - z)};
}

/// d/d(axis) of a vector function by eighth-order differences: error near 1e-12, far below the scheme's.
template <class Function>
auto derivative(const Function& f, Point p, std::size_t axis) {
  constexpr std::array<double, 4> weights = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
  constexpr double h = 0.03;
  auto sum = f(p);
  sum.fill(0);
  for (std::size_t m = 0; m < weights.size(); ++m) {
    Point ahead = p, behind = p;
    ahead[axis] += static_cast<double>(m + 1) * h;
    behind[axis] -= static_cast<double>(m + 1) * h;
    const auto a = f(ahead), b = f(behind);
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weights[m] * (a[c] - b[c]) / h;
  }
  return sum;
}

/// The flux of the five conservative fields along `axis`, as written in any textbook.
Vector5 textbook_flux(const Flow& flow, Point p, std::size_t axis) {
  const auto at = [](Point q) { return made_up(q[0], q[1], q[2]); };
  const auto velocity = [&](Point q) { return at(q).velocity; };
  const auto temperature = [&](Point q) { return std::array<double, 1>{at(q).pressure / at(q).density}; };
  const Primitive s = at(p);
  const auto& u = s.velocity;
  const std::array<Point, 3> gradient = {derivative(velocity, p, 0), derivative(velocity, p, 1),
                                         derivative(velocity, p, 2)};  // [axis][component]
  const double theta = gradient[0][0] + gradient[1][1] + gradient[2][2];
  const double total = s.pressure / (flow.gamma - 1) + 0.5 * s.density * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
  Vector5 flux{};
  flux[0] = s.density * u[axis];
  flux[4] = (total + s.pressure) * u[axis] - flow.conductivity() * derivative(temperature, p, axis)[0];
  for (std::size_t c = 0; c < 3; ++c) {
    const double same = c == axis ? 1 : 0;
    const double stress = flow.viscosity() * (gradient[axis][c] + gradient[c][axis] - 2.0 / 3 * theta * same);
    flux[1 + c] = s.density * u[c] * u[axis] + same * s.pressure - stress;
    flux[4] -= u[c] * stress;
  }
  return flux;
}

Vector5 textbook_rate(const Flow& flow, Point p) {
  Vector5 rate{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto d = derivative([&](Point q) { return textbook_flux(flow, q, axis); }, p, axis);
    for (std::size_t c = 0; c < 5; ++c) rate[c] -= d[c];
  }
  return rate;
}

/// Largest error of each field's rate, at some of the points that all grids share.
Vector5 rate_errors(const Flow& flow) {
  Solver solver(MPI_COMM_SELF, flow, 0.5);
  solver.start(made_up);
  const Fields rates = solver.rates();
  const int n = flow.n;
  const int coarse = n / 4;
  Vector5 worst{};
  for (int k = 0; k < n; k += coarse) {
    for (int j = 0; j < n; j += coarse) {
      for (int i = 0; i < n; i += coarse) {
        const double h = flow.spacing();
        const Vector5 exact = textbook_rate(flow, {i * h, j * h, k * h});
        for (std::size_t c = 0; c < 5; ++c) {
          const double got = rates[c][static_cast<std::size_t>((k * n + j) * n + i)];
          worst[c] = std::max(worst[c], std::abs(got - exact[c]));
        }
      }
    }
  }
  return worst;
}

TEST(Solver, right_hand_side_is_fourth_order) {
  // Reynolds 5: the viscous terms are as large as the others, so that an error in them shows.
  std::array<std::vector<double>, 5> errors;
  for (int n : {16, 32, 64}) {
    const Vector5 e = rate_errors(flow_of(n, 5));
    for (std::size_t c = 0; c < 5; ++c) errors[c].push_back(e[c]);
  }
  for (std::size_t c = 0; c < 5; ++c) {
    for (double s : slopes(errors[c])) EXPECT_NEAR(s, 4, 0.25) << "field " << c << ", error " << errors[c].back();
    EXPECT_LT(errors[c].back(), 2e-4) << "field " << c;
  }
}

/// Without viscosity a density wave in uniform flow moves unchanged: an exact solution in space and time.
double wave_error(int n) {
  const Flow flow = flow_of(n, 1e300);
  const Point velocity = {0.5, -0.2, -0.3};
  const auto density = [](double x, double y, double z) { return 1 + 0.2 * std::sin(x + y - z); };
  Solver solver(MPI_COMM_SELF, flow, 0.6);
  solver.start([&](double x, double y, double z) { return Primitive{density(x, y, z), velocity, flow.pressure()}; });
  const int steps = n / 2;
  for (int s = 0; s < steps; ++s) solver.advance();
  const double t = steps * solver.dt();
  double worst = 0;
  for (int k = 0; k < n; ++k) {
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) {
        const double h = flow.spacing();
        const double exact = density(i * h - velocity[0] * t, j * h - velocity[1] * t, k * h - velocity[2] * t);
        const double got = solver.fields()[0][static_cast<std::size_t>(solver.layout().at(i, j, k))];
        worst = std::max(worst, std::abs(got - exact));
      }
    }
  }
  return worst;
}

TEST(Solver, a_density_wave_is_carried_with_fourth_order) {
  const std::vector<double> errors = {wave_error(12), wave_error(24), wave_error(48)};
  for (double s : slopes(errors)) EXPECT_NEAR(s, 4, 0.25);
  EXPECT_LT(errors.back(), 1e-5);
}

TEST(Solver, time_integration_is_fourth_order) {
  const Flow flow = flow_of(16, 100);
  std::vector<Fields> results;
  for (int halvings = 0; halvings < 4; ++halvings) {
    const int steps = 4 << halvings;
    Solver solver(MPI_COMM_SELF, flow, 4.0 / steps);
    solver.start(made_up);
    for (int s = 0; s < steps; ++s) solver.advance();
    solver.rates();  // fills the halos, so that whole arrays can be compared but for the edges of the halo
    results.push_back(solver.fields());
  }
  std::vector<double> differences;
  for (std::size_t r = 1; r < results.size(); ++r) {
    double worst = 0;
    for (std::size_t i = 0; i < results[r][energy_field].size(); ++i) {
      worst = std::max(worst, std::abs(results[r][energy_field][i] - results[r - 1][energy_field][i]));
    }
    differences.push_back(worst);
  }
  for (double s : slopes(differences)) EXPECT_NEAR(s, 4, 0.3);
}

TEST(Solver, mass_is_conserved_to_round_off) {
  Solver solver(MPI_COMM_SELF, flow_of(16, 1600, 0.1), 0.6);
  solver.start(made_up);
  const double before = solver.totals().mass;
  for (int s = 0; s < 100; ++s) solver.advance();
  EXPECT_NEAR(solver.totals().mass, before, 1e-14);
}

TEST(Solver, the_vortex_starts_with_the_energy_and_enstrophy_of_the_formula) {
  for (int n : {16, 64}) {
    const Flow flow = flow_of(n, 1600, 0.1);
    Solver solver(MPI_COMM_SELF, flow, 0.6);
    solver.start_taylor_green();
    const Totals t = solver.totals();
    EXPECT_NEAR(t.mass, 1, 1e-14);
    EXPECT_NEAR(t.kinetic_energy, 1.0 / 8, 1e-14);  // the density's variation with the pressure averages out
    // 3/8, less what the density's variation takes, as seen by the fourth-order derivative of sin and cos.
    const double h = flow.spacing();
    const double seen = (8 * std::sin(h) - std::sin(2 * h)) / (6 * h);
    const double analytic = 3.0 / 8 - 0.625 * flow.gamma * flow.mach * flow.mach / 16;
    EXPECT_NEAR(t.enstrophy, analytic * seen * seen, 1e-14);
    // Without compression -dE/dt is 2 mu enstrophy; at Mach 0.1 they differ in the third digit.
    EXPECT_NEAR(-t.kinetic_energy_rate, 2 * flow.viscosity() * 0.375, 2e-6);
  }
}

TEST(Solver, its_fields_are_all_of_its_state) {
  const Flow flow = flow_of(12, 1600, 0.1);
  Solver undisturbed(MPI_COMM_SELF, flow, 0.6);
  undisturbed.start_taylor_green();
  for (int s = 0; s < 5; ++s) undisturbed.advance();
  Solver resumed(MPI_COMM_SELF, flow, 0.6);
  // Only the inside is put back from a checkpoint, never a halo.
  const Layout& layout = resumed.layout();
  for (std::size_t c = 0; c < 5; ++c) {
    for (int k = 0; k < 12; ++k) {
      for (int j = 0; j < 12; ++j) {
        std::copy_n(undisturbed.fields()[c].data() + layout.at(0, j, k), 12,
                    resumed.fields()[c].data() + layout.at(0, j, k));
      }
    }
  }
  for (Solver* s : {&undisturbed, &resumed}) {
    for (int i = 0; i < 5; ++i) s->advance();
    s->totals();
  }
  for (std::size_t c = 0; c < 5; ++c) EXPECT_EQ(undisturbed.fields()[c], resumed.fields()[c]);
}

TEST(Solver, a_flow_that_blows_up_is_reported) {
  Solver solver(MPI_COMM_SELF, flow_of(8, 1600, 0.1), 20);
  solver.start(made_up);
  for (int s = 0; s < 50; ++s) solver.advance();
  EXPECT_THROW(solver.totals(), std::runtime_error);
}

}  // namespace
}  // namespace tgv
