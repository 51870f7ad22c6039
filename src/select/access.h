// What computations do to regions, as a program declares it, and what of the regions they need or overwrite.
//
// Source: OPS checkpointing, section 4; ranges instead of whole datasets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "select/boxes.h"

namespace backstay::select {

enum class Mode {
  read,
  write,       ///< all of the range, whatever it held
  read_write,  ///< all of the range, after reading it
  write_some,  ///< some elements of the range, nobody says which
};

/// What a computation does to one region. Several may name the same one. All reading comes before all writing.
struct Access {
  std::size_t region = 0;
  Mode mode = Mode::read;
  std::optional<Box> range = {};    ///< of indices of the region; none: all of it
  std::vector<Range> stencil = {};  ///< read around each element, as offsets: {-1, 2} is from -1 to +1; none: itself
};

struct Computation {
  std::string name;
  std::vector<Access> accesses;
};

/// A region, as far as it matters here.
struct Region {
  std::string name;
  std::vector<std::int64_t> shape;  ///< elements of this rank; none: a scalar
  std::int64_t element = 0;         ///< bytes
  bool operator==(const Region&) const = default;
};

/// What one computation does to one region: first it reads `reads`, then it overwrites `overwrites`.
struct Effect {
  std::size_t region = 0;
  BoxSet reads;       ///< what it needs of before, also because it keeps some of it
  BoxSet overwrites;  ///< nothing of before is left of that
  BoxSet changes;     ///< may differ afterwards
};

/// One effect for each region that the computation has to do with, in the order of regions.
/// Code::invalid_argument: an access that its region cannot have.
Result<std::vector<Effect>> effects_of(const Computation& computation, const std::vector<Region>& regions);

}  // namespace backstay::select
