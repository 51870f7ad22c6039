// What an instruction of x86-64 does to the memory that it writes to. Pure, and fit for a signal handler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace backstay::check {

/// Of an instruction that has written to memory, or is about to.
struct Store {
  enum class Kind {
    sets,     ///< overwrites `bytes`, whatever they held
    changes,  ///< reads them before
    unknown,  ///< may write anything, in parts, or again and again
  };
  Kind kind = Kind::unknown;
  std::size_t bytes = 0;
};

/// The instruction at `code`, of up to 15 bytes. Only what compilers use for values of arrays is known.
Store store_of(const unsigned char* code);

/// A string instruction that repeats itself, and goes through memory of any length: bytes of each time; 0: it is none.
std::size_t repeats(const unsigned char* code);

/// The general registers as instructions number them: ax, cx, dx, bx, sp, bp, si, di, r8 to r15.
using Registers = std::array<std::uintptr_t, 16>;

/// Where a store that is known begins, before it is done; 0: that cannot be told.
std::uintptr_t address_of(const unsigned char* code, const Registers& registers);

/// Changes memory as locks do: with the prefix LOCK, or by xchg.
bool is_atomic(const unsigned char* code);

/// How many bytes a load reads at most; 0: that is not known.
std::size_t load_of(const unsigned char* code);

/// The same of a load into a vector that reads all of them; 0: it may read less, or is none.
std::size_t whole_load_of(const unsigned char* code);

/// Reads from several addresses, in the order of none.
bool gathers(const unsigned char* code);

}  // namespace backstay::check
