#include "options.h"

#include <stdexcept>

#include "../command_line.h"

namespace heat {

using program::number;

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    program::Argument argument("heat", arguments, i);
    const std::string& name = argument.name();
    if (name == "--cells") {
      o.cells = number(name, argument.value(), 2, 1000, "2 to 1000");
    } else if (name == "--steps") {
      o.steps = number(name, argument.value(), 1, 1'000'000'000, "1 to 1000000000");
    } else if (name == "--dt") {
      o.dt = number(name, argument.value(), 1e-8, 10.0, "1e-8 to 10");
    } else if (name == "--csv") {
      o.csv = argument.value();
      if (o.csv.empty()) throw std::invalid_argument("--csv needs the name of a file");
    } else if (name == "--figures") {
      o.figures = true;
    } else if (name == "--quiet") {
      o.quiet = true;
    } else if (name == "--plain") {
      o.plain = true;
    } else if (name == "--help" || name == "-h") {
      o.help = true;
    } else {
      argument.refuse();
    }
    argument.require_no_value();
  }
  return o;
}

std::string usage() {
  return "mpirun -n 4 heat --cells 64 --steps 50 --csv history.csv\n"
         "\n"
         "Heat conduction in a cube of strongly varying conductivity, heated by a spot that goes round. Protected by\n"
         "backstay: when the same command is given again after a failure, it goes on from the newest checkpoint.\n"
         "\n"
         "  --cells N    cells along each side of the cube (32)\n"
         "  --steps M    time steps to run (20)\n"
         "  --dt T       length of a time step; the spot goes round once in a time of 1 (0.002)\n"
         "  --csv FILE   write the history to FILE at the end\n"
         "  --figures    print at the end what the set-up took, and the sizes of static and dynamic data\n"
         "  --quiet      no table\n"
         "  --plain      without any protection\n"
         "  --help       this text\n";
}

}  // namespace heat
