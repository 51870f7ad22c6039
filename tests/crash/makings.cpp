// makings idup|window DIED: 24 steps, in each of which all ranks make a communicator or a window and free it. In step
// 12 the process of rank 1 at the start of MPI dies in the middle of that, once: it makes the file DIED before. Rank 0
// prints "sum S" in the end.
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
void die_once(int step, const char* died) {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  if (step != 12 || number != 1 || std::filesystem::exists(died)) return;
  std::ofstream{died}.flush();
  (void)std::raise(SIGKILL);
}

void make(MPI_Comm comm, const std::string& how, int step, const char* died) {
  if (how == "window") {
    void* memory = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    die_once(step, died);
    MPI_Win_allocate(800, 8, MPI_INFO_NULL, comm, static_cast<void*>(&memory), &window);
    MPI_Win_free(&window);
    return;
  }
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(comm, &made, &request);
  die_once(step, died);
  if (step == 12) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&made);
}

void work(const std::string& how, const char* died) {
  backstay::Session session(MPI_COMM_WORLD);
  int rank = 0;
  session.loop([&] {
    MPI_Comm_rank(session.comm(), &rank);
    std::vector<double> sums(1000, rank);
    int step = 0;
    session.protect("sums", sums);
    session.protect("step", step);
    for (session.resume(); step < 24; ++step) {
      session.checkpoint();
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      make(session.comm(), how, step, died);
      for (auto& sum : sums) sum += step;
    }
    if (rank == 0) std::printf("sum %.17g\n", sums[0]);
  });
}
}  // namespace

int main(int argc, char** argv) {
  int given = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
  if (argc != 3) return 2;
  try {
    work(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "makings: %s\n", e.what());
    return 3;
  }
  MPI_Finalize();
  return 0;
}
