// declared: what declared computations cost while no checkpoint is under way, and how fast a program is replayed.
//
// One JSON object a line. Nanoseconds of a computation beyond those of the same body without backstay, median of turns
// that alternate; computations with 1 and with 16 accesses, with resume() and with replay(). Then a program of 150
// computations and one result a step, replayed: milliseconds for 1,000 steps, in the reading of its clock alone.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "../apps/declare_loops.h"
#include "backstay/backstay.hpp"
#include "simulation.h"

namespace {

constexpr int turns = 9, calls = 400'000, regions = 16;
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
/// A replay computes and waits for nothing, so its time is that of the processor: others that want it, too, do not
/// count.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
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

/// A program: it protects and declares before it begins, and computes a step at a time.
struct Program {
  const char* name;
  std::size_t computations;  ///< a step, on average
  std::function<std::function<void(int step)>(backstay::Session&)> prepare;
  bool calls_checkpoint = true;  ///< in each step
};

/// `steps` of it; seconds from replay() to the place where the line was taken, behind its last step.
double go(const Program& program, const std::string& dir, int steps, bool again) {
  backstay::Session run(backstay::alone, {{"dir", dir}, {"every", "1000000000"}, {"log", "quiet"}});
  const auto advance = program.prepare(run);
  if (run.replay().resumed != again) throw std::runtime_error("a line was expected, or none");
  const double start = processor_seconds();
  for (int step = 0; step < steps; ++step) {
    if (program.calls_checkpoint) run.checkpoint();
    advance(step);
    double dt = 0.001 * step;
    run.result(dt);
  }
  const double took = processor_seconds() - start;
  run.checkpoint(backstay::now);
  if (again && run.replaying()) throw std::runtime_error("the place was not come to");
  run.wait();
  return took;
}

void measure_replay(const Program& program, const std::string& dir) {
  constexpr int steps = 5000;
  (void)go(program, dir, steps, false);
  std::uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(dir + "/shared/line-00000001")) bytes += file.file_size();
  std::vector<double> took;
  for (int turn = 0; turn < 9; ++turn) took.push_back(go(program, dir, steps, true));
  std::printf(
      "{\"what\": \"replay\", \"program\": \"%s\", \"steps\": %d, \"computations\": %zu, \"ms_per_1000\": %.3f, "
      "\"line_bytes\": %ju}\n",
      program.name, steps, program.computations, median(took) * 1e6 / steps, bytes);
}

Program made_up() {
  const auto prepare = [u = std::vector<double>(1000)](backstay::Session& run) mutable {
    run.protect("u", u);
    std::vector<backstay::Computation> loops;
    for (int c = 0; c < 150; ++c) loops.push_back(run.declare(std::to_string(c), {backstay::updates("u")}));
    return [&run, loops](int) {
      for (const auto& loop : loops) run.compute(loop, body);
    };
  };
  return {"made up", 150, prepare, false};
}

/// Takes the place of a clover3d::System where loops are declared.
struct Loops {
  std::function<bool(clover3d::Loop)> begin;
  void watch(std::function<bool(clover3d::Loop)> before, const std::function<void(std::span<double>)>&) {
    begin = std::move(before);
  }
};

/// The loops of its first steps, which sweep in two orders.
Program clover3d_loops() {
  constexpr int seen_steps = 10;
  clover3d::Options options;
  options.cells = {4, 4, 4};
  options.quiet = true;
  std::size_t printed = 0;
  clover3d::Simulation sim(MPI_COMM_SELF, options, printed);
  std::vector<std::vector<clover3d::Loop>> of_step(seen_steps);
  std::size_t all = 0;
  sim.system().watch([&](clover3d::Loop loop) {
    of_step[static_cast<std::size_t>(sim.step)].push_back(loop);
    ++all;
    return true;
  });
  for (; sim.step < seen_steps; ++sim.step) sim.advance();
  const auto prepare = [of_step, fields = std::vector<double>(clover3d::all_fields().size())](
                           backstay::Session& run) mutable -> std::function<void(int)> {
    std::size_t next = 0;
    for (const auto field : clover3d::all_fields())
      run.protect(clover3d::name_of(field), backstay::array(&fields[next++], {1}));
    Loops loops;
    program::declare_loops(run, loops, clover3d::all_loops());
    return [begin = loops.begin, &of_step](int step) {
      for (const auto loop : of_step[static_cast<std::size_t>(step) % of_step.size()]) begin(loop);
    };
  };
  return {"clover3d", all / seen_steps, prepare};
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
  MPI_Init(nullptr, nullptr);
  measure_replay(made_up(), dir + "/made-up");
  measure_replay(clover3d_loops(), dir + "/clover3d");
  MPI_Finalize();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "declared: %s\n", e.what());
  return 1;
}
