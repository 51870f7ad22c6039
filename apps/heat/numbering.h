// Which rank owns which vertex, and under what number: found out by asking, as a code for any mesh does.
#pragma once

#include <array>
#include <vector>

#include "mesh.h"
#include "sparse.h"

namespace heat {

/// A face of only one of this rank's elements.
struct OuterFace {
  std::size_t element;
  std::size_t face;
};
std::vector<OuterFace> outer_faces(const std::vector<Element>& elements);

struct Numbering {
  Offsets offsets;
  int owned = 0;
  /// Of the vertices of this rank's elements: the owned ones, then those of other ranks.
  std::vector<Global> vertices;
  std::vector<Global> numbers;            ///< of the same, among all ranks
  std::vector<std::array<int, 8>> nodes;  ///< of each element, as indices into `vertices`
};

/// Collective. The rank of lowest number that has an element at a vertex owns it; a rank numbers what it owns in the
/// order in which its elements come by.
Numbering make_numbering(Wire& wire, const std::vector<Element>& elements, const std::vector<OuterFace>& outer);

}  // namespace heat
