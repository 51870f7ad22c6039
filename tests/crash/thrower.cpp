// thrower STEP [partitioned|destructor|noexcept|idup|split|group]: all ranks count to 20, and throw at STEP. `main`
// catches what is thrown, when the session is gone, ends MPI, and returns 3 then; else rank 0 prints "sum S".
// Partitioned: before that each sends a number to itself in that way. Destructor, noexcept: most of the messages are
// waited for where no exception gets out. Idup, group: they are sent in communicators of two, made by MPI_Comm_idup or
// MPI_Comm_create_from_group. THROWER_RAISES=1: SIGTERM is raised before.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
void send_in_parts([[maybe_unused]] MPI_Comm comm) {
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
  int rank = 0, out = 1, in = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Request requests[2];
  MPI_Psend_init(&out, 1, 1, MPI_INT, rank, 0, comm, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(&in, 1, 1, MPI_INT, rank, 0, comm, MPI_INFO_NULL, &requests[1]);
  MPI_Startall(2, requests);
  MPI_Pready(0, requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (auto& request : requests) MPI_Request_free(&request);
  if (in != 1) throw std::runtime_error("another number came");
#endif
}

/// Of this rank and its neighbour, made as `how` says.
MPI_Comm pair_of(MPI_Comm comm, const std::string& how) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm half = MPI_COMM_NULL, pair = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank / 2, rank, &half);
  if (how == "idup") {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(half, &pair, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  if (how == "split") {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm all = MPI_COMM_NULL;
    MPI_Comm_idup(comm, &all, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_split(all, rank / 2, rank, &pair);
  }
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
  if (how == "group") {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm_group(half, &group);
    MPI_Comm_create_from_group(group, "pair", MPI_INFO_NULL, MPI_ERRORS_RETURN, &pair);
    MPI_Group_free(&group);
  }
#endif
  MPI_Comm_free(&half);
  return pair;
}

struct MeetsAtItsEnd {
  MPI_Comm comm;
  explicit MeetsAtItsEnd(MPI_Comm of) : comm(of) {}
  MeetsAtItsEnd(const MeetsAtItsEnd&) = delete;
  MeetsAtItsEnd& operator=(const MeetsAtItsEnd&) = delete;
  ~MeetsAtItsEnd() { MPI_Barrier(comm); }
};

void meet_quietly(MPI_Comm comm) noexcept { MPI_Barrier(comm); }

void work(int throws_at, const std::string& how) {
  backstay::Session session(MPI_COMM_WORLD);
  std::vector<double> sums(10);
  int step = 0;
  session.loop([&] {
    session.protect("sums", sums);
    session.protect("step", step);
    session.resume();
    if (how == "partitioned") send_in_parts(session.comm());
    const bool in_pairs = how == "idup" || how == "split" || how == "group";
    const MPI_Comm pair = in_pairs ? pair_of(session.comm(), how) : MPI_COMM_NULL;
    while (step < 20) {
      session.checkpoint();
      for (int i = 0; i < 1000; ++i) {
        const std::string text(100, 'a');  // something to clean up
        if (how == "destructor") const MeetsAtItsEnd here(session.comm());
        if (how == "noexcept") meet_quietly(session.comm());
        if (in_pairs) MPI_Barrier(pair);
      }
      MPI_Barrier(session.comm());
      ++step;
      for (auto& sum : sums) sum += step;
      if (step == throws_at && std::getenv("THROWER_RAISES") != nullptr) std::raise(SIGTERM);
      if (step == throws_at) throw std::runtime_error("the sums are wrong");
    }
  });
  int rank = 0;
  MPI_Comm_rank(session.comm(), &rank);
  if (rank == 0) std::printf("sum %.17g\n", sums[0]);
}
}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    work(argc > 1 ? std::atoi(argv[1]) : -1, argc > 2 ? argv[2] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "thrower: %s\n", e.what());
    status = 3;
  }
  MPI_Finalize();
  return status;
}
