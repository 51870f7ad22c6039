// copies: how long a plain copy takes in a program like those that are checkpointed, on as many ranks.
//
//   copies BYTES STEP_MS STEPS
//
// Each rank computes for STEP_MS of processor time between messages to its neighbours, as a solver does, and copies
// BYTES at the end of each step into memory that was touched before. One JSON object: seconds that rank 0 waits for its
// copy, mean and median. Where ranks outnumber cores it has to wait for a core, too, as a checkpoint has.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <numeric>
#include <vector>

namespace {

constexpr int messages = 30;  // in a step

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Reads and writes `data` for so long.
void compute(std::vector<double>& data, double time) {
  for (const double end = processor_seconds() + time; processor_seconds() < end;)
    for (std::size_t i = 1; i < data.size(); ++i) data[i] = 0.5 * (data[i] + data[i - 1]);
}

std::vector<double> copies(std::size_t bytes, double step, int steps, int rank, int size) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  std::vector<double> work(4096, rank), out(512), in(512), took;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int i = 0; i < steps; ++i) {
    for (int message = 0; message < messages; ++message) {
      compute(work, step / messages);
      MPI_Sendrecv(out.data(), 512, MPI_DOUBLE, next, 0, in.data(), 512, MPI_DOUBLE, before, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    }
    from[static_cast<std::size_t>(i) % bytes] = static_cast<char>(i);
    const double start = seconds();
    std::memcpy(to.data(), from.data(), bytes);
    took.push_back(seconds() - start);
    out[0] = to[static_cast<std::size_t>(i) % bytes];  // so that the copy is needed
  }
  return took;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: copies BYTES STEP_MS STEPS\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto took = copies(std::strtoull(argv[1], nullptr, 10), 1e-3 * std::atof(argv[2]), std::atoi(argv[3]), rank, size);
  std::sort(took.begin(), took.end());
  const double mean = std::accumulate(took.begin(), took.end(), 0.0) / static_cast<double>(took.size());
  if (rank == 0) std::printf("{\"mean_s\": %.6f, \"median_s\": %.6f}\n", mean, took[took.size() / 2]);
  MPI_Finalize();
  return 0;
}
