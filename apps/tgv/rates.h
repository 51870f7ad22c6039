// The right-hand side: time derivatives of the conservative fields from the compressible Navier-Stokes equations.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "grid.h"

namespace tgv {

/// The flow, made dimensionless with the density, velocity and length of the vortex: density 1, largest velocity 1,
/// cube of side 2 pi, speed of sound 1 / mach, gas constant 1, viscosity 1 / reynolds (constant).
struct Flow {
  int n = 64;  ///< points along each side of the cube
  double reynolds = 1600;
  double mach = 0.1;
  double prandtl = 0.71;
  double gamma = 1.4;

  [[nodiscard]] double spacing() const;
  [[nodiscard]] double viscosity() const { return 1 / reynolds; }
  [[nodiscard]] double pressure() const { return 1 / (gamma * mach * mach); }
  [[nodiscard]] double conductivity() const { return viscosity() * gamma / ((gamma - 1) * prandtl); }
};

/// Density, three components of momentum, total energy per volume.
using Fields = std::array<std::vector<double>, 5>;
inline constexpr std::size_t energy_field = 4;

/// Convection: fourth-order central differences of the split form that keeps kinetic energy (Kennedy and Gruber,
/// J. Comput. Phys. 227, 2008; as fluxes and with the total enthalpy: Pirozzoli, J. Comput. Phys. 229, 2010). Mass,
/// momentum and energy telescope. Viscosity and heat: fourth-order, with the compact second derivative, which also
/// damps what two neighbours disagree on; the work of viscous stress is not in flux form, so total energy is
/// conserved by it to the order of the scheme, not to round-off.
///
/// Every point is computed with the same operations in the same order wherever a block ends.
class Rates {
 public:
  Rates(const Layout& layout, const Flow& flow);

  /// First: velocity, pressure, temperature, enthalpy wherever `fields` are filled.
  void set_primitives(const Fields& fields);
  /// Second: the divergence of the velocity, without halo: the caller exchanges it before row().
  double* set_dilatation();

  /// Third: one row of points along x. The arrays belong to this object and hold until the next call.
  struct Row {
    std::array<double*, 5> rate;
    std::array<std::array<double*, 3>, 3> gradient;  ///< [c][a]: of velocity component c along axis a
    std::array<const double*, 3> velocity;
    const double* density;
  };
  /// Rows are asked for in order, j fastest, from (0, 0): the fluxes of a face are kept for the row behind it.
  const Row& row(int j, int k);

 private:
  template <int normal>
  void face_fluxes(std::ptrdiff_t at, int count, double* faces) const;
  template <int axis>
  void add_viscous(std::ptrdiff_t at);
  void convect(int j, int k);
  void diffuse(std::ptrdiff_t at);
  void finish_viscous(std::ptrdiff_t at);

  Layout layout_;
  Flow flow_;
  std::array<std::vector<double>, 3> velocity_;
  std::vector<double> density_, pressure_, temperature_, enthalpy_, dilatation_;
  std::vector<double> x_faces_, y_faces_, z_faces_, new_faces_;  ///< five rows each; z: five rows per j
  std::vector<double> scratch_;
  Row row_{};
  std::array<double*, 4> laplacian_{};  ///< of the velocity components and the temperature
  std::array<double*, 3> squeeze_{};    ///< gradient of the dilatation
};

}  // namespace tgv
