// The solver: a state, one step of it, and what it adds up to.
#pragma once

#include <mpi.h>

#include <functional>

#include "../exact_sum.h"
#include "grid.h"
#include "halo.h"
#include "rates.h"

namespace tgv {

/// Means over the cube; the same bits on any number of ranks.
struct Totals {
  double mass = 0;
  double kinetic_energy = 0;       ///< of rho |u|^2 / 2
  double enstrophy = 0;            ///< of rho |curl u|^2 / 2
  double kinetic_energy_rate = 0;  ///< d/dt of kinetic_energy, from the right-hand side
};

/// What a flow is at one point.
struct Primitive {
  double density;
  std::array<double, 3> velocity;
  double pressure;
};

/// One block of the flow on each rank of a communicator, and what moves it on. Collective: the constructor, advance(),
/// totals(), rates(). Its two forms compute the same bits: Solver row by row, StoredSolver (stored.h) array by array.
class AnySolver {
 public:
  virtual ~AnySolver() = default;
  AnySolver(const AnySolver&) = delete;
  AnySolver& operator=(const AnySolver&) = delete;

  void start(const std::function<Primitive(double x, double y, double z)>& flow_at);
  /// u = sin x cos y cos z, v = -cos x sin y cos z, w = 0, with its pressure, at one temperature.
  void start_taylor_green();

  /// One step of dt(): five stages, fourth order, two registers (Carpenter and Kennedy, NASA TM 109112, 1994).
  virtual void advance() = 0;
  /// Throws std::runtime_error on every rank if the flow is not finite any more.
  virtual Totals totals() = 0;

  /// Depends on n, mach and cfl only: cfl * spacing / (velocity + speed of sound).
  [[nodiscard]] double dt() const { return dt_; }
  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// The whole state, each with its halo; the halos need not be right between steps.
  [[nodiscard]] Fields& fields() { return fields_; }

 protected:
  /// Starts at rest. `comm` stays the caller's and must outlive this. `ranks`: blocks along each axis; {} chooses.
  AnySolver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks);

  MPI_Comm comm_;
  Flow flow_;
  Block block_;
  Layout layout_;
  HaloExchange halos_;
  double dt_;
  Fields fields_;
};

/// A stage of the time integration: change = keep change + dt rate, field += weight change.
struct Stage {
  double keep, weight;
};
/// The old value of the register `change` does not enter a step: `keep` of the first is 0.
inline constexpr std::array<Stage, 5> stages = {{
    {0, 1432997174477.0 / 9575080441755.0},
    {-567301805773.0 / 1357537059087.0, 5161836677717.0 / 13612068292357.0},
    {-2404267990393.0 / 2016746695238.0, 1720146321549.0 / 2090206949498.0},
    {-3550918686646.0 / 2091501179385.0, 3134564353537.0 / 4481467310338.0},
    {-1275806237668.0 / 842570457699.0, 2277821191437.0 / 14882151754819.0},
}};

/// Of points, one row after the other.
class Sums {
 public:
  void add(const Rates::Row& row, int count);
  /// Collective. Throws std::runtime_error on every rank if a term was not finite. `n`: points along a side.
  Totals means(MPI_Comm comm, int n);

 private:
  program::ExactSum mass_, kinetic_energy_, enstrophy_, kinetic_energy_rate_;
};

/// With arrays for what is read at neighbours only.
class Solver final : public AnySolver {
 public:
  Solver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks = {});
  void advance() override;
  Totals totals() override;
  /// The right-hand side at the points of the block, x fastest, without halo. For tests.
  Fields rates();

 private:
  void prepare_rates();
  void stage(const Stage& stage, bool first);

  Rates rates_;
  Fields change_;  ///< the second register of the time integration
};

}  // namespace tgv
