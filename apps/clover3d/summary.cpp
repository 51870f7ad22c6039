// The sums over the box.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "../exact_total.h"
#include "stencils.h"
#include "system.h"

namespace clover3d {

namespace {

template <class Visit>
void for_each_cell(const Layout& layout, const Visit& visit) {
  for (int k = 0; k < layout.cells[z_axis]; ++k) {
    for (int j = 0; j < layout.cells[y_axis]; ++j) {
      const Cell row = layout.at(0, j, k);
      for (Cell c = row; c < row + layout.cells[x_axis]; ++c) visit(c);
    }
  }
}

template <class Term>
double total(MPI_Comm comm, const Layout& layout, const Term& term) {
  double largest = 0;
  for_each_cell(layout, [&](Cell c) { largest = std::max(largest, std::abs(term(c))); });
  program::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
  const auto sum = program::exact_total(comm, largest,
                                        [&](const auto& add) { for_each_cell(layout, [&](Cell c) { add(term(c)); }); });
  if (!sum) throw std::runtime_error("the sums are not finite any more: this program has a fault");
  return *sum;
}

}  // namespace

// The kinetic energy of a node is that of the eight eighths of cells around it.
Totals System::summary() {
  if (!begins(Loop::summary)) return watch_.returns(Totals{});
  std::vector<Exchanged> velocities;
  for (int axis = 0; axis < 3; ++axis) {
    const Field field = along(Field::xvel0, axis);
    velocities.push_back({data(field), stagger_of(field), odd_axis_of(field)});
  }
  halos_.exchange(velocities);
  const double* density = data(Field::density0);
  const double* energy = data(Field::energy0);
  const double* pressure = data(Field::pressure);
  const double* volume = data(Field::volume);
  const Three v = three(Field::xvel0);
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const auto square = [=](Cell n) { return sum_of_axes(v[0][n] * v[0][n], v[1][n] * v[1][n], v[2][n] * v[2][n]); };
  const auto sum = [&](const auto& term) { return total(comm_, layout_, term); };
  Totals out;
  out.mass = sum([=](Cell c) { return density[c] * volume[c]; });
  out.internal_energy = sum([=](Cell c) { return density[c] * volume[c] * energy[c]; });
  out.kinetic_energy = sum([=](Cell c) { return density[c] * volume[c] * (sum_of_cube(square, c, 1, sy, sz) / 16); });
  out.pressure = sum([=](Cell c) { return pressure[c] * volume[c]; }) / sum([=](Cell c) { return volume[c]; });
  return watch_.returns(out);
}

}  // namespace clover3d
