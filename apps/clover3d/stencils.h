// What the loops over a block are made of.
#pragma once

#include "grid.h"

namespace clover3d {

/// Of a value, or of the cell whose lower vertices it lies on; see Layout.
using Cell = std::ptrdiff_t;

/// Calls `body` with (i, j, k) and its position for all of lower <= (i, j, k) < upper. It must not matter in which
/// order.
template <class Body>
void for_box(const Layout& layout, const Triple& lower, const Triple& upper, const Body& body) {
  for (int k = lower[z_axis]; k < upper[z_axis]; ++k) {
    for (int j = lower[y_axis]; j < upper[y_axis]; ++j) {
      const Cell row = layout.at(0, j, k);
#pragma omp simd
      for (int i = lower[x_axis]; i < upper[x_axis]; ++i) body(i, j, k, row + i);
    }
  }
}

template <class Body>
void for_cells(const Layout& layout, const Body& body) {
  for_box(layout, {0, 0, 0}, layout.cells, body);
}

/// The sum at the four corners of a square that the steps `a` and `b` span. Opposite corners are added first: however
/// the square is mirrored or turned, the result has the same bits.
template <class At>
double sum_of_square(const At& at, Cell c, Cell a, Cell b) {
  return (at(c) + at(c + a + b)) + (at(c + a) + at(c + b));
}

/// The same for a cube. A mirrored cube, and one with x and z exchanged, gives the same bits.
template <class At>
double sum_of_cube(const At& at, Cell c, Cell x, Cell y, Cell z) {
  const double along_x = at(c + x) + at(c + y + z);
  const double along_z = at(c + z) + at(c + x + y);
  return ((at(c) + at(c + x + y + z)) + (at(c + y) + at(c + x + z))) + (along_x + along_z);
}

/// Of three numbers for x, y and z: the same bits with x and z exchanged.
inline double sum_of_axes(double x, double y, double z) { return (x + z) + y; }

}  // namespace clover3d
