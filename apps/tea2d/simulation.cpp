#include "simulation.h"

#include <cstdio>

#include "../growing_table.h"
#include "../whole_file.h"
#include "problem.h"
#include "solvers.h"

namespace tea2d {

Simulation::Simulation(MPI_Comm comm, const Options& options, std::size_t& printed)
    : options_(options),
      system_(comm, domain_of(options.cells), options.dt, {options.solver, options.stored}),
      printed_(printed) {
  check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  system_.start(hot_spot_in_a_channel);
}

void Simulation::advance() {
  const Solved solved = tea2d::step(system_, {options_.eps, options_.max_iterations});
  history.push_back({step + 1, (step + 1) * options_.dt, solved.iterations, system_.total(), solved.residual});
  print_new_rows();
}

void Simulation::finish(const std::string& note) {
  print_new_rows();
  if (rank_ != 0) return;
  if (!options_.csv.empty()) program::write_whole_file(options_.csv, to_csv(history));
  if (!history.empty())
    std::printf("%d of %d steps, total energy %.10g\n", step, options_.steps, history.back().total_energy);
  if (!options_.quiet) std::fputs(note.c_str(), stdout);
  std::fflush(stdout);
}

void Simulation::print_new_rows() {
  if (rank_ == 0 && !options_.quiet) program::print_new_rows(history, printed_, table_header, table_row);
}

void Simulation::require_end_ahead() const { program::require_end_ahead(step, options_.steps); }

}  // namespace tea2d
