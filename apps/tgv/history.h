// The curve that a run is for: one record per measured step, as a table on the screen and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "solver.h"

namespace tgv {

/// Without dimensions, as in Flow.
struct Record {
  std::int64_t step = 0;
  double time = 0;
  double kinetic_energy = 0;
  double enstrophy = 0;
  double dissipation = 0;            ///< -dE/dt
  double enstrophy_dissipation = 0;  ///< 2 mu enstrophy: what -dE/dt is where the flow does not compress
};
using History = std::vector<Record>;

Record make_record(std::int64_t step, double time, double viscosity, const Totals& totals);

std::string table_header();
std::string table_row(const Record& record);
std::string to_csv(const History& history);

/// Replaces `path` at once: a reader finds the old file or the new one, never half of it.
/// Throws std::runtime_error with the system's reason.
void write_csv(const std::string& path, const History& history);

}  // namespace tgv
