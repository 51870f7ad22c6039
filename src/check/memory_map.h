// Which memory of this process has pages that may be closed.
#pragma once

#include <cstddef>
#include <istream>
#include <utility>
#include <vector>

namespace backstay::check {

/// Addresses from the first to behind the last, in order, apart from each other.
using Ranges = std::vector<std::pair<std::byte*, std::byte*>>;

/// Memory that belongs to this process alone, may be read and written, and is no stack; `maps` is as /proc/self/maps.
Ranges own_memory(std::istream& maps);
/// That of this process now.
Ranges own_memory();

/// What both have.
Ranges common(const Ranges& a, const Ranges& b);
/// What some of them have.
Ranges joined(Ranges ranges);
/// Only whole pages of each.
Ranges whole_pages(const Ranges& ranges);

}  // namespace backstay::check
