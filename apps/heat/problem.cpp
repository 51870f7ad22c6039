#include "problem.h"

#include <cmath>
#include <numbers>

namespace heat {

namespace {
constexpr double pi = std::numbers::pi;

double squared(double x) { return x * x; }
}  // namespace

Problem moving_spot(int cells, double dt) {
  Problem p;
  p.cells = cells;
  p.dt = dt;
  p.cooling = 0.5;
  p.conductivity = [](const Point& x) {
    const double wave = std::sin(4 * pi * x[0] + 0.3) * std::sin(6 * pi * x[1] + 1.1) * std::cos(4 * pi * x[2]);
    return std::pow(10.0, 1.5 * wave - 0.5);  // from 0.01 to 10
  };
  p.capacity = [](const Point& x) { return 1 + 0.5 * std::sin(2 * pi * x[0]) * std::cos(pi * x[1]); };
  p.source = [](const Point& x, double time) {
    constexpr double radius = 0.08;
    const double angle = 2 * pi * time;
    const double distance =
        squared(x[0] - 0.5 - 0.3 * std::cos(angle)) + squared(x[1] - 0.5 - 0.3 * std::sin(angle)) + squared(x[2] - 0.7);
    return 40 * std::exp(-distance / squared(radius));
  };
  p.initial_temperature = [](const Point& x) { return 0.2 * (1 + std::cos(pi * x[2])); };
  return p;
}

}  // namespace heat
