#include "simulation.h"

#include <cstdio>

#include "../growing_table.h"
#include "../mpi_check.h"
#include "../whole_file.h"
#include "hydro.h"
#include "problem.h"

namespace clover3d {

namespace {

/// The flow begins from rest, and its first steps must be short enough for what it has become at their end.
constexpr double first_dt = 0.01;
constexpr double growth_of_dt = 1.5;

}  // namespace

Simulation::Simulation(MPI_Comm comm, const Options& options, std::size_t& printed)
    : options_(options), system_(comm, domain_of(options.cells)), printed_(printed) {
  program::check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  system_.start(hot_box_in_a_corner);
}

void Simulation::advance() {
  if (step % options_.output_every == 0) measure();
  clock.dt = clover3d::step(system_, step, step == 0 ? first_dt : growth_of_dt * clock.dt);
  clock.time += clock.dt;
}

void Simulation::measure() {
  const Totals now = totals(system_);
  history.push_back({step, clock.time, clock.dt, now.mass, now.internal_energy, now.kinetic_energy, now.pressure});
  print_new_rows();
}

void Simulation::finish(const std::string& note) {
  if (step == options_.steps && (history.empty() || history.back().step != step)) measure();
  print_new_rows();
  if (rank_ != 0) return;
  if (!options_.csv.empty()) program::write_whole_file(options_.csv, to_csv(history));
  if (!history.empty())
    std::printf("%d of %d steps, mass %.10g, total energy %.10g\n", step, options_.steps, history.back().mass,
                history.back().internal_energy + history.back().kinetic_energy);
  if (!options_.quiet) std::fputs(note.c_str(), stdout);
  std::fflush(stdout);
}

void Simulation::print_new_rows() {
  if (rank_ == 0 && !options_.quiet) program::print_new_rows(history, printed_, table_header, table_row);
}

void Simulation::require_end_ahead() const { program::require_end_ahead(step, options_.steps); }

}  // namespace clover3d
