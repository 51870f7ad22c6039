// The loops of a program, found in the sequence of its computations.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace backstay::select {

/// A computation, or a loop over parts.
struct Part {
  int computation = -1;               ///< -1: it is a loop
  std::vector<Part> body;             ///< of a loop
  std::int64_t fewest = 0, most = 0;  ///< rounds of the loop, as far as seen
};

/// The outermost loop that was going on at the end of a sequence: of a simulation its time steps.
struct Period {
  std::vector<Part> body;
  std::size_t first = 0;    ///< index into the sequence, where its first round began
  std::int64_t rounds = 0;  ///< whole ones, since then
  /// The newest round whose end is known, with what only reads in it, as indices into the sequence: to the beginning of
  /// the last whole round.
  std::size_t begin = 0, end = 0;
};

/// The loops in `calls`, numbers of computations, from the inside out: what follows itself at once is a loop, and a
/// loop is the same whatever its number of rounds. So a solver that iterates as often as it needs does not hide the
/// step that it is in, and a stage is not taken for a step. Where summaries come in no order and hide the loops,
/// computations that only read (`only_reads`, by computation) are passed over. None: nothing was repeated up to the
/// end. Pure; bodies of more than `longest` parts are not found.
///
/// It says what to expect, not what will be: whoever relies on it must see what comes.
std::optional<Period> find_period(const std::vector<int>& calls, const std::vector<bool>& only_reads,
                                  std::size_t longest = 4096);

}  // namespace backstay::select
