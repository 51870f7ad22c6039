// Fills the halo of a block from its neighbours.
#pragma once

#include <mpi.h>

#include <array>
#include <span>
#include <vector>

#include "../mpi_check.h"
#include "grid.h"

namespace tgv {

using program::check_mpi;

/// The six faces of a block. Edges and corners are never exchanged: no stencil of this solver reads them.
class HaloExchange {
 public:
  /// `comm` stays the caller's and must outlive this; `max_fields` is the most that exchange() is given.
  HaloExchange(MPI_Comm comm, const Block& block, const Layout& layout, int max_fields);
  /// Collective. Each field has layout.points values. `axis`: only the faces across it; -1: all.
  void exchange(std::span<double* const> fields, int axis = -1);

 private:
  struct Box {
    Triple lower, size;
  };
  struct Face {
    int axis = 0;
    int side = 0;  ///< 0: low, 1: high
    int neighbour = 0;
    Box send{}, receive{};
    std::vector<double> out, in;
  };
  [[nodiscard]] Box layers(int axis, int lower) const;
  [[nodiscard]] static std::size_t count(const Box& box);
  void wrap(double* field, int axis) const;
  void pack(const double* field, const Box& box, double* buffer) const;
  void unpack(const double* buffer, const Box& box, double* field) const;

  MPI_Comm comm_;
  Layout layout_;
  std::vector<int> own_axes_;  ///< one block long: the neighbour is the block itself
  std::vector<Face> faces_;
  std::vector<MPI_Request> requests_;
};

}  // namespace tgv
