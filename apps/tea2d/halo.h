// Fills the halo of a block from its neighbours.
#pragma once

#include <mpi.h>

#include <vector>

#include "../mpi_check.h"
#include "grid.h"

namespace tea2d {

using program::check_mpi;

/// The four sides of a block, without corners: no stencil of this solver reads them. The halo outside of the rectangle
/// is left alone.
class HaloExchange {
 public:
  /// `comm` stays the caller's and must outlive this.
  HaloExchange(MPI_Comm comm, const Block& block, const Layout& layout);
  /// Collective. `field` has layout.points values.
  void exchange(double* field);

 private:
  struct Side {
    int neighbour;
    int tag_out, tag_in;
    std::ptrdiff_t send, receive;  ///< position of the first cell
    std::ptrdiff_t stride;         ///< from cell to cell
    std::vector<double> out, in;
  };

  MPI_Comm comm_;
  std::vector<Side> sides_;
  std::vector<MPI_Request> requests_;
};

}  // namespace tea2d
