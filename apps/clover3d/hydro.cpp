#include "hydro.h"

#include <algorithm>

namespace clover3d {

double time_step(System& system, double longest) {
  system.ideal_gas_start();
  system.exchange(Loop::exchange_start);
  system.viscosity();
  system.exchange(Loop::exchange_viscosity);
  return std::min(system.time_step(), longest);
}

void lagrangian_step(System& system, double dt) {
  system.pdv_predict(dt);
  system.ideal_gas_half();
  system.exchange(Loop::exchange_half);
  system.accelerate(dt);
  system.exchange(Loop::exchange_velocity);
  system.pdv_correct(dt);
}

void remap(System& system, double dt, int number) {
  system.volume_fluxes(dt);
  system.exchange(Loop::exchange_fluxes);
  ToSweep to_sweep = {1, 1, 1};
  for (int sweep = 0; sweep < 3; ++sweep) {
    const int axis = number % 2 == 0 ? sweep : 2 - sweep;
    system.sweep_volumes(axis, to_sweep);
    system.cell_fluxes(axis);
    system.cell_update(axis);
    system.exchange(along(Loop::exchange_swept_x, axis));
    system.node_masses(axis);
    for (int component = 0; component < 3; ++component) {
      system.momentum_flux(axis, component);
      system.momentum_update(axis, component);
    }
    to_sweep[static_cast<std::size_t>(axis)] = 0;
  }
}

double step(System& system, int number, double longest) {
  const double dt = time_step(system, longest);
  lagrangian_step(system, dt);
  remap(system, dt, number);
  system.reset();
  return dt;
}

Totals totals(System& system) {
  system.ideal_gas_start();
  return system.summary();
}

}  // namespace clover3d
