// The command line.
#pragma once

#include <string>
#include <vector>

namespace heat {

struct Options {
  int cells = 32;
  int steps = 20;
  double dt = 2e-3;
  std::string csv;       ///< empty: none
  bool figures = false;  ///< sizes and times, at the end
  bool quiet = false;    ///< no table
  bool plain = false;    ///< without backstay
  bool help = false;
};

/// Throws std::invalid_argument with a sentence for an unknown option or a value that cannot work.
Options parse_options(const std::vector<std::string>& arguments);
std::string usage();

}  // namespace heat
