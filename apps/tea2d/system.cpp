#include "system.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "../exact_total.h"

namespace tea2d {

namespace {

using Cell = std::ptrdiff_t;

Block own_block(MPI_Comm comm, const Pair& cells, Pair ranks) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (ranks == Pair{}) ranks = choose_ranks(size, cells);
  if (ranks[x_axis] * ranks[y_axis] != size) throw std::invalid_argument("the blocks are not as many as the ranks");
  return program::block_of(rank, ranks, cells);
}

/// Calls `body` with the position of each cell of the block. It must not matter in which order.
template <class Body>
void for_cells(const Layout& layout, const Body& body) {
  for (int j = 0; j < layout.size[y_axis]; ++j) {
    const std::ptrdiff_t row = layout.at(0, j);
    const std::ptrdiff_t end = row + layout.size[x_axis];
#pragma omp simd
    for (std::ptrdiff_t c = row; c < end; ++c) body(c);
  }
}

/// Of all ranks; infinity where a term is not finite.
template <class Term>
double largest_of(MPI_Comm comm, const Layout& layout, const Term& term) {
  double largest = 0;
  for (int j = 0; j < layout.size[y_axis]; ++j) {
    const Cell row = layout.at(0, j);
    const Cell end = row + layout.size[x_axis];
#pragma omp simd reduction(max : largest)
    for (Cell c = row; c < end; ++c) largest = std::max(largest, std::abs(term(c)));
  }
  if (!(largest <= std::numeric_limits<double>::max())) largest = std::numeric_limits<double>::infinity();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  return largest;
}

}  // namespace

/// A without its row sums: neighbours are added in pairs, so that a mirrored problem has a mirrored solution, bit for
/// bit.
struct System::Matrix {
  const double* kx;
  const double* ky;
  Cell up;
  [[nodiscard]] double times(const double* v, Cell c) const {
    const double own = 1 + ((kx[c] + kx[c + 1]) + (ky[c] + ky[c + up]));
    const double others = (kx[c] * v[c - 1] + kx[c + 1] * v[c + 1]) + (ky[c] * v[c - up] + ky[c + up] * v[c + up]);
    return own * v[c] - others;
  }
};

System::System(MPI_Comm comm, const Domain& domain, double dt, Method method, Pair ranks)
    : comm_(comm),
      domain_(domain),
      dt_(dt),
      method_(method),
      block_(own_block(comm, domain.cells, ranks)),
      layout_(block_.size()),
      halos_(comm, block_, layout_) {
  // Zeros also in the halo outside of the rectangle, where the coefficients are zero too.
  for (const Field field : fields_of(method)) arrays_[static_cast<std::size_t>(field)].assign(layout_.points, 0);
}

void System::start(const std::function<Material(double x, double y)>& at) {
  double* density = data(Field::density);
  double* energy = data(Field::energy);
  const auto centre = [&](std::size_t axis, int i) {
    return (block_.lower[axis] + i + 0.5) * domain_.length[axis] / domain_.cells[axis];
  };
  for (int j = 0; j < layout_.size[y_axis]; ++j) {
    for (int i = 0; i < layout_.size[x_axis]; ++i) {
      const Material here = at(centre(x_axis, i), centre(y_axis, j));
      density[layout_.at(i, j)] = here.density;
      energy[layout_.at(i, j)] = here.energy;
    }
  }
}

// Two reductions: that of the largest term, and that of the sum.
template <class Term>
double System::sum(const Term& term) {
  const auto total = program::exact_total(comm_, largest_of(comm_, layout_, term), [&](const auto& add) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) {
      const Cell row = layout_.at(0, j);
      for (Cell c = row; c < row + layout_.size[x_axis]; ++c) add(term(c));
    }
  });
  if (!total) throw std::runtime_error("the temperature is not finite any more: try a shorter --dt");
  return *total;
}

System::Matrix System::matrix() { return {data(Field::kx), data(Field::ky), layout_.stride}; }

void System::coefficients() {
  if (!begins(Loop::coefficients)) return;
  halos_.exchange(data(Field::density));
  const double* density = data(Field::density);
  const Cell up = layout_.stride;
  const auto of_face = [density](Cell a, Cell b) { return (density[a] + density[b]) / (2 * density[a] * density[b]); };
  const auto weight = [this](std::size_t axis) {
    const double spacing = domain_.length[axis] / domain_.cells[axis];
    return dt_ / (spacing * spacing);
  };
  const double x_weight = weight(x_axis);
  const double y_weight = weight(y_axis);
  double* kx = data(Field::kx);
  double* ky = data(Field::ky);
  // The face below each cell, and that above the last one. Those of the rectangle's edge stay closed.
  for (int j = 0; j <= layout_.size[y_axis]; ++j) {
    const bool y_edge = block_.lower[y_axis] + j == 0 || block_.lower[y_axis] + j == block_.cells[y_axis];
    for (int i = 0; i <= layout_.size[x_axis]; ++i) {
      const bool x_edge = block_.lower[x_axis] + i == 0 || block_.lower[x_axis] + i == block_.cells[x_axis];
      const Cell c = layout_.at(i, j);
      if (j < layout_.size[y_axis]) kx[c] = x_edge ? 0 : x_weight * of_face(c - 1, c);
      if (i < layout_.size[x_axis]) ky[c] = y_edge ? 0 : y_weight * of_face(c - up, c);
    }
  }
}

