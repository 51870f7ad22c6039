#include "rates.h"

#include <algorithm>
#include <numbers>
#include <utility>

#include "stencils.h"

namespace tgv {

namespace {
constexpr std::size_t own_rows = 5 + 9 + 4 + 3;
}  // namespace

double Flow::spacing() const { return 2 * std::numbers::pi / n; }

Rates::Rates(const Layout& layout, const Flow& flow) : layout_(layout), flow_(flow) {
  const auto points = static_cast<std::size_t>(layout.points);
  for (auto& v : velocity_) v.resize(points);
  for (auto* f : {&density_, &pressure_, &temperature_, &enthalpy_, &dilatation_}) f->resize(points);
  const auto nx = static_cast<std::size_t>(layout.size[x_axis]);
  x_faces_.resize(5 * (nx + 1));
  y_faces_.resize(5 * nx);
  new_faces_.resize(5 * nx);
  z_faces_.resize(5 * nx * static_cast<std::size_t>(layout.size[y_axis]));
  scratch_.resize(own_rows * nx);
  double* next = scratch_.data();
  const auto take = [&](double*& row) { row = std::exchange(next, next + nx); };
  for (auto& r : row_.rate) take(r);
  for (auto& component : row_.gradient) {
    for (auto& g : component) take(g);
  }
  for (auto& l : laplacian_) take(l);
  for (auto& s : squeeze_) take(s);
}

void Rates::set_primitives(const Fields& fields) {
  const double* mass = fields[0].data();
  const double* mx = fields[1].data();
  const double* my = fields[2].data();
  const double* mz = fields[3].data();
  const double* total = fields[energy_field].data();
  double* u = velocity_[0].data();
  double* v = velocity_[1].data();
  double* w = velocity_[2].data();
  double* density = density_.data();
  double* pressure = pressure_.data();
  double* temperature = temperature_.data();
  double* enthalpy = enthalpy_.data();
  const double gamma_1 = flow_.gamma - 1;
#pragma omp simd
  for (std::ptrdiff_t i = 0; i < layout_.points; ++i) {
    const double volume = 1 / mass[i];
    density[i] = mass[i];
    u[i] = mx[i] * volume;
    v[i] = my[i] * volume;
    w[i] = mz[i] * volume;
    pressure[i] = gamma_1 * (total[i] - 0.5 * (mx[i] * u[i] + my[i] * v[i] + mz[i] * w[i]));
    temperature[i] = pressure[i] * volume;
    enthalpy[i] = (total[i] + pressure[i]) * volume;
  }
}

double* Rates::set_dilatation() {
  const double scale = 1 / (12 * flow_.spacing());
  const auto [sx, sy, sz] = layout_.stride;
  for (int k = 0; k < layout_.size[z_axis]; ++k) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) {
      const std::ptrdiff_t at = layout_.at(0, j, k);
      const double* u = velocity_[0].data() + at;
      const double* v = velocity_[1].data() + at;
      const double* w = velocity_[2].data() + at;
      double* out = dilatation_.data() + at;
#pragma omp simd
      for (int i = 0; i < layout_.size[x_axis]; ++i) {
        out[i] = scale * (slope(u + i, sx) + slope(v + i, sy) + slope(w + i, sz));
      }
    }
  }
  return dilatation_.data();
}

const Rates::Row& Rates::row(int j, int k) {
  const std::ptrdiff_t at = layout_.at(0, j, k);
  for (std::size_t c = 0; c < 3; ++c) row_.velocity[c] = velocity_[c].data() + at;
  row_.density = density_.data() + at;
  convect(j, k);
  diffuse(at);
  return row_;
}

template <int normal>
void Rates::face_fluxes(std::ptrdiff_t at, int count, double* faces) const {
  const FaceFlux<normal> flux{
      flow_.spacing(),       layout_.stride[normal],
      density_.data() + at,  {velocity_[0].data() + at, velocity_[1].data() + at, velocity_[2].data() + at},
      pressure_.data() + at, enthalpy_.data() + at};
#pragma omp simd
  for (int i = 0; i < count; ++i) flux(i, [=](int field, double value) { faces[field * count + i] = value; });
}

