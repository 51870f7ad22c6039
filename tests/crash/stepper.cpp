// stepper STEPS [resume|replay] [CELLS]: a small deterministic simulation that kills.py kills. Each rank holds vectors
// of CELLS words (8000 if not named); at each step a rank mixes the edge of its neighbour into its own, so that a state
// put together from two checkpoints ends in another hash. Neighbours talk in a duplicate of the session's communicator,
// and pairs of ranks in one split off. Its computations are declared: lines wait for them, and leave out `mixed`, and
// `late` in one step of three. With `replay` it goes its way again instead of resuming, and the step is no state. A
// static table is filled at a fresh start only: whoever takes a place later gets it from a line. Rank 0 prints "resumed
// LEVEL LINE STEP" or "fresh", and at the end "hash H".
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace {

struct Simulation {
  std::int64_t step = 0;
  std::vector<std::uint64_t> cells, mixed, late;
  std::vector<double> tail;          // changes its size
  std::vector<std::uint32_t> table;  // static
  std::mt19937_64 random;
  backstay::Computation mix, update, renew, look;

  Simulation(int rank, std::size_t count)
      : cells(count), mixed(count), late(count), table(count / 2), random(static_cast<std::uint64_t>(rank) + 1) {
    for (auto& cell : cells) cell = random();
  }
  void fill_table(int rank) {
    std::mt19937 numbers(static_cast<unsigned>(rank) + 77);
    for (auto& number : table) number = static_cast<std::uint32_t>(numbers());
  }
  void protect(backstay::Session& session, bool replays) {
    const auto n = static_cast<std::int64_t>(cells.size());
    if (!replays) session.protect("step", step);
    session.protect("cells", cells,
                    backstay::block({n * session.size()}, {n * session.rank()}, {n * (session.rank() + 1)}));
    session.protect("mixed", mixed);
    session.protect("late", late);
    session.protect("tail", tail);
    session.protect("random", random);
    session.protect_static("table", table);
    mix = session.declare("mix", {backstay::reads("cells"), backstay::writes("mixed")});
    update = session.declare("update", {backstay::reads("mixed"), backstay::updates("cells")});
    renew = session.declare("renew", {backstay::reads("cells"), backstay::writes("late")});
    look = session.declare("look", {backstay::reads("late"), backstay::updates("cells")});
  }
  void advance(backstay::Session& session, MPI_Comm comm, MPI_Comm pair) {
    const std::uint64_t carry = session.compute(mix, [&] { return mix_all(comm, pair); });
    session.compute(update, [&] { cells = mixed; });
    if (step % 3 == 0)
      session.compute(renew, [&] {
        for (std::size_t i = 0; i < late.size(); ++i) late[i] = cells[i] >> 7;
      });
    if (step % 3 == 1)
      session.compute(look, [&] {
        for (std::size_t i = 0; i < late.size(); ++i) cells[i] ^= late[i];
      });
    tail.resize(static_cast<std::size_t>(step % 50 + 1), static_cast<double>(carry >> 40));
    ++step;
  }
  [[nodiscard]] std::uint64_t hash(MPI_Comm comm) const {
    std::uint64_t mine = static_cast<std::uint64_t>(step);
    for (const auto* all : {&cells, &mixed, &late})
      for (auto cell : *all) mine = (mine ^ cell) * 0x100000001b3ULL;
    for (double x : tail) mine = (mine ^ static_cast<std::uint64_t>(x)) * 0x100000001b3ULL;
    std::uint64_t all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, comm);
    return all;
  }

 private:
  std::uint64_t mix_all(MPI_Comm comm, MPI_Comm pair) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    std::uint64_t theirs = 0;
    MPI_Sendrecv(&cells.back(), 1, MPI_UINT64_T, (rank + 1) % size, 0, &theirs, 1, MPI_UINT64_T,
                 (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
    std::uint64_t both = random();
    MPI_Allreduce(MPI_IN_PLACE, &both, 1, MPI_UINT64_T, MPI_BXOR, pair);
    std::uint64_t carry = theirs ^ both ^ table[static_cast<std::size_t>(step) % table.size()];
    for (std::size_t i = 0; i < cells.size(); ++i)
      carry = mixed[i] = (cells[i] ^ carry) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(step);
    return carry;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1000;
  const bool replays = argc > 2 && std::string_view(argv[2]) == "replay";
  const std::size_t cells = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 8000;
  backstay::Session session(argc, argv);
  Simulation simulation(session.rank(), cells);
  simulation.protect(session, replays);
  session.loop([&] {
    if (replays) simulation.step = 0;
    const auto found = replays ? session.replay() : session.resume();
    if (!found) simulation.fill_table(session.rank());
    if (session.rank() == 0) {
      if (found)
        std::printf("resumed %s %" PRIu64 " %" PRId64 "\n", found.level.c_str(), found.line, simulation.step);
      else
        std::printf("fresh\n");
      std::fflush(stdout);
    }
    MPI_Comm ring = MPI_COMM_NULL, pair = MPI_COMM_NULL;
    MPI_Comm_dup(session.comm(), &ring);
    MPI_Comm_split(ring, session.rank() / 2, session.rank(), &pair);
    const char* const again = std::getenv("STEPPER_PROTECTS_AGAIN");  // at that step, as a program does that moves data
    while (simulation.step < steps) {
      if (again != nullptr && simulation.step == std::atoll(again)) {
        session.unprotect("tail");
        session.protect("tail", simulation.tail);
      }
      session.checkpoint();
      simulation.advance(session, ring, pair);
      if (!session.replaying()) std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    MPI_Comm_free(&pair);
    MPI_Comm_free(&ring);
    const auto hash = simulation.hash(session.comm());
    if (session.rank() == 0) std::printf("hash %016" PRIx64 "\n", hash);
    std::fflush(stdout);  // it may be killed before it ends
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "stepper: %s\n", e.what());
  return 3;
}
