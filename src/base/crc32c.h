// CRC-32C (Castagnoli, RFC 3720 appendix B.4), by ISA-L, and a copy that computes it on the way.
// Everything here is a plain function of its arguments: safe to call from several threads, never fails.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace backstay {

/// The CRC-32C of `bytes` after bytes whose CRC is `before` (0 for none). crc32c("123456789") == 0xe3069283.
std::uint32_t crc32c(ByteView bytes, std::uint32_t before = 0);

/// The CRC-32C of two byte strings one after the other, from the CRC of each and the size of the second.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_size);

/// Copies source to target (same size, not overlapping) and returns the CRC-32C of the bytes after `before`.
/// One pass over memory: each piece is summed while it is in cache, and written past the cache when it is large.
std::uint32_t copy_crc32c(std::byte* target, ByteView source, std::uint32_t before = 0);

}  // namespace backstay
