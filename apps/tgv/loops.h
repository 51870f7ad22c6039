// The arrays of the stored form, its loops, and what each loop does to which array.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../loop_uses.h"

namespace tgv {

/// Every quantity of the right-hand side is an array.
enum class Field {
  density,
  momentum_x,
  momentum_y,
  momentum_z,
  energy,  ///< total, per volume
  density_change,
  momentum_x_change,
  momentum_y_change,
  momentum_z_change,
  energy_change,
  u,
  v,
  w,
  pressure,
  temperature,
  enthalpy,
  dilatation,
  dilatation_x,  ///< its gradient
  dilatation_y,
  dilatation_z,
  u_x,  ///< gradients of the velocity
  u_y,
  u_z,
  v_x,
  v_y,
  v_z,
  w_x,
  w_y,
  w_z,
  u_xx,  ///< second derivatives, without 12 h^2 below them
  u_yy,
  u_zz,
  v_xx,
  v_yy,
  v_zz,
  w_xx,
  w_yy,
  w_zz,
  temperature_xx,
  temperature_yy,
  temperature_zz,
  mass_flux_x,  ///< fluxes through the face behind a point, along x
  momentum_x_flux_x,
  momentum_y_flux_x,
  momentum_z_flux_x,
  energy_flux_x,
  mass_flux_y,
  momentum_x_flux_y,
  momentum_y_flux_y,
  momentum_z_flux_y,
  energy_flux_y,
  mass_flux_z,
  momentum_x_flux_z,
  momentum_y_flux_z,
  momentum_z_flux_z,
  energy_flux_z,
  force_x,  ///< of viscosity
  force_y,
  force_z,
  friction,
  density_rate,
  momentum_x_rate,
  momentum_y_rate,
  momentum_z_rate,
  energy_rate,
};
inline constexpr std::size_t field_count = 65;
std::string name_of(Field field);
/// In the order of the enumeration.
std::vector<Field> all_fields();
/// The `more`th after `first`.
constexpr Field behind(Field first, std::size_t more) {
  return static_cast<Field>(static_cast<std::size_t>(first) + more);
}

/// Every loop over the points, in the order of a stage. One that reads neighbours fills the halo itself.
enum class Loop {
  velocity,
  pressure,
  temperature,
  enthalpy,
  dilatation,
  dilatation_gradient,
  u_gradient,
  v_gradient,
  w_gradient,
  u_bends,
  v_bends,
  w_bends,
  temperature_bends,
  x_fluxes,
  y_fluxes,
  z_fluxes,
  convection,
  forces,
  friction,
  diffusion,
  first_change,  ///< of the first stage: the register is overwritten
  change,
  advance,
  sums,
};
inline constexpr std::size_t loop_count = 24;
constexpr Loop behind(Loop first, std::size_t more) {
  return static_cast<Loop>(static_cast<std::size_t>(first) + more);
}

using LoopUses = program::LoopUses<Loop, Field>;
/// In the order of the enumeration.
const std::vector<LoopUses>& all_loops();

}  // namespace tgv
