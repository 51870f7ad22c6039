// halos STEPS [MIB]: long messages that are under way when repairs.py kills a rank. At each step every rank sends as
// much as 1 MiB to every other one, without blocking, from buffers that are made in the body of loop(): they are freed
// on the way back to it, while the other side may still be at their message. What arrives goes into a state of MIB MiB
// (1 if not named), so a message that is put where something else lies now ends in another hash. Rank 0 prints it at
// the end: "hash H".
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backstay/backstay.hpp"

namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::size_t mebibyte = (std::size_t{1} << 20) / sizeof(std::uint64_t);

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return (a ^ b) * 0x9e3779b97f4a7c15ULL + (b >> 31); }

/// From 4 KiB on: short ones, long ones, and such as go in pieces.
std::size_t length_at(std::int64_t step) { return mebibyte >> (step % 9); }

class Halos {
 public:
  explicit Halos(MPI_Comm comm) {
    MPI_Comm_dup(comm, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    out_.assign(static_cast<std::size_t>(size_), Words(mebibyte));
    in_ = out_;
  }
  ~Halos() { MPI_Comm_free(&comm_); }
  Halos(const Halos&) = delete;
  Halos& operator=(const Halos&) = delete;

  /// One number of all that has arrived.
  std::uint64_t exchange(std::int64_t step, std::uint64_t edge) {
    const auto length = length_at(step);
    std::vector<MPI_Request> requests;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      requests.push_back(MPI_REQUEST_NULL);
      MPI_Irecv(of(in_, other).data(), static_cast<int>(length), MPI_UINT64_T, other, 0, comm_, &requests.back());
    }
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      auto& words = of(out_, other);
      for (std::size_t i = 0; i < length; ++i) words[i] = edge + i;
      requests.push_back(MPI_REQUEST_NULL);
      MPI_Isend(words.data(), static_cast<int>(length), MPI_UINT64_T, other, 0, comm_, &requests.back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    std::uint64_t sum = 0;
    for (int other = 0; other < size_; ++other)
      if (other != rank_) sum = mixed(sum, arrived(of(in_, other), length));
    return sum;
  }

 private:
  static Words& of(std::vector<Words>& all, int other) { return all[static_cast<std::size_t>(other)]; }
  static std::uint64_t arrived(const Words& words, std::size_t length) {
    std::uint64_t others = 0;  // of another message
    for (std::size_t i = 0; i < length; ++i) others += words[i] == words[0] + i ? 0 : 1;
    if (others > 0) std::fprintf(stderr, "halos: %" PRIu64 " words of another message\n", others);
    return words[0] + others;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Words> out_, in_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 200;
  const auto count = mebibyte * static_cast<std::size_t>(argc > 2 ? std::atoi(argv[2]) : 1);
  backstay::Session session(argc, argv);
  std::int64_t step = 0;
  Words state(count, static_cast<std::uint64_t>(session.rank()) + 1);
  session.protect("step", step);
  session.protect("state", state);
  session.loop([&] {
    session.resume();
    Halos halos(session.comm());
    while (step < steps) {
      session.checkpoint();
      const auto sum = halos.exchange(step, state.back());
      for (std::size_t i = static_cast<std::size_t>(step) % 7; i < count; i += 7) state[i] = mixed(state[i], sum + i);
      state.back() = sum;
      ++step;
    }
    std::uint64_t mine = 0, all = 0;
    for (const auto word : state) mine = mixed(mine, word);
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, session.comm());
    if (session.rank() == 0) std::printf("hash %016" PRIx64 "\n", all);
    std::fflush(stdout);  // it may be killed before it ends
  });
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "halos: %s\n", e.what());
  return 3;
}
