// The Taylor-Green vortex under protection. The seven lines that backstay needs end with `// backstay`; besides, two
// values are kept only to refuse a resume with other options (struct Kept), and the stored form declares its loops (and
// ../declare_loops.h). All else would be here without it.
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
#include "simulation.h"

/// So that `h5ls` and h5py show the columns of the history by name.
template <>
struct backstay::describe<tgv::Record> {
  static constexpr auto members =
      std::make_tuple(backstay::member("step", &tgv::Record::step), backstay::member("time", &tgv::Record::time),
                      backstay::member("kinetic_energy", &tgv::Record::kinetic_energy),
                      backstay::member("enstrophy", &tgv::Record::enstrophy),
                      backstay::member("dissipation", &tgv::Record::dissipation),
                      backstay::member("enstrophy_dissipation", &tgv::Record::enstrophy_dissipation));
};

namespace {

struct NamedField {
  std::string name;
  double* data;
};

/// The five that a step begins with; in the stored form all.
std::vector<NamedField> named_fields(tgv::Simulation& sim) {
  std::vector<NamedField> out;
  auto& five = sim.solver().fields();
  for (const tgv::Field field : tgv::all_fields()) {
    const std::size_t number = out.size();
    if (number < five.size())
      out.push_back({tgv::name_of(field), five[number].data()});
    else if (sim.stored() != nullptr)
      out.push_back({tgv::name_of(field), sim.stored()->data(field)});
  }
  return out;
}

std::string checkpoint_note(const backstay::Status& status) {
  return "  checkpoints " + std::to_string(status.committed) + " done, " + std::to_string(status.in_flight) +
         " in flight";
}

/// What decides the rows of the curve and is no state. Kept with the checkpoints, because a run that went on with other
/// values would print a wrong curve without a word.
struct Kept {
  double dt;
  int output_every;
};

void require_same_run(const Kept& saved, const Kept& given, const tgv::Simulation& sim) {
  constexpr const char* advice = "use that one again, or another directory for this run";
  if (saved.dt != given.dt)
    throw std::runtime_error("the checkpoint was made with another --cfl (a time step of " + std::to_string(saved.dt) +
                             " instead of " + std::to_string(given.dt) + "): " + advice);
  if (saved.output_every != given.output_every)
    throw std::runtime_error("the checkpoint was made with --output-every " + std::to_string(saved.output_every) +
                             " instead of " + std::to_string(given.output_every) + ": " + advice);
  sim.require_end_ahead();
}

/// On the first rank.
void say_what_was_left_out(const backstay::Session& run, tgv::Simulation& sim, const tgv::Options& options) {
  if (run.rank() != 0 || options.quiet) return;
  const tgv::Triple size = sim.solver().layout().size;
  std::uint64_t points = 1;
  for (const int n : size) points *= static_cast<std::uint64_t>(n);
  std::fputs(program::left_out_note(run, tgv::field_count * points * sizeof(double)).c_str(), stdout);
}

/// From the newest checkpoint, or from the beginning, to the end. After the loss of a rank it is called again, in
/// another communicator: all that belongs to a communicator or to a rank is made here.
void simulate_to_the_end(backstay::Session& run, const tgv::Options& options, std::size_t& printed) {
  program::rank_at_work = run.rank();
  tgv::Simulation sim(run.comm(), options, printed);
  const tgv::Block& block = sim.solver().block();
  const auto with_halo = program::slowest_first(sim.solver().layout().size_with_halo());
  const backstay::Extents halos(3, tgv::halo);
  const auto cube = program::slowest_first(block.cells);
  const auto placed = backstay::block(cube, program::slowest_first(block.lower), program::slowest_first(block.upper));

  const program::Information level = options.told.information;
  if (!program::replays(level)) {
    run.protect("step", sim.step);                                // backstay
    run.protect("history", sim.history, backstay::replicated());  // backstay
  }
  for (const NamedField& f : named_fields(sim)) {
    run.protect(f.name, backstay::inside(f.data, with_halo, halos), placed, "1");  // backstay
  }
  const Kept given{sim.solver().dt(), options.output_every};
  Kept saved = given;
  if (!program::replays(level)) {
    run.protect("dt", saved.dt);
    run.protect("output_every", saved.output_every);
  }
  if (sim.stored() != nullptr) program::declare_loops(run, *sim.stored(), tgv::all_loops());
  const auto require_same = [&] { require_same_run(saved, given, sim); };
  if (level == program::Information::usual) {
    if (run.resume()) require_same();  // backstay
  } else {
    const std::vector<std::string> five = {"density", "momentum_x", "momentum_y", "momentum_z", "energy"};
    program::come_back(
        run, level, {five, five, {"step", "history", "dt", "output_every"}}, [&] { sim.solver().start_taylor_green(); },
        [&] {
          run.result(saved.dt);
          run.result(saved.output_every);
        },
        require_same);
  }
  for (; sim.step < sim.steps(); ++sim.step) {
    if (program::checkpoint_stops(run, options.told, sim.step)) break;
    sim.advance();
    sim.show_progress(checkpoint_note(run.status()));
  }
  sim.finish(checkpoint_note(run.status()));
  if (sim.stored() != nullptr) say_what_was_left_out(run, sim, options);
}

void simulate(int argc, char** argv, const tgv::Options& options) {
  backstay::Session run(argc, argv);  // backstay
  std::size_t printed = 0;
  run.loop([&] { simulate_to_the_end(run, options, printed); });  // backstay
}

void simulate_plain(int argc, char** argv, const tgv::Options& options) {
  MPI_Init(&argc, &argv);
  {
    std::size_t printed = 0;
    tgv::Simulation sim(MPI_COMM_WORLD, options, printed);
    for (; sim.step < sim.steps(); ++sim.step) {
      sim.advance();
      sim.show_progress();
    }
    sim.finish();
  }
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  return program::main_of("tgv", argc, argv, tgv::parse_options, tgv::usage, program::require_writable, simulate,
                          simulate_plain);
}
