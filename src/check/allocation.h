// Memory that the program has allocated, and who asked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check/place.h"

namespace backstay::check {

struct Allocation {
  std::byte* data = nullptr;
  std::size_t bytes = 0;           ///< as many as were asked for
  std::uint64_t number = 0;        ///< no other one has it, at the same address neither
  std::vector<const void*> stack;  ///< where the callers go on, the innermost first
};

/// Who made it: the first of the callers that is not the runtime of the language.
struct Maker {
  bool is_program = false;         ///< the program itself, or one of its libraries
  std::string name;                ///< of the library, or what it is, as people say it
  std::vector<CodePlace> callers;  ///< of the program's: those in it, the innermost first
};

/// `libraries`: file names of those that count as the program, apart by colons.
Maker maker_of(const Allocation& allocation, std::string_view libraries);

}  // namespace backstay::check
