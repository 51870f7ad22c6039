#include "elements.h"

#include <cmath>

namespace heat {

namespace {

/// On [-1, 1].
template <std::size_t N>
struct Gauss {
  std::array<double, N> at, weight;
};
const Gauss<2> two_points{{-std::sqrt(1.0 / 3), std::sqrt(1.0 / 3)}, {1, 1}};
const Gauss<3> three_points{{-std::sqrt(0.6), 0, std::sqrt(0.6)}, {5.0 / 9, 8.0 / 9, 5.0 / 9}};

/// The eight shape functions at a point of the reference cube [-1, 1]^3, and their derivatives there.
struct Shapes {
  std::array<double, 8> value;
  std::array<Point, 8> slope;
};

Shapes shapes_at(const Point& p) {
  Shapes s;
  for (std::size_t c = 0; c < 8; ++c) {
    const Point sign{(c & 1) != 0 ? 1.0 : -1.0, (c & 2) != 0 ? 1.0 : -1.0, (c & 4) != 0 ? 1.0 : -1.0};
    const Point f{(1 + sign[0] * p[0]) / 2, (1 + sign[1] * p[1]) / 2, (1 + sign[2] * p[2]) / 2};
    s.value[c] = f[0] * f[1] * f[2];
    s.slope[c] = {sign[0] / 2 * f[1] * f[2], f[0] * sign[1] / 2 * f[2], f[0] * f[1] * sign[2] / 2};
  }
  return s;
}

template <std::size_t N>
struct Rule {
  std::array<Shapes, N * N * N> shapes;
  std::array<double, N * N * N> weight;
};

template <std::size_t N>
Rule<N> make_rule(const Gauss<N>& g) {
  Rule<N> rule;
  for (std::size_t q = 0; q < N * N * N; ++q) {
    const std::size_t i = q % N, j = q / N % N, k = q / (N * N);
    rule.shapes[q] = shapes_at({g.at[i], g.at[j], g.at[k]});
    rule.weight[q] = g.weight[i] * g.weight[j] * g.weight[k];
  }
  return rule;
}

const Rule<2> coarse_rule = make_rule(two_points);
const Rule<3> fine_rule = make_rule(three_points);

Point place(const Corners& corners, const Shapes& s) {
  Point x{};
  for (std::size_t c = 0; c < 8; ++c) {
    for (std::size_t a = 0; a < 3; ++a) x[a] += s.value[c] * corners[c][a];
  }
  return x;
}

using Matrix3 = std::array<Point, 3>;

/// jacobian[a][b]: of coordinate a along reference coordinate b.
Matrix3 jacobian_at(const Corners& corners, const Shapes& s) {
  Matrix3 j{};
  for (std::size_t c = 0; c < 8; ++c) {
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = 0; b < 3; ++b) j[a][b] += corners[c][a] * s.slope[c][b];
    }
  }
  return j;
}

Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
double dot(const Point& a, const Point& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// The rows of the matrix of cofactors: the inverse, transposed, times the determinant.
Matrix3 cofactors(const Matrix3& j) { return {cross(j[1], j[2]), cross(j[2], j[0]), cross(j[0], j[1])}; }

}  // namespace

ElementMatrices integrate(const Corners& corners, const Problem& problem) {
  ElementMatrices m;
  for (std::size_t q = 0; q < fine_rule.weight.size(); ++q) {
    const Shapes& s = fine_rule.shapes[q];
    const Matrix3 j = jacobian_at(corners, s);
    const Matrix3 cofactor = cofactors(j);
    const double determinant = dot(j[0], cofactor[0]);
    const Point x = place(corners, s);
    const double mass = fine_rule.weight[q] * determinant * problem.capacity(x);
    // One determinant of the volume; two more to divide the two gradients by.
    const double conduction = fine_rule.weight[q] / determinant * problem.conductivity(x);
    std::array<Point, 8> gradient;
    for (std::size_t c = 0; c < 8; ++c) {
      for (std::size_t a = 0; a < 3; ++a) gradient[c][a] = dot(cofactor[a], s.slope[c]);
    }
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        m.mass[a][b] += mass * s.value[a] * s.value[b];
        m.conduction[a][b] += conduction * dot(gradient[a], gradient[b]);
      }
    }
  }
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      m.mass[b][a] = m.mass[a][b];
      m.conduction[b][a] = m.conduction[a][b];
    }
  }
  return m;
}

std::array<std::array<double, 4>, 4> face_mass(const std::array<Point, 4>& corners) {
  constexpr std::array<std::array<double, 2>, 4> signs{{{-1, -1}, {1, -1}, {1, 1}, {-1, 1}}};
  std::array<std::array<double, 4>, 4> m{};
  for (double u : two_points.at) {
    for (double v : two_points.at) {
      std::array<double, 4> shape;
      Point along_u{}, along_v{};
      for (std::size_t c = 0; c < 4; ++c) {
        shape[c] = (1 + signs[c][0] * u) * (1 + signs[c][1] * v) / 4;
        for (std::size_t a = 0; a < 3; ++a) {
          along_u[a] += signs[c][0] * (1 + signs[c][1] * v) / 4 * corners[c][a];
          along_v[a] += signs[c][1] * (1 + signs[c][0] * u) / 4 * corners[c][a];
        }
      }
      const Point normal = cross(along_u, along_v);
      const double area = std::sqrt(dot(normal, normal));
      for (std::size_t a = 0; a < 4; ++a) {
        for (std::size_t b = 0; b < 4; ++b) m[a][b] += area * shape[a] * shape[b];
      }
    }
  }
  return m;
}

SourceShapes source_shapes() {
  SourceShapes shapes;
  for (std::size_t q = 0; q < source_points; ++q) shapes[q] = coarse_rule.shapes[q].value;
  return shapes;
}

std::array<SourcePoint, source_points> source_quadrature(const Corners& corners) {
  std::array<SourcePoint, source_points> points;
  for (std::size_t q = 0; q < source_points; ++q) {
    const Shapes& s = coarse_rule.shapes[q];
    const Matrix3 j = jacobian_at(corners, s);
    points[q] = {place(corners, s), coarse_rule.weight[q] * dot(j[0], cofactors(j)[0])};
  }
  return points;
}

}  // namespace heat
