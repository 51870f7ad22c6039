// How much a program tells backstay: the levels that checkpoints in OPS are measured at.
// Source: Reguly et al., Improving Resilience of Scientific Software through a Domain-Specific Approach, section 5.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "command_line.h"

namespace program {

/// Each but the first two has what those before it have, but for what it says.
enum class Information {
  usual,              ///< not asked for: the constant fields are static, and the loop's variables are protected
  none,               ///< the loops are declared, and a restart goes the way again by their results
  initphase,          ///< the beginning is a computation of its own, and runs again
  fast_forward,       ///< the loop's variables are protected: a restart jumps to its place, and no way is kept
  list,               ///< as initphase, and what a line holds is listed
  list_fast_forward,  ///< both
  triggered,          ///< and checkpoints are taken by the program when it wants one
};

constexpr bool replays(Information level) {
  return level == Information::none || level == Information::initphase || level == Information::list;
}
constexpr bool ends_its_beginning(Information level) { return level > Information::none; }
constexpr bool lists(Information level) { return level >= Information::list; }

struct Told {
  Information information = Information::usual;
  int trigger_every = 10;  ///< steps between two checkpoints of `triggered`
};

inline constexpr const char* information_usage =
    "  --information LEVEL of what backstay is told: none, initphase, fast-forward, list, list+fast-forward or\n"
    "                      triggered; without it as a program is best written\n"
    "  --trigger-every N   steps between two checkpoints with triggered (10)\n";

inline Information information_of(const std::string& text) {
  constexpr std::array<const char*, 7> names = {
      "", "none", "initphase", "fast-forward", "list", "list+fast-forward", "triggered"};
  for (std::size_t i = 1; i < names.size(); ++i)
    if (text == names[i]) return static_cast<Information>(i);
  throw std::invalid_argument(
      "--information takes none, initphase, fast-forward, list, list+fast-forward or triggered, not '" + text + "'");
}

/// Whether `name` is one of the options of this file.
inline bool take_information(const std::string& name, Argument& argument, Told& told) {
  if (name == "--information") {
    told.information = information_of(argument.value());
  } else if (name == "--trigger-every") {
    told.trigger_every = number(name, argument.value(), 1, 1'000'000'000, "1 to 1000000000");
  } else {
    return false;
  }
  return true;
}

}  // namespace program
