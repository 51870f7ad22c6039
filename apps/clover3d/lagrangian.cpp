// The loops that move the mesh with the gas.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "../mpi_check.h"
#include "stencils.h"
#include "system.h"

namespace clover3d {

namespace {

constexpr double gamma = 1.4;
/// Parts of the time in which sound crosses a cell, gas crosses a cell, and a cell is squeezed to nothing.
constexpr double sound_part = 0.7;
constexpr double flow_part = 0.5;
constexpr double squeeze_part = 0.5;

/// Differences of the velocities over the cell at c, from the means of its faces; twelve loads a component.
struct Gradient {
  double x, y, z;
  Gradient(const double* v, Cell c, Cell up_y, Cell up_z, double dx, double dy, double dz) {
    const auto at = [v](Cell n) { return v[n]; };
    x = (sum_of_square(at, c + 1, up_y, up_z) - sum_of_square(at, c, up_y, up_z)) / (4 * dx);
    y = (sum_of_square(at, c + up_y, 1, up_z) - sum_of_square(at, c, 1, up_z)) / (4 * dy);
    z = (sum_of_square(at, c + up_z, 1, up_y) - sum_of_square(at, c, 1, up_y)) / (4 * dz);
  }
};

}  // namespace

void System::ideal_gas(Field density_field, Field energy_field) {
  const double* density = data(density_field);
  const double* energy = data(energy_field);
  double* pressure = data(Field::pressure);
  double* soundspeed = data(Field::soundspeed);
  for_cells(layout_, [=](int, int, int, Cell c) {
    pressure[c] = (gamma - 1) * density[c] * energy[c];
    soundspeed[c] = std::sqrt(gamma * pressure[c] / density[c]);
  });
}

void System::ideal_gas_start() {
  if (!begins(Loop::ideal_gas_start)) return;
  ideal_gas(Field::density0, Field::energy0);
}

void System::ideal_gas_half() {
  if (!begins(Loop::ideal_gas_half)) return;
  ideal_gas(Field::density1, Field::energy1);
}

// Quadratic, of von Neumann and Richtmyer: q = 2 rho (L s)^2 with the rate of strain s along the gradient of the
// pressure and the length L of the cell in that direction; zero where the gas does not contract.
void System::viscosity() {
  if (!begins(Loop::viscosity)) return;
  const double* density = data(Field::density0);
  const double* p = data(Field::pressure);
  double* q = data(Field::viscosity);
  const Three velocity = three(Field::xvel0);
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const double* dx = line(x_axis, Mesh::Kind::width);
  const double* dy = line(y_axis, Mesh::Kind::width);
  const double* dz = line(z_axis, Mesh::Kind::width);
  const double* to_x = line(x_axis, Mesh::Kind::vertex_width);
  const double* to_y = line(y_axis, Mesh::Kind::vertex_width);
  const double* to_z = line(z_axis, Mesh::Kind::vertex_width);
  for_cells(layout_, [=](int i, int j, int k, Cell c) {
    const Gradient du(velocity[0], c, sy, sz, dx[i], dy[j], dz[k]);
    const Gradient dv(velocity[1], c, sy, sz, dx[i], dy[j], dz[k]);
    const Gradient dw(velocity[2], c, sy, sz, dx[i], dy[j], dz[k]);
    const double gx = (p[c + 1] - p[c - 1]) / (to_x[i] + to_x[i + 1]);
    const double gy = (p[c + sy] - p[c - sy]) / (to_y[j] + to_y[j + 1]);
    const double gz = (p[c + sz] - p[c - sz]) / (to_z[k] + to_z[k + 1]);
    const double g_g = sum_of_axes(gx * gx, gy * gy, gz * gz);
    const double stretch = sum_of_axes(du.x * (gx * gx), dv.y * (gy * gy), dw.z * (gz * gz));
    const double shear = sum_of_axes((du.y + dv.x) * (gx * gy), (du.z + dw.x) * (gx * gz), (dv.z + dw.y) * (gy * gz));
    const double strain = g_g > 0 ? (stretch + shear) / g_g : 0;
    const double divergence = sum_of_axes(du.x, dv.y, dw.z);
    const double g = std::sqrt(g_g);
    const double length = g * std::min(dy[j] / std::abs(gy), std::min(dx[i] / std::abs(gx), dz[k] / std::abs(gz)));
    const double squeezed = length * strain;
    const double pushed = 2 * density[c] * (squeezed * squeezed);
    q[c] = std::max(divergence, strain) < 0 ? pushed : 0;
  });
}

double System::time_step() {
  if (!begins(Loop::time_step)) return watch_.returns(0.0);
  const double* density = data(Field::density0);
  const double* sound = data(Field::soundspeed);
  const double* q = data(Field::viscosity);
  const Three velocity = three(Field::xvel0);
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const double* dx = line(x_axis, Mesh::Kind::width);
  const double* dy = line(y_axis, Mesh::Kind::width);
  const double* dz = line(z_axis, Mesh::Kind::width);
  double fastest = 0;  // steps a unit of time
  double wrong = 0;
  for (int k = 0; k < layout_.cells[z_axis]; ++k) {
    for (int j = 0; j < layout_.cells[y_axis]; ++j) {
      const Cell row = layout_.at(0, j, k);
#pragma omp simd reduction(max : fastest) reduction(+ : wrong)
      for (int i = 0; i < layout_.cells[x_axis]; ++i) {
        const Cell c = row + i;
        const auto at = [c](const double* v, Cell a, Cell b) {
          return sum_of_square([v](Cell n) { return v[n]; }, c, a, b) / 4;
        };
        const auto flow = [&](const double* v, Cell a, Cell b, Cell up, double width) {
          return std::max(std::abs(at(v, a, b)), std::abs(at(v + up, a, b))) / width;
        };
        const auto change = [&](const double* v, Cell a, Cell b, Cell up, double width) {
          return (at(v + up, a, b) - at(v, a, b)) / width;
        };
        const double shortest = std::min(dy[j], std::min(dx[i], dz[k]));
        const double crossing = std::sqrt(sound[c] * sound[c] + 2 * q[c] / density[c]) / (sound_part * shortest);
        const double flowing =
            std::max(flow(velocity[1], 1, sz, sy, dy[j]),
                     std::max(flow(velocity[0], sy, sz, 1, dx[i]), flow(velocity[2], 1, sy, sz, dz[k])));
        const double divergence =
            sum_of_axes(change(velocity[0], sy, sz, 1, dx[i]), change(velocity[1], 1, sz, sy, dy[j]),
                        change(velocity[2], 1, sy, sz, dz[k]));
        const double rate = std::max(crossing, std::max(flowing / flow_part, std::abs(divergence) / squeeze_part));
        wrong += crossing + flowing + divergence <= std::numeric_limits<double>::max() ? 0 : 1;
        fastest = std::max(fastest, rate);
      }
    }
  }
  if (wrong > 0) fastest = std::numeric_limits<double>::infinity();
  program::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &fastest, 1, MPI_DOUBLE, MPI_MAX, comm_), "MPI_Allreduce");
  if (!(fastest <= std::numeric_limits<double>::max()))
    throw std::runtime_error("the flow is not finite any more: this program has a fault, or its checkpoint is damaged");
  return watch_.returns(1 / fastest);
}

