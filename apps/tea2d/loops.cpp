#include "loops.h"

#include <array>

namespace tea2d {

namespace {

using program::reads;
using program::updates;
using program::writes;
using Loops = std::vector<LoopUses>;

using Uses = std::vector<program::Use<Field>>;

Uses operator+(Uses a, const Uses& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Uses matrix(bool stored) {
  using enum Field;
  return stored ? Uses{reads(kx), reads(ky), reads(diagonal)} : Uses{reads(kx), reads(ky)};
}

/// Every method begins with iterations of conjugate gradients.
Loops common_loops(bool stored) {
  using enum Field;
  const Uses mesh = stored ? Uses{reads(volume), reads(x_area), reads(x_span), reads(y_area), reads(y_span)} : Uses{};
  Loops out = {
      {Loop::coefficients, "coefficients", mesh + Uses{reads(density), writes(kx), writes(ky)}},
      {Loop::load, "load", {reads(density), reads(energy), writes(u), writes(u0)}},
      {Loop::residual, "residual", matrix(stored) + Uses{reads(u), reads(u0), writes(r)}},
      {Loop::start_direction, "start direction", {reads(r), writes(p)}},
      {Loop::apply, "apply", matrix(stored) + Uses{reads(p), writes(w)}},
      {Loop::advance, "advance", {reads(p), reads(w), updates(u), updates(r)}},
      {Loop::turn, "turn", {reads(r), updates(p)}},
      {Loop::store, "store", {reads(u), reads(density), writes(stored ? energy1 : energy)}},
      {Loop::total, "total", stored ? Uses{reads(u), reads(volume)} : Uses{reads(u)}},
  };
  if (stored) {
    out.push_back({Loop::diagonal, "diagonal", {reads(kx), reads(ky), writes(diagonal)}});
    out.push_back({Loop::reset, "reset", {reads(energy1), writes(energy)}});
  }
  return out;
}

/// What a loop needs of the product of the matrix and sd.
Uses product_uses(bool stored) {
  using enum Field;
  return stored ? Uses{reads(product)} : Uses{reads(sd)} + matrix(false);
}

Loops chebyshev_loops(bool stored) {
  using enum Field;
  Uses correct = product_uses(stored) + Uses{updates(u), updates(r)};
  if (stored) correct.push_back(reads(sd));
  return {
      {Loop::start_correction, "start correction", {reads(r), writes(sd)}},
      {Loop::correct, "correct", correct},
      {Loop::turn_correction, "turn correction", {reads(r), updates(sd)}},
      {Loop::norm, "norm", {reads(r)}},
  };
}

Loops preconditioner_loops(bool stored) {
  using enum Field;
  const Field residual = stored ? inner : w;
  return {
      {Loop::start_inner, "start inner", {reads(r), writes(residual), writes(sd), writes(z)}},
      {Loop::inner_residual, "inner residual", product_uses(stored) + Uses{updates(residual)}},
      {Loop::inner_turn, "inner turn", {reads(residual), updates(sd), updates(z)}},
      {Loop::preconditioned_product, "preconditioned product", {reads(r), reads(z)}},
      {Loop::start_preconditioned, "start preconditioned", {reads(z), writes(p)}},
      {Loop::turn_preconditioned, "turn preconditioned", {reads(z), updates(p)}},
  };
}

}  // namespace

std::string name_of(Field field) {
  static const std::array<const char*, field_count> names = {
      "density", "energy", "u",      "u0",     "kx",     "ky",     "r",        "p",       "w",     "z",
      "sd",      "volume", "x_area", "x_span", "y_area", "y_span", "diagonal", "product", "inner", "energy1"};
  return names[static_cast<std::size_t>(field)];
}

std::string name_of(Method method) {
  static const std::array<const char*, 3> names = {"cg", "chebyshev", "ppcg"};
  return names[static_cast<std::size_t>(method)];
}

std::vector<Field> fields_of(const Form& form) {
  using enum Field;
  std::vector<Field> out = {density, energy, u, u0, kx, ky, r, p, w};
  if (form.method == Method::ppcg) out.push_back(z);
  if (form.method != Method::cg) out.push_back(sd);
  if (!form.stored) return out;
  for (const Field more : {volume, x_area, x_span, y_area, y_span, diagonal, energy1}) out.push_back(more);
  if (form.method != Method::cg) out.push_back(product);
  if (form.method == Method::ppcg) out.push_back(inner);
  return out;
}

std::vector<LoopUses> loops_of(const Form& form) {
  using enum Field;
  Loops out = common_loops(form.stored);
  Loops more;
  if (form.method == Method::chebyshev) more = chebyshev_loops(form.stored);
  if (form.method == Method::ppcg) more = preconditioner_loops(form.stored);
  if (form.stored && form.method != Method::cg)
    more.push_back({Loop::multiply, "multiply", matrix(true) + Uses{reads(sd), writes(product)}});
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace tea2d
