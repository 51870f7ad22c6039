// The solver: a state, one step of it, and what it adds up to.
#pragma once

#include <mpi.h>

#include <functional>

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

/// One block of the flow on each rank of a communicator. Collective: the constructor, advance(), totals(), rates().
class Solver {
 public:
  /// Starts at rest. `comm` stays the caller's and must outlive this. `ranks`: blocks along each axis; {} chooses.
  Solver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks = {});

  void start(const std::function<Primitive(double x, double y, double z)>& flow_at);
  /// u = sin x cos y cos z, v = -cos x sin y cos z, w = 0, with its pressure, at one temperature.
  void start_taylor_green();

  /// One step of dt(): five stages, fourth order, two registers (Carpenter and Kennedy, NASA TM 109112, 1994).
  void advance();
  /// Throws std::runtime_error on every rank if the flow is not finite any more.
  Totals totals();
  /// The right-hand side at the points of the block, x fastest, without halo. For tests.
  Fields rates();

  /// Depends on n, mach and cfl only: cfl * spacing / (velocity + speed of sound).
  [[nodiscard]] double dt() const { return dt_; }
  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// The whole state, each with its halo; the halos need not be right between steps.
  [[nodiscard]] Fields& fields() { return fields_; }

 private:
  void prepare_rates();
  void stage(double keep, double weight, bool first);

  MPI_Comm comm_;
  Flow flow_;
  Block block_;
  Layout layout_;
  HaloExchange halos_;
  Rates rates_;
  double dt_;
  Fields fields_;
  Fields change_;  ///< the second register of the time integration; its old value does not enter a step
};

}  // namespace tgv
