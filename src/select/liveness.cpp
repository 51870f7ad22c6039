#include "select/liveness.h"

#include <algorithm>
#include <ranges>

namespace backstay::select {

std::vector<Elements> live_in_cycle(const std::vector<Effects>& cycle, std::size_t regions) {
  std::vector<Elements> places(cycle.size());
  Elements live(regions);
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = cycle.size(); i-- > 0;) {
      for (const auto& effect : cycle[i]) {
        live[effect.region].remove(effect.overwrites);
        live[effect.region].add(effect.reads);
      }
      if (round == 1) places[i] = live;
    }
  return places;
}

std::int64_t bytes_of(const Elements& elements, const std::vector<Region>& regions) {
  std::int64_t bytes = 0;
  for (std::size_t r = 0; r < elements.size(); ++r) bytes += elements[r].volume() * regions[r].element;
  return bytes;
}

std::vector<std::pair<std::size_t, BoxSet>> OpenCheckpoint::read(const Effects& effects) {
  std::vector<std::pair<std::size_t, BoxSet>> now;
  for (const auto& effect : effects) {
    BoxSet& undecided = undecided_[effect.region];
    if (undecided.empty()) continue;
    auto needed = undecided.in(effect.reads);
    undecided.remove(effect.reads);
    if (!needed.empty()) now.emplace_back(effect.region, std::move(needed));
  }
  return now;
}

void OpenCheckpoint::overwrite(const Effects& effects) {
  for (const auto& effect : effects) undecided_[effect.region].remove(effect.overwrites);
}

std::vector<std::pair<std::size_t, BoxSet>> OpenCheckpoint::rest() {
  std::vector<std::pair<std::size_t, BoxSet>> now;
  for (std::size_t r = 0; r < undecided_.size(); ++r)
    if (!undecided_[r].empty()) now.emplace_back(r, std::exchange(undecided_[r], BoxSet()));
  return now;
}

bool OpenCheckpoint::is_decided() const {
  return std::ranges::all_of(undecided_, [](const BoxSet& set) { return set.empty(); });
}

}  // namespace backstay::select