/// Volume through the lower face of a cell in dt, by the mean of its nodes at the beginning and at the end.
struct System::FaceFlux {
  const double* area;
  const double* begin;
  const double* end;
  Cell a, b;  ///< along the edges of the face
  double dt;
  double operator()(Cell c) const {
    const double at_begin = sum_of_square([this](Cell n) { return begin[n]; }, c, a, b);
    const double at_end = sum_of_square([this](Cell n) { return end[n]; }, c, a, b);
    return 0.125 * dt * area[c] * (at_begin + at_end);
  }
};

void System::pdv(Field end_velocity, double dt) {
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const Three area = three(Field::xarea), before = three(Field::xvel0), after = three(end_velocity);
  const FaceFlux flux_x{area[0], before[0], after[0], sy, sz, dt};
  const FaceFlux flux_y{area[1], before[1], after[1], 1, sz, dt};
  const FaceFlux flux_z{area[2], before[2], after[2], 1, sy, dt};
  const double* volume = data(Field::volume);
  const double* p = data(Field::pressure);
  const double* q = data(Field::viscosity);
  const double* density0 = data(Field::density0);
  const double* energy0 = data(Field::energy0);
  double* density1 = data(Field::density1);
  double* energy1 = data(Field::energy1);
  for_cells(layout_, [=](int, int, int, Cell c) {
    const double gained =
        sum_of_axes(flux_x(c + 1) - flux_x(c), flux_y(c + sy) - flux_y(c), flux_z(c + sz) - flux_z(c));
    density1[c] = density0[c] * (volume[c] / (volume[c] + gained));
    energy1[c] = energy0[c] - (p[c] + q[c]) * gained / (density0[c] * volume[c]);
  });
}

