// One run: the solver, its step, its history and its output. Knows nothing of checkpoints.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "history.h"
#include "options.h"
#include "solver.h"
#include "stored.h"

namespace tgv {

class Simulation {
 public:
  /// Collective, as are advance() and finish(). `comm` must outlive this. `printed`: rows of the table that this
  /// process has printed already; counted on.
  Simulation(MPI_Comm comm, const Options& options, std::size_t& printed);

  /// From `step` to `step` + 1, without counting it. Measures first, where a record is due.
  void advance();
  /// The table is complete, the CSV file written and the progress shown, up to `step`.
  void finish(const std::string& note = {});
  /// Throws std::runtime_error where `step`, put back from a checkpoint, is beyond the end of this run: the table would
  /// have other rows than that of a run to this end.
  void require_end_ahead() const;
  /// A line on stderr, rewritten in place, a few times a second; `note` is added to it.
  void show_progress(const std::string& note = {});

  /// The state of the run: these, and solver().fields().
  int step = 0;
  History history;

  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] AnySolver& solver() { return *solver_; }
  /// Null without the option `stored`.
  [[nodiscard]] StoredSolver* stored() { return dynamic_cast<StoredSolver*>(solver_.get()); }

 private:
  void measure();
  void print_new_rows();
  void print_progress(const std::string& note) const;

  Options options_;
  Flow flow_;
  std::unique_ptr<AnySolver> solver_;
  int steps_;
  int rank_ = 0;
  bool progress_;
  std::size_t& printed_;  ///< rows of the table, restored ones among them
  std::chrono::steady_clock::time_point last_progress_{};
};

}  // namespace tgv
