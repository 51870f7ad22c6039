#include "stored.h"

#include "stencils.h"

namespace tgv {

StoredSolver::StoredSolver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks)
    : AnySolver(comm, flow, cfl, ranks) {
  for (auto& array : arrays_) array.assign(static_cast<std::size_t>(layout_.points), 0);
}

double* StoredSolver::data(Field field) {
  const auto number = static_cast<std::size_t>(field);
  return number < fields_.size() ? fields_[number].data() : arrays_[number - fields_.size()].data();
}

/// Calls `body` with the position of each point of the block. It must not matter in which order.
template <class Body>
void StoredSolver::for_points(const Body& body) const {
  for (int k = 0; k < layout_.size[z_axis]; ++k) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) {
      const std::ptrdiff_t row = layout_.at(0, j, k);
      const std::ptrdiff_t end = row + layout_.size[x_axis];
#pragma omp simd
      for (std::ptrdiff_t p = row; p < end; ++p) body(p);
    }
  }
}

void StoredSolver::fill_halos(std::initializer_list<Field> fields) {
  for (const Field field : fields) {
    const std::array<double*, 1> one = {data(field)};
    halos_.exchange(one);
  }
}

void StoredSolver::find_primitives() {
  const double* mass = data(Field::density);
  const auto momentum = several<3>(Field::momentum_x);
  const auto velocity = several<3>(Field::u);
  for_points(Loop::velocity, [=](std::ptrdiff_t p) {
    const double volume = 1 / mass[p];
    for (std::size_t a = 0; a < 3; ++a) velocity[a][p] = momentum[a][p] * volume;
  });

  const double gamma_1 = flow_.gamma - 1;
  const double* total = data(Field::energy);
  double* pressure = data(Field::pressure);
  for_points(Loop::pressure, [=](std::ptrdiff_t p) {
    pressure[p] = gamma_1 * (total[p] - 0.5 * (momentum[0][p] * velocity[0][p] + momentum[1][p] * velocity[1][p] +
                                               momentum[2][p] * velocity[2][p]));
  });

  double* temperature = data(Field::temperature);
  for_points(Loop::temperature, [=](std::ptrdiff_t p) { temperature[p] = pressure[p] * (1 / mass[p]); });

  double* enthalpy = data(Field::enthalpy);
  for_points(Loop::enthalpy, [=](std::ptrdiff_t p) { enthalpy[p] = (total[p] + pressure[p]) * (1 / mass[p]); });
}

void StoredSolver::find_dilatation() {
  if (!watch_.begins(Loop::dilatation)) return;
  fill_halos({Field::u, Field::v, Field::w});
  const double scale = 1 / (12 * flow_.spacing());
  const auto [sx, sy, sz] = layout_.stride;
  const auto velocity = several<3>(Field::u);
  double* out = data(Field::dilatation);
  for_points([=, sx = sx, sy = sy, sz = sz](std::ptrdiff_t p) {
    out[p] = scale * (slope(velocity[0] + p, sx) + slope(velocity[1] + p, sy) + slope(velocity[2] + p, sz));
  });
}

void StoredSolver::find_gradient(Loop loop, Field of, Field first) {
  if (!watch_.begins(loop)) return;
  fill_halos({of});
  const double scale = 1 / (12 * flow_.spacing());
  const double* f = data(of);
  const auto out = several<3>(first);
  for_points([=, stride = layout_.stride](std::ptrdiff_t p) {
    for (std::size_t a = 0; a < 3; ++a) out[a][p] = scale * slope(f + p, stride[a]);
  });
}

void StoredSolver::find_bends(Loop loop, Field of, Field first) {
  if (!watch_.begins(loop)) return;
  fill_halos({of});
  const double* f = data(of);
  const auto out = several<3>(first);
  for_points([=, stride = layout_.stride](std::ptrdiff_t p) {
    for (std::size_t a = 0; a < 3; ++a) out[a][p] = bend(f + p, stride[a]);
  });
}

template <int axis>
void StoredSolver::find_fluxes() {
  if (!watch_.begins(behind(Loop::x_fluxes, axis))) return;
  fill_halos({Field::density, Field::u, Field::v, Field::w, Field::pressure, Field::enthalpy});
  const FaceFlux<axis> flux{flow_.spacing(),       layout_.stride[axis],
                            data(Field::density),  {data(Field::u), data(Field::v), data(Field::w)},
                            data(Field::pressure), data(Field::enthalpy)};
  const auto out = several<5>(behind(Field::mass_flux_x, 5 * axis));
  for_points([=](std::ptrdiff_t p) { flux(p, [=](std::size_t field, double value) { out[field][p] = value; }); });
}

/// What comes in through the faces before each point, less what leaves through those behind it.
void StoredSolver::convect() {
  if (!watch_.begins(Loop::convection)) return;
  const auto [sx, sy, sz] = layout_.stride;
  const auto x = several<5>(Field::mass_flux_x);
  const auto y = several<5>(Field::mass_flux_y);
  const auto z = several<5>(Field::mass_flux_z);
  halos_.exchange(x, x_axis);
  halos_.exchange(y, y_axis);
  halos_.exchange(z, z_axis);
  const auto rate = several<5>(Field::density_rate);
  for_points([=, sx = sx, sy = sy, sz = sz](std::ptrdiff_t p) {
    for (std::size_t c = 0; c < 5; ++c)
      rate[c][p] = ((x[c][p - sx] - x[c][p]) + (y[c][p - sy] - y[c][p])) + (z[c][p - sz] - z[c][p]);
  });
}

