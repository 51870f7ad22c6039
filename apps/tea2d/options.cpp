#include "options.h"

#include <stdexcept>

#include "../command_line.h"

namespace tea2d {

namespace {

// The square of it is what the exact sums of exact_sum.h hold: 2^30 cells.
constexpr int most_cells = 32768;
constexpr const char* cells_range = "2 to 32768";
constexpr int most_steps = 1'000'000'000;

Method method_of(const std::string& text) {
  for (const Method method : {Method::cg, Method::chebyshev, Method::ppcg}) {
    if (text == name_of(method)) return method;
  }
  throw std::invalid_argument("--solver takes cg, chebyshev or ppcg, not '" + text + "'");
}

struct Given {
  bool n = false;
  bool nx_or_ny = false;
};

/// Whether `name` is one of the options that say what is computed.
bool take_problem(const std::string& name, program::Argument& argument, Options& o, Given& given) {
  using program::number;
  if (name == "--n") {
    o.cells.fill(number(name, argument.value(), 2, most_cells, cells_range));
    given.n = true;
  } else if (name == "--nx" || name == "--ny") {
    o.cells[name == "--nx" ? x_axis : y_axis] = number(name, argument.value(), 2, most_cells, cells_range);
    given.nx_or_ny = true;
  } else if (name == "--steps") {
    o.steps = number(name, argument.value(), 1, most_steps, "1 to 1000000000");
  } else if (name == "--dt") {
    o.dt = number(name, argument.value(), 1e-9, 1e6, "1e-9 to 1e6");
  } else if (name == "--solver") {
    o.solver = method_of(argument.value());
  } else if (name == "--eps") {
    o.eps = number(name, argument.value(), 1e-14, 0.1, "1e-14 to 0.1");
  } else if (name == "--max-iterations") {
    o.max_iterations = number(name, argument.value(), std::int64_t{1}, std::int64_t{most_steps}, "1 to 1000000000");
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
    program::Argument argument("tea2d", arguments, i);
    const std::string& name = argument.name();
    if (take_problem(name, argument, o, given)) continue;
    if (name == "--csv") {
      o.csv = argument.value();
      if (o.csv.empty()) throw std::invalid_argument("--csv needs the name of a file");
    } else if (name == "--quiet") {
      o.quiet = true;
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
  if (given.n && given.nx_or_ny) throw std::invalid_argument("give --n, or --nx and --ny, not both");
  if (o.told.information != program::Information::usual && (o.plain || !o.stored))
    throw std::invalid_argument("--information needs --stored, and not --plain: it is about loops that are declared");
  return o;
}

std::string usage() {
  return std::string(
             "mpirun -n 4 tea2d --n 512 --steps 50 --solver ppcg --csv heat.csv\n"
             "\n"
             "Heat spreads from a hot spot through a channel of light material: implicit steps of a linear equation on "
             "a\n"
             "rectangle of cells, protected by backstay. When the same command is given again after a failure, it goes "
             "on\n"
             "from the newest checkpoint and prints the same bytes.\n"
             "\n"
             "  --n CELLS           cells along both sides (256)\n"
             "  --nx CELLS          or: along x\n"
             "  --ny CELLS          and along y\n"
             "  --steps N           time steps (100)\n"
             "  --dt T              length of a time step (0.04)\n"
             "  --solver NAME       cg, chebyshev or ppcg (cg)\n"
             "  --eps E             residual that is small enough, against the right-hand side (1e-10)\n"
             "  --max-iterations N  of one step, those of the preconditioner among them (10000)\n"
             "  --csv FILE          write the table to FILE at the end\n"
             "  --quiet             no table\n"
             "  --stored            mesh and matrix in arrays, and all that lies between two loops: 20 arrays with "
             "ppcg\n") +
         program::information_usage +
         "  --plain             without any protection, to measure what protection costs\n"
         "  --help              this text\n";
}

}  // namespace tea2d
