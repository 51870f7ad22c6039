// Where things are: the rectangle of cells, its blocks over ranks, and a block with its halo in memory.
#pragma once

#include <cstddef>

#include "../blocks.h"

namespace tea2d {

/// One value per axis: x, y. In memory x is the fastest index.
using Pair = program::Index<2>;
using Block = program::Block<2>;
inline constexpr int x_axis = 0;
inline constexpr int y_axis = 1;

/// Layers around a block: what the five-point stencil reaches.
inline constexpr int halo = 1;

/// Blocks along each axis with the shortest cuts. Throws std::invalid_argument if some block would be empty however the
/// rectangle is cut.
Pair choose_ranks(int size, const Pair& cells);

/// A block with its halo in memory.
struct Layout {
  explicit Layout(const Pair& inside)
      : size(inside),
        stride(inside[x_axis] + 2 * halo),
        points(static_cast<std::size_t>(stride) * static_cast<std::size_t>(inside[y_axis] + 2 * halo)) {}
  /// Position of the cell (i, j) of the block; -1 and the size lie in the halo.
  [[nodiscard]] std::ptrdiff_t at(int i, int j) const { return (i + halo) + (j + halo) * stride; }
  [[nodiscard]] Pair size_with_halo() const { return {size[x_axis] + 2 * halo, size[y_axis] + 2 * halo}; }
  Pair size;  ///< without the halo
  std::ptrdiff_t stride;
  std::size_t points;  ///< with the halo
};

}  // namespace tea2d
