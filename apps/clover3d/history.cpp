#include "history.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace clover3d {

std::string table_header() {
  return "    step          t         dt             mass  internal energy   kinetic energy         pressure\n";
}

std::string table_row(const Record& r) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%8" PRId64 " %10.6f %10.3e %16.10g %16.10g %16.10g %16.10g\n", r.step,
                r.time, r.dt, r.mass, r.internal_energy, r.kinetic_energy, r.pressure);
  return line.data();
}

std::string to_csv(const History& history) {
  std::string text = "step,time,dt,mass,internal_energy,kinetic_energy,pressure\n";
  std::array<char, 224> line{};
  for (const Record& r : history) {
    // 17 digits: what is read back is the same double.
    std::snprintf(line.data(), line.size(), "%" PRId64 ",%.17g,%.17g,%.17g,%.17g,%.17g,%.17g\n", r.step, r.time, r.dt,
                  r.mass, r.internal_energy, r.kinetic_energy, r.pressure);
    text += line.data();
  }
  return text;
}

}  // namespace clover3d
