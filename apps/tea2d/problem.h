// What is in the rectangle at the beginning.
#pragma once

#include "system.h"

namespace tea2d {

/// Squares of length 10 / nx, so that `cells` fill a width of 10 without stretching.
Domain domain_of(const Pair& cells);

/// A dense cold background; a channel of light material with a bend in it, through which heat spreads first; a hot spot
/// at its end.
Material hot_spot_in_a_channel(double x, double y);

}  // namespace tea2d
