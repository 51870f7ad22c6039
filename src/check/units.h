// The bytes of an element that must change when it is overwritten.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "backstay/types.hpp"

namespace backstay::check {

struct Unit {
  std::size_t offset = 0;
  std::size_t bytes = 8;  ///< 8 or 4
  bool operator==(const Unit&) const = default;
};

struct Units {
  std::vector<Unit> units;
  /// Nobody knows which of them are values and which are gaps: only all of them together have not been overwritten.
  bool together = false;
};

/// Values of 8 and 4 bytes, and larger ones in such parts; those of 1 and 2 bytes are left out: they hold any pattern
/// by chance. Gaps that `padding` or the members of a struct tell are left out.
Units units_of(const Type& type, const std::vector<std::pair<std::size_t, std::size_t>>& padding);

}  // namespace backstay::check
