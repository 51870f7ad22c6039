// Where things are: the periodic cube, its blocks over ranks, and a block with its halo in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tgv {

/// One value per axis: x, y, z. In memory x is the fastest index.
using Triple = std::array<int, 3>;
inline constexpr int x_axis = 0;
inline constexpr int y_axis = 1;
inline constexpr int z_axis = 2;

/// Layers around a block: what the fourth-order stencil reaches.
inline constexpr int halo = 2;

/// The part [lower, upper) of the n^3 cube that one rank owns, among `ranks` blocks along each axis.
struct Block {
  int n = 0;
  Triple ranks{};
  Triple place{};  ///< of this block among `ranks`
  Triple lower{};
  Triple upper{};

  [[nodiscard]] Triple size() const;
  /// The rank next to this one, `step` (-1 or 1) blocks along `axis`, across the periodic boundary.
  [[nodiscard]] int neighbour(int axis, int step) const;
};

/// Blocks along each axis with the smallest halo; of equals, the one that cuts x least, to keep rows long.
/// Throws std::invalid_argument if some block would be thinner than its halo however it is cut.
Triple choose_ranks(int size, int n);

/// The block of `rank`; the sizes of two blocks differ by at most one along each axis.
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

/// As files and HDF5 tools order dimensions: z, y, x.
std::vector<std::int64_t> slowest_first(const Triple& t);

}  // namespace tgv
