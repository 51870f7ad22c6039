#include "mesh.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

namespace heat {

Box box_of(int rank, int ranks, int cells) {
  Box box{{0, 0, 0}, {cells, cells, cells}};
  int first = 0;
  for (int count = ranks; count > 1;) {
    std::size_t axis = 0;
    for (std::size_t a = 1; a < 3; ++a) {
      if (box.upper[a] - box.lower[a] > box.upper[axis] - box.lower[axis]) axis = a;
    }
    const int low_ranks = count / 2;
    const std::int64_t length = box.upper[axis] - box.lower[axis];
    const int cut = box.lower[axis] + static_cast<int>(length * low_ranks / count);
    if (cut == box.lower[axis])
      throw std::invalid_argument(std::to_string(cells) + "^3 cells cannot be shared among " + std::to_string(ranks) +
                                  " ranks: use more --cells or fewer ranks");
    if (rank < first + low_ranks) {
      box.upper[axis] = cut;
      count = low_ranks;
    } else {
      box.lower[axis] = cut;
      first += low_ranks;
      count -= low_ranks;
    }
  }
  return box;
}

void require_cells_for(int ranks, int cells) {
  for (int rank = 0; rank < ranks; ++rank) box_of(rank, ranks, cells);
}

Global vertex_at(const Triple& at, int cells) {
  const Global side = cells + 1;
  return (at[2] * side + at[1]) * side + at[0];
}

namespace {

Triple steps_of(Global vertex, int cells) {
  const Global side = cells + 1;
  return {static_cast<int>(vertex % side), static_cast<int>(vertex / side % side),
          static_cast<int>(vertex / (side * side))};
}

/// The bits of x, y and z in turn. 20 bits each.
std::uint64_t morton(const Triple& at) {
  std::uint64_t code = 0;
  for (unsigned bit = 0; bit < 20; ++bit) {
    for (unsigned axis = 0; axis < 3; ++axis) {
      code |= (static_cast<std::uint64_t>(at[axis]) >> bit & 1) << (3 * bit + axis);
    }
  }
  return code;
}

}  // namespace

Point place_of(Global vertex, int cells) {
  // Below 1 / (2 pi), so that the map has an inverse.
  constexpr double bend = 0.06;
  constexpr double pi = std::numbers::pi;
  const Triple at = steps_of(vertex, cells);
  Point x;
  for (std::size_t a = 0; a < 3; ++a) x[a] = static_cast<double>(at[a]) / cells;
  const double all = std::sin(pi * x[0]) * std::sin(pi * x[1]) * std::sin(pi * x[2]);
  return {x[0] + bend * all * std::cos(2 * pi * x[1]), x[1] + bend * all * std::cos(2 * pi * x[2]),
          x[2] + bend * all * std::cos(2 * pi * x[0])};
}

bool is_on_floor(Global vertex, int cells) { return steps_of(vertex, cells)[2] == 0; }

std::vector<Element> elements_of(const Box& box, int cells) {
  std::vector<std::pair<std::uint64_t, Triple>> order;
  for (int k = box.lower[2]; k < box.upper[2]; ++k) {
    for (int j = box.lower[1]; j < box.upper[1]; ++j) {
      for (int i = box.lower[0]; i < box.upper[0]; ++i) order.push_back({morton({i, j, k}), {i, j, k}});
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<Element> elements;
  elements.reserve(order.size());
  for (const auto& [code, at] : order) {
    Element e;
    for (int corner = 0; corner < 8; ++corner) {
      e[static_cast<std::size_t>(corner)] =
          vertex_at({at[0] + (corner & 1), at[1] + (corner >> 1 & 1), at[2] + (corner >> 2)}, cells);
    }
    elements.push_back(e);
  }
  return elements;
}

}  // namespace heat
