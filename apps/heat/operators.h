// The static set-up: everything that is made once from the problem and the communicator, and never changes.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <vector>

#include "elements.h"
#include "multigrid.h"
#include "problem.h"

namespace heat {

/// One rank's part: plain data, no communicator. Another process that makes the same calls and hears the same answers
/// has the same bits. Owned vertices come first in every vector of vertices; those of other ranks that this one uses
/// follow.
struct Operators {
  /// levels[0].matrix is M + theta dt K, with M the mass and K the conduction and cooling.
  std::vector<Level> levels;
  CoarseFactor coarse;
  std::vector<double> conduction;                 ///< K, in the pattern of levels[0].matrix
  std::vector<double> heat_of;                    ///< heat of each owned vertex at temperature 1: the row sums of M
  std::vector<Global> vertices;                   ///< of the owned ones, their place on the grid
  std::vector<Point> points;                      ///< and in space
  std::vector<std::array<int, 8>> element_nodes;  ///< of this rank's elements
  std::vector<std::array<SourcePoint, source_points>> source_quadrature;  ///< in each of them

  std::size_t received = 0;  ///< bytes that came from MPI while this was made

  [[nodiscard]] int owned() const { return static_cast<int>(vertices.size()); }
  /// Memory that all this takes.
  [[nodiscard]] std::size_t bytes() const;
};

/// Collective, and returns without a message under way or a communicator left. Throws std::invalid_argument, on all
/// ranks, where there are more ranks than the cells can be shared among.
Operators make_operators(MPI_Comm comm, const Problem& problem);

}  // namespace heat
