#include "options.h"

#include <stdexcept>

#include "../command_line.h"

namespace clover3d {

namespace {

// The cube of it is what the exact sums of exact_sum.h hold: 2^30 cells.
constexpr int most_cells = 1024;
constexpr const char* cells_range = "2 to 1024";
constexpr int most_steps = 1'000'000'000;
constexpr const char* steps_range = "1 to 1000000000";

struct Given {
  bool n = false;
  bool one_axis = false;
};

/// Whether `name` is one of the options that say what is computed.
bool take_problem(const std::string& name, program::Argument& argument, Options& o, Given& given) {
  using program::number;
  if (name == "--n") {
    o.cells.fill(number(name, argument.value(), 2, most_cells, cells_range));
    given.n = true;
  } else if (name == "--nx" || name == "--ny" || name == "--nz") {
    o.cells[static_cast<std::size_t>(name[3] - 'x')] = number(name, argument.value(), 2, most_cells, cells_range);
    given.one_axis = true;
  } else if (name == "--steps") {
    o.steps = number(name, argument.value(), 1, most_steps, steps_range);
  } else if (name == "--output-every") {
    o.output_every = number(name, argument.value(), 1, most_steps, steps_range);
  } else {
    return false;
  }
  return true;
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  Given given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    program::Argument argument("clover3d", arguments, i);
    const std::string& name = argument.name();
    if (take_problem(name, argument, o, given)) continue;
    if (name == "--csv") {
      o.csv = argument.value();
      if (o.csv.empty()) throw std::invalid_argument("--csv needs the name of a file");
    } else if (name == "--quiet") {
      o.quiet = true;
    } else if (program::take_information(name, argument, o.told)) {
      continue;
    } else if (name == "--plain") {
      o.plain = true;
    } else if (name == "--help" || name == "-h") {
      o.help = true;
    } else {
      argument.refuse();
    }
    argument.require_no_value();
  }
  if (given.n && given.one_axis) throw std::invalid_argument("give --n, or --nx, --ny and --nz, not both");
  if (o.told.information != program::Information::usual && o.plain)
    throw std::invalid_argument("--information is about what backstay is told: not with --plain");
  return o;
}

std::string usage() {
  return std::string(
             "mpirun -n 4 clover3d --n 96 --steps 200 --csv shock.csv\n"
             "\n"
             "A box of dense hot gas expands into a thin one: the compressible Euler equations on a staggered grid, "
             "with "
             "a\n"
             "Lagrangian step and a remap, protected by backstay. When the same command is given again after a "
             "failure, "
             "it\n"
             "goes on from the newest checkpoint and prints the same bytes.\n"
             "\n"
             "  --n CELLS         cells along each axis (48)\n"
             "  --nx CELLS        or: along x\n"
             "  --ny CELLS        and along y\n"
             "  --nz CELLS        and along z\n"
             "  --steps N         time steps (100)\n"
             "  --output-every N  steps from row to row of the table (10)\n"
             "  --csv FILE        write the table to FILE at the end\n"
             "  --quiet           no table\n") +
         program::information_usage +
         "  --plain           without any protection, to measure what protection costs\n"
         "  --help            this text\n";
}

}  // namespace clover3d
