#include "stepper.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "wire.h"

namespace heat {

namespace {

constexpr int most_iterations = 300;
// The smoother: Chebyshev polynomials of D^-1 A that are small on the upper part of its spectrum. The rest is left to
// the coarser levels. (Adams, Brezina, Hu and Tuminaro, J. Comput. Phys. 188, 593, 2003.)
constexpr int smoother_degree = 2;
constexpr double smoothed_part = 6;  // from the largest eigenvalue down to a sixth of it

}  // namespace

Stepper::Stepper(MPI_Comm comm, const Operators& operators, const Problem& problem)
    : comm_(comm), operators_(operators), problem_(problem), work_(operators.levels.size()) {
  for (std::size_t l = 0; l < work_.size(); ++l) {
    const Ghosts& ghosts = operators.levels[l].ghosts;
    const auto owned = static_cast<std::size_t>(ghosts.owned);
    work_[l] = {std::vector<double>(ghosts.total()), std::vector<double>(ghosts.total()), std::vector<double>(owned),
                std::vector<double>(ghosts.total()), std::vector<double>(owned)};
  }
  const Ghosts& ghosts = operators.levels[0].ghosts;
  const auto owned = static_cast<std::size_t>(ghosts.owned);
  load_.resize(ghosts.total());
  direction_.resize(ghosts.total());
  right_.resize(owned);
  product_.resize(owned);
  change_.resize(owned);
}

/// The ghosts' values, from their owners.
void Stepper::get_ghosts(const Ghosts& ghosts, std::vector<double>& x) {
  requests_.clear();
  out_.clear();
  for (const Neighbour& n : ghosts.neighbours) {
    for (int i : n.send) out_.push_back(x[static_cast<std::size_t>(i)]);
    if (n.count > 0)
      check_mpi(MPI_Irecv(x.data() + n.first, n.count, MPI_DOUBLE, n.rank, 1, comm_, &requests_.emplace_back()),
                "MPI_Irecv");
  }
  const double* next = out_.data();
  for (const Neighbour& n : ghosts.neighbours) {
    const int count = mpi_count(n.send.size());
    if (count > 0)
      check_mpi(MPI_Isend(next, count, MPI_DOUBLE, n.rank, 1, comm_, &requests_.emplace_back()), "MPI_Isend");
    next += count;
  }
  check_mpi(MPI_Waitall(mpi_count(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

/// The other way: what was added up at ghosts is added at their owners, by rank.
void Stepper::give_ghosts(const Ghosts& ghosts, std::vector<double>& x) {
  requests_.clear();
  std::size_t total = 0;
  for (const Neighbour& n : ghosts.neighbours) total += n.send.size();
  in_.resize(total);
  double* next = in_.data();
  for (const Neighbour& n : ghosts.neighbours) {
    const int count = mpi_count(n.send.size());
    if (count > 0)
      check_mpi(MPI_Irecv(next, count, MPI_DOUBLE, n.rank, 2, comm_, &requests_.emplace_back()), "MPI_Irecv");
    next += count;
  }
  for (const Neighbour& n : ghosts.neighbours) {
    if (n.count > 0)
      check_mpi(MPI_Isend(x.data() + n.first, n.count, MPI_DOUBLE, n.rank, 2, comm_, &requests_.emplace_back()),
                "MPI_Isend");
  }
  check_mpi(MPI_Waitall(mpi_count(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  const double* value = in_.data();
  for (const Neighbour& n : ghosts.neighbours) {
    for (int i : n.send) x[static_cast<std::size_t>(i)] += *value++;
  }
}

void Stepper::multiply(const Level& level, const std::vector<double>& values, std::vector<double>& x,
                       std::vector<double>& y) {
  get_ghosts(level.ghosts, x);
  const Matrix& a = level.matrix;
  const auto rows = static_cast<std::size_t>(a.rows());
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (auto e = static_cast<std::size_t>(a.starts[i]); e < static_cast<std::size_t>(a.starts[i + 1]); ++e) {
      sum += values[e] * x[static_cast<std::size_t>(a.columns[e])];
    }
    y[i] = sum;
  }
}

/// Improves x of the level. Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, algorithm 12.1.
void Stepper::smooth(std::size_t l, bool from_zero) {
  const Level& level = operators_.levels[l];
  Work& w = work_[l];
  const auto n = static_cast<std::size_t>(level.ghosts.owned);
  const double centre = level.largest * (1 + 1 / smoothed_part) / 2;
  const double radius = level.largest * (1 - 1 / smoothed_part) / 2;
  const double sigma = centre / radius;
  if (from_zero) {
    std::fill(w.x.begin(), w.x.end(), 0.0);
    std::copy_n(w.right.begin(), n, w.residual.begin());
  } else {
    multiply(level, level.matrix.values, w.x, w.product);
    for (std::size_t i = 0; i < n; ++i) w.residual[i] = w.right[i] - w.product[i];
  }
  for (std::size_t i = 0; i < n; ++i) w.direction[i] = w.residual[i] * level.inverse_diagonal[i] / centre;
  double rho = 1 / sigma;
  for (int step = 1;; ++step) {
    for (std::size_t i = 0; i < n; ++i) w.x[i] += w.direction[i];
    if (step == smoother_degree) return;
    multiply(level, level.matrix.values, w.direction, w.product);
    const double next = 1 / (2 * sigma - rho);
    for (std::size_t i = 0; i < n; ++i) {
      w.residual[i] -= w.product[i];
      w.direction[i] = next * rho * w.direction[i] + 2 * next / radius * level.inverse_diagonal[i] * w.residual[i];
    }
    rho = next;
  }
}

void Stepper::solve_coarsest() {
  const CoarseFactor& f = operators_.coarse;
  Work& w = work_.back();
  const int mine = operators_.levels.back().ghosts.owned;
  coarse_.resize(static_cast<std::size_t>(f.rows()));
  check_mpi(MPI_Allgatherv(w.right.data(), mine, MPI_DOUBLE, coarse_.data(), f.counts.data(), f.starts.data(),
                           MPI_DOUBLE, comm_),
            "MPI_Allgatherv");
  f.solve(coarse_);
  std::copy_n(coarse_.begin() + static_cast<std::ptrdiff_t>(operators_.levels.back().ghosts.first), mine, w.x.begin());
}

/// A V-cycle for `right` of level l, from zero: symmetric, as the same smoother comes before and after.
void Stepper::cycle(std::size_t l) {
  if (l + 1 == work_.size()) return solve_coarsest();
  const Level& level = operators_.levels[l];
  const Ghosts& below = operators_.levels[l + 1].ghosts;
  const Matrix& p = level.prolongation;
  Work& w = work_[l];
  Work& coarse = work_[l + 1];
  smooth(l, true);
  multiply(level, level.matrix.values, w.x, w.product);
  std::fill(coarse.right.begin(), coarse.right.end(), 0.0);
  const auto rows = static_cast<std::size_t>(p.rows());
  for (std::size_t i = 0; i < rows; ++i) {
    const double residual = w.right[i] - w.product[i];
    for (auto e = static_cast<std::size_t>(p.starts[i]); e < static_cast<std::size_t>(p.starts[i + 1]); ++e) {
      coarse.right[static_cast<std::size_t>(p.columns[e])] += p.values[e] * residual;
    }
  }
  give_ghosts(below, coarse.right);
  cycle(l + 1);
  get_ghosts(below, coarse.x);
  for (std::size_t i = 0; i < rows; ++i) {
    for (auto e = static_cast<std::size_t>(p.starts[i]); e < static_cast<std::size_t>(p.starts[i + 1]); ++e) {
      w.x[i] += p.values[e] * coarse.x[static_cast<std::size_t>(p.columns[e])];
    }
  }
  smooth(l, false);
}

/// In rank order: MPI_Allreduce may add in another order where processes sit elsewhere, as they do after a repair.
double Stepper::sum(double mine) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
  std::vector<double> all(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, comm_), "MPI_Allgather");
  double total = 0;
  for (double part : all) total += part;
  return total;
}

double Stepper::dot(const std::vector<double>& a, const std::vector<double>& b) {
  double mine = 0;
  for (int i = 0; i < operators_.owned(); ++i) mine += a[static_cast<std::size_t>(i)] * b[static_cast<std::size_t>(i)];
  return sum(mine);
}

void Stepper::add_source(double time, double weight) {
  for (std::size_t e = 0; e < operators_.element_nodes.size(); ++e) {
    for (std::size_t q = 0; q < source_points; ++q) {
      const SourcePoint& point = operators_.source_quadrature[e][q];
      const double value = weight * point.weight * problem_.source(point.at, time);
      for (std::size_t c = 0; c < 8; ++c) {
        load_[static_cast<std::size_t>(operators_.element_nodes[e][c])] += shapes_[q][c] * value;
      }
    }
  }
}

/// Of the change over a step: dt (theta f(t + dt) + (1 - theta) f(t) - K u).
void Stepper::right_hand_side(const std::vector<double>& u, double time) {
  std::fill(load_.begin(), load_.end(), 0.0);
  if (problem_.source) {
    add_source(time + problem_.dt, problem_.theta);
    if (problem_.theta < 1) add_source(time, 1 - problem_.theta);
    give_ghosts(operators_.levels[0].ghosts, load_);
  }
  std::copy(u.begin(), u.end(), direction_.begin());
  multiply(operators_.levels[0], operators_.conduction, direction_, product_);
  for (std::size_t i = 0; i < right_.size(); ++i) right_[i] = problem_.dt * (load_[i] - product_[i]);
}

/// The change of a step, by conjugate gradients from zero. `right_` becomes the residual.
int Stepper::solve() {
  std::fill(change_.begin(), change_.end(), 0.0);
  const double limit = problem_.tolerance * std::sqrt(dot(right_, right_));
  if (limit == 0) return 0;
  double before = 0;
  for (int iteration = 1; iteration <= most_iterations; ++iteration) {
    std::copy(right_.begin(), right_.end(), work_[0].right.begin());
    cycle(0);
    const double now = dot(right_, work_[0].x);
    const double keep = iteration == 1 ? 0 : now / before;
    for (std::size_t i = 0; i < right_.size(); ++i) direction_[i] = work_[0].x[i] + keep * direction_[i];
    multiply(operators_.levels[0], operators_.levels[0].matrix.values, direction_, product_);
    const double step = now / dot(direction_, product_);
    for (std::size_t i = 0; i < right_.size(); ++i) {
      change_[i] += step * direction_[i];
      right_[i] -= step * product_[i];
    }
    before = now;
    const double norm = std::sqrt(dot(right_, right_));
    if (norm <= limit) return iteration;
    if (!std::isfinite(norm)) break;
  }
  throw std::runtime_error("a time step did not converge in " + std::to_string(most_iterations) +
                           " iterations: use a shorter --dt");
}

int Stepper::advance(std::vector<double>& u, double time) {
  right_hand_side(u, time);
  const int iterations = solve();
  for (std::size_t i = 0; i < u.size(); ++i) u[i] += change_[i];
  return iterations;
}

Totals Stepper::totals(const std::vector<double>& u) {
  Totals t;
  t.heat = dot(operators_.heat_of, u);
  const double mine = *std::max_element(u.begin(), u.end());
  check_mpi(MPI_Allreduce(&mine, &t.highest, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
  return t;
}

std::vector<double> Stepper::multiply(const std::vector<double>& x) {
  std::copy(x.begin(), x.end(), direction_.begin());
  multiply(operators_.levels[0], operators_.levels[0].matrix.values, direction_, product_);
  return product_;
}

std::vector<double> Stepper::conduct(const std::vector<double>& x) {
  std::copy(x.begin(), x.end(), direction_.begin());
  multiply(operators_.levels[0], operators_.conduction, direction_, product_);
  return product_;
}

std::vector<double> Stepper::precondition(const std::vector<double>& x) {
  std::copy(x.begin(), x.end(), work_[0].right.begin());
  cycle(0);
  return {work_[0].x.begin(), work_[0].x.begin() + operators_.owned()};
}

}  // namespace heat
