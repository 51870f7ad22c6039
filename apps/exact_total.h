// Exact sums over all ranks of terms of any size.
#pragma once

#include <mpi.h>

#include <cmath>
#include <limits>
#include <optional>

#include "exact_sum.h"
#include "mpi_check.h"

namespace program {

/// The sum over all ranks of what `each(add)` hands to `add(term)`; nothing if a term is not finite. Collective.
/// `largest`, the same on all ranks, is that of the sizes of all terms: it sets the unit of the sum, which then keeps
/// 62 bits below it.
template <class Each>
std::optional<double> exact_total(MPI_Comm comm, double largest, const Each& each) {
  if (!(largest <= std::numeric_limits<double>::max())) return std::nullopt;
  if (largest < 1e-290) return 0;  // its unit would not be a normal number
  const int exponent = std::ilogb(largest) - std::ilogb(ExactSum::limit) + 1;
  const double scale = std::ldexp(1.0, -exponent);
  ExactSum sum;
  each([&](double term) { sum.add(scale * term); });
  static_assert(sizeof(ExactSum) == 3 * sizeof(std::int64_t), "added across ranks as three integers");
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &sum, 3, MPI_INT64_T, MPI_SUM, comm), "MPI_Allreduce");
  if (sum.refused > 0) return std::nullopt;
  return std::ldexp(sum.value(), exponent);
}

}  // namespace program
