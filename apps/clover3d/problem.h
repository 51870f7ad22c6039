// What is in the box at the beginning.
#pragma once

#include "system.h"

namespace clover3d {

/// A cube of length 10, whatever the cells.
Domain domain_of(const Triple& cells);

/// Thin cold gas, and in a corner a box of dense hot gas, from which a shock runs through the other.
State hot_box_in_a_corner(double x, double y, double z);

}  // namespace clover3d
