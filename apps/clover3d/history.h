// What a run is for: a record every so many steps, as a table on the screen and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace clover3d {

struct Record {
  std::int64_t step = 0;  ///< steps done
  double time = 0;
  double dt = 0;  ///< of the step before; 0 at the beginning
  double mass = 0;
  double internal_energy = 0;
  double kinetic_energy = 0;
  double pressure = 0;  ///< the mean
};
using History = std::vector<Record>;

std::string table_header();
std::string table_row(const Record& record);
std::string to_csv(const History& history);

}  // namespace clover3d
