// repaired MIB STEPS TIMES: steps of a few milliseconds on MIB per rank, for bench/repair.py, which loses ranks of it.
// Rank 0 appends the wall clock at the end of each step to the file TIMES.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

int main(int argc, char** argv) try {
  if (argc < 4) return 2;
  const auto cells = static_cast<std::size_t>(std::atoll(argv[1])) * (std::size_t{1} << 20) / sizeof(double);
  const int steps = std::atoi(argv[2]);
  backstay::Session run(argc, argv);
  std::vector<double> u(cells, run.rank());
  int step = 0;
  run.protect("step", step);
  run.protect("u", u);
  run.loop([&] {
    for (run.resume(); step < steps; ++step) {
      run.checkpoint();
      for (std::size_t i = static_cast<std::size_t>(step) % 64; i < cells; i += 64) u[i] += step;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      MPI_Barrier(run.comm());
      if (run.rank() != 0) continue;
      if (std::FILE* times = std::fopen(argv[3], "a")) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        std::fprintf(times, "%.6f\n", std::chrono::duration<double>(now).count());
        std::fclose(times);
      }
    }
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "repaired: %s\n", e.what());
  return 3;
}
