// Implicit heat conduction under protection: eleven arrays, of which a step begins with one. Each loop over the cells
// is declared, and a checkpoint leaves out what the loops after it overwrite before they read it. The lines that
// backstay needs, here and in declare_loops.h, end with `// backstay`.
#include <array>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "../come_back.h"
#include "../declare_loops.h"
#include "../left_out.h"
#include "../program.h"
#include "../whole_file.h"
#include "backstay/backstay.hpp"
#include "problem.h"
#include "simulation.h"

/// So that `h5ls` and h5py show the columns of the history by name.
template <>
struct backstay::describe<tea2d::Record> {
  static constexpr auto members =
      std::make_tuple(backstay::member("step", &tea2d::Record::step), backstay::member("time", &tea2d::Record::time),
                      backstay::member("iterations", &tea2d::Record::iterations),
                      backstay::member("total_energy", &tea2d::Record::total_energy),
                      backstay::member("residual", &tea2d::Record::residual));
};

namespace {

/// Every array, without its halo. The density and the mesh do not change; the others do, and most are left out of a
/// line.
void protect_fields(backstay::Session& run, tea2d::System& system, bool told_static) {
  const tea2d::Block& block = system.block();
  const auto with_halo = program::slowest_first(system.layout().size_with_halo());
  const backstay::Extents halos(2, tea2d::halo);
  const auto placed = backstay::block(program::slowest_first(block.cells), program::slowest_first(block.lower),
                                      program::slowest_first(block.upper));
  for (const tea2d::Field field : tea2d::fields_of(system.form())) {
    const auto inside = backstay::inside(system.data(field), with_halo, halos);
    const std::string name = tea2d::name_of(field);
    if (told_static && tea2d::is_constant(field))
      run.protect_static(name, inside, placed, "1");  // backstay
    else
      run.protect(name, inside, placed, "1");  // backstay
  }
}

/// What decides the rows of the table and is no state. Kept with the checkpoints, because a run that went on with other
/// values would print a table that is that of no run.
struct Kept {
  double dt;
  double eps;
  int solver;
};

void require_same_run(const Kept& saved, const Kept& given, const tea2d::Simulation& sim) {
  const auto refuse = [](const char* option, const std::string& was, const std::string& is) {
    throw std::runtime_error(std::string("the checkpoint was made with ") + option + " " + was + " instead of " + is +
                             ": use that one again, or another directory for this run");
  };
  const auto shown = [](double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.12g", value);
    return std::string(text.data());
  };
  const auto solver = [](int method) { return tea2d::name_of(static_cast<tea2d::Method>(method)); };
  if (saved.dt != given.dt) refuse("--dt", shown(saved.dt), shown(given.dt));
  if (saved.eps != given.eps) refuse("--eps", shown(saved.eps), shown(given.eps));
  if (saved.solver != given.solver) refuse("--solver", solver(saved.solver), solver(given.solver));
  sim.require_end_ahead();
}

std::string left_out_note(const backstay::Session& run, tea2d::System& system) {
  const tea2d::Pair size = system.layout().size;
  const auto fields = static_cast<std::uint64_t>(tea2d::fields_of(system.form()).size());
  const auto bytes =
      fields * static_cast<std::uint64_t>(size[0]) * static_cast<std::uint64_t>(size[1]) * sizeof(double);
  return program::left_out_note(run, bytes);
}

/// From the newest checkpoint, or from the beginning, to the end. After the loss of a rank it is called again, in
/// another communicator: all that belongs to a communicator or to a rank is made here.
void simulate_to_the_end(backstay::Session& run, const tea2d::Options& options, std::size_t& printed) {
  program::rank_at_work = run.rank();
  tea2d::Simulation sim(run.comm(), options, printed);
  const program::Information level = options.told.information;
  protect_fields(run, sim.system(), level == program::Information::usual);
  if (!program::replays(level)) {
    run.protect("step", sim.step);                                // backstay
    run.protect("history", sim.history, backstay::replicated());  // backstay
  }
  const Kept given{options.dt, options.eps, static_cast<int>(options.solver)};
  Kept saved = given;
  if (!program::replays(level)) {
    run.protect("dt", saved.dt);
    run.protect("eps", saved.eps);
    run.protect("solver", saved.solver);
  }
  program::declare_loops(run, sim.system(), tea2d::loops_of(sim.system().form()));
  const auto require_same = [&] { require_same_run(saved, given, sim); };
  if (level == program::Information::usual) {
    if (run.resume()) require_same();  // backstay
  } else {
    program::come_back(
        run, level, {{"density", "energy"}, {"energy"}, {"step", "history", "dt", "eps", "solver"}},
        [&] { sim.system().start(tea2d::hot_spot_in_a_channel); },
        [&] {
          run.result(saved.dt);
          run.result(saved.eps);
          run.result(saved.solver);
        },
        require_same);
  }
  for (; sim.step < sim.steps(); ++sim.step) {
    if (program::checkpoint_stops(run, options.told, sim.step)) break;
    sim.advance();
  }
  sim.finish(left_out_note(run, sim.system()));
}

void simulate(int argc, char** argv, const tea2d::Options& options) {
  backstay::Session run(argc, argv);  // backstay
  std::size_t printed = 0;
  run.loop([&] { simulate_to_the_end(run, options, printed); });  // backstay
}

void simulate_plain(int argc, char** argv, const tea2d::Options& options) {
  MPI_Init(&argc, &argv);
  {
    std::size_t printed = 0;
    tea2d::Simulation sim(MPI_COMM_WORLD, options, printed);
    for (; sim.step < sim.steps(); ++sim.step) sim.advance();
    sim.finish();
  }
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  return program::main_of("tea2d", argc, argv, tea2d::parse_options, tea2d::usage, program::require_writable, simulate,
                          simulate_plain);
}
