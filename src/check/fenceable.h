// Which pages hold nothing but regions, so that nobody else can be hindered by their being closed.
#pragma once

#include <vector>

#include "check/memory_map.h"
#include "check/watched.h"

namespace backstay::check {

/// Whole pages of `own` that have bytes of these regions alone. What lies between the rows of an array (a halo), and
/// before and behind them in the same one of `allocations`, is taken for a part of it; between the elements of an array
/// of structs there may be anything, a lock, say. `allocations`: in order, apart from each other.
Ranges fenceable(const std::vector<Watched>& regions, const Ranges& own, const Ranges& allocations);

/// Finds regions that have elements of others.
void mark_shared(std::vector<Watched>& regions);

}  // namespace backstay::check
