// One step of the gas: the order of the loops.
#pragma once

#include "system.h"

namespace clover3d {

/// The time step of this state: the longest one that is stable, and no longer than `longest`. Leaves the pressure, the
/// speed of sound and the viscosity of the beginning. Collective, as are the others. Throws std::runtime_error on every
/// rank where the flow is not finite.
double time_step(System& system, double longest);

/// The mesh moves with the gas for `dt`, with a predictor and a corrector: density1, energy1 and the velocities xvel1
/// and so on are those after it.
void lagrangian_step(System& system, double dt);

/// The gas goes back to where the mesh was, in sweeps along x, y and z in steps of even number, z, y and x in others.
void remap(System& system, double dt, int number);

/// All of it, and the end of the step is the beginning of the next one. Gives the time step.
double step(System& system, int number, double longest);

/// Of the beginning of a step.
Totals totals(System& system);

}  // namespace clover3d
