// A program's way to its place, at each level of information.
#pragma once

#include <string>
#include <vector>

#include "backstay/backstay.hpp"
#include "information.h"

namespace program {

/// Names of regions.
struct Regions {
  std::vector<std::string> started;  ///< by the beginning of the program
  std::vector<std::string> least;    ///< what a step begins with: the fields of a list
  std::vector<std::string> payload;  ///< the loop's variables, protected where nothing is replayed
};

/// All is protected, and the loops are declared. `start` makes the beginning (again); `keep` tells the options to
/// run.result(), where there is a replay; `require_same` compares them with those of the run that saved the line.
template <class Start, class Keep, class RequireSame>
void come_back(backstay::Session& run, Information level, const Regions& regions, const Start& start, const Keep& keep,
               const RequireSame& require_same) {
  backstay::Computation starts;
  if (ends_its_beginning(level)) {
    std::vector<backstay::Access> made;
    for (const auto& region : regions.started) made.push_back(backstay::writes(region));
    starts = run.declare("start", made);  // backstay
  }
  if (replays(level)) {
    const bool goes_on = static_cast<bool>(run.replay());  // backstay
    keep();
    if (goes_on) require_same();
  }
  if (ends_its_beginning(level)) {
    run.compute(starts, start);  // backstay
    run.init_done();             // backstay
  }
  if (lists(level)) {
    std::vector<std::string> list = regions.least;
    if (!replays(level)) list.insert(list.end(), regions.payload.begin(), regions.payload.end());
    run.save_only(list);  // backstay
  }
  if (!replays(level) && run.resume()) require_same();  // backstay
}

/// At the top of a step: whether the program is asked to end.
inline bool checkpoint_stops(backstay::Session& run, const Told& told, int step) {
  using backstay::Outcome;
  if (told.information != Information::triggered) return run.checkpoint() == Outcome::stop;  // backstay
  if (step == 0 || step % told.trigger_every != 0) return false;
  return run.checkpoint(backstay::now) == Outcome::stop;  // backstay
}

}  // namespace program
