#include "options.h"

#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

namespace heat {

namespace {

/// `range` says in words what `least` and `most` are.
template <class T>
T number(const std::string& option, const std::string& text, T least, T most, const char* range) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    throw std::invalid_argument(option + " takes a number from " + range + ", not '" + text + "'");
  return value;
}

/// One argument, which may take the next as its value.
class Argument {
 public:
  Argument(const std::vector<std::string>& all, std::size_t& at) : all_(all), at_(at), name_(all[at]) {
    if (const auto equals = name_.find('='); name_.starts_with("--") && equals != std::string::npos) {
      attached_ = name_.substr(equals + 1);
      name_.resize(equals);
    }
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  std::string value() {
    if (attached_) return *std::exchange(attached_, std::nullopt);
    if (at_ + 1 == all_.size()) throw std::invalid_argument(name_ + " needs a value; see heat --help");
    return all_[++at_];
  }
  void require_no_value() const {
    if (attached_) throw std::invalid_argument(name_ + " takes no value; see heat --help");
  }

 private:
  const std::vector<std::string>& all_;
  std::size_t& at_;
  std::string name_;
  std::optional<std::string> attached_;
};

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    Argument argument(arguments, i);
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
      throw std::invalid_argument("unknown option '" + name + "'; see heat --help");
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
