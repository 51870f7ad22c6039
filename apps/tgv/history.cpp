#include "history.h"

#include <array>
#include <cinttypes>
#include <cstdio>

#include "../whole_file.h"

namespace tgv {

Record make_record(std::int64_t step, double time, double viscosity, const Totals& totals) {
  return {step,
          time,
          totals.kinetic_energy,
          totals.enstrophy,
          -totals.kinetic_energy_rate,
          2 * viscosity * totals.enstrophy};
}

std::string table_header() {
  return "    step        t  kinetic energy       enstrophy          -dE/dt  2 mu enstrophy\n";
}

std::string table_row(const Record& r) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%8" PRId64 " %8.4f %15.10f %15.10f %15.10f %15.10f\n", r.step, r.time,
                r.kinetic_energy, r.enstrophy, r.dissipation, r.enstrophy_dissipation);
  return line.data();
}

std::string to_csv(const History& history) {
  std::string text = "step,time,kinetic_energy,enstrophy,dissipation,enstrophy_dissipation\n";
  std::array<char, 192> line{};
  for (const Record& r : history) {
    // 17 digits: what is read back is the same double.
    std::snprintf(line.data(), line.size(), "%" PRId64 ",%.17g,%.17g,%.17g,%.17g,%.17g\n", r.step, r.time,
                  r.kinetic_energy, r.enstrophy, r.dissipation, r.enstrophy_dissipation);
    text += line.data();
  }
  return text;
}

void write_csv(const std::string& path, const History& history) { program::write_whole_file(path, to_csv(history)); }

}  // namespace tgv
