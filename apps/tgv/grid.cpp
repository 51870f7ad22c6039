#include "grid.h"

#include <stdexcept>
#include <string>

namespace tgv {

Triple choose_ranks(int size, int n) {
  const Triple best =
      program::choose_ranks(size, Triple{n, n, n}, halo, true);  // a halo comes from the next block alone
  if (best == Triple{}) {
    throw std::invalid_argument("a cube of " + std::to_string(n) + "^3 points cannot be cut into " +
                                std::to_string(size) + " blocks of at least " + std::to_string(halo) +
                                " points along each axis: use fewer ranks, another number of ranks or a larger --n");
  }
  return best;
}

Block block_of(int rank, Triple ranks, int n) { return program::block_of(rank, ranks, {n, n, n}, true); }

Layout::Layout(Triple inside) : size(inside) {
  stride[x_axis] = 1;
  stride[y_axis] = size[x_axis] + 2 * halo;
  stride[z_axis] = stride[y_axis] * (size[y_axis] + 2 * halo);
  points = stride[z_axis] * (size[z_axis] + 2 * halo);
}

}  // namespace tgv
