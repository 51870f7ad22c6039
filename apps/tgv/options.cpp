#include "options.h"

#include <stdexcept>

#include "../command_line.h"

namespace tgv {

namespace {

// What the exact sums of exact_sum.h hold: 2^30 points.
constexpr int largest_n = 1024;
// From the stability limit of the time integration (1.46 for acoustic waves along a diagonal), with a margin.
constexpr double largest_cfl = 1.4;
constexpr int most_steps = 1'000'000'000;
constexpr const char* steps_range = "1 to 1000000000";

}  // namespace

using program::number;

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  bool t_end_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    program::Argument argument("tgv", arguments, i);
    const std::string& name = argument.name();
    if (name == "--n") {
      o.n = number(name, argument.value(), 8, largest_n, "8 to 1024");
    } else if (name == "--t-end") {
      o.t_end = number(name, argument.value(), 0.001, 1e6, "0.001 to 1000000.0");
      t_end_given = true;
    } else if (name == "--steps") {
      o.steps = number(name, argument.value(), 1, most_steps, steps_range);
    } else if (name == "--cfl") {
      o.cfl = number(name, argument.value(), 0.001, largest_cfl, "0.001 to 1.4");
    } else if (name == "--output-every") {
      o.output_every = number(name, argument.value(), 1, most_steps, steps_range);
    } else if (name == "--csv") {
      o.csv = argument.value();
      if (o.csv.empty()) throw std::invalid_argument("--csv needs the name of a file");
    } else if (name == "--quiet") {
      o.quiet = true;
    } else if (name == "--progress") {
      o.progress = true;
    } else if (name == "--stored") {
      o.stored = true;
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
  if (t_end_given && o.steps) throw std::invalid_argument("give --t-end or --steps, not both");
  if (o.told.information != program::Information::usual && (o.plain || !o.stored))
    throw std::invalid_argument("--information needs --stored, and not --plain: it is about loops that are declared");
  return o;
}

std::string usage() {
  return std::string(
             "mpirun -n 8 tgv --n 64 --csv curve.csv\n"
             "\n"
             "The 3-D Taylor-Green vortex at Reynolds 1600 and Mach 0.1, protected by backstay: when the same command\n"
             "is given again after a failure, it goes on from the newest checkpoint and prints the same bytes.\n"
             "\n"
             "  --n N             points along each side of the cube (64)\n"
             "  --t-end T         time to run to (12)\n"
             "  --steps N         or: number of time steps to run\n"
             "  --cfl C           length of the time step, up to 1.4 (0.6)\n"
             "  --output-every K  steps between two rows of the table (10)\n"
             "  --csv FILE        write the table to FILE at the end\n"
             "  --quiet           no table and no progress\n"
             "  --progress        show progress also where stderr is not a terminal\n"
             "  --stored          every quantity of the equations in an array of its own, 65 in all, each loop "
             "declared\n") +
         program::information_usage +
         "  --plain           without any protection, to measure what protection costs\n"
         "  --help            this text\n";
}

}  // namespace tgv