// div tau = mu (laplacian u + grad(div u) / 3);  work = u . div tau + tau : grad u;  heat = kappa laplacian T
void StoredSolver::find_forces() {
  const double mu = flow_.viscosity();
  const double scale = 1 / (12 * flow_.spacing() * flow_.spacing());
  const auto bends = several<9>(Field::u_xx);
  const auto squeeze = several<3>(Field::dilatation_x);
  const auto force = several<3>(Field::force_x);
  for_points(Loop::forces, [=](std::ptrdiff_t p) {
    for (std::size_t a = 0; a < 3; ++a) {
      const double laplacian = bends[3 * a][p] + bends[3 * a + 1][p] + bends[3 * a + 2][p];
      force[a][p] = mu * (scale * laplacian + squeeze[a][p] * (1.0 / 3));
    }
  });
}

void StoredSolver::find_friction() {
  const auto [ux, uy, uz, vx, vy, vz, wx, wy, wz] = several<9>(Field::u_x);
  const double* theta = data(Field::dilatation);
  double* friction = data(Field::friction);
  for_points(Loop::friction,
             [=, ux = ux, uy = uy, uz = uz, vx = vx, vy = vy, vz = vz, wx = wx, wy = wy, wz = wz](std::ptrdiff_t p) {
               const double xy = uy[p] + vx[p], xz = uz[p] + wx[p], yz = vz[p] + wy[p];
               const double stretch = ux[p] * ux[p] + vy[p] * vy[p] + wz[p] * wz[p];
               friction[p] = 2 * stretch + xy * xy + xz * xz + yz * yz - (2.0 / 3) * theta[p] * theta[p];
             });
}

void StoredSolver::diffuse() {
  const double mu = flow_.viscosity();
  const double kappa = flow_.conductivity();
  const double scale = 1 / (12 * flow_.spacing() * flow_.spacing());
  const auto velocity = several<3>(Field::u);
  const auto force = several<3>(Field::force_x);
  const auto bends = several<3>(Field::temperature_xx);
  const double* friction = data(Field::friction);
  const auto rate = several<4>(Field::momentum_x_rate);
  for_points(Loop::diffusion, [=](std::ptrdiff_t p) {
    double power = rate[3][p];
    for (std::size_t a = 0; a < 3; ++a) {
      rate[a][p] += force[a][p];
      power += velocity[a][p] * force[a][p];
    }
    const double heat = bends[0][p] + bends[1][p] + bends[2][p];
    rate[3][p] = power + (mu * friction[p] + kappa * (scale * heat));
  });
}

void StoredSolver::find_rates() {
  find_primitives();
  find_dilatation();
  find_gradient(Loop::dilatation_gradient, Field::dilatation, Field::dilatation_x);
  for (std::size_t c = 0; c < 3; ++c)
    find_gradient(behind(Loop::u_gradient, c), behind(Field::u, c), behind(Field::u_x, 3 * c));
  for (std::size_t c = 0; c < 3; ++c)
    find_bends(behind(Loop::u_bends, c), behind(Field::u, c), behind(Field::u_xx, 3 * c));
  find_bends(Loop::temperature_bends, Field::temperature, Field::temperature_xx);
  find_fluxes<x_axis>();
  find_fluxes<y_axis>();
  find_fluxes<z_axis>();
  convect();
  find_forces();
  find_friction();
  diffuse();
}

void StoredSolver::change(const Stage& stage, bool first) {
  const double dt = dt_;
  const auto rate = several<5>(Field::density_rate);
  const auto change = several<5>(Field::density_change);
  // Not `0 * change` in the first stage, which would read it.
  for_points(first ? Loop::first_change : Loop::change, [=, keep = stage.keep](std::ptrdiff_t p) {
    for (std::size_t c = 0; c < 5; ++c) change[c][p] = first ? dt * rate[c][p] : keep * change[c][p] + dt * rate[c][p];
  });
}

void StoredSolver::advance_fields(double weight) {
  const auto change = several<5>(Field::density_change);
  const auto field = several<5>(Field::density);
  for_points(Loop::advance, [=](std::ptrdiff_t p) {
    for (std::size_t c = 0; c < 5; ++c) field[c][p] += weight * change[c][p];
  });
}

void StoredSolver::advance() {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    find_rates();
    change(stages[s], s == 0);
    advance_fields(stages[s].weight);
  }
}

Totals StoredSolver::totals() {
  find_rates();
  if (!watch_.begins(Loop::sums)) return watch_.returns(Totals{});
  Sums sums;
  for (int k = 0; k < layout_.size[z_axis]; ++k) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) {
      const std::ptrdiff_t at = layout_.at(0, j, k);
      Rates::Row row{};
      for (std::size_t c = 0; c < 5; ++c) row.rate[c] = data(behind(Field::density_rate, c)) + at;
      for (std::size_t c = 0; c < 3; ++c) {
        for (std::size_t a = 0; a < 3; ++a) row.gradient[c][a] = data(behind(Field::u_x, 3 * c + a)) + at;
        row.velocity[c] = data(behind(Field::u, c)) + at;
      }
      row.density = data(Field::density) + at;
      sums.add(row, layout_.size[x_axis]);
    }
  }
  return watch_.returns(sums.means(comm_, flow_.n));
}

}  // namespace tgv
