// One run: the system, its step, its history and its output. Knows nothing of checkpoints.
#pragma once

#include <cstddef>
#include <string>

#include "history.h"
#include "options.h"
#include "system.h"

namespace clover3d {

/// Where a run is.
struct Clock {
  double time = 0;
  double dt = 0;  ///< of the step before: the next one is not much longer
};

class Simulation {
 public:
  /// Collective, as are advance() and finish(). `comm` must outlive this. `printed`: rows of the table that this
  /// process has printed already; counted on.
  Simulation(MPI_Comm comm, const Options& options, std::size_t& printed);

  /// From `step` to `step` + 1, without counting it. Measures first, where a record is due.
  void advance();
  /// The table is complete, the CSV file written, and a last line printed, up to `step`; `note` after it.
  void finish(const std::string& note = {});
  /// Throws std::runtime_error where `step`, put back from a checkpoint, is beyond the end of this run.
  void require_end_ahead() const;

  /// The state of the run: these, and density0, energy0 and the velocities xvel0, yvel0 and zvel0 of system().
  int step = 0;
  Clock clock;
  History history;

  [[nodiscard]] int steps() const { return options_.steps; }
  [[nodiscard]] System& system() { return system_; }

 private:
  void measure();
  void print_new_rows();

  Options options_;
  System system_;
  int rank_ = 0;
  std::size_t& printed_;  ///< rows of the table, restored ones among them
};

}  // namespace clover3d
