// Which pages hold nothing but regions, so that nobody else can be hindered by their being closed.
#pragma once

#include <vector>

#include "check/memory_map.h"
#include "check/watched.h"

namespace backstay::check {

/// Whole pages of `own` that have bytes of these regions alone. What lies between the rows of an array (a halo) is
/// taken for a part of it; between the elements of an array of structs there may be anything, a lock, say.
Ranges fenceable(const std::vector<Watched>& regions, const Ranges& own);

/// Finds regions that have elements of others.
void mark_shared(std::vector<Watched>& regions);

}  // namespace backstay::check
