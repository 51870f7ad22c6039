// What the tests of the solver share.
#pragma once

#include <functional>

#include "hydro.h"

namespace clover3d {

using Start = std::function<State(double x, double y, double z)>;

inline System started(MPI_Comm comm, const Domain& domain, const Start& start, const Triple& ranks = {}) {
  System system(comm, domain, ranks);
  system.start(start);
  return system;
}

/// Boxes of other gas, at rest: nothing is symmetric, and shocks run every way.
inline State boxes(double x, double y, double z) {
  if (x < 4 && y < 2 && z < 3) return {1, 2.5, {}};
  if (x > 5 && y > 3.1 && y < 7.2 && z > 6) return {2, 0.3, {}};
  return {0.2, 1, {}};
}

/// Calls `visit` with the indices in the whole box and the position of each value of a field that this rank owns.
template <class Visit>
void for_own(const System& system, const Stagger& stagger, const Visit& visit) {
  const Triple& lower = system.block().lower;
  const auto [nx, ny, nz] = system.layout().owned(stagger);
  for (int k = 0; k < nz; ++k) {
    for (int j = 0; j < ny; ++j) {
      for (int i = 0; i < nx; ++i) visit(lower[0] + i, lower[1] + j, lower[2] + k, system.layout().at(i, j, k));
    }
  }
}

}  // namespace clover3d
