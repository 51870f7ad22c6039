// Heat conduction under protection: a solver whose static data, made once by a set-up that communicates, is a hundred
// times what changes from step to step. The lines that backstay needs end with `// backstay`.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>

#include "../program.h"
#include "../whole_file.h"
#include "backstay/backstay.hpp"
#include "problem.h"
#include "simulation.h"

/// So that `h5ls` and h5py show the columns of the history by name.
template <>
struct backstay::describe<heat::Record> {
  static constexpr auto members = std::make_tuple(
      backstay::member("step", &heat::Record::step), backstay::member("time", &heat::Record::time),
      backstay::member("heat", &heat::Record::heat), backstay::member("highest", &heat::Record::highest),
      backstay::member("iterations", &heat::Record::iterations));
};

namespace {

/// The static set-up and the seconds it took.
struct Setup {
  heat::Operators operators;
  double seconds = 0;
};

void make_setup(MPI_Comm comm, const heat::Problem& problem, Setup& setup) {
  const auto start = std::chrono::steady_clock::now();
  setup.operators = heat::make_operators(comm, problem);
  setup.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void show_figures(MPI_Comm comm, const heat::Options& options, const Setup& setup) {
  if (!options.figures) return;
  const heat::Figures figures = heat::make_figures(comm, setup.operators, setup.seconds);
  if (program::rank_at_work == 0) std::fputs(heat::to_text(figures).c_str(), stdout);
}

/// What decides the numbers of a run and is no state. Kept with the checkpoints: a run that went on with other values
/// would print a history that is that of no run.
struct Kept {
  int cells;
  double dt;
};

void require_same_run(const Kept& saved, const Kept& given, const heat::Simulation& sim) {
  constexpr const char* advice = "use that one again, or another directory for this run";
  if (saved.cells != given.cells)
    throw std::runtime_error("the checkpoint was made with --cells " + std::to_string(saved.cells) + " instead of " +
                             std::to_string(given.cells) + ": " + advice);
  if (saved.dt != given.dt)
    throw std::runtime_error("the checkpoint was made with --dt " + std::to_string(saved.dt) + " instead of " +
                             std::to_string(given.dt) + ": " + advice);
  sim.require_end_ahead();
}

/// From the newest checkpoint, or from the beginning, to the end. After the loss of a rank it is called again, in
/// another communicator; the set-up has none.
void simulate_to_the_end(backstay::Session& run, const heat::Options& options, const heat::Problem& problem,
                         const Setup& setup, std::size_t& printed) {
  heat::Simulation sim(run.comm(), setup.operators, problem, options, printed);
  const Kept given{options.cells, options.dt};
  Kept saved = given;
  run.protect("step", sim.step);                                // backstay
  run.protect("u", sim.u);                                      // backstay
  run.protect("history", sim.history, backstay::replicated());  // backstay
  run.protect("cells", saved.cells);
  run.protect("dt", saved.dt);
  if (run.resume()) require_same_run(saved, given, sim);  // backstay
  for (; sim.step < options.steps; ++sim.step) {
    if (run.checkpoint() == backstay::Outcome::stop) break;  // backstay
    sim.advance();
  }
  sim.finish();
  show_figures(run.comm(), options, setup);
}

void simulate(int argc, char** argv, const heat::Options& options) {
  const heat::Problem problem = heat::moving_spot(options.cells, options.dt);
  backstay::Session run(argc, argv);  // backstay
  Setup setup;
  std::size_t printed = 0;
  run.init([&] { make_setup(run.comm(), problem, setup); });  // backstay
  run.loop([&] {                                              // backstay
    program::rank_at_work = run.rank();
    simulate_to_the_end(run, options, problem, setup, printed);
  });
}

void simulate_plain(int argc, char** argv, const heat::Options& options) {
  const heat::Problem problem = heat::moving_spot(options.cells, options.dt);
  MPI_Init(&argc, &argv);
  {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    program::rank_at_work = rank;
    Setup setup;
    make_setup(MPI_COMM_WORLD, problem, setup);
    std::size_t printed = 0;
    heat::Simulation sim(MPI_COMM_WORLD, setup.operators, problem, options, printed);
    for (; sim.step < options.steps; ++sim.step) sim.advance();
    sim.finish();
    show_figures(MPI_COMM_WORLD, options, setup);
  }
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  return program::main_of("heat", argc, argv, heat::parse_options, heat::usage, program::require_writable, simulate,
                          simulate_plain);
}
