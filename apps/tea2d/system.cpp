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

/// Areas of faces below a cell, distances between the centres of the cells at them, volumes of cells.
struct System::EvenMesh {
  double dx, dy;
  [[nodiscard]] double volume(Cell) const { return dx * dy; }
  [[nodiscard]] double x_area(Cell) const { return dy; }
  [[nodiscard]] double x_span(Cell) const { return dx; }
  [[nodiscard]] double y_area(Cell) const { return dx; }
  [[nodiscard]] double y_span(Cell) const { return dy; }
};
struct System::StoredMesh {
  const double *volumes, *x_areas, *x_spans, *y_areas, *y_spans;
  [[nodiscard]] double volume(Cell c) const { return volumes[c]; }
  [[nodiscard]] double x_area(Cell c) const { return x_areas[c]; }
  [[nodiscard]] double x_span(Cell c) const { return x_spans[c]; }
  [[nodiscard]] double y_area(Cell c) const { return y_areas[c]; }
  [[nodiscard]] double y_span(Cell c) const { return y_spans[c]; }
};

/// Its rows have the sum 1. Neighbours are added in pairs, so that a mirrored problem has a mirrored solution, bit for
/// bit.
struct System::EvenMatrix {
  const double* kx;
  const double* ky;
  Cell up;
  [[nodiscard]] double own(Cell c) const { return 1 + ((kx[c] + kx[c + 1]) + (ky[c] + ky[c + up])); }
  [[nodiscard]] double others(const double* v, Cell c) const {
    return (kx[c] * v[c - 1] + kx[c + 1] * v[c + 1]) + (ky[c] * v[c - up] + ky[c + up] * v[c + up]);
  }
  [[nodiscard]] double times(const double* v, Cell c) const { return own(c) * v[c] - others(v, c); }
};
struct System::StoredMatrix {
  EvenMatrix a;
  const double* diagonal;
  [[nodiscard]] double times(const double* v, Cell c) const { return diagonal[c] * v[c] - a.others(v, c); }
};

System::System(MPI_Comm comm, const Domain& domain, double dt, const Form& form, Pair ranks)
    : comm_(comm),
      domain_(domain),
      dt_(dt),
      form_(form),
      block_(own_block(comm, domain.cells, ranks)),
      layout_(block_.size()),
      halos_(comm, block_, layout_) {
  // Zeros also in the halo outside of the rectangle, where the coefficients are zero too.
  for (const Field field : fields_of(form)) arrays_[static_cast<std::size_t>(field)].assign(layout_.points, 0);
  if (form.stored) make_mesh();
}

System::EvenMesh System::even_mesh() const {
  return {domain_.length[x_axis] / domain_.cells[x_axis], domain_.length[y_axis] / domain_.cells[y_axis]};
}

/// With its halo.
void System::make_mesh() {
  const EvenMesh mesh = even_mesh();
  const auto fill = [this](Field field, double value) { std::fill_n(data(field), layout_.points, value); };
  fill(Field::volume, mesh.volume(0));
  fill(Field::x_area, mesh.x_area(0));
  fill(Field::x_span, mesh.x_span(0));
  fill(Field::y_area, mesh.y_area(0));
  fill(Field::y_span, mesh.y_span(0));
}

template <class Body>
auto System::with_mesh(const Body& body) {
  if (!form_.stored) return body(even_mesh());
  return body(StoredMesh{data(Field::volume), data(Field::x_area), data(Field::x_span), data(Field::y_area),
                         data(Field::y_span)});
}

