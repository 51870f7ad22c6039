// The command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../information.h"

namespace tgv {

struct Options {
  int n = 64;
  double t_end = 12;
  std::optional<int> steps;  ///< instead of t_end
  double cfl = 0.6;
  int output_every = 10;  ///< steps between two records
  std::string csv;        ///< empty: none
  bool quiet = false;     ///< no table, no progress
  bool progress = false;  ///< also where stderr is not a terminal
  bool stored = false;    ///< every quantity of the right-hand side in an array
  bool plain = false;     ///< without backstay
  bool help = false;
  program::Told told;
};

/// Throws std::invalid_argument with a sentence for an unknown option or a value that cannot work.
Options parse_options(const std::vector<std::string>& arguments);
std::string usage();

}  // namespace tgv
