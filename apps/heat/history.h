// What a run is for: one record per step, as a table on the screen and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heat {

struct Record {
  std::int64_t step = 0;
  double time = 0;
  double heat = 0;              ///< in the whole body
  double highest = 0;           ///< temperature
  std::int64_t iterations = 0;  ///< of the solver, in this step
};
using History = std::vector<Record>;

std::string table_header();
std::string table_row(const Record& record);
std::string to_csv(const History& history);

/// Replaces `path` at once: a reader finds the old file or the new one, never half of it.
/// Throws std::runtime_error with the system's reason.
void write_csv(const std::string& path, const History& history);

}  // namespace heat
