// Which elements of the regions are still needed: live is what is read before it is overwritten.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "select/access.h"

namespace backstay::select {

using Effects = std::vector<Effect>;   ///< of one computation
using Elements = std::vector<BoxSet>;  ///< by region

/// What is live before each computation of a sequence that is repeated without end. Pure.
///
/// Backwards through the sequence, live = (live - overwritten) + read. Two rounds are exact: one round adds what is
/// read in the sequence, and takes away what it overwrites first, which a further round would do again.
std::vector<Elements> live_in_cycle(const std::vector<Effects>& cycle, std::size_t regions);

/// Bytes of these elements.
std::int64_t bytes_of(const Elements& elements, const std::vector<Region>& regions);

/// One checkpoint that is taken while the program goes on, by the rule of OPS (Algorithm 1), exact in ranges: what is
/// read first is saved when it is met, before the computation that reads it; what is overwritten first is not saved.
/// It relies on declarations only, not on what is expected to come.
class OpenCheckpoint {
 public:
  /// `candidates`: what may have to be saved, that is what has changed since it can be made again otherwise.
  explicit OpenCheckpoint(Elements candidates) : undecided_(std::move(candidates)) {}
  /// Before a computation runs: what has to be saved now, by region.
  [[nodiscard]] std::vector<std::pair<std::size_t, BoxSet>> read(const Effects& effects);
  /// It has run.
  void overwrite(const Effects& effects);
  void overwrite(const Effect& effect) { undecided_[effect.region].remove(effect.overwrites); }
  /// Both, where nothing is asked in between.
  [[nodiscard]] std::vector<std::pair<std::size_t, BoxSet>> meet(const Effects& effects) {
    auto now = read(effects);
    overwrite(effects);
    return now;
  }
  /// The end of waiting: all that is undecided has to be saved.
  [[nodiscard]] std::vector<std::pair<std::size_t, BoxSet>> rest();
  [[nodiscard]] bool is_decided() const;
  [[nodiscard]] bool is_decided(std::size_t region) const { return undecided_[region].empty(); }
  /// What is not decided of it.
  [[nodiscard]] const BoxSet& undecided(std::size_t region) const { return undecided_[region]; }

 private:
  Elements undecided_;
};

}  // namespace backstay::select
