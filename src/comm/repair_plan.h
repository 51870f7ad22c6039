// Who takes whose place after a loss. Pure: those who are left all compute the same.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace backstay::comm {

/// What a process says when all meet.
enum class Word {
  failed,    ///< a rank was lost: what it was doing cannot go on
  finished,  ///< it has come to the end of loop()
  closing,   ///< it ends its session
  waiting,   ///< it is a spare
};

/// What becomes of those who met.
enum class Fate {
  finished,  ///< all ranks have come to the end of loop()
  closed,    ///< the session ends, spares included
  again,     ///< all ranks roll back
  lost,      ///< ranks are missing, and nobody can take their places
};

/// What a process dies together with, in each of the ways that matter: two with the same number there do; 0: with
/// nobody.
using FailureUnits = std::array<std::uint64_t, 6>;

/// A process that lives.
struct Survivor {
  int number = 0;  ///< its rank in the job as it was started; those who are left are in this order
  int rank = -1;   ///< among those who work; -1: a spare
  int node = 0;
  Word word = Word::waiting;
  double waited = 0;  ///< seconds since it came, when all met; of a spare 0
  FailureUnits units = {};
  bool may_roll_back = true;  ///< what takes a place of its crew comes to where it goes on
};

struct Replaced {
  int rank = 0;       ///< the one that was lost
  int by_number = 0;  ///< the process that takes its place, as it was started; -1: none
  int node = -1;      ///< of that process
};

struct RepairPlan {
  Fate fate = Fate::again;
  int workers = 0;                 ///< ranks from now on
  std::vector<int> ranks;          ///< of each survivor from now on, without gaps; -1: a spare
  std::vector<Replaced> replaced;  ///< by ascending rank
  bool same_ranks = false;         ///< nobody was lost and nobody failed: the old communicator serves on
  bool anybody_closes = false;     ///< and does nothing else with the others any more
};

/// `survivors` of `workers` ranks and some spares. Those are taken who die together with the fewest ranks, so that
/// parts of a parity group stay apart; among equal ones in order of their numbers. `may_shrink`: without spares the
/// ranks that are left go on, numbered anew.
RepairPlan plan_repair(const std::vector<Survivor>& survivors, int workers, bool may_shrink);

}  // namespace backstay::comm
