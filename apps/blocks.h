// A grid of cells cut into blocks over the ranks, one block a rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace program {

/// One value per axis: x, y, z. In memory x is the fastest index.
template <std::size_t axes>
using Index = std::array<int, axes>;

/// The cells [lower, upper) that one rank owns, among `ranks` blocks along each axis.
template <std::size_t axes>
struct Block {
  Index<axes> cells{};  ///< of the whole grid
  Index<axes> ranks{};
  Index<axes> place{};  ///< of this block among `ranks`
  Index<axes> lower{};
  Index<axes> upper{};
  bool periodic = false;

  [[nodiscard]] Index<axes> size() const {
    Index<axes> out{};
    for (std::size_t a = 0; a < axes; ++a) out[a] = upper[a] - lower[a];
    return out;
  }
  /// The rank next to this one, `step` (-1 or 1) blocks along `axis`; -1: there the grid ends.
  [[nodiscard]] int neighbour(int axis, int step) const {
    const auto at = static_cast<std::size_t>(axis);
    Index<axes> to = place;
    to[at] += step;
    if (periodic) to[at] = (to[at] + ranks[at]) % ranks[at];
    if (to[at] < 0 || to[at] >= ranks[at]) return -1;
    int rank = 0;
    for (std::size_t a = axes; a-- > 0;) rank = rank * ranks[a] + to[a];
    return rank;
  }
};

/// The block of `rank`; the sizes of two blocks differ by at most one along each axis.
template <std::size_t axes>
Block<axes> block_of(int rank, const Index<axes>& ranks, const Index<axes>& cells, bool periodic = false) {
  Block<axes> b;
  b.cells = cells;
  b.ranks = ranks;
  b.periodic = periodic;
  for (std::size_t a = 0; a < axes; ++a) {
    b.place[a] = rank % ranks[a];
    rank /= ranks[a];
    b.lower[a] = static_cast<int>(std::int64_t{b.place[a]} * cells[a] / ranks[a]);
    b.upper[a] = static_cast<int>(std::int64_t{b.place[a] + 1} * cells[a] / ranks[a]);
  }
  return b;
}

/// Of all ways to cut a grid, the one with the smallest cuts; of equals, the one that cuts the first axes least, to
/// keep rows long.
template <std::size_t axes>
class BestCut {
 public:
  BestCut(const Index<axes>& cells, int thinnest, bool periodic)
      : cells_(cells), thinnest_(thinnest), periodic_(periodic) {}
  /// Looks at all numbers of blocks from `axis` on whose product is `size`.
  void look(int size, std::size_t axis = 0) {
    const int most = cells_[axis] / thinnest_;
    for (int n = axis + 1 < axes ? 1 : size; n <= size && n <= most; ++n) {
      if (size % n != 0) continue;
      ranks_[axis] = n;
      if (axis + 1 < axes)
        look(size / n, axis + 1);
      else
        compare();
    }
  }
  [[nodiscard]] const Index<axes>& best() const { return best_; }

 private:
  void compare() {
    std::int64_t cut = 0;
    for (std::size_t a = 0; a < axes; ++a) {
      std::int64_t faces = periodic_ && ranks_[a] > 1 ? ranks_[a] : ranks_[a] - 1;
      for (std::size_t b = 0; b < axes; ++b) faces *= b == a ? 1 : cells_[b];
      cut += faces;
    }
    if (cut >= smallest_) return;
    smallest_ = cut;
    best_ = ranks_;
  }

  Index<axes> cells_;
  int thinnest_;
  bool periodic_;
  Index<axes> ranks_{};
  Index<axes> best_{};
  std::int64_t smallest_ = std::numeric_limits<std::int64_t>::max();
};

/// Blocks along each axis, none thinner than `thinnest` cells; zeros: the grid cannot be cut so.
template <std::size_t axes>
Index<axes> choose_ranks(int size, const Index<axes>& cells, int thinnest, bool periodic = false) {
  BestCut<axes> cut(cells, thinnest, periodic);
  cut.look(size);
  return cut.best();
}

/// As files and HDF5 tools order dimensions: z, y, x.
template <std::size_t axes>
std::vector<std::int64_t> slowest_first(const Index<axes>& index) {
  return {index.rbegin(), index.rend()};
}

}  // namespace program
