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

/// Where the program called the library that this function is in: the first of the callers that lies elsewhere. In a
/// language whose code is none of the machine, what set_caller() tells.
CodePlace place_of_caller();

/// For place_of_caller() in this thread, until it is called with an empty text: FILE:LINE.
void set_caller(std::string place);

/// While one lives, the caller in this thread is a function of ours inside of the program, which is passed over: of the
/// module for Fortran, a static library.
class BehindWrapper {
 public:
  BehindWrapper();
  ~BehindWrapper();
  BehindWrapper(const BehindWrapper&) = delete;
  BehindWrapper& operator=(const BehindWrapper&) = delete;
};

/// "at PROGRAM+0xOFFSET, in FUNCTION".
std::string describe(const CodePlace& place);

}  // namespace backstay::check
