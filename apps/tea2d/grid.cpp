#include "grid.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace tea2d {

int Block::neighbour(int axis, int step) const {
  const auto a = static_cast<std::size_t>(axis);
  Pair to = place;
  to[a] += step;
  if (to[a] < 0 || to[a] >= ranks[a]) return -1;
  return to[y_axis] * ranks[x_axis] + to[x_axis];
}

Pair choose_ranks(int size, const Pair& cells) {
  Pair best{};
  auto shortest = std::numeric_limits<std::int64_t>::max();
  for (int x = 1; x <= size && x <= cells[x_axis]; ++x) {
    const int y = size / x;
    if (x * y != size || y > cells[y_axis]) continue;
    const std::int64_t cuts = std::int64_t{x - 1} * cells[y_axis] + std::int64_t{y - 1} * cells[x_axis];
    if (cuts < shortest) {
      shortest = cuts;
      best = {x, y};
    }
  }
  if (best[x_axis] == 0)
    throw std::invalid_argument(std::to_string(cells[x_axis]) + " x " + std::to_string(cells[y_axis]) +
                                " cells cannot be cut into " + std::to_string(size) +
                                " blocks: use fewer ranks, another number of ranks or more cells");
  return best;
}

Block block_of(int rank, const Pair& ranks, const Pair& cells) {
  Block b;
  b.cells = cells;
  b.ranks = ranks;
  b.place = {rank % ranks[x_axis], rank / ranks[x_axis]};
  for (std::size_t a = 0; a < 2; ++a) {
    b.lower[a] = static_cast<int>(std::int64_t{b.place[a]} * cells[a] / ranks[a]);
    b.upper[a] = static_cast<int>(std::int64_t{b.place[a] + 1} * cells[a] / ranks[a]);
  }
  return b;
}

}  // namespace tea2d
