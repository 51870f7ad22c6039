// The table that an example program prints while it runs, and how it fits to the end of the run.
#pragma once

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace program {

/// Prints the rows of `history` from `printed` on, and counts it on. Rows that came back with a checkpoint are printed
/// too: the last launch of a run prints the whole table.
template <class History, class Header, class Row>
void print_new_rows(const History& history, std::size_t& printed, const Header& header, const Row& row) {
  if (printed == 0 && !history.empty()) std::fputs(header().c_str(), stdout);
  for (; printed < history.size(); ++printed) std::fputs(row(history[printed]).c_str(), stdout);
  std::fflush(stdout);
}

/// Throws std::runtime_error where `step`, put back from a checkpoint, is beyond the end of this run: the table would
/// have other rows than that of a run to this end. `other_way` is said behind "give --steps N or more".
inline void require_end_ahead(int step, int steps, const char* other_way = "") {
  if (step <= steps) return;
  throw std::runtime_error("the newest checkpoint is at step " + std::to_string(step) + " and this run ends at step " +
                           std::to_string(steps) + ": give --steps " + std::to_string(step) + " or more" + other_way +
                           ", or another directory for this run");
}

}  // namespace program
