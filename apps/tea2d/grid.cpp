#include "grid.h"

#include <stdexcept>
#include <string>

namespace tea2d {

Pair choose_ranks(int size, const Pair& cells) {
  const Pair best = program::choose_ranks(size, cells, 1);
  if (best == Pair{})
    throw std::invalid_argument(std::to_string(cells[x_axis]) + " x " + std::to_string(cells[y_axis]) +
                                " cells cannot be cut into " + std::to_string(size) +
                                " blocks: use fewer ranks, another number of ranks or more cells");
  return best;
}

}  // namespace tea2d
