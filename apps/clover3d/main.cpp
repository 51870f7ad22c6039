// The compressible Euler equations under protection: 30 arrays, of which a step begins with five. Each loop over the
// block is declared, and a checkpoint leaves out what the loops after it overwrite before they read it. The lines that
// backstay needs, here and in declare_loops.h, end with `// backstay`.
#include <cstdint>
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
struct backstay::describe<clover3d::Record> {
  static constexpr auto members = std::make_tuple(
      backstay::member("step", &clover3d::Record::step), backstay::member("time", &clover3d::Record::time),
      backstay::member("dt", &clover3d::Record::dt), backstay::member("mass", &clover3d::Record::mass),
      backstay::member("internal_energy", &clover3d::Record::internal_energy),
      backstay::member("kinetic_energy", &clover3d::Record::kinetic_energy),
      backstay::member("pressure", &clover3d::Record::pressure));
};
template <>
struct backstay::describe<clover3d::Clock> {
  static constexpr auto members =
      std::make_tuple(backstay::member("time", &clover3d::Clock::time), backstay::member("dt", &clover3d::Clock::dt));
};

namespace {

/// Where this rank's values of a field lie in those of the whole box: from its first cell on, whatever they lie on.
backstay::Placement placement_of(const clover3d::System& system, const clover3d::Stagger& stagger) {
  const clover3d::Block& block = system.block();
  clover3d::Triple upper = system.layout().owned(stagger);
  for (std::size_t a = 0; a < 3; ++a) upper[a] += block.lower[a];
  return backstay::block(program::slowest_first(clover3d::values_of(block.cells, stagger)),
                         program::slowest_first(block.lower), program::slowest_first(upper));
}

/// Every array, without its halo, which is thicker above than below where a block has no vertices at its end: hence
/// array() with strides and not inside(). The mesh does not change; the others do, and most are left out of a line.
void protect_fields(backstay::Session& run, clover3d::System& system, bool told_static) {
  const clover3d::Layout& layout = system.layout();
  const backstay::Extents strides(layout.stride.rbegin(), layout.stride.rend());
  for (const clover3d::Field field : clover3d::all_fields()) {
    const clover3d::Stagger stagger = clover3d::stagger_of(field);
    const auto inside = backstay::array(system.data(field) + layout.at(0, 0, 0),
                                        program::slowest_first(layout.owned(stagger)), strides);
    const std::string name = clover3d::name_of(field);
    if (told_static && clover3d::is_constant(field))
      run.protect_static(name, inside, placement_of(system, stagger), "1");  // backstay
    else
      run.protect(name, inside, placement_of(system, stagger), "1");  // backstay
  }
  for (const clover3d::Mesh::Line& line : system.mesh().lines())
    run.protect_static(line.name, backstay::array(line.data, {line.length}), backstay::replicated());  // backstay
}

/// What decides the rows of the table and is no state. Kept with the checkpoints, because a run that went on with
/// another value would print a table that is that of no run.
void require_same_run(int saved, int given, const clover3d::Simulation& sim) {
  if (saved != given)
    throw std::runtime_error("the checkpoint was made with --output-every " + std::to_string(saved) + " instead of " +
                             std::to_string(given) + ": use that one again, or another directory for this run");
  sim.require_end_ahead();
}

std::string left_out_note(const backstay::Session& run, clover3d::System& system) {
  std::uint64_t values = 0;
  for (const clover3d::Field field : clover3d::all_fields()) {
    const clover3d::Triple owned = system.layout().owned(clover3d::stagger_of(field));
    std::uint64_t product = 1;
    for (const int n : owned) product *= static_cast<std::uint64_t>(n);
    values += product;
  }
  for (const clover3d::Mesh::Line& line : system.mesh().lines()) values += static_cast<std::uint64_t>(line.length);
  return program::left_out_note(run, values * sizeof(double));
}

/// From the newest checkpoint, or from the beginning, to the end. After the loss of a rank it is called again, in
/// another communicator: all that belongs to a communicator or to a rank is made here.
void simulate_to_the_end(backstay::Session& run, const clover3d::Options& options, std::size_t& printed) {
  program::rank_at_work = run.rank();
  clover3d::Simulation sim(run.comm(), options, printed);
  const program::Information level = options.told.information;
  protect_fields(run, sim.system(), level == program::Information::usual);
  int output_every = options.output_every;
  if (!program::replays(level)) {
    run.protect("step", sim.step);                                // backstay
    run.protect("clock", sim.clock);                              // backstay
    run.protect("history", sim.history, backstay::replicated());  // backstay
    run.protect("output_every", output_every);
  }
  program::declare_loops(run, sim.system(), clover3d::all_loops());
  const auto require_same = [&] { require_same_run(output_every, options.output_every, sim); };
  if (level == program::Information::usual) {
    if (run.resume()) require_same();  // backstay
  } else {
    const std::vector<std::string> five = {"density0", "energy0", "xvel0", "yvel0", "zvel0"};
    program::come_back(
        run, level, {five, five, {"step", "clock", "history", "output_every"}},
        [&] { sim.system().start(clover3d::hot_box_in_a_corner); }, [&] { run.result(output_every); }, require_same);
  }
  for (; sim.step < sim.steps(); ++sim.step) {
    if (program::checkpoint_stops(run, options.told, sim.step)) break;
    sim.advance();
  }
  sim.finish(left_out_note(run, sim.system()));
}

void simulate(int argc, char** argv, const clover3d::Options& options) {
  // Loops hand on halos, which are in no line: only the top of a step is a place.
  backstay::Session run(argc, argv, {{"place", "calls"}});  // backstay
  std::size_t printed = 0;
  run.loop([&] { simulate_to_the_end(run, options, printed); });  // backstay
}

void simulate_plain(int argc, char** argv, const clover3d::Options& options) {
  MPI_Init(&argc, &argv);
  {
    std::size_t printed = 0;
    clover3d::Simulation sim(MPI_COMM_WORLD, options, printed);
    for (; sim.step < sim.steps(); ++sim.step) sim.advance();
    sim.finish();
  }
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  return program::main_of("clover3d", argc, argv, clover3d::parse_options, clover3d::usage, program::require_writable,
                          simulate, simulate_plain);
}
