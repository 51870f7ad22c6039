#include "loops.h"

#include <array>

namespace tgv {

namespace {

using program::reads;
using program::updates;
using program::writes;
using Uses = std::vector<program::Use<Field>>;

Uses operator+(Uses a, const Uses& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
/// Of `count` fields from `first` on.
template <class Make>
Uses each(std::size_t count, Field first, const Make& make) {
  Uses out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(make(behind(first, i)));
  return out;
}
Uses reads_all(std::size_t count, Field first) { return each(count, first, reads<Field>); }
Uses writes_all(std::size_t count, Field first) { return each(count, first, writes<Field>); }
Uses updates_all(std::size_t count, Field first) { return each(count, first, updates<Field>); }

std::vector<LoopUses> derivative_loops() {
  using enum Field;
  const Uses velocity = reads_all(3, u);
  std::vector<LoopUses> out = {
      {Loop::velocity, "velocity", reads_all(4, density) + writes_all(3, u)},
      {Loop::pressure, "pressure", reads_all(3, momentum_x) + Uses{reads(energy), writes(pressure)} + velocity},
      {Loop::temperature, "temperature", {reads(density), reads(pressure), writes(temperature)}},
      {Loop::enthalpy, "enthalpy", {reads(density), reads(energy), reads(pressure), writes(enthalpy)}},
      {Loop::dilatation, "dilatation", velocity + Uses{writes(dilatation)}},
      {Loop::dilatation_gradient, "gradient of the dilatation", Uses{reads(dilatation)} + writes_all(3, dilatation_x)},
  };
  static const std::array<std::string, 4> bent = {"u", "v", "w", "the temperature"};
  for (std::size_t c = 0; c < 3; ++c)
    out.push_back({behind(Loop::u_gradient, c), "gradient of " + bent[c],
                   Uses{reads(behind(u, c))} + writes_all(3, behind(u_x, 3 * c))});
  for (std::size_t c = 0; c < 4; ++c)
    out.push_back({behind(Loop::u_bends, c), "second derivatives of " + bent[c],
                   Uses{reads(c < 3 ? behind(u, c) : temperature)} + writes_all(3, behind(u_xx, 3 * c))});
  static const std::array<std::string, 3> axes = {"x", "y", "z"};
  for (std::size_t a = 0; a < 3; ++a)
    out.push_back({behind(Loop::x_fluxes, a), "fluxes along " + axes[a],
                   Uses{reads(density), reads(pressure), reads(enthalpy)} + velocity +
                       writes_all(5, behind(mass_flux_x, 5 * a))});
  return out;
}

std::vector<LoopUses> rate_loops() {
  using enum Field;
  const Uses velocity = reads_all(3, u);
  return {
      {Loop::convection, "convection", reads_all(15, mass_flux_x) + writes_all(5, density_rate)},
      {Loop::forces, "forces", reads_all(9, u_xx) + reads_all(3, dilatation_x) + writes_all(3, force_x)},
      {Loop::friction, "friction", reads_all(9, u_x) + Uses{reads(dilatation), writes(friction)}},
      {Loop::diffusion, "diffusion",
       velocity + reads_all(3, force_x) + Uses{reads(friction)} + reads_all(3, temperature_xx) +
           updates_all(4, momentum_x_rate)},
      {Loop::first_change, "first change", reads_all(5, density_rate) + writes_all(5, density_change)},
      {Loop::change, "change", reads_all(5, density_rate) + updates_all(5, density_change)},
      {Loop::advance, "advance", reads_all(5, density_change) + updates_all(5, density)},
      {Loop::sums, "sums", Uses{reads(density)} + velocity + reads_all(9, u_x) + reads_all(4, density_rate)},
  };
}

}  // namespace

std::string name_of(Field field) {
  static const std::array<const char*, field_count> names = {"density",
                                                             "momentum_x",
                                                             "momentum_y",
                                                             "momentum_z",
                                                             "energy",
                                                             "density_change",
                                                             "momentum_x_change",
                                                             "momentum_y_change",
                                                             "momentum_z_change",
                                                             "energy_change",
                                                             "u",
                                                             "v",
                                                             "w",
                                                             "pressure",
                                                             "temperature",
                                                             "enthalpy",
                                                             "dilatation",
                                                             "dilatation_x",
                                                             "dilatation_y",
                                                             "dilatation_z",
                                                             "u_x",
                                                             "u_y",
                                                             "u_z",
                                                             "v_x",
                                                             "v_y",
                                                             "v_z",
                                                             "w_x",
                                                             "w_y",
                                                             "w_z",
                                                             "u_xx",
                                                             "u_yy",
                                                             "u_zz",
                                                             "v_xx",
                                                             "v_yy",
                                                             "v_zz",
                                                             "w_xx",
                                                             "w_yy",
                                                             "w_zz",
                                                             "temperature_xx",
                                                             "temperature_yy",
                                                             "temperature_zz",
                                                             "mass_flux_x",
                                                             "momentum_x_flux_x",
                                                             "momentum_y_flux_x",
                                                             "momentum_z_flux_x",
                                                             "energy_flux_x",
                                                             "mass_flux_y",
                                                             "momentum_x_flux_y",
                                                             "momentum_y_flux_y",
                                                             "momentum_z_flux_y",
                                                             "energy_flux_y",
                                                             "mass_flux_z",
                                                             "momentum_x_flux_z",
                                                             "momentum_y_flux_z",
                                                             "momentum_z_flux_z",
                                                             "energy_flux_z",
                                                             "force_x",
                                                             "force_y",
                                                             "force_z",
                                                             "friction",
                                                             "density_rate",
                                                             "momentum_x_rate",
                                                             "momentum_y_rate",
                                                             "momentum_z_rate",
                                                             "energy_rate"};
  return names[static_cast<std::size_t>(field)];
}

std::vector<Field> all_fields() {
  std::vector<Field> out;
  for (std::size_t f = 0; f < field_count; ++f) out.push_back(static_cast<Field>(f));
  return out;
}

const std::vector<LoopUses>& all_loops() {
  static const std::vector<LoopUses> loops = [] {
    std::vector<LoopUses> out = derivative_loops();
    for (auto& loop : rate_loops()) out.push_back(std::move(loop));
    return out;
  }();
  return loops;
}

}  // namespace tgv
