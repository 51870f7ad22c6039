// The problem that is solved: rho c du/dt = div(kappa grad u) + f on the unit cube, without dimensions.
#pragma once

#include <array>
#include <functional>

namespace heat {

using Point = std::array<double, 3>;

/// The walls are insulated (kappa du/dn = 0) but for the floor z = 0, which loses heat to surroundings at
/// temperature 0: -kappa du/dn = cooling * u. The functions are called with points of the cube only.
struct Problem {
  int cells = 32;  ///< along each side of the cube
  double dt = 2e-3;
  double theta = 0.5;       ///< weight of the new time: 0.5 Crank-Nicolson, 1 backward Euler
  double tolerance = 1e-9;  ///< of the norm of a step's residual, against that of its right-hand side
  double cooling = 0;
  std::function<double(const Point&)> conductivity;         ///< kappa > 0
  std::function<double(const Point&)> capacity;             ///< rho c > 0
  std::function<double(const Point&, double time)> source;  ///< f; empty: none
  std::function<double(const Point&)> initial_temperature;
};

/// A body whose conductivity varies a thousandfold, heated by a spot that goes round, cooled from below.
Problem moving_spot(int cells, double dt);

}  // namespace heat
