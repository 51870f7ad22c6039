// Where things are: the rectangle of cells, its blocks over ranks, and a block with its halo in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tea2d {

/// One value per axis: x, y. In memory x is the fastest index.
using Pair = std::array<int, 2>;
inline constexpr int x_axis = 0;
inline constexpr int y_axis = 1;

/// Layers around a block: what the five-point stencil reaches.
inline constexpr int halo = 1;

/// The cells [lower, upper) that one rank owns, among `ranks` blocks along each axis.
struct Block {
  Pair cells{};  ///< of the whole rectangle
  Pair ranks{};
  Pair place{};  ///< of this block among `ranks`
  Pair lower{};
  Pair upper{};

  [[nodiscard]] Pair size() const { return {upper[x_axis] - lower[x_axis], upper[y_axis] - lower[y_axis]}; }
  /// The rank next to this one, `step` (-1 or 1) blocks along `axis`; -1: there the rectangle ends.
  [[nodiscard]] int neighbour(int axis, int step) const;
};

/// Blocks along each axis with the shortest cuts; of equals, the one that cuts x least, to keep rows long.
/// Throws std::invalid_argument if some block would be empty however the rectangle is cut.
Pair choose_ranks(int size, const Pair& cells);

/// The block of `rank`; the sizes of two blocks differ by at most one along each axis.
Block block_of(int rank, const Pair& ranks, const Pair& cells);

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

/// As files and HDF5 tools order dimensions: y, x.
inline std::vector<std::int64_t> slowest_first(const Pair& p) { return {p[y_axis], p[x_axis]}; }

}  // namespace tea2d
