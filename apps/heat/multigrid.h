// Algebraic multigrid by smoothed aggregation (Vanek, Mandel and Brezina, Computing 56, 179, 1996): its set-up.
#pragma once

#include <vector>

#include "sparse.h"

namespace heat {

/// One level of the hierarchy, the finest first.
struct Level {
  Matrix matrix;  ///< rows: the owned numbers; columns: numbers of `ghosts`
  Ghosts ghosts;
  std::vector<double> inverse_diagonal;
  double largest = 0;   ///< no eigenvalue of D^-1 A is above it
  Matrix prolongation;  ///< from the next level: rows here, columns numbers of that level's ghosts; none on the last

  [[nodiscard]] std::size_t bytes() const;
};

/// The matrix of the coarsest level as a Cholesky factor, whole on every rank.
struct CoarseFactor {
  std::vector<int> counts;  ///< rows of each rank
  std::vector<int> starts;
  std::vector<double> lower;  ///< row after row, each up to its diagonal

  [[nodiscard]] int rows() const { return starts.back() + counts.back(); }
  /// Replaces the right-hand side by the solution.
  void solve(std::vector<double>& x) const;
  [[nodiscard]] std::size_t bytes() const { return bytes_of(counts) + bytes_of(starts) + bytes_of(lower); }
};

/// Collective. Makes the levels of a symmetric positive definite matrix from its rows. `also_used`: numbers that are to
/// be ghosts of the finest level though no row of this rank has them.
std::vector<Level> make_levels(Wire& wire, Offsets offsets, Rows<1> rows, const std::vector<Global>& also_used,
                               CoarseFactor& factor);

}  // namespace heat
