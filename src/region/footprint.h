// Where views lie in memory, and which of them may hold the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backstay/types.hpp"

namespace backstay::region {

/// All bytes of a view lie in [begin, end), its elements at multiples of `step` from `begin`.
struct Footprint {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;   ///< begin: no bytes
  std::uintptr_t step = 0;  ///< the greatest common divisor of the strides; 0: there is one element
  std::uintptr_t element = 0;
};

/// Of a ragged view, as if all its rows were full.
Footprint footprint_of(const View& view, std::size_t element_size);

/// The numbers of those that share memory with another one, in order. Told from the footprints alone, so that some may
/// be among them that do not: members of the same structs are told apart, a box and what lies around it are not.
std::vector<std::size_t> that_share_memory(const std::vector<Footprint>& all);

}  // namespace backstay::region
