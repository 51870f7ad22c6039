// The arrays of the solver, its loops, and what each loop does to which array.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../loop_uses.h"

namespace tea2d {

enum class Field { density, energy, u, u0, kx, ky, r, p, w, z, sd };
inline constexpr std::size_t field_count = 11;
std::string name_of(Field field);

enum class Method { cg, chebyshev, ppcg };
std::string name_of(Method method);
/// Only what the method uses is allocated.
std::vector<Field> fields_of(Method method);

/// Every loop over the cells that runs after a checkpoint.
enum class Loop {
  coefficients,
  load,
  residual,
  start_direction,
  apply,
  advance,
  turn,
  start_correction,
  correct,
  turn_correction,
  norm,
  start_inner,
  inner_residual,
  inner_turn,
  preconditioned_product,
  start_preconditioned,
  turn_preconditioned,
  store,
  total,
};
inline constexpr std::size_t loop_count = 19;

/// Of the cells of the block: a loop that reads neighbours fills the halo itself.
using LoopUses = program::LoopUses<Loop, Field>;
/// The loops that the method runs.
std::vector<LoopUses> loops_of(Method method);

}  // namespace tea2d
