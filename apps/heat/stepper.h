// One step in time: the theta method, each step solved by conjugate gradients with one multigrid cycle as
// preconditioner.
#pragma once

#include <mpi.h>

#include <vector>

#include "operators.h"
#include "problem.h"

namespace heat {

/// Of the temperature on all ranks; the same bits whenever they are computed on as many ranks.
struct Totals {
  double heat = 0;     ///< integral of rho c u
  double highest = 0;  ///< temperature
};

/// Collective: advance(), totals(), multiply(), precondition(). Works in whatever communicator of as many ranks it is
/// given.
class Stepper {
 public:
  /// `comm`, `operators` and `problem` stay the caller's and must outlive this.
  Stepper(MPI_Comm comm, const Operators& operators, const Problem& problem);

  /// From `time` to `time` + dt. `u`: the temperature at the owned vertices. Returns the iterations that it took;
  /// throws std::runtime_error on all ranks if these do not converge.
  int advance(std::vector<double>& u, double time);
  Totals totals(const std::vector<double>& u);

  /// For tests: of owned values. M + theta dt K, K, and one multigrid cycle.
  std::vector<double> multiply(const std::vector<double>& x);
  std::vector<double> conduct(const std::vector<double>& x);
  std::vector<double> precondition(const std::vector<double>& x);
  double dot(const std::vector<double>& a, const std::vector<double>& b);

 private:
  /// Vectors of one level. Those that a matrix is multiplied with have room for the ghosts.
  struct Work {
    std::vector<double> right, x, residual, direction, product;
  };
  void get_ghosts(const Ghosts& ghosts, std::vector<double>& x);
  void give_ghosts(const Ghosts& ghosts, std::vector<double>& x);
  void multiply(const Level& level, const std::vector<double>& values, std::vector<double>& x, std::vector<double>& y);
  void smooth(std::size_t l, bool from_zero);
  void cycle(std::size_t l);
  void solve_coarsest();
  void right_hand_side(const std::vector<double>& u, double time);
  void add_source(double time, double weight);
  int solve();
  double sum(double mine);

  MPI_Comm comm_;
  const Operators& operators_;
  const Problem& problem_;
  SourceShapes shapes_ = source_shapes();
  std::vector<Work> work_;
  std::vector<double> load_;       ///< the source, with ghosts
  std::vector<double> right_;      ///< of the system of a step
  std::vector<double> direction_;  ///< of conjugate gradients, with ghosts
  std::vector<double> product_, change_;
  std::vector<double> out_, in_;  ///< messages
  std::vector<double> coarse_;
  std::vector<MPI_Request> requests_;
};

}  // namespace heat
