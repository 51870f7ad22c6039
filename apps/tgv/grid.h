// Where things are: the periodic cube, its blocks over ranks, and a block with its halo in memory.
#pragma once

#include <array>
#include <cstddef>

#include "../blocks.h"

namespace tgv {

/// One value per axis: x, y, z. In memory x is the fastest index.
using Triple = program::Index<3>;
using Block = program::Block<3>;
inline constexpr int x_axis = 0;
inline constexpr int y_axis = 1;
inline constexpr int z_axis = 2;

/// Layers around a block: what the fourth-order stencil reaches.
inline constexpr int halo = 2;

/// Blocks along each axis with the smallest halo. Throws std::invalid_argument if some block would be thinner than its
/// halo however the cube is cut.
Triple choose_ranks(int size, int n);

/// The block of `rank` in the cube of n^3 points, whose ends meet.
Block block_of(int rank, Triple ranks, int n);

/// A block with its halo in memory.
struct Layout {
  explicit Layout(Triple inside);
  /// Position of the point (i, j, k) of the block; negative indices and those past the end lie in the halo.
  [[nodiscard]] std::ptrdiff_t at(int i, int j, int k) const {
    return (i + halo) + (j + halo) * stride[y_axis] + (k + halo) * stride[z_axis];
  }
  [[nodiscard]] Triple size_with_halo() const { return {size[0] + 2 * halo, size[1] + 2 * halo, size[2] + 2 * halo}; }
  Triple size;  ///< without the halo
  std::array<std::ptrdiff_t, 3> stride;
  std::ptrdiff_t points;  ///< with the halo
};

}  // namespace tgv
