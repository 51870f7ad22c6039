// What a checkpoint costs, against limits measured in the same run beside it. One JSON object a line on stdout.
//   mpirun -n 4 cost DIR MIB_PER_RANK ARRAYS REPEATS [WAY ...]
// WAY: memory, local, either with -p1 or -p2 (Reed-Solomon over all ranks, each a node), partner, shared-LAYOUT; all if
// none. Limits: copy = memcpy into touched memory; W = copy + write(2) of the same bytes to a new file a rank; WS = W +
// fsync; read = read(2) of such a file into touched memory. Every time runs from the first rank's start after a barrier
// to the last rank's end, on the one clock of the machine: with more ranks than cores, ranks that start late because
// they got no core would otherwise look faster than the machine is, and more so the shorter the work.
// What is read is first dropped from the page cache, on either side; a file system in memory has nothing else.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"
#include "one_clock.h"

namespace {
using bench::median;
using bench::now;
using bench::span_over_ranks;
using bench::timed;

struct Setup {
  std::string dir;
  std::size_t bytes = 0;
  std::size_t arrays = 1;
  int repeats = 5;
  int rank = 0;
  int ranks = 1;
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double sum_over_ranks(double x) {
  double total = 0;
  MPI_Allreduce(&x, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

/// So that it is read from the disk; it has to be there already, which fsync sees to.
void drop_from_cache(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  if (file < 0) return;
  if (fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) std::abort();
  ::close(file);
}

void drop_tree_from_cache(const std::string& dir) {
  if (!std::filesystem::is_directory(dir)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) drop_from_cache(entry.path());
}

/// The program's data, and the plain ways to copy, write and read them.
class Data {
 public:
  explicit Data(const Setup& setup) : setup_(setup), target_(setup.bytes) {
    std::memset(target_.data(), 1, target_.size());
    for (std::size_t i = 0; i < setup.arrays; ++i) {
      arrays.emplace_back(setup.bytes / setup.arrays / sizeof(double));
      for (std::size_t k = 0; k < arrays.back().size(); ++k) arrays.back()[k] = static_cast<double>(k * (i + 1));
    }
  }
  void copy() {
    char* to = target_.data();
    for (const auto& a : arrays) {
      std::memcpy(to, a.data(), a.size() * sizeof(double));
      to += a.size() * sizeof(double);
    }
  }
  void write(bool sync) {
    copy();
    const int file = ::open(path().c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (std::size_t at = 0; at < target_.size();) {
      const auto n = ::write(file, target_.data() + at, target_.size() - at);
      if (n <= 0) std::abort();
      at += static_cast<std::size_t>(n);
    }
    if (sync && fsync(file) != 0) std::abort();
    ::close(file);
  }
  void read() {
    const int file = ::open(path().c_str(), O_RDONLY);
    for (std::size_t at = 0; at < target_.size();) {
      const auto n = ::read(file, target_.data() + at, target_.size() - at);
      if (n <= 0) std::abort();
      at += static_cast<std::size_t>(n);
    }
    ::close(file);
  }
  void evict() const { drop_from_cache(path()); }
  /// A new file each time: what was there is removed outside the measured time.
  void forget() const { ::unlink(path().c_str()); }
  std::vector<std::vector<double>> arrays;

 private:
  [[nodiscard]] std::string path() const { return setup_.dir + "/plain-" + std::to_string(setup_.rank); }
  const Setup& setup_;
  std::vector<char> target_;
};

/// Medians, and beside them what each turn gave.
void print(const Setup& s, const std::string& what, const std::map<std::string, std::vector<double>>& series) {
  if (s.rank != 0) return;
  std::printf("{\"what\": \"%s\", \"dir\": \"%s\", \"mib\": %zu, \"arrays\": %zu, \"ranks\": %d, \"repeats\": %d",
              what.c_str(), s.dir.c_str(), s.bytes >> 20, s.arrays, s.ranks, s.repeats);
  for (const auto& [name, x] : series) std::printf(", \"%s\": %.6g", name.c_str(), median(x));
  std::printf(", \"turns\": {");
  for (const auto& [name, x] : series) {
    std::printf("%s\"%s\": [", name == series.begin()->first ? "" : ", ", name.c_str());
    for (std::size_t i = 0; i < x.size(); ++i) std::printf("%s%.4g", i == 0 ? "" : ", ", x[i]);
    std::printf("]");
  }
  std::printf("}}\n");
  std::fflush(stdout);
}

struct Series {
  std::map<std::string, std::vector<double>> values;
  void add(const std::string& name, double x) { values[name].push_back(x); }
};

/// Limits and checkpoint take turns, so that a slow moment of the machine meets both; ratios are of neighbours.
void measure_level(const Setup& s, Data& data, const std::string& what, backstay::Options options) {
  const std::string dir = s.dir + "/" + what;
  options.insert({{"dir", dir},
                  {"log", "quiet"},
                  {"policy", "wait"},
                  {"interval", "1000000"},
                  {"nodes", std::to_string(s.ranks / 2)}});
  Series series;
  {
    backstay::Session run(MPI_COMM_WORLD, options);
    for (std::size_t i = 0; i < data.arrays.size(); ++i) run.protect("a" + std::to_string(i), data.arrays[i]);
    for (int i = 0; i < 8; ++i) {  // until every directory that will be recycled exists and was used again
      run.checkpoint(backstay::now);
      run.wait();
    }
    for (int i = 0; i < s.repeats; ++i) {
      const double copy = timed([&] { data.copy(); });
      data.forget();
      const double w = timed([&] { data.write(false); });
      data.forget();
      const double ws = timed([&] { data.write(true); });
      const double cpu = cpu_seconds();
      double called = 0, returned = 0;
      const double durable = timed([&] {
        called = now();
        run.checkpoint(backstay::now);
        returned = now();
        run.wait();
      });
      const double blocked = span_over_ranks(called, returned);
      const std::map<std::string, double> numbers{{"copy", copy},
                                                  {"w", w},
                                                  {"ws", ws},
                                                  {"blocked", blocked},
                                                  {"durable", durable},
                                                  {"cpu", sum_over_ranks(cpu_seconds() - cpu)},
                                                  {"blocked_per_copy", blocked / copy},
                                                  {"durable_per_w", durable / w},
                                                  {"durable_per_ws", durable / ws}};
      for (const auto& [name, x] : numbers) series.add(name, x);
    }
    if (run.status().failed > 0) {
      std::fprintf(stderr, "cost: %s\n", run.status().last_error.c_str());
      std::exit(1);
    }
    for (int i = 0; i < s.repeats; ++i) {
      data.evict();
      if (s.rank == 0) drop_tree_from_cache(dir);
      const double read = timed([&] { data.read(); });
      const double resume = timed([&] { run.resume(); });
      series.add("read", read);
      series.add("resume", resume);
      series.add("resume_per_read", resume / read);
    }
  }
  print(s, what, series.values);
  MPI_Barrier(MPI_COMM_WORLD);
  if (s.rank == 0) std::filesystem::remove_all(dir);
  data.forget();
}

/// What is measured, by name.
std::vector<std::pair<std::string, backstay::Options>> ways(int ranks) {
  std::vector<std::pair<std::string, backstay::Options>> out{
      {"memory", {{"levels", "memory"}}}, {"local", {{"levels", "local"}}}, {"partner", {{"levels", "partner"}}}};
  for (const int p : {1, 2})
    for (const std::string level : {"memory", "local"})
      if (ranks > p)
        out.push_back({level + "-p" + std::to_string(p),
                       {{"levels", level},
                        {"nodes", std::to_string(ranks)},
                        {level + ".redundancy", "rs(" + std::to_string(ranks - p) + "," + std::to_string(p) + ")"}}});
  for (const std::string layout : {"file-per-rank", "file-per-node", "one-file"})
    out.push_back({"shared-" + layout, {{"levels", "shared"}, {"shared.layout", layout}}});
  return out;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: mpirun -n RANKS cost DIR MIB_PER_RANK ARRAYS REPEATS [WAY ...]\n");
    return 2;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  Setup s{argv[1],
          static_cast<std::size_t>(std::atol(argv[2])) << 20,
          static_cast<std::size_t>(std::atol(argv[3])),
          std::atoi(argv[4]),
          0,
          1};
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
  std::filesystem::create_directories(s.dir);
  {
    Data data(s);
    const std::vector<std::string> wanted(argv + 5, argv + argc);
    for (const auto& [way, options] : ways(s.ranks))
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), way) != wanted.end())
        measure_level(s, data, way, options);
  }
  MPI_Finalize();
  return 0;
}
