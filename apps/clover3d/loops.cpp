#include "loops.h"

#include <array>

namespace clover3d {

namespace {

using program::reads;
using program::updates;
using program::writes;
using Uses = std::vector<program::Use<Field>>;

Uses operator+(Uses a, const Uses& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
/// Of the three fields that begin with `first`.
Uses reads_all(Field first) { return {reads(along(first, 0)), reads(along(first, 1)), reads(along(first, 2))}; }
Uses writes_all(Field first) { return {writes(along(first, 0)), writes(along(first, 1)), writes(along(first, 2))}; }

std::vector<LoopUses> lagrangian_loops() {
  using enum Field;
  const Uses velocity0 = reads_all(xvel0);
  const Uses velocity1 = reads_all(xvel1);
  const Uses areas = reads_all(xarea);
  const Uses pressures = {reads(pressure), reads(viscosity)};
  const Uses start = {reads(density0), reads(energy0)};
  const Uses moved = {writes(density1), writes(energy1)};
  const Uses gas = {writes(pressure), writes(soundspeed)};
  return {
      {Loop::ideal_gas_start, "ideal gas, start", start + gas},
      {Loop::exchange_start, "exchange, start", start + Uses{reads(pressure)} + velocity0},
      {Loop::viscosity, "viscosity", Uses{reads(density0), reads(pressure), writes(viscosity)} + velocity0},
      {Loop::exchange_viscosity, "exchange, viscosity", {reads(viscosity)}},
      {Loop::time_step, "time step", Uses{reads(density0), reads(soundspeed), reads(viscosity)} + velocity0},
      {Loop::pdv_predict, "PdV, predict", start + pressures + velocity0 + areas + Uses{reads(volume)} + moved},
      {Loop::ideal_gas_half, "ideal gas, half", Uses{reads(density1), reads(energy1)} + gas},
      {Loop::exchange_half, "exchange, half", {reads(pressure)}},
      {Loop::accelerate, "accelerate",
       Uses{reads(density0), reads(volume)} + pressures + areas + velocity0 + writes_all(xvel1)},
      {Loop::exchange_velocity, "exchange, velocity", velocity1},
      {Loop::pdv_correct, "PdV, correct",
       start + pressures + velocity0 + velocity1 + areas + Uses{reads(volume)} + moved},
      {Loop::volume_fluxes, "volume fluxes", velocity0 + velocity1 + areas + writes_all(vol_flux_x)},
  };
}

std::vector<LoopUses> sweep_loops() {
  using enum Field;
  static const std::array<std::string, 3> axes = {"x", "y", "z"};
  const Uses swept = {reads(density1), reads(energy1)};
  std::vector<LoopUses> out = {
      {Loop::exchange_fluxes, "exchange, fluxes", swept + reads_all(vol_flux_x)},
      {Loop::sweep_volumes, "sweep volumes",
       Uses{reads(volume), writes(pre_volume), writes(post_volume)} + reads_all(vol_flux_x)},
  };
  const auto add_for_axes = [&](Loop first, const std::string& name, const auto& uses_of) {
    for (int axis = 0; axis < 3; ++axis)
      out.push_back({along(first, axis), name + " " + axes[static_cast<std::size_t>(axis)], uses_of(axis)});
  };
  add_for_axes(Loop::cell_fluxes_x, "cell fluxes", [&](int axis) {
    return swept + Uses{reads(along(vol_flux_x, axis)), reads(pre_volume), writes(along(mass_flux_x, axis)),
                        writes(energy_flux)};
  });
  add_for_axes(Loop::cell_update_x, "cell update", [&](int axis) {
    return Uses{reads(pre_volume),  reads(post_volume), reads(along(mass_flux_x, axis)),
                reads(energy_flux), updates(density1),  updates(energy1)};
  });
  add_for_axes(Loop::exchange_swept_x, "exchange, swept",
               [&](int axis) { return swept + Uses{reads(along(mass_flux_x, axis))} + reads_all(xvel1); });
  add_for_axes(Loop::node_masses_x, "node masses", [&](int axis) {
    return Uses{reads(density1),   reads(post_volume),    reads(along(mass_flux_x, axis)),
                writes(node_flux), writes(node_mass_pre), writes(node_mass_post)};
  });
  add_for_axes(Loop::momentum_flux_x, "momentum flux", [&](int axis) {
    return Uses{reads(node_flux), reads(node_mass_pre), reads(along(xvel1, axis)), writes(momentum_flux)};
  });
  add_for_axes(Loop::momentum_update_x, "momentum update", [&](int axis) {
    return Uses{reads(node_mass_pre), reads(node_mass_post), reads(momentum_flux), updates(along(xvel1, axis))};
  });
  return out;
}

std::vector<LoopUses> closing_loops() {
  using enum Field;
  return {
      {Loop::reset, "reset",
       Uses{reads(density1), reads(energy1), writes(density0), writes(energy0)} + reads_all(xvel1) + writes_all(xvel0)},
      {Loop::summary, "summary",
       Uses{reads(density0), reads(energy0), reads(pressure), reads(volume)} + reads_all(xvel0)},
  };
}

}  // namespace

std::string name_of(Field field) {
  static const std::array<const char*, field_count> names = {
      "density0",    "density1",    "energy0",    "energy1",       "pressure",       "viscosity",
      "soundspeed",  "volume",      "xvel0",      "yvel0",         "zvel0",          "xvel1",
      "yvel1",       "zvel1",       "vol_flux_x", "vol_flux_y",    "vol_flux_z",     "mass_flux_x",
      "mass_flux_y", "mass_flux_z", "xarea",      "yarea",         "zarea",          "pre_volume",
      "post_volume", "energy_flux", "node_flux",  "node_mass_pre", "node_mass_post", "momentum_flux"};
  return names[static_cast<std::size_t>(field)];
}

Stagger stagger_of(Field field) {
  if (field < Field::xvel0) return centred;
  if (field < Field::vol_flux_x || field >= Field::pre_volume) return nodal;
  Stagger face{};
  const int from_first = static_cast<int>(field) - static_cast<int>(Field::vol_flux_x);
  face[static_cast<std::size_t>(from_first % 3)] = 1;
  return face;
}

int odd_axis_of(Field field) {
  if (field < Field::xvel0 || field >= Field::xarea) return -1;
  return (static_cast<int>(field) - static_cast<int>(Field::xvel0)) % 3;
}

bool is_constant(Field field) { return field == Field::volume || (field >= Field::xarea && field <= Field::zarea); }

std::vector<Field> all_fields() {
  std::vector<Field> out;
  for (std::size_t f = 0; f < field_count; ++f) out.push_back(static_cast<Field>(f));
  return out;
}

const std::vector<LoopUses>& all_loops() {
  static const std::vector<LoopUses> loops = [] {
    std::vector<LoopUses> out = lagrangian_loops();
    for (const auto& more : {sweep_loops(), closing_loops()}) out.insert(out.end(), more.begin(), more.end());
    return out;
  }();
  return loops;
}

}  // namespace clover3d
