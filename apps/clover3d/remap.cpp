// The loops that put the gas back on the mesh, along one axis at a time: second-order upwind fluxes with the limiter of
// van Leer (Towards the ultimate conservative difference scheme V, 1979).
#include <algorithm>
#include <cmath>

#include "stencils.h"
#include "system.h"

namespace clover3d {

namespace {

/// The value that is carried across a point, from the three on whose way it lies. `sigma`: the part of the donor that
/// leaves it; `stretched`: the distance from donor to downwind by that from upwind to donor.
inline double carried(double upwind, double donor, double downwind, double sigma, double stretched) {
  const double back = donor - upwind;
  const double ahead = downwind - donor;
  const double third_order = ((1 + sigma) * stretched * std::abs(back) + (2 - sigma) * std::abs(ahead)) / 6;
  const double slope = std::min(third_order, std::min(std::abs(back), std::abs(ahead)));
  return back * ahead > 0 ? donor + (1 - sigma) * std::copysign(slope, ahead) : donor;
}

/// Four values on a line, as something sees them that goes from `before` to `after`, or back.
struct Around {
  double before_that, before, after, after_that;
  [[nodiscard]] double carried_by(bool upward, double sigma, double stretched) const {
    return upward ? carried(before_that, before, after, sigma, stretched)
                  : carried(after_that, after, before, sigma, stretched);
  }
};

template <int axis>
int index_along(int i, int j, int k) {
  return axis == x_axis ? i : axis == y_axis ? j : k;
}

}  // namespace

// In the halo too: the fluxes read it, and the masses of the nodes.
void System::sweep_volumes(int axis, const ToSweep& to_sweep) {
  if (!begins(Loop::sweep_volumes)) return;
  const Cell up = layout_.stride[static_cast<std::size_t>(axis)];
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const double* volume = data(Field::volume);
  const double* swept = data(along(Field::vol_flux_x, axis));
  const Three flux = three(Field::vol_flux_x);
  double* pre = data(Field::pre_volume);
  double* post = data(Field::post_volume);
  const auto [nx, ny, nz] = owned_nodes();
  for_box(layout_, {-halo, -halo, -halo}, {nx + 1, ny + 1, nz + 1}, [=](int, int, int, Cell c) {
    pre[c] = volume[c] + sum_of_axes(to_sweep[0] * (flux[0][c + 1] - flux[0][c]),
                                     to_sweep[1] * (flux[1][c + sy] - flux[1][c]),
                                     to_sweep[2] * (flux[2][c + sz] - flux[2][c]));
    post[c] = pre[c] - (swept[c + up] - swept[c]);
  });
}

void System::cell_fluxes(int axis) {
  if (!begins(along(Loop::cell_fluxes_x, axis))) return;
  if (axis == x_axis) cell_fluxes_along<x_axis>();
  if (axis == y_axis) cell_fluxes_along<y_axis>();
  if (axis == z_axis) cell_fluxes_along<z_axis>();
}

/// Also of the last face, which may be the next block's, and beside the box, where the work array has values.
template <int axis>
void System::cell_fluxes_along() {
  const Cell up = layout_.stride[axis];
  const double* density = data(Field::density1);
  const double* energy = data(Field::energy1);
  const double* volume = data(Field::pre_volume);
  const double* volume_flux = data(along(Field::vol_flux_x, axis));
  double* mass_flux = data(along(Field::mass_flux_x, axis));
  double* energy_flux = data(Field::energy_flux);
  const double* apart = line(axis, Mesh::Kind::vertex_width);
  Triple end = owned_nodes();
  end[axis] = layout_.cells[axis] + 1;
  for_box(layout_, {0, 0, 0}, end, [=](int i, int j, int k, Cell c) {
    const int face = index_along<axis>(i, j, k);
    const bool upward = volume_flux[c] > 0;
    const double stretched = apart[face] / (upward ? apart[face - 1] : apart[face + 1]);
    const Around densities{density[c - 2 * up], density[c - up], density[c], density[c + up]};
    const Around energies{energy[c - 2 * up], energy[c - up], energy[c], energy[c + up]};
    const double donor_volume = upward ? volume[c - up] : volume[c];
    const double sigma = std::abs(volume_flux[c]) / donor_volume;
    mass_flux[c] = volume_flux[c] * densities.carried_by(upward, sigma, stretched);
    const double donor_mass = (upward ? densities.before : densities.after) * donor_volume;
    energy_flux[c] = mass_flux[c] * energies.carried_by(upward, std::abs(mass_flux[c]) / donor_mass, stretched);
  });
}

void System::cell_update(int axis) {
  if (!begins(along(Loop::cell_update_x, axis))) return;
  const Cell up = layout_.stride[static_cast<std::size_t>(axis)];
  const double* pre_volume = data(Field::pre_volume);
  const double* post_volume = data(Field::post_volume);
  const double* mass_flux = data(along(Field::mass_flux_x, axis));
  const double* energy_flux = data(Field::energy_flux);
  double* density = data(Field::density1);
  double* energy = data(Field::energy1);
  for_cells(layout_, [=](int, int, int, Cell c) {
    const double pre_mass = density[c] * pre_volume[c];
    const double post_mass = pre_mass + (mass_flux[c] - mass_flux[c + up]);
    energy[c] = (energy[c] * pre_mass + (energy_flux[c] - energy_flux[c + up])) / post_mass;
    density[c] = post_mass / post_volume[c];
  });
}

// As far into the halo as momentum_flux() reads them.
void System::node_masses(int axis) {
  if (!begins(along(Loop::node_masses_x, axis))) return;
  const auto a = static_cast<std::size_t>(axis);
  const Cell sx = layout_.stride[x_axis];
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const Cell up = layout_.stride[a];
  const Cell side = axis == x_axis ? sy : sx;
  const Cell other_side = axis == z_axis ? sy : sz;
  const double* mass_flux = data(along(Field::mass_flux_x, axis));
  double* flux = data(Field::node_flux);
  const auto at = [=](Cell n) { return mass_flux[n]; };
  Triple lower{};
  Triple end = owned_nodes();
  lower[a] = -halo;
  ++end[a];
  for_box(layout_, lower, end, [=](int, int, int, Cell c) {
    const Cell below = c - side - other_side;
    flux[c] = (sum_of_square(at, below, side, other_side) + sum_of_square(at, below + up, side, other_side)) / 8;
  });
  const double* density = data(Field::density1);
  const double* volume = data(Field::post_volume);
  double* pre = data(Field::node_mass_pre);
  double* post = data(Field::node_mass_post);
  const auto mass = [=](Cell n) { return density[n] * volume[n]; };
  lower[a] = -1;
  for_box(layout_, lower, end, [=](int, int, int, Cell c) {
    post[c] = sum_of_cube(mass, c - sx - sy - sz, sx, sy, sz) / 8;
    pre[c] = post[c] + (flux[c] - flux[c - up]);
  });
}

void System::momentum_flux(int axis, int component) {
  if (!begins(along(Loop::momentum_flux_x, component))) return;
  if (axis == x_axis) momentum_flux_along<x_axis>(component);
  if (axis == y_axis) momentum_flux_along<y_axis>(component);
  if (axis == z_axis) momentum_flux_along<z_axis>(component);
}

/// From each node to the next one, from the one below the block on.
template <int axis>
void System::momentum_flux_along(int component) {
  const Cell up = layout_.stride[axis];
  const double* flux = data(Field::node_flux);
  const double* mass = data(Field::node_mass_pre);
  const double* velocity = data(along(Field::xvel1, component));
  double* momentum = data(Field::momentum_flux);
  const double* apart = line(axis, Mesh::Kind::width);
  Triple lower{};
  lower[axis] = -1;
  for_box(layout_, lower, owned_nodes(), [=](int i, int j, int k, Cell c) {
    const int node = index_along<axis>(i, j, k);
    const bool upward = flux[c] > 0;
    const double stretched = apart[node] / (upward ? apart[node - 1] : apart[node + 1]);
    const Around velocities{velocity[c - up], velocity[c], velocity[c + up], velocity[c + 2 * up]};
    const double sigma = std::abs(flux[c]) / (upward ? mass[c] : mass[c + up]);
    momentum[c] = flux[c] * velocities.carried_by(upward, sigma, stretched);
  });
}

void System::momentum_update(int axis, int component) {
  if (!begins(along(Loop::momentum_update_x, component))) return;
  const Cell up = layout_.stride[static_cast<std::size_t>(axis)];
  const double* pre = data(Field::node_mass_pre);
  const double* post = data(Field::node_mass_post);
  const double* momentum = data(Field::momentum_flux);
  double* velocity = data(along(Field::xvel1, component));
  for_box(layout_, {0, 0, 0}, owned_nodes(), [=](int, int, int, Cell c) {
    velocity[c] = (velocity[c] * pre[c] + (momentum[c - up] - momentum[c])) / post[c];
  });
}

}  // namespace clover3d
