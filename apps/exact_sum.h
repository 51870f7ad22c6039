// A sum that does not depend on the order of its terms, and so not on the number of ranks.
#pragma once

#include <cmath>
#include <cstdint>

namespace program {

/// Adds whole multiples of 2^-52 as integers. Each term is cut to such a multiple (an error below 2.3e-16,
/// made the same way wherever the term is added); the additions themselves are exact. Up to 2^31 terms.
/// The members may be added across ranks with MPI_SUM on MPI_INT64_T.
struct ExactSum {
  std::int64_t coarse = 0;   ///< in units of 2^-20
  std::int64_t fine = 0;     ///< in units of 2^-52
  std::int64_t refused = 0;  ///< terms that are not below `limit` in size, NaN among them

  static constexpr double limit = 2048;

  void add(double term) {
    if (!(std::abs(term) < limit)) {
      ++refused;
      return;
    }
    const auto high = static_cast<std::int64_t>(term * 0x1p20);
    coarse += high;
    fine += static_cast<std::int64_t>((term - static_cast<double>(high) * 0x1p-20) * 0x1p52);
  }
  [[nodiscard]] double value() const {
    return static_cast<double>(coarse) * 0x1p-20 + static_cast<double>(fine) * 0x1p-52;
  }
};

}  // namespace program