void System::pdv_predict(double dt) {
  if (!begins(Loop::pdv_predict)) return;
  pdv(Field::xvel0, dt / 2);
}

void System::pdv_correct(double dt) {
  if (!begins(Loop::pdv_correct)) return;
  pdv(Field::xvel1, dt);
}

// The force on a node is the work on the cells around it, turned round: what the gas loses in pdv_correct() is what the
// nodes gain here.
void System::accelerate(double dt) {
  if (!begins(Loop::accelerate)) return;
  const Cell sy = layout_.stride[y_axis];
  const Cell sz = layout_.stride[z_axis];
  const double* density = data(Field::density0);
  const double* volume = data(Field::volume);
  const double* p = data(Field::pressure);
  const double* q = data(Field::viscosity);
  const auto mass = [=](Cell n) { return density[n] * volume[n]; };
  const auto force = [=](const double* area, Cell c, Cell down, Cell a, Cell b) {
    const auto of_face = [=](Cell f) { return area[f] * ((p[f] + q[f]) - (p[f - down] + q[f - down])); };
    return sum_of_square(of_face, c - a - b, a, b);
  };
  const Three area = three(Field::xarea), before = three(Field::xvel0), after = three(Field::xvel1);
  for_box(layout_, {0, 0, 0}, owned_nodes(), [=](int, int, int, Cell c) {
    const double step = dt / 4 / (sum_of_cube(mass, c - 1 - sy - sz, 1, sy, sz) / 8);
    after[0][c] = before[0][c] - step * force(area[0], c, 1, sy, sz);
    after[1][c] = before[1][c] - step * force(area[1], c, sy, 1, sz);
    after[2][c] = before[2][c] - step * force(area[2], c, sz, 1, sy);
  });
}

void System::volume_fluxes(double dt) {
  if (!begins(Loop::volume_fluxes)) return;
  const std::array<Cell, 3> s = layout_.stride;
  for (int axis = 0; axis < 3; ++axis) {
    const Cell a = axis == x_axis ? s[y_axis] : s[x_axis];
    const Cell b = axis == z_axis ? s[y_axis] : s[z_axis];
    const FaceFlux flux{
        data(along(Field::xarea, axis)), data(along(Field::xvel0, axis)), data(along(Field::xvel1, axis)), a, b, dt};
    const Field field = along(Field::vol_flux_x, axis);
    double* out = data(field);
    for_box(layout_, {0, 0, 0}, layout_.owned(stagger_of(field)), [=](int, int, int, Cell c) { out[c] = flux(c); });
  }
}

}  // namespace clover3d
