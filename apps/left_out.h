// What the example programs say in the end of what their checkpoints left out.
#pragma once

#include <cstdint>
#include <string>

#include "backstay/backstay.hpp"

namespace program {

/// A line; `bytes`: of all arrays of this rank.
inline std::string left_out_note(const backstay::Session& run, std::uint64_t bytes) {
  const backstay::Status status = run.status();
  if (status.taken == 0) return "no checkpoint was due\n";
  return "of the " + std::to_string(bytes) + " bytes of this rank's arrays the newest checkpoint left out " +
         std::to_string(status.left_out_bytes) + "\n";
}

}  // namespace program
