#include "eigenvalues.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace tea2d {

namespace {

constexpr double widen_lower = 0.95;
// More on this side: what is outside of it is amplified, while what is below the interval is damped more slowly.
constexpr double widen_upper = 1.1;

/// How many eigenvalues are below x.
std::size_t count_below(const std::vector<double>& diagonal, const std::vector<double>& beside, double x) {
  std::size_t count = 0;
  double pivot = 1;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    pivot = diagonal[i] - x - (i > 0 ? beside[i - 1] * beside[i - 1] / pivot : 0);
    if (pivot == 0) pivot = std::numeric_limits<double>::min();
    if (pivot < 0) ++count;
  }
  return count;
}

/// Where the count of those below first reaches `count`, inside of `range`.
double find(const std::vector<double>& diagonal, const std::vector<double>& beside, std::size_t count, Interval range) {
  for (;;) {
    const double middle = range.lower + (range.upper - range.lower) / 2;
    if (middle <= range.lower || middle >= range.upper) return middle;
    (count_below(diagonal, beside, middle) >= count ? range.upper : range.lower) = middle;
  }
}

}  // namespace

Interval extreme_eigenvalues(const std::vector<double>& diagonal, const std::vector<double>& beside) {
  Interval all{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};  // by Gershgorin's circles
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    const double radius = (i > 0 ? std::abs(beside[i - 1]) : 0) + (i < beside.size() ? std::abs(beside[i]) : 0);
    all.lower = std::min(all.lower, diagonal[i] - radius);
    all.upper = std::max(all.upper, diagonal[i] + radius);
  }
  return {find(diagonal, beside, 1, all), find(diagonal, beside, diagonal.size(), all)};
}

Interval estimated_eigenvalues(const CgSteps& steps) {
  std::vector<double> diagonal, beside;
  for (std::size_t i = 0; i < steps.alpha.size(); ++i) {
    diagonal.push_back(1 / steps.alpha[i] + (i > 0 ? steps.beta[i - 1] / steps.alpha[i - 1] : 0));
    if (i > 0) beside.push_back(std::sqrt(steps.beta[i - 1]) / steps.alpha[i - 1]);
  }
  const Interval inside = extreme_eigenvalues(diagonal, beside);
  return {widen_lower * inside.lower, widen_upper * inside.upper};
}

}  // namespace tea2d
