#include "options.h"

#include <charconv>
#include <stdexcept>
#include <utility>

namespace tgv {

namespace {

// What the exact sums of exact_sum.h hold: 2^30 points.
constexpr int largest_n = 1024;
// From the stability limit of the time integration (1.46 for acoustic waves along a diagonal), with a margin.
constexpr double largest_cfl = 1.4;

template <class T>
T number(const std::string& option, const std::string& text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    const auto shown = [](T bound) {
      std::string s = std::to_string(bound);
      if (s.find('.') != std::string::npos) s.erase(s.find_last_not_of('0') + 1);
      return !s.empty() && s.back() == '.' ? s + "0" : s;
    };
    throw std::invalid_argument(option + " takes a number from " + shown(least) + " to " + shown(most) + ", not '" +
                                text + "'");
  }
  return value;
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  bool t_end_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    std::optional<std::string> attached;
    if (const auto equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      attached = name.substr(equals + 1);
      name.resize(equals);
    }
    const auto value = [&]() -> std::string {
      if (attached) return *std::exchange(attached, std::nullopt);
      if (i + 1 == arguments.size()) throw std::invalid_argument(name + " needs a value; see tgv --help");
      return arguments[++i];
    };
    if (name == "--n") {
      o.n = number(name, value(), 8, largest_n);
    } else if (name == "--t-end") {
      o.t_end = number(name, value(), 0.001, 1e6);
      t_end_given = true;
    } else if (name == "--steps") {
      o.steps = number(name, value(), 1, 1'000'000'000);
    } else if (name == "--cfl") {
      o.cfl = number(name, value(), 0.001, largest_cfl);
    } else if (name == "--output-every") {
      o.output_every = number(name, value(), 1, 1'000'000'000);
    } else if (name == "--csv") {
      o.csv = value();
      if (o.csv.empty()) throw std::invalid_argument("--csv needs the name of a file");
    } else if (name == "--quiet") {
      o.quiet = true;
    } else if (name == "--progress") {
      o.progress = true;
    } else if (name == "--plain") {
      o.plain = true;
    } else if (name == "--help" || name == "-h") {
      o.help = true;
    } else {
      throw std::invalid_argument("unknown option '" + arguments[i] + "'; see tgv --help");
    }
    if (attached) throw std::invalid_argument(name + " takes no value; see tgv --help");
  }
  if (t_end_given && o.steps) throw std::invalid_argument("give --t-end or --steps, not both");
  return o;
}

std::string usage() {
  return "mpirun -n 8 tgv --n 64 --csv curve.csv\n"
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
         "  --plain           without any protection, to measure what protection costs\n"
         "  --help            this text\n";
}

}  // namespace tgv
