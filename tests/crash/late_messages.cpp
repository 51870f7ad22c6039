// late_messages HOW MARK: at its tenth step rank 1 dies while something long of rank 0 is under way, from or to a
// buffer that is freed on the way back to loop(), and is no longer there then. HOW says what comes afterwards:
// - pieces: rank 1 has sent pieces of its message to rank 0, which has not seen them yet;
// - living: so has rank 2, which lives, and goes on sending; rank 0 waits for rank 1;
// - answer: rank 2 begins to receive from rank 0 when that has heard of the loss already, and is sent to;
// - persistent: the same, of a request that can be started again;
// - together: the same, and rank 0 waits for both ranks in one call;
// - revoked: the same with rank 3, which has heard of the loss and revoked the communicator before rank 0 knows of any;
// - receiving: the same, and rank 0 receives what rank 2, which lives, goes on sending;
// - computing: rank 2 computes for five seconds before it receives;
// - exchange: the same in MPI_Sendrecv;
// - collective: the ranks are in MPI_Alltoall;
// - neighbours: the ranks are in MPI_Neighbor_alltoall;
// - started: rank 0 has started MPI_Ialltoall, which rank 2 comes to when rank 0 has heard of the loss.
// Only a launch that finds no file MARK does so; it makes it. Rank 0 prints "done" at the end.
#include <malloc.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Words = std::vector<std::uint64_t>;

constexpr std::size_t length = std::size_t{1} << 20;  // 8 MiB

/// Until MPI tells of the loss, which leaves by an exception. Who went on before that would free what MPI still reads.
constexpr milliseconds until_the_loss{20000};

/// Lets MPI go on with it.
void advance(MPI_Request& request, milliseconds time) {
  int done = 0;
  const auto end = Clock::now() + time;
  do MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  while (Clock::now() < end && done == 0);
}

void send_to_0(const Words& out, MPI_Comm comm, milliseconds time) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(out.data(), static_cast<int>(length), MPI_UINT64_T, 0, 0, comm, &request);
  advance(request, time);
}

void of_rank_0(const std::string& how, MPI_Comm comm) {
  Words buffer(length);
  MPI_Request request = MPI_REQUEST_NULL;
  const int count = static_cast<int>(length);
  const int other = how == "pieces" ? 1 : 2;
  if (how == "answer" || how == "computing" || how == "together" || how == "revoked") {
    MPI_Isend(buffer.data(), count, MPI_UINT64_T, other, 0, comm, &request);
  } else if (how == "persistent") {
    MPI_Send_init(buffer.data(), count, MPI_UINT64_T, other, 0, comm, &request);
    MPI_Start(&request);
  } else if (how != "exchange") {
    MPI_Irecv(buffer.data(), count, MPI_UINT64_T, other, 0, comm, &request);
    while (static_cast<volatile std::uint64_t&>(buffer[0]) == 0) advance(request, milliseconds(0));
    std::this_thread::sleep_for(milliseconds(600));
  }
  std::uint64_t word = 0;
  if (how == "exchange")
    MPI_Sendrecv(buffer.data(), count, MPI_UINT64_T, 2, 0, &word, 1, MPI_UINT64_T, 3, 1, comm, MPI_STATUS_IGNORE);
  if (how == "together" || how == "revoked" || how == "receiving") {
    std::array<MPI_Request, 2> both = {MPI_REQUEST_NULL, request};
    MPI_Irecv(&word, 1, MPI_UINT64_T, how == "together" ? 1 : 3, 1, comm, both.data());
    MPI_Waitall(2, both.data(), MPI_STATUSES_IGNORE);
  }
  MPI_Recv(&word, 1, MPI_UINT64_T, 1, 1, comm, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void of_rank_2(const std::string& how, Words& buffer, MPI_Comm comm) {
  if (how == "living" || how == "receiving") return send_to_0(buffer, comm, milliseconds(3000));
  if (how == "pieces") return;
  std::this_thread::sleep_for(milliseconds(how == "computing" ? 5000 : 600));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(buffer.data(), static_cast<int>(length), MPI_UINT64_T, 0, 0, comm, &request);
  advance(request, until_the_loss);
}

void call_all(const std::string& how, MPI_Comm comm, int rank) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  Words out(length * static_cast<std::size_t>(size)), in(out.size());
  const int count = static_cast<int>(length);
  if (rank == 2) std::this_thread::sleep_for(milliseconds(600));
  if (how == "neighbours") {
    MPI_Neighbor_alltoall(out.data(), count, MPI_UINT64_T, in.data(), count, MPI_UINT64_T, comm);
    return;
  }
  if (how == "collective") {
    MPI_Alltoall(out.data(), count, MPI_UINT64_T, in.data(), count, MPI_UINT64_T, comm);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ialltoall(out.data(), count, MPI_UINT64_T, in.data(), count, MPI_UINT64_T, comm, &request);
  std::uint64_t word = 0;
  if (rank == 0) MPI_Recv(&word, 1, MPI_UINT64_T, 1, 1, comm, MPI_STATUS_IGNORE);
  advance(request, until_the_loss);
}

MPI_Comm ring(MPI_Comm comm) {
  int size = 1, is_closed = 1;
  MPI_Comm_size(comm, &size);
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Cart_create(comm, 1, &size, &is_closed, 0, &made);
  return made;
}

void lose_rank_1(const std::string& how, MPI_Comm comm, int rank) {
  Words buffer(length, 1);
  if (how == "neighbours") comm = ring(comm);
  if (rank != 1 && (how == "collective" || how == "started" || how == "neighbours")) call_all(how, comm, rank);
  if (rank == 0) of_rank_0(how, comm);
  if (rank == 2) of_rank_2(how, buffer, comm);
  if (rank == 3 && (how == "revoked" || how == "exchange" || how == "receiving"))
    MPI_Recv(buffer.data(), 1, MPI_UINT64_T, 1, 1, comm, MPI_STATUS_IGNORE);
  if (rank != 1) MPI_Barrier(comm);
  if (how == "pieces") send_to_0(buffer, comm, milliseconds(300));
  if (how != "pieces") std::this_thread::sleep_for(milliseconds(300));
  std::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) try {
  mallopt(M_MMAP_THRESHOLD, 1 << 17);  // what is freed is no longer there
  const std::string how = argc > 1 ? argv[1] : "answer", mark = argc > 2 ? argv[2] : "";
  backstay::Session session(argc, argv);
  std::int64_t step = 0;
  session.protect("step", step);
  session.loop([&] {
    session.resume();
    const bool was_there = std::ifstream(mark).good();
    MPI_Barrier(session.comm());
    while (step < 20) {
      session.checkpoint();
      if (step == 10 && !was_there) {
        std::ofstream(mark).put('1');
        lose_rank_1(how, session.comm(), session.rank());
      }
      MPI_Barrier(session.comm());
      ++step;
    }
    if (session.rank() == 0) std::printf("done\n");
    std::fflush(stdout);
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "late_messages: %s\n", e.what());
  return 3;
}
