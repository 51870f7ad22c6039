// A fuzz target: one file of this folder defines these functions for one reader of bytes from outside. Who feeds it is
// linked beside: libFuzzer (with_libfuzzer.cpp), or the kept corpus (replay.cpp), which needs no Clang.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"

namespace backstay::fuzz {

/// Reads `input` as the target does; ends the process where a promise is broken (expect).
void try_input(ByteView input);

/// `input` with the lengths and checksums that its bytes call for, so that the reader goes on behind them; unchanged
/// where it has none.
Bytes repaired(Bytes input);

/// Inputs to begin with, each well-formed, with awkward values.
std::vector<Bytes> seeds();

/// Ends the process, with the sentence, where `holds` is false.
void expect(bool holds, const char* sentence);

inline Bytes bytes_of(std::string_view text) {
  const ByteView view = as_bytes(text);
  return {view.begin(), view.end()};
}

}  // namespace backstay::fuzz