void Rates::convect(int j, int k) {
  const int nx = layout_.size[x_axis];
  face_fluxes<x_axis>(layout_.at(-1, j, k), nx + 1, x_faces_.data());
  double* z_faces = z_faces_.data() + 5 * nx * j;
  if (k == 0) face_fluxes<z_axis>(layout_.at(0, j, -1), nx, z_faces);
  if (j == 0) face_fluxes<y_axis>(layout_.at(0, -1, k), nx, y_faces_.data());
  const auto leave_through = [&](double* faces, bool first) {
    for (std::size_t c = 0; c < 5; ++c) {
      const double* x = x_faces_.data() + static_cast<int>(c) * (nx + 1);
      const double* ahead = new_faces_.data() + static_cast<int>(c) * nx;
      double* behind = faces + static_cast<int>(c) * nx;
      double* rate = row_.rate[c];
#pragma omp simd
      for (int i = 0; i < nx; ++i) {
        rate[i] = (first ? x[i] - x[i + 1] : rate[i]) + (behind[i] - ahead[i]);
        behind[i] = ahead[i];
      }
    }
  };
  face_fluxes<y_axis>(layout_.at(0, j, k), nx, new_faces_.data());
  leave_through(y_faces_.data(), true);
  face_fluxes<z_axis>(layout_.at(0, j, k), nx, new_faces_.data());
  leave_through(z_faces, false);
}

template <int axis>
void Rates::add_viscous(std::ptrdiff_t at) {
  const std::ptrdiff_t s = layout_.stride[axis];
  const int nx = layout_.size[x_axis];
  const double scale = 1 / (12 * flow_.spacing());
  for (std::size_t c = 0; c < 4; ++c) {
    const double* f = (c < 3 ? velocity_[c].data() : temperature_.data()) + at;
    double* laplacian = laplacian_[c];
    double* gradient = c < 3 ? row_.gradient[c][axis] : nullptr;
#pragma omp simd
    for (int i = 0; i < nx; ++i) laplacian[i] = axis == x_axis ? bend(f + i, s) : laplacian[i] + bend(f + i, s);
    if (gradient == nullptr) continue;
#pragma omp simd
    for (int i = 0; i < nx; ++i) gradient[i] = scale * slope(f + i, s);
  }
  const double* theta = dilatation_.data() + at;
  double* squeeze = squeeze_[axis];
#pragma omp simd
  for (int i = 0; i < nx; ++i) squeeze[i] = scale * slope(theta + i, s);
}

// div tau = mu (laplacian u + grad(div u) / 3);  work = u . div tau + tau : grad u;  heat = kappa laplacian T
void Rates::diffuse(std::ptrdiff_t at) {
  add_viscous<x_axis>(at);
  add_viscous<y_axis>(at);
  add_viscous<z_axis>(at);
  finish_viscous(at);
}

void Rates::finish_viscous(std::ptrdiff_t at) {
  const int nx = layout_.size[x_axis];
  const double mu = flow_.viscosity();
  const double kappa = flow_.conductivity();
  const double scale = 1 / (12 * flow_.spacing() * flow_.spacing());
  const double* theta = dilatation_.data() + at;
  double* power = row_.rate[energy_field];
  for (std::size_t c = 0; c < 3; ++c) {
    const double* laplacian = laplacian_[c];
    const double* squeeze = squeeze_[c];
    const double* velocity = row_.velocity[c];
    double* rate = row_.rate[1 + c];
#pragma omp simd
    for (int i = 0; i < nx; ++i) {
      const double force = mu * (scale * laplacian[i] + squeeze[i] * (1.0 / 3));
      rate[i] += force;
      power[i] += velocity[i] * force;
    }
  }
  const auto& g = row_.gradient;
  const double *ux = g[0][0], *uy = g[0][1], *uz = g[0][2], *vx = g[1][0], *vy = g[1][1], *vz = g[1][2];
  const double *wx = g[2][0], *wy = g[2][1], *wz = g[2][2], *heat = laplacian_[3];
#pragma omp simd
  for (int i = 0; i < nx; ++i) {
    const double xy = uy[i] + vx[i], xz = uz[i] + wx[i], yz = vz[i] + wy[i];
    const double stretch = ux[i] * ux[i] + vy[i] * vy[i] + wz[i] * wz[i];
    const double friction = 2 * stretch + xy * xy + xz * xz + yz * yz - (2.0 / 3) * theta[i] * theta[i];
    power[i] += mu * friction + kappa * (scale * heat[i]);
  }
}

}  // namespace tgv
