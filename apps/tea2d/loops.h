// The arrays of the solver, its loops, and what each loop does to which array.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../loop_uses.h"

namespace tea2d {

enum class Field {
  density,
  energy,
  u,
  u0,
  kx,
  ky,
  r,
  p,
  w,
  z,
  sd,
  // In the stored form.
  volume,
  x_area,  ///< of the face below a cell along x
  x_span,  ///< between the centres of the cells at it
  y_area,
  y_span,
  diagonal,  ///< of the matrix
  product,   ///< of the matrix and sd
  inner,     ///< residual in the preconditioner
  energy1,   ///< at the end of a step
};
inline constexpr std::size_t field_count = 20;
std::string name_of(Field field);
/// Set at the beginning and never changed.
constexpr bool is_constant(Field field) {
  return field == Field::density || (field >= Field::volume && field <= Field::y_span);
}

enum class Method { cg, chebyshev, ppcg };
std::string name_of(Method method);
/// What is solved, and how. The stored form has the mesh, the matrix and what lies between two loops in arrays of their
/// own, as a program for meshes of any spacing has them; its loops fill all halos that they read, so that a run can go
/// on before any of them with nothing but the insides of the arrays. It computes the same bits.
struct Form {
  Method method = Method::cg;
  bool stored = false;
};
/// Only what the form uses is allocated.
std::vector<Field> fields_of(const Form& form);

/// Every loop over the cells that runs after a checkpoint.
enum class Loop {
  coefficients,
  diagonal,
  load,
  residual,
  start_direction,
  apply,
  advance,
  turn,
  start_correction,
  multiply,
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
  reset,
  total,
};
inline constexpr std::size_t loop_count = 22;

/// Of the cells of the block: a loop that reads neighbours fills the halo itself.
using LoopUses = program::LoopUses<Loop, Field>;
/// The loops that the form runs.
std::vector<LoopUses> loops_of(const Form& form);

}  // namespace tea2d
