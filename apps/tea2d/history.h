// What a run is for: one record a step, as a table on the screen and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tea2d {

struct Record {
  std::int64_t step = 0;  ///< steps done
  double time = 0;
  std::int64_t iterations = 0;
  double total_energy = 0;
  double residual = 0;
};
using History = std::vector<Record>;

std::string table_header();
std::string table_row(const Record& record);
std::string to_csv(const History& history);

}  // namespace tea2d
