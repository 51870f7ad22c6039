// What checkpoints at each place of a program would have to save, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "select/liveness.h"
#include "select/period.h"
#include "select/place.h"

namespace backstay::select {

/// What is known of a program that runs.
struct Trace {
  std::vector<Region> regions;
  std::vector<Computation> computations;
  std::vector<int> calls;       ///< numbers of computations, in the order in which they began
  std::vector<double> seconds;  ///< when each of them began; as many, ascending
  Elements changed;             ///< by region: what differs from what a start makes; never saved otherwise
};

/// What a checkpoint costs the program, and what it saves it from. Positive.
struct Costs {
  double bytes_per_second = 1;  ///< of the copy that holds the program up
  double seconds = 0;           ///< for each checkpoint, however small
  double mtbf = 1;              ///< seconds
};

struct Need {
  enum class Why {
    unchanged,    ///< as a start makes it
    untouched,    ///< changed once; nothing in the period has to do with it
    read,         ///< by `computation`, before it is overwritten, at least in part
    overwritten,  ///< by `computation` first, and read by none before
  };
  std::int64_t bytes = 0;  ///< to be saved, of this region
  Why why = Why::unchanged;
  int computation = -1;
};

struct PlaceOfTrace {
  std::size_t call = 0;    ///< the checkpoint comes before this one, in the round of the period
  double time = 0;         ///< seconds from the beginning of the round
  std::int64_t bytes = 0;  ///< of all regions
};

struct Advice {
  Period period;
  double seconds = 0;                ///< of that round
  std::vector<PlaceOfTrace> places;  ///< in their order; one for each computation in it
  std::size_t best = 0;              ///< of those, where the fewest bytes are saved; of equals the first
  std::vector<Need> needs;           ///< at that place, by region
  Schedule schedule;                 ///< over `places`, of least overhead; empty where no costs were given
};

/// None: nothing is repeated, so that there is no place to speak of. Code::invalid_argument: an access that its region
/// cannot have, or a trace whose parts do not belong together. Without `costs` no schedule is looked for, which takes
/// long where a round has thousands of places. Pure.
Result<std::optional<Advice>> advise(const Trace& trace, const std::optional<Costs>& costs);

/// How a program that runs knows that it is at a place: the last computations, the one that is about to begin included.
/// The shortest such that every other moment of the round that looks the same needs no more bytes. Rounds of inner
/// loops may vary.
std::vector<int> mark_of(const Advice& advice, const Trace& trace, std::size_t place);

/// As in "read by 'flux'".
std::string text_of(const Need& need, const std::vector<Computation>& computations);

}  // namespace backstay::select
