// Where in a period, and how often, checkpoints lose the least time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace backstay::select {

/// A moment of a period at which a checkpoint may be taken. Seconds.
struct Place {
  double time = 0;  ///< from the beginning of the period; less than its length
  double cost = 0;  ///< that the program is held up there by
};

/// The next checkpoint is at place `to`, `gap` seconds after the one before.
struct Turn {
  std::size_t to = 0;
  double gap = 0;
};

struct Schedule {
  std::vector<Turn> turns;  ///< repeated without end; the first one comes after the last
  double overhead = 0;      ///< time lost by checkpoints and by work that failures undo, as a part of all time
};

/// The endless schedule of least overhead. A gap g costs g^2 / (2 mtbf) in expectation (Young: a failure comes in it
/// with probability g / mtbf, and undoes half of it). Exact: the cycle of least ratio of costs to time among all
/// cycles, of any length and any gaps, found by Howard's policy iteration. Pure.
///
/// `places` (at least one) by ascending time; `period` > 0 and `mtbf` > 0 in seconds.
Schedule best_schedule(const std::vector<Place>& places, double period, double mtbf);

}  // namespace backstay::select
