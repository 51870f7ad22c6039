// The options of a session: one table, three ways in (constructor, environment, `backstay run`).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace backstay::api {

struct OptionInfo {
  std::string name;     ///< "shared.every"; as a variable BACKSTAY_SHARED_EVERY
  std::string initial;  ///< what it is when nobody says anything
  std::string meaning;
};
/// In the order of docs/options.md, which is made from it.
const std::vector<OptionInfo>& option_table();

/// The BACKSTAY_* variables of a process, by option name; Code::unknown_option for one that is no option.
Result<std::map<std::string, std::string>> options_from_environment(const char* const* environment);

/// How a test kills this job: rank or node, at a call of checkpoint().
struct Kill {
  bool node = false;
  int number = 0;
  std::uint64_t call = 0;  ///< of checkpoint(), or one of these, after the loss of another rank:
  static constexpr std::uint64_t in_repair = 0;
  static constexpr std::uint64_t in_opening = UINT64_MAX;  ///< which follows the repair
};

enum class Log { quiet, normal, verbose };

/// What dies together, as the option says it.
struct UnitChoice {
  enum class Kind { node, rank, variable, sets } kind = Kind::node;
  std::string variable;                ///< variable: ranks that have the same value of it die together
  std::vector<std::vector<int>> sets;  ///< sets: of nodes
  /// The number of the set that has this node; none: in no set, or in several.
  [[nodiscard]] std::optional<std::size_t> set_of(int node) const;
};

/// All options with their values checked.
struct Settings {
  std::string dir;
  std::string name;                    ///< of the session, where there are several
  std::string local_dir;               ///< without the %n of its pattern, relative to where the program runs
  std::optional<std::size_t> node_at;  ///< where the number of the node stands in it; empty: nowhere
  int nodes = 0;                       ///< 0: as MPI says
  int spares = 0;                      ///< processes that wait to take the place of a rank that is lost
  bool errors_return = false;          ///< a loss is an error that MPI calls return, and no exception
  bool shrink = false;                 ///< without spares the ranks that are left go on
  std::vector<std::string> idle;       ///< given options of levels that are not chosen
  std::vector<engine::LevelConfig> levels;
  std::map<std::string, UnitChoice> units;  ///< of the levels with parity, by name
  engine::Policy policy = engine::Policy::skip;
  double timeout = 600;
  std::uint64_t staging_limit = 0;
  int threads = 0;
  int nice = 10;
  bool direct_io = true;
  bool lenient = false;
  bool places_itself = false;  ///< checkpoints where they need least, and not where checkpoint() is called
  bool advises = false;        ///< tells in the end where that is
  int observed_steps = 0;      ///< of a program without declarations: what is live is looked for by closed pages
  bool throw_errors = false;
  bool signals = true;
  bool progress_in_calls = false;
  bool check_access = false;  ///< computations are compared with their declarations
  Log log = Log::normal;
  std::vector<Kill> kills;
  /// "name=value" a line, of the options that have to be the same on all ranks.
  std::string shared_values;
};
/// `given` wins over `environment`. Code::unknown_option (with the nearest real one), Code::invalid_argument.
Result<Settings> read_options(const std::map<std::string, std::string>& given,
                              const std::map<std::string, std::string>& environment);

}  // namespace backstay::api
