// The differences that the right-hand side is made of, at one point.
#pragma once

#include <array>
#include <cstddef>

#include "grid.h"

namespace tgv {

/// d/dx = (8 (f1 - f-1) - (f2 - f-2)) / 12h, without the division
inline double slope(const double* f, std::ptrdiff_t s) { return 8 * (f[s] - f[-s]) - (f[2 * s] - f[-2 * s]); }
/// d2/dx2 = (16 (f1 + f-1) - (f2 + f-2) - 30 f0) / 12h^2, without the division
inline double bend(const double* f, std::ptrdiff_t s) {
  return 16 * (f[s] + f[-s]) - (f[2 * s] + f[-2 * s]) - 30 * f[0];
}

/// Fluxes of mass, momentum and energy, divided by the spacing, through the face behind a point along the axis
/// `normal`:
///   f(i+1/2) = 4/3 F(i, i+1) - 1/6 (F(i-1, i+1) + F(i, i+2)),  F(a, b) a product of means of a and b,
/// whose difference f(i+1/2) - f(i-1/2) is the fourth-order derivative.
template <int normal>
struct FaceFlux {
  double spacing;
  std::ptrdiff_t s;  ///< to the next point along the axis
  const double* density;
  std::array<const double*, 3> velocity;
  const double* pressure;
  const double* enthalpy;
  double near = 4.0 / 3 / spacing;
  double far = -1.0 / 6 / spacing;

  /// Calls `put` with 0 to 4 and the flux of that field.
  template <class Put>
  void operator()(std::ptrdiff_t i, const Put& put) const {
    const double* across = velocity[normal];
    const auto mass = [&](std::ptrdiff_t a, std::ptrdiff_t b, double weight) {
      return 0.25 * weight * ((density[a] + density[b]) * (across[a] + across[b]));
    };
    const double m0 = mass(i, i + s, near);
    const double m1 = mass(i - s, i + s, far);
    const double m2 = mass(i, i + 2 * s, far);
    const auto carry = [&](const double* f) {
      return 0.5 * (m0 * (f[i] + f[i + s]) + (m1 * (f[i - s] + f[i + s]) + m2 * (f[i] + f[i + 2 * s])));
    };
    const double push = 0.5 * (near * (pressure[i] + pressure[i + s]) +
                               far * ((pressure[i - s] + pressure[i + s]) + (pressure[i] + pressure[i + 2 * s])));
    const auto momentum = [&](int axis) {
      const double carried = carry(velocity[static_cast<std::size_t>(axis)]);
      return normal == axis ? carried + push : carried;
    };
    put(0, m0 + (m1 + m2));
    put(1, momentum(x_axis));
    put(2, momentum(y_axis));
    put(3, momentum(z_axis));
    put(4, carry(enthalpy));
  }
};

}  // namespace tgv
