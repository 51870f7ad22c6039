#include "loops.h"

#include <array>

namespace tea2d {

namespace {

using program::reads;
using program::updates;
using program::writes;
using Loops = std::vector<LoopUses>;

/// Every method begins with iterations of conjugate gradients.
Loops common_loops() {
  using enum Field;
  return {
      {Loop::coefficients, "coefficients", {reads(density), writes(kx), writes(ky)}},
      {Loop::load, "load", {reads(density), reads(energy), writes(u), writes(u0)}},
      {Loop::residual, "residual", {reads(u), reads(u0), reads(kx), reads(ky), writes(r)}},
      {Loop::start_direction, "start direction", {reads(r), writes(p)}},
      {Loop::apply, "apply", {reads(p), reads(kx), reads(ky), writes(w)}},
      {Loop::advance, "advance", {reads(p), reads(w), updates(u), updates(r)}},
      {Loop::turn, "turn", {reads(r), updates(p)}},
      {Loop::store, "store", {reads(u), reads(density), writes(energy)}},
      {Loop::total, "total", {reads(u)}},
  };
}

Loops chebyshev_loops() {
  using enum Field;
  return {
      {Loop::start_correction, "start correction", {reads(r), writes(sd)}},
      {Loop::correct, "correct", {reads(sd), reads(kx), reads(ky), updates(u), updates(r)}},
      {Loop::turn_correction, "turn correction", {reads(r), updates(sd)}},
      {Loop::norm, "norm", {reads(r)}},
  };
}

Loops preconditioner_loops() {
  using enum Field;
  return {
      {Loop::start_inner, "start inner", {reads(r), writes(w), writes(sd), writes(z)}},
      {Loop::inner_residual, "inner residual", {reads(sd), reads(kx), reads(ky), updates(w)}},
      {Loop::inner_turn, "inner turn", {reads(w), updates(sd), updates(z)}},
      {Loop::preconditioned_product, "preconditioned product", {reads(r), reads(z)}},
      {Loop::start_preconditioned, "start preconditioned", {reads(z), writes(p)}},
      {Loop::turn_preconditioned, "turn preconditioned", {reads(z), updates(p)}},
  };
}

}  // namespace

std::string name_of(Field field) {
  static const std::array<const char*, field_count> names = {"density", "energy", "u", "u0", "kx", "ky",
                                                             "r",       "p",      "w", "z",  "sd"};
  return names[static_cast<std::size_t>(field)];
}

std::string name_of(Method method) {
  static const std::array<const char*, 3> names = {"cg", "chebyshev", "ppcg"};
  return names[static_cast<std::size_t>(method)];
}

std::vector<Field> fields_of(Method method) {
  using enum Field;
  std::vector<Field> out = {density, energy, u, u0, kx, ky, r, p, w};
  if (method == Method::ppcg) out.push_back(z);
  if (method != Method::cg) out.push_back(sd);
  return out;
}

std::vector<LoopUses> loops_of(Method method) {
  Loops out = common_loops();
  Loops more;
  if (method == Method::chebyshev) more = chebyshev_loops();
  if (method == Method::ppcg) more = preconditioner_loops();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace tea2d
