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

/// What became of an element that is declared to be overwritten. Of several, the greatest counts.
enum class Fate : std::uint8_t {
  unseen,             ///< looking was given up before anything was seen
  seems_overwritten,  ///< before it was read, by the instructions that were looked at
  overwritten,        ///< before it was read: it held a pattern, which is gone
  untouched,
  unknown,  ///< perhaps read, or overwritten in part; or its page was not looked at
  read,     ///< before it was overwritten
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
