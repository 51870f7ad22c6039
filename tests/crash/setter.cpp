// setter STEPS: a program that sets itself up in two calls of init(), with messages, and whose ranks are killed there.
// Rank 0 prints "hash H" at the end; every process that works prints "phases N", how many it has run.
//
// SETTER_DIES=PROCESS,PLACE[;...]: that process is killed there: 1, 2 before the messages of the first or second phase,
// 5 in wait_in_idup(), 11, 12 between them, 21 between the two, 100 + S at step S.
// SETTER_DOES=...: something that does not belong there, see below.
#include <signal.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace {

int process() {
  const char* number = std::getenv("OMPI_COMM_WORLD_RANK");
  return number == nullptr ? -1 : std::atoi(number);
}

void die_at(std::int64_t place) {
  const char* asked = std::getenv("SETTER_DIES");
  std::istringstream all(asked == nullptr ? "" : asked);
  for (std::string one; std::getline(all, one, ';');)
    if (one == std::to_string(process()) + "," + std::to_string(place)) raise(SIGKILL);
}

bool does(const char* what) {
  const char* asked = std::getenv("SETTER_DOES");
  return asked != nullptr && std::strcmp(asked, what) == 0;
}

int phases = 0;

/// What the ranks around this one have drawn: no replacement could make it again without their answers.
std::vector<std::uint64_t> make_table(MPI_Comm comm, int phase) {
  ++phases;
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::vector<std::uint64_t> mine(100);
  std::mt19937_64 random(static_cast<unsigned>(1000 * phase + rank));
  for (auto& x : mine) x = random();
  die_at(phase);
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank / 2, rank, &pair);
  std::vector<std::uint64_t> table(3 * mine.size());
  MPI_Request requests[2];
  MPI_Irecv(table.data(), 100, MPI_UINT64_T, (rank + size - 1) % size, phase, comm, &requests[0]);
  MPI_Isend(mine.data(), 100, MPI_UINT64_T, (rank + 1) % size, phase, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  die_at(10 + phase);
  MPI_Allreduce(mine.data(), table.data() + 100, 100, MPI_UINT64_T, MPI_BXOR, pair);
  MPI_Allreduce(mine.data(), table.data() + 200, 100, MPI_UINT64_T, MPI_BXOR, comm);
  MPI_Comm_free(&pair);
  return table;
}

/// A communicator of half of the ranks, as the member of an object that frees it.
struct Held {
  explicit Held(MPI_Comm all) {
    int rank = 0;
    MPI_Comm_rank(all, &rank);
    MPI_Comm_split(all, rank / 2, rank, &comm);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { MPI_Comm_free(&comm); }
  MPI_Comm comm = MPI_COMM_NULL;
};

/// Rank 3 waits for rank 2 in a duplicate that nobody has seen the making of, rank 2 for rank 1, which may be lost.
void wait_in_idup(MPI_Comm comm) {
  const Held half(comm);
  int rank = 0, x = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_idup(half.comm, &copy, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  die_at(5);
  if (rank == 1) MPI_Send(&x, 1, MPI_INT, 2, 7, comm);
  if (rank == 2) MPI_Recv(&x, 1, MPI_INT, 1, 7, comm, MPI_STATUS_IGNORE);
  MPI_Barrier(copy);
  MPI_Comm_free(&copy);
}

/// What a first phase may not do, or is told of.
void misbehave(backstay::Session& run) {
  if (does("window")) {
    int x = 0;
    MPI_Win window;
    MPI_Win_create(&x, sizeof(x), 1, MPI_INFO_NULL, run.comm(), &window);
    MPI_Win_free(&window);
  }
  if (does("communicator of a group")) {
    MPI_Group all;
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_group(run.comm(), &all);
    MPI_Comm_create_from_group(all, "of-init", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
  }
  if (does("checkpoint")) run.checkpoint();
  if (does("resume")) run.resume();
  if (does("loop")) run.loop([] {});
  if (does("init")) run.init([] {});
  if (does("throw")) throw std::runtime_error("the mesh is not there");
  const bool is_replacement = process() >= run.size();
  if (does("throw alone") && is_replacement) throw std::runtime_error("the mesh is not on this node");
  if (does("throw while holding") || does("call while holding")) {
    const Held half(run.comm());
    if (does("call while holding") && is_replacement) MPI_Bcast(nullptr, 0, MPI_INT, 0, half.comm);
    if (is_replacement) throw std::runtime_error("the mesh is not on this node");
    MPI_Barrier(half.comm);
  }
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
  if (does("partitioned")) {
    int x = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Psend_init(&x, 1, 1, MPI_INT, (run.rank() + 1) % run.size(), 1, run.comm(), MPI_INFO_NULL, &request);
    MPI_Request_free(&request);
  }
#endif
  if (does("persistent")) {
    static int x = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Send_init(&x, 1, MPI_INT, (run.rank() + 1) % run.size(), 1, run.comm(), &request);
  }
  if (does("idup")) wait_in_idup(run.comm());
  // A replacement that finds another input than the first one had.
  if (does("more") && process() >= run.size()) MPI_Barrier(run.comm());
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return (a ^ b) * 0x100000001b3ULL; }

}  // namespace

int main(int argc, char** argv) try {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 300;
  backstay::Session run(argc, argv);
  std::vector<std::uint64_t> first, second;
  std::int64_t step = 0;
  std::uint64_t state = 1;
  run.init([&] {
    misbehave(run);
    first = make_table(run.comm(), 1);
  });
  die_at(21);
  run.init([&] { second = make_table(run.comm(), 2); });
  run.protect("step", step, backstay::rank_private());
  run.protect("state", state, backstay::rank_private());
  run.loop([&] {
    if (does("init inside")) run.init([] {});
    run.resume();
    for (; step < steps; ++step) {
      die_at(100 + step);
      run.checkpoint();
      const auto at = static_cast<std::size_t>(step) % first.size();
      state = mixed(mixed(state, first[at]), second[at]);
      MPI_Allreduce(MPI_IN_PLACE, &state, 1, MPI_UINT64_T, MPI_BXOR, run.comm());
      state += static_cast<std::uint64_t>(run.rank());
    }
    std::uint64_t all = 0;
    MPI_Allreduce(&state, &all, 1, MPI_UINT64_T, MPI_SUM, run.comm());
    if (run.rank() == 0) std::printf("hash %016" PRIx64 "\n", all);
    std::fflush(stdout);
  });
  std::printf("phases %d of process %d\n", phases, process());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "setter: %s\n", e.what());
  return 3;
}
