#include "simulation.h"

#include <array>
#include <cstdio>
#include <string>

#include "../growing_table.h"
#include "wire.h"

namespace heat {

Simulation::Simulation(MPI_Comm comm, const Operators& operators, const Problem& problem, const Options& options,
                       std::size_t& printed)
    : problem_(problem), options_(options), stepper_(comm, operators, problem), printed_(printed) {
  check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  for (const Point& x : operators.points) u.push_back(problem.initial_temperature(x));
}

void Simulation::advance() {
  const int iterations = stepper_.advance(u, step * problem_.dt);
  const Totals totals = stepper_.totals(u);
  history.push_back({step + 1, (step + 1) * problem_.dt, totals.heat, totals.highest, iterations});
  print_new_rows();
}

void Simulation::finish() {
  print_new_rows();
  if (rank_ == 0 && !options_.csv.empty()) write_csv(options_.csv, history);
}

void Simulation::print_new_rows() {
  if (rank_ == 0 && !options_.quiet) program::print_new_rows(history, printed_, table_header, table_row);
}

void Simulation::require_end_ahead() const { program::require_end_ahead(step, options_.steps); }

Figures make_figures(MPI_Comm comm, const Operators& operators, double seconds) {
  const auto made = static_cast<double>(operators.bytes()), received = static_cast<double>(operators.received);
  const std::array<double, 3> mine{made, static_cast<double>(bytes_of(operators.points) / 3), received};
  std::array<double, 3> sums{};
  const std::array<double, 3> my_own{seconds, made, received / made};
  std::array<double, 3> most{};
  check_mpi(MPI_Allreduce(mine.data(), sums.data(), 3, MPI_DOUBLE, MPI_SUM, comm), "MPI_Allreduce");
  check_mpi(MPI_Allreduce(my_own.data(), most.data(), 3, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return {most[0], sums[0], most[1], sums[1], sums[2], most[2]};
}

std::string to_text(const Figures& f) {
  constexpr double mb = 1e6;
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(),
                "set-up            %9.3f s\n"
                "static data       %9.3f MB, at most %.3f MB on a rank\n"
                "dynamic data      %9.3f MB (static / dynamic: %.0f)\n"
                "received in set-up%9.3f MB, at most %.2f %% of a rank's static data\n",
                f.seconds, f.static_bytes / mb, f.largest_static / mb, f.dynamic_bytes / mb,
                f.static_bytes / f.dynamic_bytes, f.received_bytes / mb, 100 * f.largest_received);
  return text.data();
}

}  // namespace heat
