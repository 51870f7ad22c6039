#include "history.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace tea2d {

std::string table_header() { return "    step          t  iterations     total energy   residual\n"; }

std::string table_row(const Record& r) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%8" PRId64 " %10.4f %11" PRId64 " %16.10g %10.3e\n", r.step, r.time,
                r.iterations, r.total_energy, r.residual);
  return line.data();
}

std::string to_csv(const History& history) {
  std::string text = "step,time,iterations,total_energy,residual\n";
  std::array<char, 160> line{};
  for (const Record& r : history) {
    // 17 digits: what is read back is the same double.
    std::snprintf(line.data(), line.size(), "%" PRId64 ",%.17g,%" PRId64 ",%.17g,%.17g\n", r.step, r.time, r.iterations,
                  r.total_energy, r.residual);
    text += line.data();
  }
  return text;
}

}  // namespace tea2d