/// The coefficients of the last faces may be the next block's.
template <class Body>
void System::with_matrix(const Body& body) {
  const EvenMatrix a{data(Field::kx), data(Field::ky), layout_.stride};
  if (!form_.stored) return body(a);
  halos_.exchange(data(Field::kx));
  halos_.exchange(data(Field::ky));
  body(StoredMatrix{a, data(Field::diagonal)});
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

void System::coefficients() {
  if (begins(Loop::coefficients)) {
    halos_.exchange(data(Field::density));
    with_mesh([this](const auto& mesh) { set_coefficients(mesh); });
  }
  if (form_.stored) set_diagonal();
}

template <class Mesh>
void System::set_coefficients(const Mesh& mesh) {
  const double* density = data(Field::density);
  const Cell up = layout_.stride;
  const auto of_face = [density](Cell a, Cell b) { return (density[a] + density[b]) / (2 * density[a] * density[b]); };
  double* kx = data(Field::kx);
  double* ky = data(Field::ky);
  // The face below each cell, and that above the last one. Those of the rectangle's edge stay closed.
  for (int j = 0; j <= layout_.size[y_axis]; ++j) {
    const bool y_edge = block_.lower[y_axis] + j == 0 || block_.lower[y_axis] + j == block_.cells[y_axis];
    for (int i = 0; i <= layout_.size[x_axis]; ++i) {
      const bool x_edge = block_.lower[x_axis] + i == 0 || block_.lower[x_axis] + i == block_.cells[x_axis];
      const Cell c = layout_.at(i, j);
      const double x_weight = dt_ * (mesh.x_area(c) / (mesh.x_span(c) * mesh.volume(c)));
      const double y_weight = dt_ * (mesh.y_area(c) / (mesh.y_span(c) * mesh.volume(c)));
      if (j < layout_.size[y_axis]) kx[c] = x_edge ? 0 : x_weight * of_face(c - 1, c);
      if (i < layout_.size[x_axis]) ky[c] = y_edge ? 0 : y_weight * of_face(c - up, c);
    }
  }
}

void System::set_diagonal() {
  if (!begins(Loop::diagonal)) return;
  halos_.exchange(data(Field::kx));
  halos_.exchange(data(Field::ky));
  const EvenMatrix a{data(Field::kx), data(Field::ky), layout_.stride};
  double* diagonal = data(Field::diagonal);
  for_cells(layout_, [=](Cell c) { diagonal[c] = a.own(c); });
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
  with_matrix([=, this](const auto& a) { for_cells(layout_, [=](Cell c) { r[c] = u0[c] - a.times(u, c); }); });
  return watch_.returns(sum([=](Cell c) { return r[c] * r[c]; }));
}

void System::store() {
  if (begins(Loop::store)) {
    const double* density = data(Field::density);
    const double* u = data(Field::u);
    double* end = data(form_.stored ? Field::energy1 : Field::energy);
    for_cells(layout_, [=](Cell c) { end[c] = u[c] / density[c]; });
  }
  if (!form_.stored || !begins(Loop::reset)) return;
  const double* end = data(Field::energy1);
  double* energy = data(Field::energy);
  for_cells(layout_, [=](Cell c) { energy[c] = end[c]; });
}

double System::total() {
  if (!begins(Loop::total)) return watch_.returns(0.0);
  const double* u = data(Field::u);
  return watch_.returns(
      with_mesh([=, this](const auto& mesh) { return sum([=](Cell c) { return mesh.volume(c) * u[c]; }); }));
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
  with_matrix([=, this](const auto& a) { for_cells(layout_, [=](Cell c) { w[c] = a.times(p, c); }); });
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

void System::multiply() {
  if (!begins(Loop::multiply)) return;
  halos_.exchange(data(Field::sd));
  const double* sd = data(Field::sd);
  double* product = data(Field::product);
  with_matrix([=, this](const auto& a) { for_cells(layout_, [=](Cell c) { product[c] = a.times(sd, c); }); });
}

void System::correct() {
  if (form_.stored) multiply();
  if (!begins(Loop::correct)) return;
  const double* sd = data(Field::sd);
  double* u = data(Field::u);
  double* r = data(Field::r);
  const auto correct_by = [=, this](const auto& product) {
    for_cells(layout_, [=](Cell c) {
      u[c] += sd[c];
      r[c] -= product(c);
    });
  };
  if (form_.stored) return correct_by([product = data(Field::product)](Cell c) { return product[c]; });
  halos_.exchange(data(Field::sd));
  with_matrix([=](const auto& a) { correct_by([=](Cell c) { return a.times(sd, c); }); });
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
  double* inner = data(form_.stored ? Field::inner : Field::w);
  double* sd = data(Field::sd);
  double* z = data(Field::z);
  for_cells(layout_, [=](Cell c) {
    inner[c] = r[c];
    z[c] = sd[c] = scale * r[c];
  });
}

void System::inner_residual() {
  if (form_.stored) multiply();
  if (!begins(Loop::inner_residual)) return;
  double* inner = data(form_.stored ? Field::inner : Field::w);
  if (form_.stored) return for_cells(layout_, [=, product = data(Field::product)](Cell c) { inner[c] -= product[c]; });
  halos_.exchange(data(Field::sd));
  const double* sd = data(Field::sd);
  with_matrix([=, this](const auto& a) { for_cells(layout_, [=](Cell c) { inner[c] -= a.times(sd, c); }); });
}

void System::inner_turn(double keep, double scale) {
  if (!begins(Loop::inner_turn)) return;
  const double* inner = data(form_.stored ? Field::inner : Field::w);
  double* sd = data(Field::sd);
  double* z = data(Field::z);
  for_cells(layout_, [=](Cell c) {
    sd[c] = keep * sd[c] + scale * inner[c];
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
