// The gas in a box with reflecting walls, on the block of each rank: arrays, and the loops over them.
//
// Density, energy and pressure are those of cells, velocities those of nodes; fluxes are those of faces. The gas is
// ideal, with gamma = 1.4. One step moves the mesh with the gas (the Lagrangian loops) and puts the gas back on the
// mesh (the sweeps); hydro.h has the order. Sums of neighbours are paired so that a problem that is mirrored, or has x
// and z exchanged, has a solution that is so, bit for bit.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>
#include <utility>

#include "grid.h"
#include "halo.h"
#include "loops.h"
#include "mesh.h"

namespace clover3d {

struct State {
  double density = 0;
  double energy = 0;  ///< internal, a unit of mass
  std::array<double, 3> velocity{};
};

struct Totals {
  double mass = 0;
  double internal_energy = 0;
  double kinetic_energy = 0;
  double pressure = 0;  ///< the mean
};

/// The axes that a sweep finds still to be swept, itself among them: 1, or 0 for those that are done.
using ToSweep = std::array<double, 3>;

/// Collective: the constructor and every loop. All loops but start() do what all_loops() says; they are told to
/// watch(). A loop whose halos are read later in the step fills them or is followed by an exchange(): none is right at
/// the beginning of a step, but those of the constant fields.
class System {
 public:
  /// `comm` stays the caller's and must outlive this. `ranks`: blocks along each axis; {} chooses.
  System(MPI_Comm comm, const Domain& domain, const Triple& ranks = {});

  /// Sets density0 and energy0 from the centres of the cells, and the velocities of the nodes. At a wall the velocity
  /// across it must be zero.
  void start(const std::function<State(double x, double y, double z)>& at);
  /// See program::LoopWatch.
  void watch(std::function<bool(Loop)> before, std::function<void(std::span<double>)> returned = {}) {
    watch_.watch(std::move(before), std::move(returned));
  }

  /// Fills the halos of the fields that `loop` reads.
  void exchange(Loop loop);

  // Lagrangian.
  void ideal_gas_start();  ///< pressure and speed of sound, from density0 and energy0
  void ideal_gas_half();   ///< the same from density1 and energy1
  void viscosity();
  double time_step();           ///< that is stable
  void pdv_predict(double dt);  ///< density1 and energy1 after half of dt with the velocities of the beginning
  void accelerate(double dt);   ///< xvel1 and so on, from the pressure
  void pdv_correct(double dt);  ///< density1 and energy1 after dt with the mean velocities
  void volume_fluxes(double dt);

  // Remap, along one axis at a time.
  void sweep_volumes(int axis, const ToSweep& to_sweep);
  void cell_fluxes(int axis);
  void cell_update(int axis);
  void node_masses(int axis);
  void momentum_flux(int axis, int component);
  void momentum_update(int axis, int component);

  void reset();      ///< the end of a step is the beginning of the next one
  Totals summary();  ///< of the beginning of a step, after ideal_gas_start()

  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// With the halo.
  [[nodiscard]] double* data(Field field) { return arrays_[static_cast<std::size_t>(field)].data(); }

 private:
  using Three = std::array<double*, 3>;
  struct FaceFlux;
  [[nodiscard]] bool begins(Loop loop) const { return watch_.begins(loop); }
  /// `first` and the next two.
  [[nodiscard]] Three three(Field first) { return {data(first), data(along(first, 1)), data(along(first, 2))}; }
  /// Of this rank's first cell.
  [[nodiscard]] const double* line(int axis, Mesh::Kind kind) const {
    return mesh_.along(axis, kind, block_.lower[static_cast<std::size_t>(axis)]);
  }
  [[nodiscard]] Triple owned_nodes() const { return layout_.owned(nodal); }
  void ideal_gas(Field density, Field energy);
  void pdv(Field end_velocity, double dt);
  template <int axis>
  void cell_fluxes_along();
  template <int axis>
  void momentum_flux_along(int component);

  MPI_Comm comm_;
  Block block_;
  Layout layout_;
  Mesh mesh_;
  HaloExchange halos_;
  std::array<std::vector<double>, field_count> arrays_;
  program::LoopWatch<Loop> watch_;
};

}  // namespace clover3d
