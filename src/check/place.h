// Where an instruction stands.
#pragma once

#include <cstdint>
#include <string>

namespace backstay::check {

struct CodePlace {
  std::string program;       ///< or library; empty: unknown
  std::uint64_t offset = 0;  ///< in it, as addr2line wants it
  std::string function;      ///< perhaps
};

/// Of the instruction at `code`; where that is a function of the C library, of what has called it, if `caller` tells.
CodePlace place_of(std::uintptr_t code, std::uintptr_t caller);

/// "at PROGRAM+0xOFFSET, in FUNCTION".
std::string describe(const CodePlace& place);

}  // namespace backstay::check
