// declared: what declared computations cost while no checkpoint is under way, and how fast a program is replayed.
//
// One JSON object a line. Nanoseconds of a computation beyond those of the same body without backstay, median of turns
// that alternate; computations with 1 and with 16 accesses, with resume() and with replay(). Then a program of 150
// computations and one result a step, replayed: milliseconds for 1,000 steps, in the reading of its clock alone.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace {

constexpr int turns = 9, calls = 400'000, regions = 16;
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

/// Not known to the compiler, and next to nothing.
volatile double sink = 0;
void body() { sink = sink + 1; }

double nanoseconds(backstay::Session& run, const backstay::Computation& computation) {
  std::vector<double> beyond;
  for (int turn = 0; turn < turns; ++turn) {
    const double start = seconds();
    for (int i = 0; i < calls; ++i) body();
    const double middle = seconds();
    for (int i = 0; i < calls; ++i) run.compute(computation, body);
    beyond.push_back((seconds() - middle - (middle - start)) / calls * 1e9);
  }
  return median(beyond);
}

void measure_computations(const std::string& dir, bool replays) {
  std::vector<std::vector<double>> arrays(regions, std::vector<double>(10));
  backstay::Session run(backstay::alone, {{"dir", dir}, {"every", "1000000000"}, {"log", "quiet"}});
  std::vector<backstay::Access> accesses;
  for (int r = 0; r < regions; ++r) {
    const std::string name = std::to_string(r);
    run.protect(name, arrays[static_cast<std::size_t>(r)]);
    accesses.push_back(r % 2 == 0 ? backstay::reads(name) : backstay::writes(name));
  }
  const auto one = run.declare("one", {accesses[1]});
  const auto all = run.declare("all", accesses);
  if (replays)
    run.replay();
  else
    run.resume();
  run.checkpoint();
  const double with_one = nanoseconds(run, one), with_all = nanoseconds(run, all);
  std::printf("{\"what\": \"computation\", \"replays\": %d, \"loop_ns\": %.2f, \"access_ns\": %.3f, \"ns\": %.2f}\n",
              replays ? 1 : 0, with_one, (with_all - with_one) / (regions - 1), with_all);
}

/// `steps` of a program; seconds from replay() to the place where the line was taken, that of its last step but one.
double go(const std::string& dir, int steps, bool again) {
  std::vector<double> u(1000);
  backstay::Session run(backstay::alone, {{"dir", dir}, {"every", "1000000000"}, {"log", "quiet"}});
  run.protect("u", u);
  std::vector<backstay::Computation> loops;
  for (int c = 0; c < 150; ++c) loops.push_back(run.declare(std::to_string(c), {backstay::updates("u")}));
  if (run.replay().resumed != again) throw std::runtime_error("a line was expected, or none");
  const double start = seconds();
  for (int step = 0; step < steps; ++step) {
    for (const auto& loop : loops) run.compute(loop, body);
    double dt = 0.001 * step;
    run.result(dt);
    if (step == steps - 1) run.checkpoint(backstay::now);
  }
  const double took = seconds() - start;
  if (again && run.replaying()) throw std::runtime_error("the place was not come to");
  run.wait();
  return took;
}

void measure_replay(const std::string& dir) {
  constexpr int steps = 5000;
  (void)go(dir, steps, false);
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir + "/shared/line-00000001")) bytes += file.file_size();
  std::vector<double> took;
  for (int turn = 0; turn < 5; ++turn) took.push_back(go(dir, steps, true));
  std::printf(
      "{\"what\": \"replay\", \"steps\": %d, \"computations\": 150, \"ms_per_1000\": %.3f, \"line_bytes\": %ju}\n",
      steps, median(took) * 1e6 / steps, bytes);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: declared DIR\n");
    return 2;
  }
  const std::string dir = argv[1];
  measure_computations(dir + "/resume", false);
  measure_computations(dir + "/replay", true);
  measure_replay(dir + "/way");
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "declared: %s\n", e.what());
  return 1;
}
