#include "grid.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace tgv {

Triple Block::size() const { return {upper[0] - lower[0], upper[1] - lower[1], upper[2] - lower[2]}; }

int Block::neighbour(int axis, int step) const {
  const auto a = static_cast<std::size_t>(axis);
  Triple to = place;
  to[a] = (place[a] + step + ranks[a]) % ranks[a];
  return (to[z_axis] * ranks[y_axis] + to[y_axis]) * ranks[x_axis] + to[x_axis];
}

Triple choose_ranks(int size, int n) {
  const int most = n / halo;  // a halo comes from the next block alone
  Triple best{};
  double least = std::numeric_limits<double>::max();
  for (int x = 1; x <= most && x <= size; ++x) {
    if (size % x != 0) continue;
    for (int y = 1; y <= most && x * y <= size; ++y) {
      const int z = size / (x * y);
      if (x * y * z != size || z > most) continue;
      // Faces of a block in units of n^2, along the axes that are cut.
      const double faces = (x > 1 ? 1.0 / (y * z) : 0) + (y > 1 ? 1.0 / (x * z) : 0) + (z > 1 ? 1.0 / (x * y) : 0);
      if (faces < least - 1e-12) {
        least = faces;
        best = {x, y, z};
      }
    }
  }
  if (best[0] == 0) {
    throw std::invalid_argument("a cube of " + std::to_string(n) + "^3 points cannot be cut into " +
                                std::to_string(size) + " blocks of at least " + std::to_string(halo) +
                                " points along each axis: use fewer ranks, another number of ranks or a larger --n");
  }
  return best;
}

Block block_of(int rank, Triple ranks, int n) {
  Block b;
  b.n = n;
  b.ranks = ranks;
  b.place = {rank % ranks[0], rank / ranks[0] % ranks[1], rank / (ranks[0] * ranks[1])};
  for (std::size_t a = 0; a < 3; ++a) {
    b.lower[a] = b.place[a] * n / ranks[a];
    b.upper[a] = (b.place[a] + 1) * n / ranks[a];
  }
  return b;
}

Layout::Layout(Triple inside) : size(inside) {
  stride[x_axis] = 1;
  stride[y_axis] = size[x_axis] + 2 * halo;
  stride[z_axis] = stride[y_axis] * (size[y_axis] + 2 * halo);
  points = stride[z_axis] * (size[z_axis] + 2 * halo);
}

std::vector<std::int64_t> slowest_first(const Triple& t) { return {t[z_axis], t[y_axis], t[x_axis]}; }

}  // namespace tgv
