// Times over all ranks, on the one clock of the machine that they share: with more ranks than cores, ranks that start
// late because they got no core would otherwise look faster than the machine is.
#pragma once

#include <mpi.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace bench {

/// This machine's clock, the same for all ranks on it; seconds.
inline double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds from the first rank's start to the last rank's end.
inline double span_over_ranks(double start, double end) {
  double mine[2] = {-start, end}, all[2] = {0, 0};
  MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all[1] + all[0];
}

/// That of `work`, which all begin after a barrier.
inline double timed(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now();
  work();
  return span_over_ranks(start, now());
}

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace bench
