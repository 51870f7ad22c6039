#include "api/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <optional>
#include <set>

#include "base/text.h"

namespace backstay::api {

namespace {
constexpr std::string_view variable_prefix = "BACKSTAY_";
// What module systems and CMake say about an installed package, and `backstay advise` to the preloaded library; no
// option will ever be called so.
constexpr std::array<std::string_view, 7> not_options{"ROOT",    "HOME",        "BASE",          "PREFIX",
                                                      "VERSION", "ALLOCATIONS", "ALLOCATIONS_OF"};

std::string variable_of(const std::string& option) {
  std::string out(variable_prefix);
  for (char c : option) out += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

const OptionInfo* find_option(const std::string& name) {
  const auto& table = option_table();
  const auto it = std::find_if(table.begin(), table.end(), [&](const auto& o) { return o.name == name; });
  return it == table.end() ? nullptr : &*it;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

Failure unknown(const std::string& name, bool as_variable) {
  std::vector<std::string> names;
  for (const auto& option : option_table()) names.push_back(as_variable ? variable_of(option.name) : option.name);
  return fail(Code::unknown_option, as_variable ? "the variable " : "the option '", name, as_variable ? "" : "'",
              " does not exist; did you mean ", nearest(as_variable ? upper(name) : name, names),
              "? `backstay options` lists all");
}

/// What concerns one rank or one node only.
bool may_differ(std::string_view name) {
  static const std::set<std::string_view> own{"local_dir", "staging_limit", "threads", "nice",
                                              "direct_io", "log",           "kill"};
  return own.contains(name);
}

constexpr double longest_seconds = 1e9;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60;

/// Values by name; takes them apart with a sentence for what does not fit.
class Values {
 public:
  Values(const std::map<std::string, std::string>& given, const std::map<std::string, std::string>& environment)
      : values_(environment) {
    for (const auto& [name, value] : given) values_[name] = value;
    // `backstay advise` tries the program in directories of its own, whatever those are that the program names.
    if (environment.contains("observe"))
      for (const auto* name : {"dir", "local_dir"})
        if (const auto own = environment.find(name); own != environment.end()) values_[name] = own->second;
  }

  [[nodiscard]] std::optional<std::string> set(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() || it->second.empty() ? std::nullopt : std::optional(it->second);
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    return set(name).value_or(find_option(name)->initial);
  }

  std::uint64_t whole(const std::string& name, std::uint64_t at_least, std::uint64_t at_most) {
    const auto n = parse_decimal(text(name));
    if (n && *n >= at_least && *n <= at_most) return *n;
    refuse(name, cat("a whole number from ", at_least, " to ", at_most));
    return at_least;
  }
  double seconds(const std::string& name) {
    const auto x = parse_real(text(name));
    if (x && *x > 0 && *x <= longest_seconds) return *x;
    refuse(name, "a number of seconds, more than 0 and at most 1e9");
    return 0;
  }
  std::uint64_t bytes(const std::string& name) {
    const std::string all = text(name);
    const auto digits = all.find_first_not_of("0123456789");
    const auto n = parse_decimal(all.substr(0, digits));
    const std::string unit = digits == all.npos ? "" : all.substr(digits);
    const auto shift = unit.empty() || unit == "B" ? 0
                       : unit == "KiB"             ? 10
                       : unit == "MiB"             ? 20
                       : unit == "GiB"             ? 30
                                                   : -1;
    if (n && shift >= 0 && *n <= (most_bytes >> shift)) return *n << shift;
    refuse(name, "a number of bytes, KiB, MiB or GiB, such as 512MiB");
    return 0;
  }
  /// The place of the value among `words`.
  std::size_t choice(const std::string& name, const std::vector<std::string>& words) {
    const auto it = std::find(words.begin(), words.end(), text(name));
    if (it != words.end()) return static_cast<std::size_t>(it - words.begin());
    std::string list;
    for (const auto& word : words) list += (list.empty() ? "" : word == words.back() ? " or " : ", ") + word;
    refuse(name, list);
    return 0;
  }
  void refuse(const std::string& name, const std::string& wanted) {
    if (trouble_)
      trouble_ = fail(Code::invalid_argument, "the option ", name, " is '", text(name), "' and must be ", wanted);
  }
  [[nodiscard]] const Result<void>& trouble() const { return trouble_; }

 private:
  std::map<std::string, std::string> values_;
  Result<void> trouble_;
};

std::vector<std::string> level_words() {
  std::vector<std::string> out;
  for (const auto& level : engine::named_levels) out.emplace_back(level.name);
  return out;
}
constexpr double default_interval = 60;

plan::Cadence cadence_of(Values& values, const std::string& level) {
  plan::Cadence cadence;
  const auto every = [&](const std::string& name) { cadence.every = values.whole(name, 1, UINT64_MAX); };
  const auto interval = [&](const std::string& name) { cadence.interval = values.seconds(name); };
  const bool own_every = values.set(level + ".every").has_value(),
             own_interval = values.set(level + ".interval").has_value();
  if (own_every) every(level + ".every");
  if (own_interval) interval(level + ".interval");
  if (own_every || own_interval) return cadence;
  if (values.set("every")) every("every");
  if (values.set("interval")) interval("interval");
  if (!values.set("every") && !values.set("interval")) cadence.interval = default_interval;
  return cadence;
}

std::vector<std::string> level_names(Values& values) {
  const std::string all = values.text("levels");
  if (all == "auto") {
    // Node directories of one's own make a partner copy worth having; without them the shared file system is all there
    // is.
    const bool nodes = values.whole("nodes", 0, 1000000) > 1;
    return nodes ? std::vector<std::string>{"partner", "shared"} : std::vector<std::string>{"shared"};
  }
  auto names = split(all, ',');
  const auto words = level_words();
  for (const auto& name : names)
    if (std::find(words.begin(), words.end(), name) == words.end())
      values.refuse("levels", cat("a list of memory, memory2, local, local2, partner, shared ('", name,
                                  "' is not a level; the nearest is '", nearest(name, words), "')"));
  for (const auto& name : names)
    if (std::count(names.begin(), names.end(), name) > 1)
      values.refuse("levels", cat("a list in which each level is once ('", name, "' is there twice)"));
  return names;
}

/// "rs(K,P)" or "none".
engine::ParityConfig parity_of(Values& values, const std::string& name) {
  constexpr std::uint64_t most = 255;  // members of a group, from the arithmetic in 8 bits
  std::string text = values.text(name);
  std::erase(text, ' ');
  if (text == "none") return {};
  const auto comma = text.find(',');
  if (text.starts_with("rs(") && text.ends_with(")") && comma != text.npos) {
    const auto k = parse_decimal(text.substr(3, comma - 3)),
               p = parse_decimal(text.substr(comma + 1, text.size() - comma - 2));
    if (k && p && *k >= 1 && *p >= 1 && *k <= most && *p <= most && *k + *p <= most)
      return {static_cast<int>(*k), static_cast<int>(*p), {}};
  }
  values.refuse(name, "none or rs(K,P): groups of K + P, 255 at most, of which P may be lost, such as rs(6,2)");
  return {};
}

/// "0-3/4-7": nodes, in sets. Nothing where it is not of that form.
std::optional<std::vector<std::vector<int>>> sets_of(const std::string& text) {
  constexpr std::uint64_t most = 1000000;
  std::uint64_t all = 0;  // each node is in one set, so that more than `most` in all cannot be right
  std::vector<std::vector<int>> sets;
  for (const auto& set : split(text, '/')) {
    sets.emplace_back();
    for (const auto& word : split(set, ',')) {
      const auto dash = word.find('-');
      const auto first = parse_decimal(word.substr(0, dash));
      const auto last = dash == word.npos ? first : parse_decimal(word.substr(dash + 1));
      if (!first || !last || *first > *last || *last >= most) return {};
      all += *last - *first + 1;
      if (all > most) return {};
      for (auto node = *first; node <= *last; ++node) sets.back().push_back(static_cast<int>(node));
    }
  }
  return sets;
}

}  // namespace

std::optional<std::size_t> UnitChoice::set_of(int node) const {
  std::optional<std::size_t> found;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    if (std::ranges::find(sets[s], node) == sets[s].end()) continue;
    if (found) return {};
    found = s;
  }
  return found;
}

namespace {
UnitChoice unit_of(Values& values, const std::string& name) {
  const std::string text = values.text(name);
  if (text == "node") return {};
  if (text == "rank") return {UnitChoice::Kind::rank, "", {}};
  if (text.starts_with("env:") && text.size() > 4) return {UnitChoice::Kind::variable, text.substr(4), {}};
  if (text.starts_with("nodes:"))
    if (auto sets = sets_of(text.substr(6))) return {UnitChoice::Kind::sets, "", std::move(*sets)};
  values.refuse(name,
                "node, rank, env:VARIABLE (ranks with the same value die together) or sets of nodes such as "
                "nodes:0-3/4-7");
  return {};
}

std::vector<engine::LevelConfig> levels_of(Values& values) {
  const auto names = level_names(values);
  std::vector<engine::LevelConfig> out;
  for (const auto& [word, kind] : engine::named_levels) {
    const bool may_have_parity = find_option(cat(word, ".redundancy")) != nullptr;
    const auto parity = may_have_parity ? parity_of(values, cat(word, ".redundancy")) : engine::ParityConfig{};
    if (std::find(names.begin(), names.end(), word) == names.end()) continue;
    const std::string unit = cat(word, ".unit");
    if (parity.p == 0 && find_option(unit) != nullptr && values.set(unit) && values.text(unit) != "node")
      values.refuse(unit, cat("only given together with ", word, ".redundancy, which is none"));
    engine::LevelConfig level;
    level.kind = kind;
    level.name = word;
    level.cadence = cadence_of(values, word);
    const std::string own_keep = cat(word, ".keep");
    const std::string keep = values.set(own_keep) ? own_keep : "keep";
    level.keep = static_cast<std::size_t>(values.whole(keep, 1, 1000000));
    level.distance = static_cast<int>(values.whole("partner.distance", 1, 1000000));
    level.files = static_cast<int>(values.whole("shared.files", 0, 1000000));
    level.layout =
        static_cast<engine::Layout>(values.choice("shared.layout", {"file-per-rank", "file-per-node", "one-file"}));
    level.parity = parity;
    out.push_back(std::move(level));
  }
  if (out.empty()) values.refuse("levels", "a list of memory, memory2, local, local2, partner, shared");
  return out;
}

std::vector<Kill> kills_of(Values& values) {
  std::vector<Kill> out;
  for (const auto& word : split(values.text("kill"), ',')) {
    const auto at = word.find('@');
    Kill kill;
    kill.node = word.starts_with("node");
    const auto number = parse_decimal(word.substr(kill.node ? 4 : 0, at - (kill.node ? 4 : 0)));
    const std::string when = at == word.npos ? "" : word.substr(at + 1);
    const std::uint64_t moment = when == "opening" ? Kill::in_opening : Kill::in_repair;
    kill.call = parse_decimal(when).value_or(moment);
    if (!number || *number > 1000000000 || (kill.call == 0 && when != "repair")) {
      values.refuse("kill", "RANK@CALL, nodeNODE@CALL, with repair or opening in place of CALL, several with commas");
      break;
    }
    kill.number = static_cast<int>(*number);
    out.push_back(kill);
  }
  return out;
}

bool leads_out(const std::string& path) {
  const auto parts = split(path, '/');
  return path.starts_with('/') || std::find(parts.begin(), parts.end(), "..") != parts.end();
}

/// A session without a name has those of nodes below `dir`, and `backstay run` removes them with their node.
bool is_directory_of_a_node(const std::string& path) {
  constexpr std::string_view node = "node-";
  const auto first = split(path, '/').front();
  return first.starts_with(node) && parse_decimal(first.substr(node.size()));
}

std::string dir_of(const Values& values) {
  const auto name = values.set("name");
  return values.text("dir") + (name ? "/" + *name : "");
}

/// The last %n is the pattern's: one before may belong to the name of the checkpoint directory, one behind to `name`.
void read_local_dir(Values& values, Settings& s) {
  s.local_dir = values.set("local_dir").value_or(values.text("dir") + "/node-%n");
  if (const auto at = s.local_dir.rfind("%n"); at != s.local_dir.npos) {
    s.node_at = at;
    s.local_dir.erase(at, 2);
  } else if (values.whole("nodes", 0, 1000000) > 1) {
    values.refuse("local_dir", "a pattern with %n, since nodes are simulated on one file system");
  }
  if (const auto name = values.set("name")) s.local_dir += "/" + *name;
}

/// Those of each level.
std::vector<OptionInfo> options_of_levels() {
  std::vector<OptionInfo> out;
  for (const auto& [name, kind] : engine::named_levels) {
    const std::string level = name;
    const auto add = [&](const char* option, const char* initial, const std::string& meaning) {
      out.push_back({cat(level, ".", option), initial, meaning});
    };
    for (const char* option : {"every", "interval", "keep"})
      add(option, "", cat("`", option, "` for this level alone"));
    if (level == "local") {
      add("redundancy", "none",
          "`none`, or `rs(K,P)`: groups of K + P ranks of different units, any P of which may be lost (Reed-Solomon)");
      add("unit", "node",
          "what dies together, for `local.redundancy`: `node`, `rank`, `env:VARIABLE` (ranks with the same value of "
          "it), or sets of nodes such as `nodes:0-3/4-7`");
    } else if (kind == engine::LevelKind::memory || kind == engine::LevelKind::local) {
      add("redundancy", "none",
          level == "memory"
              ? "`none`, or `rs(K,P)` as `local.redundancy`: what spares take the places of lost ranks with"
              : cat("as `", level.substr(0, level.size() - 1), ".redundancy`, with groups of another kind"));
      add("unit", "node", cat("as `local.unit`, for `", level, ".redundancy`"));
    }
  }
  out.push_back({"partner.distance", "1", "nodes between a rank and the copy of its data"});
  out.push_back({"shared.layout", "file-per-node", "`file-per-rank`, `file-per-node` or `one-file`"});
  out.push_back({"shared.files", "0", "with `file-per-node`: so many files instead of one a node"});
  return out;
}

std::vector<OptionInfo> options_of_the_job() {
  return {
      {"dir", "backstay-checkpoints", "the checkpoint directory, seen by all ranks"},
      {"name", "", "a directory below `dir` and `local_dir`, for each of several sessions in one program"},
      {"local_dir", "", "the directory of a node; `%n` is the node's number (default: `dir`/node-%n)"},
      {"nodes", "0", "split the ranks evenly over so many simulated nodes; 0: the nodes that MPI sees"},
      {"spares", "0",
       "so many of the processes that were started wait, and take the places of ranks that are lost while loop() runs"},
      {"lost_rank", "throw",
       "what MPI calls inside loop() do when a rank was lost: `throw` (C++) on the way back to loop(), or `return` "
       "MPI's error code to a program that looks at it; in C, Fortran, Python the program alone sets it"},
      {"shrink", "off",
       "a rank is lost and no spare is left: `off`: the job ends, to be started again; `on`: the ranks that are left "
       "go on with numbers anew (for programs that set up everything inside loop(); needs spares)"},
      {"levels", "auto",
       "list of `memory`, `local`, `partner`, `shared`, and `memory2`, `local2`: such levels once more, with parity of "
       "another kind; `auto`: `shared`, and `partner` where `nodes` is 2 or more"},
      {"every", "", "a checkpoint every so many calls of checkpoint()"},
      {"interval", "", "a checkpoint every so many seconds (60 if neither this nor `every` is set)"},
      {"keep", "2", "whole lines kept at each level"}};
}

std::vector<OptionInfo> options_of_the_way() {
  return {
      {"policy", "skip",
       "due while one is in flight: `skip` it, `wait`, or `degrade` to the cheapest level outside memory, if there is "
       "one; a level passed over goes with the next that is taken"},
      {"timeout", "600",
       "seconds that storage, opening, closing and a repair may take; a wait for a late rank goes on, and is said "
       "then"},
      {"staging_limit", "0", "most staging memory of a rank for one checkpoint (512MiB, 4GiB); 0: no limit"},
      {"threads", "0", "threads of a capture; 0: the cores of the node shared among its ranks, 4 at most"},
      {"nice", "10", "niceness added to the background thread, 0 to 19; 0: it competes with the application for cores"},
      {"direct_io", "auto",
       "`auto`: write past the page cache, or into mapped files in memory, where that is faster; `off`: never"},
      {"regions", "strict",
       "`strict`: a resume where line and program have different regions is refused; `lenient`: those are left alone"},
      {"place", "calls",
       "`calls`: checkpoints are taken where checkpoint() is called; `best`: by programs that call replay(), before "
       "the "
       "computation where they need least, as it is found out"},
      {"advise", "off", "`on`: tell in the end where checkpoints need least, and what becomes of each region there"},
      {"observe", "0",
       "this many steps, from one call of checkpoint() to the next: what of each region is read first and what is "
       "overwritten first, by `backstay advise`"},
      {"on_error", "continue",
       "a checkpoint that failed in the background: `continue` with a message, or `throw` as soon as all ranks know of "
       "it, one or two calls later"},
      {"signals", "on",
       "`on`: SIGTERM and SIGUSR1 ask for a last checkpoint and a clean end, but not where the program has a handler "
       "of its "
       "own for them, or ignores them; `off`: they are left alone"},
      {"progress", "auto",
       "`auto`: a thread of its own where MPI allows; `calls`: messages move inside calls of backstay"},
      {"check_access", "off",
       "`on` or 1: what computations do to regions is compared with what they declare; slow, and best by "
       "`backstay run --check` (x86-64 with Linux)"},
      {"log", "normal", "`quiet`, `normal`, or `verbose` (a line for every checkpoint)"},
      {"kill", "",
       "for trying it out: RANK@CALL or nodeN@CALL kills itself at that call of checkpoint(), @repair: "
       "while another rank is replaced, @opening: when the session opens after that"}};
}
}  // namespace

const std::vector<OptionInfo>& option_table() {
  static const std::vector<OptionInfo> table = [] {
    auto all = options_of_the_job();
    for (auto& part : {options_of_levels(), options_of_the_way()}) all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return table;
}

Result<std::map<std::string, std::string>> options_from_environment(const char* const* environment) {
  std::map<std::string, std::string> out;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (!entry.starts_with(variable_prefix)) continue;
    const auto equals = entry.find('=');
    const std::string variable(entry.substr(0, equals));
    const auto bare = std::string_view(variable).substr(variable_prefix.size());
    bool known = std::find(not_options.begin(), not_options.end(), bare) != not_options.end();
    for (const auto& option : option_table())
      if (variable_of(option.name) == variable) {
        out[option.name] = equals == entry.npos ? "" : std::string(entry.substr(equals + 1));
        known = true;
      }
    if (!known) return unknown(variable, true);
  }
  return out;
}

namespace {
/// Those that are given, and are of a level that is not among the chosen ones.
std::vector<std::string> options_of_other_levels(const Values& values, const std::vector<engine::LevelConfig>& levels) {
  std::vector<std::string> out;
  for (const auto& option : option_table()) {
    const std::string level = option.name.substr(0, option.name.find('.'));
    const bool is_of_a_level = level.size() < option.name.size();
    const bool is_chosen =
        std::ranges::any_of(levels, [&](const auto& chosen) { return engine::level_name(chosen) == level; });
    if (is_of_a_level && !is_chosen && values.set(option.name)) out.push_back(option.name);
  }
  return out;
}
}  // namespace

Result<Settings> read_options(const std::map<std::string, std::string>& given,
                              const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : given)
    if (find_option(name) == nullptr) return unknown(name, false);
  Values values(given, environment);
  Settings s;
  s.dir = dir_of(values);
  s.name = values.text("name");
  read_local_dir(values, s);
  if (const auto name = values.set("name"); name && leads_out(*name))
    values.refuse("name", "a name or a path below `dir`, without '..'");
  else if (name && is_directory_of_a_node(*name))
    values.refuse("name", "another name than node-N, which is the directory of a node");
  s.nodes = static_cast<int>(values.whole("nodes", 0, 1000000));
  s.spares = static_cast<int>(values.whole("spares", 0, 1000000));
  s.errors_return = values.choice("lost_rank", {"throw", "return"}) == 1;
  s.shrink = values.choice("shrink", {"off", "on"}) == 1;
  s.levels = levels_of(values);
  for (const auto& [level, kind] : engine::named_levels)
    if (find_option(cat(level, ".unit")) != nullptr) s.units[level] = unit_of(values, cat(level, ".unit"));
  s.policy = static_cast<engine::Policy>(values.choice("policy", {"skip", "wait", "degrade"}));
  s.timeout = values.seconds("timeout");
  s.staging_limit = values.bytes("staging_limit");
  s.threads = static_cast<int>(values.whole("threads", 0, 256));
  s.nice = static_cast<int>(values.whole("nice", 0, 19));
  s.direct_io = values.choice("direct_io", {"auto", "off"}) == 0;
  s.lenient = values.choice("regions", {"strict", "lenient"}) == 1;
  s.places_itself = values.choice("place", {"calls", "best"}) == 1;
  s.observed_steps = static_cast<int>(values.whole("observe", 0, 1000000));
  s.advises = values.choice("advise", {"off", "on"}) == 1;
  s.throw_errors = values.choice("on_error", {"continue", "throw"}) == 1;
  s.signals = values.choice("signals", {"on", "off"}) == 0;
  s.progress_in_calls = values.choice("progress", {"auto", "calls"}) == 1;
  s.check_access = values.choice("check_access", {"off", "on", "0", "1"}) % 2 == 1;
  s.log = static_cast<Log>(values.choice("log", {"quiet", "normal", "verbose"}));
  s.kills = kills_of(values);
  for (const auto& option : option_table())
    if (!may_differ(option.name)) s.shared_values += cat(option.name, '=', values.text(option.name), '\n');
  s.idle = options_of_other_levels(values, s.levels);
  if (!values.trouble()) return values.trouble().failure();
  return s;
}

}  // namespace backstay::api
