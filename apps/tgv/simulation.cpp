#include "simulation.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "../growing_table.h"

namespace tgv {

namespace {
constexpr auto progress_pause = std::chrono::milliseconds(200);

Flow flow_of(const Options& options) {
  Flow flow;
  flow.n = options.n;
  return flow;
}

std::unique_ptr<AnySolver> solver_of(MPI_Comm comm, const Flow& flow, const Options& options) {
  if (options.stored) return std::make_unique<StoredSolver>(comm, flow, options.cfl);
  return std::make_unique<Solver>(comm, flow, options.cfl);
}

/// Under mpirun stderr is a pipe; `backstay run` says whether a terminal is at its end.
bool is_watched() {
  const char* terminal = std::getenv("_BACKSTAY_TERMINAL");
  return isatty(STDERR_FILENO) != 0 || (terminal != nullptr && std::string(terminal) == "1");
}
}  // namespace

Simulation::Simulation(MPI_Comm comm, const Options& options, std::size_t& printed)
    : options_(options),
      flow_(flow_of(options)),
      solver_(solver_of(comm, flow_, options)),
      // The step does not change to meet t_end: a run to a later t_end goes on from the same checkpoints.
      steps_(options.steps.value_or(static_cast<int>(std::ceil(options.t_end / solver_->dt())))),
      printed_(printed) {
  check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  progress_ = rank_ == 0 && !options.quiet && (options.progress || is_watched());
  solver_->start_taylor_green();
}

void Simulation::advance() {
  if (step % options_.output_every == 0) measure();
  solver_->advance();
}

void Simulation::finish(const std::string& note) {
  if (step == steps_ && (history.empty() || history.back().step != step)) measure();
  print_new_rows();
  if (progress_) {
    print_progress(note);  // the last state, however short ago another was shown
    std::fputs("\n", stderr);
  }
  if (rank_ == 0 && !options_.csv.empty()) write_csv(options_.csv, history);
}

void Simulation::measure() {
  history.push_back(make_record(step, step * solver_->dt(), flow_.viscosity(), solver_->totals()));
  print_new_rows();
}

void Simulation::print_new_rows() {
  if (rank_ == 0 && !options_.quiet) program::print_new_rows(history, printed_, table_header, table_row);
}

void Simulation::require_end_ahead() const { program::require_end_ahead(step, steps_, " (or a later --t-end)"); }

void Simulation::show_progress(const std::string& note) {
  if (!progress_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_progress_ < progress_pause) return;
  last_progress_ = now;
  print_progress(note);
}

void Simulation::print_progress(const std::string& note) const {
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "step %d of %d  t %.3f  dissipation %.5f", step, steps_, step * solver_->dt(),
                history.empty() ? 0.0 : history.back().dissipation);
  // "\033[K" clears what a longer line left behind.
  std::fprintf(stderr, "\r%s%s\033[K", line.data(), note.c_str());
  std::fflush(stderr);
}

}  // namespace tgv
