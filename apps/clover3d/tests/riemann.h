// The exact solution of a Riemann problem of an ideal gas, without vacuum. (Toro, Riemann Solvers and Numerical Methods
// for Fluid Dynamics, chapter 4.)
#pragma once

#include <cmath>

namespace clover3d {

struct Gas {
  double density, velocity, pressure;
};

class Riemann {
 public:
  Riemann(const Gas& left, const Gas& right) : left_(left), right_(right) {
    double low = 0;
    double high = 100 * std::fmax(left.pressure, right.pressure);
    for (int i = 0; i < 200; ++i) {
      pressure_ = (low + high) / 2;
      const double approach = change(left_) + change(right_) + right_.velocity - left_.velocity;
      (approach < 0 ? low : high) = pressure_;
    }
    velocity_ = (left_.velocity + right_.velocity + change(right_) - change(left_)) / 2;
  }
  /// At the distance `speed` times time from where the two gases met.
  [[nodiscard]] Gas at(double speed) const {
    if (speed < velocity_) return beside(left_, speed);
    Gas mirrored = beside({right_.density, -right_.velocity, right_.pressure}, -speed, -velocity_);
    mirrored.velocity = -mirrored.velocity;
    return mirrored;
  }

 private:
  static constexpr double gamma = 1.4;
  static double sound(const Gas& gas) { return std::sqrt(gamma * gas.pressure / gas.density); }

  /// Of the velocity across the wave that takes `gas` to pressure_.
  [[nodiscard]] double change(const Gas& gas) const {
    if (pressure_ > gas.pressure) {
      const double a = 2 / ((gamma + 1) * gas.density);
      const double b = (gamma - 1) / (gamma + 1) * gas.pressure;
      return (pressure_ - gas.pressure) * std::sqrt(a / (pressure_ + b));
    }
    const double exponent = (gamma - 1) / (2 * gamma);
    return 2 * sound(gas) / (gamma - 1) * (std::pow(pressure_ / gas.pressure, exponent) - 1);
  }

  [[nodiscard]] Gas beside(const Gas& gas, double speed) const { return beside(gas, speed, velocity_); }
  /// Left of the contact, whose velocity is `contact`.
  [[nodiscard]] Gas beside(const Gas& gas, double speed, double contact) const {
    const double ratio = pressure_ / gas.pressure;
    const double g = (gamma - 1) / (gamma + 1);
    if (ratio > 1) {  // a shock
      const double front =
          gas.velocity - sound(gas) * std::sqrt((gamma + 1) / (2 * gamma) * ratio + (gamma - 1) / (2 * gamma));
      return speed < front ? gas : Gas{gas.density * (ratio + g) / (g * ratio + 1), contact, pressure_};
    }
    if (speed < gas.velocity - sound(gas)) return gas;
    const double sound_behind = sound(gas) * std::pow(ratio, (gamma - 1) / (2 * gamma));
    if (speed > contact - sound_behind) return {gas.density * std::pow(ratio, 1 / gamma), contact, pressure_};
    const double factor = 2 / (gamma + 1) + g / sound(gas) * (gas.velocity - speed);
    return {gas.density * std::pow(factor, 2 / (gamma - 1)),
            2 / (gamma + 1) * (sound(gas) + (gamma - 1) / 2 * gas.velocity + speed),
            gas.pressure * std::pow(factor, 2 * gamma / (gamma - 1))};
  }

  Gas left_, right_;
  double pressure_ = 0;  ///< between the waves
  double velocity_ = 0;
};

}  // namespace clover3d
