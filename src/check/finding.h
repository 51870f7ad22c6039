// What is not as declared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace backstay::check {

enum class Fault {
  reads,        ///< elements that the computation does not declare to read
  writes,       ///< that it does not declare to write
  reads_early,  ///< elements that it declares to overwrite, before it has
  skips,        ///< elements that it declares to overwrite, and does not
};

/// Of a region no value of which was read before it was overwritten.
struct Overwritten {
  std::uint64_t pages = 0;  ///< in which each of its values was seen to be overwritten; 0 also if anything was read
  std::uint64_t all = 0;    ///< pages in which it lies
};

struct Finding {
  std::size_t region = 0;
  Fault fault = Fault::reads;
  std::vector<std::int64_t> index;  ///< the first that was seen
  std::uint64_t elements = 1;       ///< `skips`, `writes` by comparison: how many; the others: seen
  std::uintptr_t code = 0;          ///< address of the instruction; 0: there is none
  std::uintptr_t caller = 0;        ///< where its function was called from, perhaps
};

}  // namespace backstay::check
