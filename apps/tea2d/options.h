// The command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../information.h"
#include "grid.h"
#include "loops.h"

namespace tea2d {

struct Options {
  Pair cells = {256, 256};
  int steps = 100;
  double dt = 0.04;
  Method solver = Method::cg;
  bool stored = false;  ///< mesh and matrix in arrays, and all between two loops
  double eps = 1e-10;
  std::int64_t max_iterations = 10000;
  std::string csv;     ///< empty: none
  bool quiet = false;  ///< no table
  bool plain = false;  ///< without backstay
  bool help = false;
  program::Told told;
};

/// Throws std::invalid_argument with a sentence for an unknown option or a value that cannot work.
Options parse_options(const std::vector<std::string>& arguments);
std::string usage();

}  // namespace tea2d
