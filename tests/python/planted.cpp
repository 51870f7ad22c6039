// planted [protected]: arrays of which it is known what becomes of them after checkpoint(), and which nobody protects:
// `backstay advise` has to find them. A line on which one of them is allocated ends with its name. With `protected`,
// `state` is a region. Rank 0 prints "sum S" in the end, which is the same however closely it is looked at.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
constexpr std::size_t n = 20000;

double sum_of(const double* array, std::size_t count = n) { return std::accumulate(array, array + count, 0.0); }

/// As memcpy() does it with large ones. Reads the element behind them, in the same page: that shows to nobody that the
/// instruction is over.
double copy_but_100(double* to, const double* from) {
  const double* const behind = to + n - 100;
#ifdef __x86_64__
  std::size_t count = n - 100;
  asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
#else
  std::copy(from, from + n - 100, to);
#endif
  return *behind;
}

double* array_of(double value) {
  auto* const out = static_cast<double*>(std::malloc(n * sizeof(double)));  // helper
  std::fill(out, out + n, value);
  return out;
}
}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double total = 0;
  {
    backstay::Session run(MPI_COMM_WORLD, {{"every", "100"}});
    std::vector<double> state(n, 1.0);                                                    // state
    const std::unique_ptr<double[]> scratch(new double[n]());                             // scratch
    auto* const constant = static_cast<double*>(std::calloc(n, sizeof(double)));          // constant
    auto* const half = static_cast<double*>(std::aligned_alloc(64, n * sizeof(double)));  // half
    auto* const single = static_cast<float*>(std::malloc(n * sizeof(float)));             // single
    auto* received = static_cast<double*>(std::malloc(n * sizeof(double)));               // received
    auto* freed = static_cast<double*>(std::malloc(n * sizeof(double)));                  // freed
    auto* moved = static_cast<double*>(std::malloc(n * sizeof(double)));                  // moved
    std::vector<double> seldom(n, 1.0);                                                   // seldom
    std::vector<double> idle(n, 1.0);                                                     // idle
    auto* const small = static_cast<double*>(std::malloc(1000 * sizeof(double)));         // small
    std::vector<double> tail(n, 1.0);                                                     // tail
    double* const work = array_of(1);                                                     // work
    double* late = nullptr;
    std::vector<char> buffer(1 << 16);  // buffer
    std::FILE* const file = std::fopen("planted.txt", "w");
    std::setvbuf(file, buffer.data(), _IOFBF, buffer.size());
    std::fill(half, half + n, 1.0);
    std::fill(single, single + n, 1.0F);
    std::fill(small, small + 1000, 1.0);
    std::fill(freed, freed + n, 1.0);
    std::fill(moved, moved + n, 1.0);
    if (argc > 1 && std::string_view(argv[1]) == "protected") run.protect("state", state);
    run.resume();
    for (int step = 0; step < 6; ++step) {
      run.checkpoint();
      for (std::size_t i = 0; i < n; ++i) scratch[i] = 2 * state[i] + constant[i];
      for (std::size_t i = 0; i < n; ++i) work[i] = 0.5 * scratch[i];
      total += copy_but_100(tail.data(), work) + sum_of(scratch.get());
      std::fill(tail.end() - 100, tail.end(), total);
      std::fill(half, half + n / 2, 2.0);  // the other half stays, and is read
      total += sum_of(half) + sum_of(work);
      if (step % 3 == 2) total += sum_of(seldom.data());
      std::fill(seldom.begin(), seldom.end(), 3.0);
      for (std::size_t i = 0; i < n; i += 2) single[i] = static_cast<float>(step);
      for (std::size_t i = 1; i < n; i += 2) single[i] = static_cast<float>(step);
      total += static_cast<double>(std::accumulate(single, single + n, 0.0F)) + small[step];
      MPI_Sendrecv(scratch.get(), n, MPI_DOUBLE, (rank + 1) % size, 0, received, n, MPI_DOUBLE,
                   (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      total += sum_of(received);
      if (step == 1) {
        std::free(freed);  // in the middle of a step, and its memory goes to others
        freed = nullptr;
        std::thread([] { std::vector<double>(n, 1.0).swap(*std::make_unique<std::vector<double>>(n, 2.0)); }).join();
        moved = static_cast<double*>(std::realloc(moved, 64 * n * sizeof(double)));  // grown
        late = static_cast<double*>(std::malloc(n * sizeof(double)));                // late
        std::fill(late, late + n, 1.0);
      }
      if (late != nullptr) total += sum_of(late);
      total += moved[step];
      for (std::size_t i = 0; i < n; i += 5) std::fprintf(file, "%zu %.17g\n", i, work[i]);
      for (std::size_t i = 0; i < n; ++i) state[i] += 1e-3 * work[i];
    }
    total += sum_of(idle.data()) + sum_of(state.data());
    std::fclose(file);
    for (double* const memory : {constant, half, received, moved, small, work, late}) std::free(memory);
    std::free(single);
  }
  if (rank == 0) std::printf("sum %.17g\n", total);
  MPI_Finalize();
  return 0;
}
