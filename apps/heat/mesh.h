// The mesh: hexahedra of eight vertices, each rank's own ones in the order of a space-filling curve.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "problem.h"

namespace heat {

using Global = std::int64_t;  ///< a number among those of all ranks
using Triple = std::array<int, 3>;

/// Cells from `lower` up to and without `upper`.
struct Box {
  Triple lower, upper;
};

/// The cube halved again and again across its longest side, in proportion to the ranks of both halves. Throws
/// std::invalid_argument where a rank would have no cell.
Box box_of(int rank, int ranks, int cells);
/// Throws where box_of() would for any of the ranks.
void require_cells_for(int ranks, int cells);

/// The vertex at these steps along x, y and z.
Global vertex_at(const Triple& at, int cells);
/// Where it is: a regular grid that is bent smoothly inside the cube, so that no two cells have one shape. The walls
/// stay where they are.
Point place_of(Global vertex, int cells);
bool is_on_floor(Global vertex, int cells);

using Element = std::array<Global, 8>;  ///< its vertices, x fastest, then y, then z
/// All that the numbering and the assembly know of the cells of a box: their vertices. Along a Morton curve.
std::vector<Element> elements_of(const Box& box, int cells);

/// The corners of the six faces of an element, in cyclic order.
inline constexpr std::array<std::array<int, 4>, 6> faces{
    {{0, 2, 6, 4}, {1, 3, 7, 5}, {0, 1, 5, 4}, {2, 3, 7, 6}, {0, 1, 3, 2}, {4, 5, 7, 6}}};

}  // namespace heat
