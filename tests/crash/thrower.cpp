// thrower STEP: all ranks count to 20, and throw at STEP. `main` catches what is thrown, when the session is gone, ends
// MPI, and returns 3 then.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
void work(int throws_at) {
  backstay::Session session(MPI_COMM_WORLD);
  std::vector<double> sums(10);
  int step = 0;
  session.loop([&] {
    session.protect("sums", sums);
    session.protect("step", step);
    session.resume();
    while (step < 20) {
      session.checkpoint();
      MPI_Barrier(session.comm());
      ++step;
      for (auto& sum : sums) sum += step;
      if (step == throws_at) throw std::runtime_error("the sums are wrong");
    }
  });
}
}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    work(argc > 1 ? std::atoi(argv[1]) : -1);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "thrower: %s\n", e.what());
    status = 3;
  }
  MPI_Finalize();
  return status;
}
