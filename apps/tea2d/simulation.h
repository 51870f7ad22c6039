// One run: the system, its step, its history and its output. Knows nothing of checkpoints.
#pragma once

#include <cstddef>
#include <string>

#include "history.h"
#include "options.h"
#include "system.h"

namespace tea2d {

class Simulation {
 public:
  /// Collective, as are advance() and finish(). `comm` must outlive this. `printed`: rows of the table that this
  /// process has printed already; counted on.
  Simulation(MPI_Comm comm, const Options& options, std::size_t& printed);

  /// From `step` to `step` + 1, without counting it, and its record.
  void advance();
  /// The table is complete, the CSV file written, and a last line printed, up to `step`; `note` after it.
  void finish(const std::string& note = {});
  /// Throws std::runtime_error where `step`, put back from a checkpoint, is beyond the end of this run: the table would
  /// have other rows than that of a run to this end.
  void require_end_ahead() const;

  /// The state of the run: these, and the energy of system().
  int step = 0;
  History history;

  [[nodiscard]] int steps() const { return options_.steps; }
  [[nodiscard]] System& system() { return system_; }

 private:
  void print_new_rows();

  Options options_;
  System system_;
  int rank_ = 0;
  std::size_t& printed_;  ///< rows of the table, restored ones among them
};

}  // namespace tea2d
