// The arrays of the solver, where their values lie, its loops, and what each loop does to which array.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../loop_uses.h"
#include "grid.h"

namespace clover3d {

enum class Field {
  density0,  ///< 0: at the beginning of a step; 1: at its end, or on the way there
  density1,
  energy0,  ///< internal, a unit of mass
  energy1,
  pressure,
  viscosity,  ///< an artificial pressure
  soundspeed,
  volume,
  xvel0,
  yvel0,
  zvel0,
  xvel1,
  yvel1,
  zvel1,
  vol_flux_x,  ///< volume that passes the lower face in a step
  vol_flux_y,
  vol_flux_z,
  mass_flux_x,
  mass_flux_y,
  mass_flux_z,
  xarea,
  yarea,
  zarea,
  // Work arrays of one sweep. They are all written at all nodes, whatever they stand for.
  pre_volume,     ///< of a cell before the sweep
  post_volume,    ///< and after it
  energy_flux,    ///< through the lower face along the sweep
  node_flux,      ///< mass from a node to the next one along the sweep
  node_mass_pre,  ///< before the sweep
  node_mass_post,
  momentum_flux,
};
inline constexpr std::size_t field_count = 30;
std::string name_of(Field field);
/// `first` is the one for x.
constexpr Field along(Field first, int axis) { return static_cast<Field>(static_cast<int>(first) + axis); }

Stagger stagger_of(Field field);
/// The axis across whose walls the field changes its sign, as the component of a vector does; -1: none.
int odd_axis_of(Field field);
/// Set at the beginning and never changed.
bool is_constant(Field field);
/// In the order of the enumeration.
std::vector<Field> all_fields();

/// Every loop over the block that runs after a checkpoint, in the order of a step. Those named `exchange` fill the
/// halos of what they read.
enum class Loop {
  ideal_gas_start,
  exchange_start,
  viscosity,
  exchange_viscosity,
  time_step,
  pdv_predict,
  ideal_gas_half,
  exchange_half,
  accelerate,
  exchange_velocity,
  pdv_correct,
  volume_fluxes,
  exchange_fluxes,
  sweep_volumes,
  cell_fluxes_x,
  cell_fluxes_y,
  cell_fluxes_z,
  cell_update_x,
  cell_update_y,
  cell_update_z,
  exchange_swept_x,
  exchange_swept_y,
  exchange_swept_z,
  node_masses_x,
  node_masses_y,
  node_masses_z,
  momentum_flux_x,  ///< of the x component of the velocity, along any axis
  momentum_flux_y,
  momentum_flux_z,
  momentum_update_x,
  momentum_update_y,
  momentum_update_z,
  reset,
  summary,
};
inline constexpr std::size_t loop_count = 34;
constexpr Loop along(Loop first, int axis) { return static_cast<Loop>(static_cast<int>(first) + axis); }

using LoopUses = program::LoopUses<Loop, Field>;
/// In the order of the enumeration.
const std::vector<LoopUses>& all_loops();

}  // namespace clover3d
