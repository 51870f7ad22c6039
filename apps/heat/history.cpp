#include "history.h"

#include <array>
#include <cinttypes>
#include <cstdio>

#include "../whole_file.h"

namespace heat {

std::string table_header() { return "    step       t            heat         highest  iterations\n"; }

std::string table_row(const Record& r) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%8" PRId64 " %7.4f %15.10f %15.10f %11" PRId64 "\n", r.step, r.time, r.heat,
                r.highest, r.iterations);
  return line.data();
}

std::string to_csv(const History& history) {
  std::string text = "step,time,heat,highest,iterations\n";
  std::array<char, 192> line{};
  for (const Record& r : history) {
    // 17 digits: what is read back is the same double.
    std::snprintf(line.data(), line.size(), "%" PRId64 ",%.17g,%.17g,%.17g,%" PRId64 "\n", r.step, r.time, r.heat,
                  r.highest, r.iterations);
    text += line.data();
  }
  return text;
}

void write_csv(const std::string& path, const History& history) { program::write_whole_file(path, to_csv(history)); }

}  // namespace heat
