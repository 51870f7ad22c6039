#include "solvers.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>

#include "eigenvalues.h"

namespace tea2d {

namespace {

/// Iterations of conjugate gradients for one estimate of the eigenvalues.
constexpr std::int64_t estimate_iterations = 25;
/// Chebyshev iterations between two looks at the residual.
constexpr int check_every = 10;
constexpr int inner_iterations = 10;

/// The coefficients of the Chebyshev iteration on an interval: sd = scale r first, then sd = keep sd + scale r.
class Chebyshev {
 public:
  explicit Chebyshev(const Interval& interval)
      : theta_((interval.upper + interval.lower) / 2),
        delta_((interval.upper - interval.lower) / 2),
        sigma_(theta_ / delta_),
        rho_(1 / sigma_) {}
  struct Coefficients {
    double keep, scale;
  };
  [[nodiscard]] double first_scale() const { return 1 / theta_; }
  Coefficients next() {
    const double rho = 1 / (2 * sigma_ - rho_);
    const Coefficients out{rho * rho_, 2 * rho / delta_};
    rho_ = rho;
    return out;
  }

 private:
  double theta_, delta_, sigma_, rho_;
};

/// One solution; r belongs to u at the beginning and at the end of every method.
class Solution {
 public:
  Solution(System& system, const Goal& goal) : system_(system), goal_(goal) {
    u0_u0_ = system_.load();
    r_r_ = system_.residual();
  }

  void conjugate_gradients() { (void)conjugate_gradients(std::numeric_limits<std::int64_t>::max()); }
  void chebyshev();
  void preconditioned();
  [[nodiscard]] Solved solved() const { return {iterations_, u0_u0_ > 0 ? std::sqrt(r_r_ / u0_u0_) : 0}; }

 private:
  [[nodiscard]] bool reached() const { return solved().residual <= goal_.eps; }
  CgSteps conjugate_gradients(std::int64_t most);
  void chebyshev(const Interval& eigenvalues);
  double precondition(const Interval& eigenvalues);
  void count_iteration();

  System& system_;
  Goal goal_;
  double u0_u0_;
  double r_r_;
  std::int64_t iterations_ = 0;
};

void Solution::count_iteration() {
  if (iterations_++ < goal_.max_iterations) return;
  std::array<char, 192> text{};
  std::snprintf(text.data(), text.size(),
                "the solver %s has a residual of %.2g after %lld iterations instead of %.2g: give a larger "
                "--max-iterations, a larger --eps or a shorter --dt",
                name_of(system_.method()).c_str(), solved().residual, static_cast<long long>(goal_.max_iterations),
                goal_.eps);
  throw std::runtime_error(text.data());
}

CgSteps Solution::conjugate_gradients(std::int64_t most) {
  CgSteps steps;
  if (reached()) return steps;
  system_.start_direction();
  for (std::int64_t i = 0; i < most && !reached(); ++i) {
    count_iteration();
    const double alpha = r_r_ / system_.apply();
    const double before = r_r_;
    r_r_ = system_.advance(alpha);
    const double beta = r_r_ / before;
    system_.turn(beta);
    steps.alpha.push_back(alpha);
    steps.beta.push_back(beta);
  }
  return steps;
}

// An interval that misses an eigenvalue shows in a residual that grows: then the next estimate starts from there.
void Solution::chebyshev() {
  while (!reached()) {
    const CgSteps steps = conjugate_gradients(estimate_iterations);
    if (!reached()) chebyshev(estimated_eigenvalues(steps));
  }
}

void Solution::chebyshev(const Interval& eigenvalues) {
  Chebyshev iteration(eigenvalues);
  const double start = r_r_;
  system_.start_correction(iteration.first_scale());
  while (!reached() && r_r_ <= start) {
    for (int i = 0; i < check_every; ++i) {
      count_iteration();
      system_.correct();
      const auto [keep, scale] = iteration.next();
      system_.turn_correction(keep, scale);
    }
    r_r_ = system_.norm();
  }
}

/// z = M^-1 r; gives r . z.
double Solution::precondition(const Interval& eigenvalues) {
  Chebyshev iteration(eigenvalues);
  system_.start_inner(iteration.first_scale());
  for (int i = 0; i < inner_iterations; ++i) {
    count_iteration();
    system_.inner_residual();
    const auto [keep, scale] = iteration.next();
    system_.inner_turn(keep, scale);
  }
  return system_.preconditioned_product();
}

void Solution::preconditioned() {
  const CgSteps steps = conjugate_gradients(estimate_iterations);
  if (reached()) return;
  const Interval eigenvalues = estimated_eigenvalues(steps);
  double r_z = precondition(eigenvalues);
  system_.start_preconditioned();
  for (;;) {
    count_iteration();
    r_r_ = system_.advance(r_z / system_.apply());
    if (reached()) return;
    const double before = r_z;
    r_z = precondition(eigenvalues);
    system_.turn_preconditioned(r_z / before);
  }
}

}  // namespace

Solved step(System& system, const Goal& goal) {
  system.coefficients();
  Solution solution(system, goal);
  switch (system.method()) {
    case Method::cg:
      solution.conjugate_gradients();
      break;
    case Method::chebyshev:
      solution.chebyshev();
      break;
    case Method::ppcg:
      solution.preconditioned();
      break;
  }
  system.store();
  return solution.solved();
}

}  // namespace tea2d