double System::load() {
  if (!begins(Loop::load)) return watch_.returns(0.0);
  const double* density = data(Field::density);
  const double* energy = data(Field::energy);
  double* u = data(Field::u);
  double* u0 = data(Field::u0);
  for_cells(layout_, [=](Cell c) { u[c] = u0[c] = density[c] * energy[c]; });
  return watch_.returns(sum([=](Cell c) { return u0[c] * u0[c]; }));
}

double System::residual() {
  if (!begins(Loop::residual)) return watch_.returns(0.0);
  halos_.exchange(data(Field::u));
  const double* u = data(Field::u);
  const double* u0 = data(Field::u0);
  double* r = data(Field::r);
  for_cells(layout_, [=, a = matrix()](Cell c) { r[c] = u0[c] - a.times(u, c); });
  return watch_.returns(sum([=](Cell c) { return r[c] * r[c]; }));
}

void System::store() {
  if (!begins(Loop::store)) return;
  const double* density = data(Field::density);
  const double* u = data(Field::u);
  double* energy = data(Field::energy);
  for_cells(layout_, [=](Cell c) { energy[c] = u[c] / density[c]; });
}

double System::total() {
  if (!begins(Loop::total)) return watch_.returns(0.0);
  const double* u = data(Field::u);
  const double cell = domain_.length[x_axis] / domain_.cells[x_axis] * (domain_.length[y_axis] / domain_.cells[y_axis]);
  return watch_.returns(cell * sum([=](Cell c) { return u[c]; }));
}

void System::start_direction() {
  if (!begins(Loop::start_direction)) return;
  const double* r = data(Field::r);
  double* p = data(Field::p);
  for_cells(layout_, [=](Cell c) { p[c] = r[c]; });
}

double System::apply() {
  if (!begins(Loop::apply)) return watch_.returns(0.0);
  halos_.exchange(data(Field::p));
  const double* p = data(Field::p);
  double* w = data(Field::w);
  for_cells(layout_, [=, a = matrix()](Cell c) { w[c] = a.times(p, c); });
  return watch_.returns(sum([=](Cell c) { return p[c] * w[c]; }));
}

double System::advance(double alpha) {
  if (!begins(Loop::advance)) return watch_.returns(0.0);
  const double* p = data(Field::p);
  const double* w = data(Field::w);
  double* u = data(Field::u);
  double* r = data(Field::r);
  for_cells(layout_, [=](Cell c) {
    u[c] += alpha * p[c];
    r[c] -= alpha * w[c];
  });
  return watch_.returns(sum([=](Cell c) { return r[c] * r[c]; }));
}

void System::turn(double beta) {
  if (!begins(Loop::turn)) return;
  const double* r = data(Field::r);
  double* p = data(Field::p);
  for_cells(layout_, [=](Cell c) { p[c] = r[c] + beta * p[c]; });
}

void System::start_correction(double scale) {
  if (!begins(Loop::start_correction)) return;
  const double* r = data(Field::r);
  double* sd = data(Field::sd);
  for_cells(layout_, [=](Cell c) { sd[c] = scale * r[c]; });
}

void System::correct() {
  if (!begins(Loop::correct)) return;
  halos_.exchange(data(Field::sd));
  const double* sd = data(Field::sd);
  double* u = data(Field::u);
  double* r = data(Field::r);
  for_cells(layout_, [=, a = matrix()](Cell c) {
    u[c] += sd[c];
    r[c] -= a.times(sd, c);
  });
}

void System::turn_correction(double keep, double scale) {
  if (!begins(Loop::turn_correction)) return;
  const double* r = data(Field::r);
  double* sd = data(Field::sd);
  for_cells(layout_, [=](Cell c) { sd[c] = keep * sd[c] + scale * r[c]; });
}

double System::norm() {
  if (!begins(Loop::norm)) return watch_.returns(0.0);
  const double* r = data(Field::r);
  return watch_.returns(sum([=](Cell c) { return r[c] * r[c]; }));
}

void System::start_inner(double scale) {
  if (!begins(Loop::start_inner)) return;
  const double* r = data(Field::r);
  double* w = data(Field::w);
  double* sd = data(Field::sd);
  double* z = data(Field::z);
  for_cells(layout_, [=](Cell c) {
    w[c] = r[c];
    z[c] = sd[c] = scale * r[c];
  });
}

void System::inner_residual() {
  if (!begins(Loop::inner_residual)) return;
  halos_.exchange(data(Field::sd));
  const double* sd = data(Field::sd);
  double* w = data(Field::w);
  for_cells(layout_, [=, a = matrix()](Cell c) { w[c] -= a.times(sd, c); });
}

void System::inner_turn(double keep, double scale) {
  if (!begins(Loop::inner_turn)) return;
  const double* w = data(Field::w);
  double* sd = data(Field::sd);
  double* z = data(Field::z);
  for_cells(layout_, [=](Cell c) {
    sd[c] = keep * sd[c] + scale * w[c];
    z[c] += sd[c];
  });
}

double System::preconditioned_product() {
  if (!begins(Loop::preconditioned_product)) return watch_.returns(0.0);
  const double* r = data(Field::r);
  const double* z = data(Field::z);
  return watch_.returns(sum([=](Cell c) { return r[c] * z[c]; }));
}

void System::start_preconditioned() {
  if (!begins(Loop::start_preconditioned)) return;
  const double* z = data(Field::z);
  double* p = data(Field::p);
  for_cells(layout_, [=](Cell c) { p[c] = z[c]; });
}

void System::turn_preconditioned(double beta) {
  if (!begins(Loop::turn_preconditioned)) return;
  const double* z = data(Field::z);
  double* p = data(Field::p);
  for_cells(layout_, [=](Cell c) { p[c] = z[c] + beta * p[c]; });
}

}  // namespace tea2d
