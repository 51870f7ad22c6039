// Three ways to solve the system of a step: conjugate gradients, Chebyshev iterations, and conjugate gradients whose
// preconditioner is a fixed number of Chebyshev iterations. (Saad, Iterative Methods for Sparse Linear Systems,
// chapters 6, 9 and 12.)
#pragma once

#include <cstdint>

#include "system.h"

namespace tea2d {

struct Goal {
  double eps = 1e-10;  ///< |r| / |u0|
  std::int64_t max_iterations = 10000;
};

struct Solved {
  std::int64_t iterations = 0;  ///< how often A was applied, in the preconditioner too
  double residual = 0;          ///< |r| / |u0|, as the iterations carry r along
};

/// One step of system.method(): from the energy of its beginning to that of its end. Collective. Throws
/// std::runtime_error on every rank where the goal is not reached.
Solved step(System& system, const Goal& goal);

}  // namespace tea2d
