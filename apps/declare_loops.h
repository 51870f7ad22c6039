// The loops of a solver as computations of backstay.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"
#include "loop_uses.h"

namespace program {

/// Declares `loops`, which name fields by name_of(), and has `system` begin each of them. `run` must outlive `system`'s
/// loops; the fields are protected before.
template <class System, class Loop, class Field>
void declare_loops(backstay::Session& run, System& system, const std::vector<LoopUses<Loop, Field>>& loops) {
  std::vector<backstay::Computation> declared;
  for (const auto& loop : loops) {
    std::vector<backstay::Access> accesses;
    for (const auto& [field, mode] : loop.uses) {
      const std::string name = name_of(field);
      accesses.push_back(mode == Mode::read    ? backstay::reads(name)
                         : mode == Mode::write ? backstay::writes(name)
                                               : backstay::updates(name));
    }
    const auto number = static_cast<std::size_t>(loop.loop);
    if (declared.size() <= number) declared.resize(number + 1);
    declared[number] = run.declare(loop.name, accesses);  // backstay
  }
  system.watch([&run, declared](Loop loop) { return run.begin(declared[static_cast<std::size_t>(loop)]); },  // backstay
               [&run](std::span<double> values) {
                 for (double& value : values) run.result(value);  // backstay
               });
}

}  // namespace program
