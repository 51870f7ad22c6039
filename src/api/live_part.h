// Where the elements of an array lie that have to be saved.
#pragma once

#include <string>
#include <vector>

#include "backstay/types.hpp"
#include "select/boxes.h"

namespace backstay::api {

/// Boxes of those that are `some`, by their numbers in C order: rows that are alike are taken together, so that faces,
/// ranges and boxes are found as what they are.
std::vector<select::Box> boxes_of(const std::vector<bool>& some, const Extents& shape);

/// "[0:1, 0:64] [63:64, 0:64]"; of too many boxes, and of all of the array, nothing.
std::string describe_part(const std::vector<bool>& some, const Extents& shape);

}  // namespace backstay::api
