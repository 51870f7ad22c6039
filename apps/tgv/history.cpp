#include "history.h"

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

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

namespace {
std::string part_of(const std::string& path) { return path + ".part"; }

void write_part(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(part_of(path), std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error("cannot write the results to " + path + ": " + std::strerror(errno) +
                             "; name another file with --csv");
}
}  // namespace

void write_csv(const std::string& path, const History& history) {
  write_part(path, to_csv(history));
  std::filesystem::rename(part_of(path), path);
}

void require_writable(const std::string& path) {
  write_part(path, "");
  std::filesystem::remove(part_of(path));
}

}  // namespace tgv
