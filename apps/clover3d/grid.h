// Where things are: the blocks of cells over ranks, what of a staggered grid belongs to a block, and its memory.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>

#include "../blocks.h"

namespace clover3d {

/// One value per axis: x, y, z. In memory x is the fastest index.
using Triple = program::Index<3>;
using Block = program::Block<3>;
inline constexpr int x_axis = 0;
inline constexpr int y_axis = 1;
inline constexpr int z_axis = 2;

/// Layers around what a block owns: what the limited fluxes reach.
inline constexpr int halo = 2;

/// The box in cells of one size, with its length along each axis.
struct Domain {
  Triple cells{};
  std::array<double, 3> length{};
};

/// Where on a cell values lie, per axis: 0 at its centre, 1 at its lower vertex.
using Stagger = Triple;
inline constexpr Stagger centred{0, 0, 0};
inline constexpr Stagger nodal{1, 1, 1};

/// This rank's block. `ranks`: blocks along each axis; {} chooses. Throws std::invalid_argument if some block would be
/// thinner than its halo.
Block own_block(MPI_Comm comm, const Triple& cells, const Triple& ranks);

/// The values of one field in the whole box: a vertex more than cells where they lie on vertices.
Triple values_of(const Triple& cells, const Stagger& stagger);

/// A block in memory. All fields have the same strides, so that one position serves for a cell and its lower vertices.
/// A vertex belongs to the block of the cell above it, and those at the end of the box to the last block.
struct Layout {
  explicit Layout(const Block& block);
  /// Position of (i, j, k) of the block; negative indices and those from owned() on lie in the halo.
  [[nodiscard]] std::ptrdiff_t at(int i, int j, int k) const {
    return (i + halo) + (j + halo) * stride[y_axis] + (k + halo) * stride[z_axis];
  }
  /// The values that this rank owns of a field: those from 0 up to these.
  [[nodiscard]] Triple owned(const Stagger& stagger) const;
  Triple cells;
  Triple last;  ///< 1 where the block is the last one along an axis
  std::array<std::ptrdiff_t, 3> stride{};
  std::size_t points;  ///< with the halo
};

}  // namespace clover3d
