#include "solver.h"

#include <array>
#include <cmath>
#include <stdexcept>

namespace tgv {

namespace {

Block own_block(MPI_Comm comm, int n, Triple ranks) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  if (ranks == Triple{}) ranks = choose_ranks(size, n);
  if (ranks[0] * ranks[1] * ranks[2] != size) throw std::invalid_argument("the blocks are not as many as the ranks");
  return block_of(rank, ranks, n);
}

}  // namespace

AnySolver::AnySolver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks)
    : comm_(comm),
      flow_(flow),
      block_(own_block(comm, flow.n, ranks)),
      layout_(block_.size()),
      halos_(comm, block_, layout_, 5),
      dt_(cfl * flow.spacing() / (1 + 1 / flow.mach)) {
  const auto points = static_cast<std::size_t>(layout_.points);
  for (auto& f : fields_) f.assign(points, 0);
  // Rest, also in the edges of the halo, which nobody reads but which are divided by.
  fields_[0].assign(points, 1);
  fields_[energy_field].assign(points, flow.pressure() / (flow.gamma - 1));
}

void AnySolver::start(const std::function<Primitive(double x, double y, double z)>& flow_at) {
  const double h = flow_.spacing();
  const auto [nx, ny, nz] = layout_.size;
  for (int k = 0; k < nz; ++k) {
    for (int j = 0; j < ny; ++j) {
      for (int i = 0; i < nx; ++i) {
        const Primitive p = flow_at((block_.lower[0] + i) * h, (block_.lower[1] + j) * h, (block_.lower[2] + k) * h);
        const auto at = static_cast<std::size_t>(layout_.at(i, j, k));
        const auto& u = p.velocity;
        fields_[0][at] = p.density;
        for (std::size_t c = 0; c < 3; ++c) fields_[1 + c][at] = p.density * u[c];
        fields_[energy_field][at] =
            p.pressure / (flow_.gamma - 1) + 0.5 * p.density * (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
      }
    }
  }
}

void AnySolver::start_taylor_green() {
  const double rest = flow_.pressure();
  start([rest](double x, double y, double z) {
    const double pressure = rest + (std::cos(2 * x) + std::cos(2 * y)) * (std::cos(2 * z) + 2) / 16;
    return Primitive{pressure / rest,
                     {std::sin(x) * std::cos(y) * std::cos(z), -std::cos(x) * std::sin(y) * std::cos(z), 0},
                     pressure};
  });
}

Solver::Solver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks)
    : AnySolver(comm, flow, cfl, ranks), rates_(layout_, flow) {
  for (auto& f : change_) f.assign(static_cast<std::size_t>(layout_.points), 0);
}

void Solver::prepare_rates() {
  const std::array<double*, 5> state = {fields_[0].data(), fields_[1].data(), fields_[2].data(), fields_[3].data(),
                                        fields_[4].data()};
  halos_.exchange(state);
  rates_.set_primitives(fields_);
  const std::array<double*, 1> dilatation = {rates_.set_dilatation()};
  halos_.exchange(dilatation);
}

void Solver::advance() {
  for (std::size_t s = 0; s < stages.size(); ++s) stage(stages[s], s == 0);
}

// The fields can change row by row: the rates are computed from the primitives, which stay.
void Solver::stage(const Stage& stage, bool first) {
  prepare_rates();
  const int nx = layout_.size[x_axis];
  const double dt = dt_;
  const auto [keep, weight] = stage;
  for (int k = 0; k < layout_.size[z_axis]; ++k) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) {
      const Rates::Row& row = rates_.row(j, k);
      for (std::size_t c = 0; c < 5; ++c) {
        const double* rate = row.rate[c];
        double* field = fields_[c].data() + layout_.at(0, j, k);
        double* change = change_[c].data() + layout_.at(0, j, k);
        // Not `0 * change` in the first stage: the sign of a zero would remember the step before a resume.
#pragma omp simd
        for (int i = 0; i < nx; ++i) {
          change[i] = first ? dt * rate[i] : keep * change[i] + dt * rate[i];
          field[i] += weight * change[i];
        }
      }
    }
  }
}

void Sums::add(const Rates::Row& row, int count) {
  const auto& g = row.gradient;
  const auto square = [](double v) { return v * v; };
  for (int i = 0; i < count; ++i) {
    const double density = row.density[i];
    const double u = row.velocity[0][i], v = row.velocity[1][i], w = row.velocity[2][i];
    const double half_square = 0.5 * (u * u + v * v + w * w);
    const double curl_square =
        square(g[2][1][i] - g[1][2][i]) + square(g[0][2][i] - g[2][0][i]) + square(g[1][0][i] - g[0][1][i]);
    mass_.add(density);
    kinetic_energy_.add(density * half_square);
    enstrophy_.add(0.5 * density * curl_square);
    // d/dt (m^2 / 2 rho) = u . dm/dt - |u|^2 / 2 drho/dt
    kinetic_energy_rate_.add(u * row.rate[1][i] + v * row.rate[2][i] + w * row.rate[3][i] -
                             half_square * row.rate[0][i]);
  }
}

Totals Sums::means(MPI_Comm comm, int n) {
  static_assert(sizeof(Sums) == 12 * sizeof(std::int64_t), "added across ranks as twelve integers");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, this, 12, MPI_INT64_T, MPI_SUM, comm), "MPI_Allreduce");
  if (mass_.refused + kinetic_energy_.refused + enstrophy_.refused + kinetic_energy_rate_.refused > 0) {
    throw std::runtime_error(
        "the flow is not finite any more: the time step is too long or the grid too coarse for "
        "this flow; try a smaller --cfl or a larger --n");
  }
  const double points = std::pow(n, 3);
  return {mass_.value() / points, kinetic_energy_.value() / points, enstrophy_.value() / points,
          kinetic_energy_rate_.value() / points};
}

Totals Solver::totals() {
  prepare_rates();
  Sums sums;
  for (int k = 0; k < layout_.size[z_axis]; ++k) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) sums.add(rates_.row(j, k), layout_.size[x_axis]);
  }
  return sums.means(comm_, flow_.n);
}

Fields Solver::rates() {
  prepare_rates();
  Fields out;
  for (int k = 0; k < layout_.size[z_axis]; ++k) {
    for (int j = 0; j < layout_.size[y_axis]; ++j) {
      const Rates::Row& row = rates_.row(j, k);
      for (std::size_t c = 0; c < 5; ++c) {
        out[c].insert(out[c].end(), row.rate[c], row.rate[c] + layout_.size[x_axis]);
      }
    }
  }
  return out;
}

}  // namespace tgv
