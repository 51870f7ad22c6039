// The command line.
#pragma once

#include <string>
#include <vector>

#include "../information.h"
#include "grid.h"

namespace clover3d {

struct Options {
  Triple cells = {48, 48, 48};
  int steps = 100;
  int output_every = 10;  ///< steps from row to row of the table
  std::string csv;        ///< empty: none
  bool quiet = false;     ///< no table
  bool plain = false;     ///< without backstay
  bool help = false;
  program::Told told;
};

/// Throws std::invalid_argument with a sentence for an unknown option or a value that cannot work.
Options parse_options(const std::vector<std::string>& arguments);
std::string usage();

}  // namespace clover3d
