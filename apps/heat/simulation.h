// One run: the stepper, the state and the history. Knows nothing of checkpoints.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "history.h"
#include "options.h"
#include "stepper.h"

namespace heat {

class Simulation {
 public:
  /// Collective, as are advance() and finish(). All that is given must outlive this. `printed`: rows of the table that
  /// this process has printed already; counted on.
  Simulation(MPI_Comm comm, const Operators& operators, const Problem& problem, const Options& options,
             std::size_t& printed);

  /// From `step` to `step` + 1, without counting it.
  void advance();
  /// The table is complete and the CSV file written, up to `step`.
  void finish();
  /// Throws std::runtime_error where `step`, put back from a checkpoint, is beyond the end of this run.
  void require_end_ahead() const;

  /// The state of the run: these.
  int step = 0;
  std::vector<double> u;  ///< temperature at the vertices that this rank owns
  History history;

 private:
  void print_new_rows();

  const Problem& problem_;
  const Options& options_;
  Stepper stepper_;
  int rank_ = 0;
  std::size_t& printed_;
};

/// What the set-up took and made, on all ranks.
struct Figures {
  double seconds = 0;           ///< the longest of a rank
  double static_bytes = 0;      ///< of all ranks
  double largest_static = 0;    ///< of a rank
  double dynamic_bytes = 0;     ///< of all ranks: the temperature
  double received_bytes = 0;    ///< of all ranks, from MPI, during the set-up
  double largest_received = 0;  ///< share of what a rank received in its static data
};
/// Collective. `seconds`: of this rank's set-up.
Figures make_figures(MPI_Comm comm, const Operators& operators, double seconds);
std::string to_text(const Figures& figures);

}  // namespace heat
