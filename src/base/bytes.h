// Views of raw memory, and an owned buffer of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace backstay {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;
using Bytes = std::vector<std::byte>;

inline ByteView as_bytes(std::string_view s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }
inline std::string_view as_text(ByteView b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// The unit of mappings and of direct I/O on the machines that backstay runs on.
inline constexpr std::uint64_t memory_page = 4096;

/// `n` rounded up to a multiple of `unit` (a power of two).
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) & ~(unit - 1); }

}  // namespace backstay
