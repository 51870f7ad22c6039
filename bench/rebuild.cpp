// How long lost members of a parity group take to come back, against reading what the survivors have and decoding it.
//   mpirun -n RANKS rebuild DIR MIB_PER_RANK LOST REPEATS
// All ranks are one group, each a node of its own at level local with LOST parities; the directories of LOST nodes are
// removed, and resume() is timed: it rebuilds them, checks every CRC, and fills all regions. A second one, where
// nothing is lost any more, is timed in the same turn: what the first took longer is the rebuilding. The limit is
// measured in the same turn, too: every survivor reads its files with read(2) into touched memory and, with ISA-L,
// decodes its share of the stripes. Times run from the first rank's start to the last rank's end. One JSON object on
// stdout.
#include <fcntl.h>
#include <isa-l/erasure_code.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"
#include "one_clock.h"

namespace {
namespace fs = std::filesystem;
using bench::median;
using bench::timed;

struct Setup {
  std::string dir;
  std::size_t bytes = 0;
  int lost = 1, repeats = 5, rank = 0, ranks = 1;
};

/// What a survivor does at the least.
class Limit {
 public:
  explicit Limit(const Setup& s) : s_(s), k_(s.ranks - s.lost), chunk_(s.bytes / static_cast<std::size_t>(k_) + 4096) {
    memory_.assign(2 * s.bytes + (std::size_t{4} << 20), 1);
    out_.assign(chunk_ * static_cast<std::size_t>(s.lost), 1);
    std::vector<unsigned char> matrix(static_cast<std::size_t>(s.ranks * k_));
    tables_.resize(static_cast<std::size_t>(32 * k_ * s.lost));
    gf_gen_cauchy1_matrix(matrix.data(), s.ranks, k_);
    ec_init_tables(k_, s.lost, matrix.data() + k_ * k_, tables_.data());
  }
  void read_and_decode() {
    if (s_.rank > 0 && s_.rank <= s_.lost) return;
    std::size_t at = 0;
    for (const auto& entry : fs::recursive_directory_iterator(s_.dir + "/node-" + std::to_string(s_.rank)))
      if (entry.is_regular_file() && entry.path().extension() == ".h5") at += read(entry.path(), at);
    // n stripes of k + lost shards, taken in turn by those who are left.
    const double stripes = static_cast<double>(s_.ranks) / k_;
    for (double left = stripes; left > 0; left -= 1)
      decode(static_cast<std::size_t>(std::min(1.0, left) * static_cast<double>(chunk_)));
  }

 private:
  std::size_t read(const fs::path& path, std::size_t at) {
    const int file = ::open(path.c_str(), O_RDONLY);
    const std::size_t begin = at;
    for (ssize_t n = 1; n > 0 && at < memory_.size(); at += static_cast<std::size_t>(std::max<ssize_t>(0, n)))
      n = ::read(file, memory_.data() + at, memory_.size() - at);
    ::close(file);
    return at - begin;
  }
  void decode(std::size_t length) {
    std::vector<unsigned char*> in, out;
    for (int i = 0; i < k_; ++i)
      in.push_back(memory_.data() + static_cast<std::size_t>(i) * (s_.bytes / static_cast<std::size_t>(k_)));
    for (int i = 0; i < s_.lost; ++i) out.push_back(out_.data() + static_cast<std::size_t>(i) * chunk_);
    ec_encode_data(static_cast<int>(length), k_, s_.lost, tables_.data(), in.data(), out.data());
  }

  const Setup& s_;
  int k_;
  std::size_t chunk_;
  std::vector<unsigned char> memory_, out_, tables_;
};

struct Turn {
  double limit = 0, resume = 0, nothing_lost = 0;
};

Turn one_turn(const Setup& s, Limit& limit) {
  backstay::Options options{
      {"dir", s.dir},
      {"log", "quiet"},
      {"levels", "local"},
      {"nodes", std::to_string(s.ranks)},
      {"local.redundancy", "rs(" + std::to_string(s.ranks - s.lost) + "," + std::to_string(s.lost) + ")"}};
  std::vector<double> u(s.bytes / sizeof(double));
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<double>(i) + s.rank;
  {
    backstay::Session run(MPI_COMM_WORLD, options);
    run.protect("u", u);
    run.checkpoint(backstay::now);
    run.wait();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (s.rank > 0 && s.rank <= s.lost) fs::remove_all(s.dir + "/node-" + std::to_string(s.rank));
  Turn turn;
  turn.limit = timed([&] { limit.read_and_decode(); });
  for (double* seconds : {&turn.resume, &turn.nothing_lost}) {
    std::fill(u.begin(), u.end(), 0.0);
    backstay::Session run(MPI_COMM_WORLD, options);
    run.protect("u", u);
    *seconds = timed([&] {
      if (!run.resume()) std::abort();
    });
  }
  for (std::size_t i = 0; i < u.size(); ++i)
    if (u[i] != static_cast<double>(i) + s.rank) std::abort();
  MPI_Barrier(MPI_COMM_WORLD);
  if (s.rank == 0) fs::remove_all(s.dir);
  MPI_Barrier(MPI_COMM_WORLD);
  return turn;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: mpirun -n RANKS rebuild DIR MIB_PER_RANK LOST REPEATS\n");
    return 2;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  Setup s{std::string(argv[1]) + "/rebuild", static_cast<std::size_t>(std::atol(argv[2])) << 20, std::atoi(argv[3]),
          std::atoi(argv[4])};
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
  Limit limit(s);
  std::vector<double> rebuilds, ratios, limits, resumes;
  for (int i = 0; i < s.repeats; ++i) {
    const Turn turn = one_turn(s, limit);
    rebuilds.push_back((turn.resume - turn.nothing_lost) / turn.limit);
    ratios.push_back(turn.resume / turn.limit);
    limits.push_back(turn.limit);
    resumes.push_back(turn.resume);
  }
  if (s.rank == 0)
    std::printf(
        "{\"what\": \"rebuild\", \"ranks\": %d, \"mib\": %zu, \"lost\": %d, \"repeats\": %d, \"rebuild_per_limit\": "
        "%.4f, \"resume_per_limit\": %.4f, \"limit\": %.4f, \"resume\": %.4f}\n",
        s.ranks, s.bytes >> 20, s.lost, s.repeats, median(rebuilds), median(ratios), median(limits), median(resumes));
  MPI_Finalize();
  return 0;
}
