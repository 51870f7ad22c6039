// The integrals over one element: trilinear shape functions, Gauss quadrature.
#pragma once

#include <array>
#include <vector>

#include "problem.h"

namespace heat {

using Corners = std::array<Point, 8>;  ///< x fastest, then y, then z
using Matrix8 = std::array<std::array<double, 8>, 8>;

struct ElementMatrices {
  Matrix8 mass{};        ///< integral of rho c N_a N_b
  Matrix8 conduction{};  ///< integral of kappa grad N_a . grad N_b
};
/// With 27 points: kappa and rho c vary within an element.
ElementMatrices integrate(const Corners& corners, const Problem& problem);

/// The integral of N_a N_b over a face with these corners, in cyclic order.
std::array<std::array<double, 4>, 4> face_mass(const std::array<Point, 4>& corners);

/// A point of the quadrature of the source.
struct SourcePoint {
  Point at;
  double weight;
};
constexpr std::size_t source_points = 8;
/// The shape functions of the corners at each point; the same for all elements.
using SourceShapes = std::array<std::array<double, 8>, source_points>;
SourceShapes source_shapes();
std::array<SourcePoint, source_points> source_quadrature(const Corners& corners);

}  // namespace heat
