#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace backstay {
namespace {

// The polynomial without its leading term, lowest power in the highest bit, as the CRC itself is written.
constexpr std::uint32_t polynomial = 0x82f63b78;
constexpr std::uint32_t x_to_the_0 = 0x80000000;
constexpr std::uint32_t x_to_the_8 = x_to_the_0 >> 8;

/// Product of two polynomials over GF(2), modulo the CRC polynomial.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = x_to_the_0; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0);  // times x
  }
  return product;
}

/// The CRC register carried over `bytes`: ISA-L inverts neither at the start nor at the end.
std::uint32_t update(std::uint32_t state, const std::byte* bytes, std::size_t size) {
  // ISA-L takes a pointer to non-const in some versions, though it only reads.
  auto* at = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes));
  return crc32_iscsi(at, static_cast<int>(size), state);
}

// Measured on a Cascade Lake core (bench/kernels.cpp): with pieces of 512 bytes the sum of one piece overlaps with
// the stores of the piece before; with 4 KiB and more the two alternate and the copy takes up to 1.5 x longer.
constexpr std::size_t piece = 512;
constexpr std::size_t line = 64;
// The hardware prefetcher stops at page ends and is slow to follow two readers: ask a page ahead ourselves.
constexpr std::size_t prefetch_distance = 4096;

/// Sums `bytes` piece by piece and hands each piece, now in the nearest cache, to `use(offset, size)`.
template <class Use>
std::uint32_t sum_in_pieces(ByteView bytes, std::uint32_t state, Use use) {
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const std::size_t size = std::min(piece, bytes.size() - at);
    // Addresses, not pointers: the last ones lie behind the bytes, where a prefetch does nothing.
    const auto ahead = reinterpret_cast<std::uintptr_t>(bytes.data()) + at + prefetch_distance;
    for (std::size_t i = 0; i < size; i += line) __builtin_prefetch(reinterpret_cast<const void*>(ahead + i));
    state = update(state, bytes.data() + at, size);
    use(at, size);
  }
  return state;
}

std::uint32_t copy_cached(std::byte* target, ByteView source, std::uint32_t state) {
  return sum_in_pieces(source, state,
                       [&](std::size_t at, std::size_t size) { std::memcpy(target + at, source.data() + at, size); });
}

// From this size on a copy is written past the cache: faster unless the target lies in L2 already, and what the
// program computes with stays there instead.
constexpr std::size_t stream_threshold = std::size_t{128} << 10;

#if defined(__x86_64__)
/// Copies whole lines to an aligned target, without reading the target into cache first.
__attribute__((target("avx"))) void copy_lines_past_cache(std::byte* target, const std::byte* source,
                                                          std::size_t size) {
  for (std::size_t at = 0; at < size; at += line) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target + at + 32), high);
  }
}

bool can_stream() { return __builtin_cpu_supports("avx"); }

/// Streams the whole lines of the target, and copies what is left before and after them through the cache.
std::uint32_t copy_past_cache(std::byte* target, ByteView source, std::uint32_t state) {
  const std::size_t to_line = (line - reinterpret_cast<std::uintptr_t>(target) % line) % line;
  const std::size_t head = std::min(to_line, source.size());
  const std::size_t body = (source.size() - head) / line * line;
  const std::size_t tail = head + body;
  state = copy_cached(target, source.first(head), state);
  const ByteView lines = source.subspan(head, body);
  state = sum_in_pieces(lines, state, [&](std::size_t at, std::size_t size) {
    copy_lines_past_cache(target + head + at, lines.data() + at, size);
  });
  _mm_sfence();  // only now are the streamed lines sure to be seen by whoever is told that the copy is done
  return copy_cached(target + tail, source.subspan(tail), state);
}
#else
bool can_stream() { return false; }

std::uint32_t copy_past_cache(std::byte* target, ByteView source, std::uint32_t state) {
  return copy_cached(target, source, state);
}
#endif

}  // namespace

std::uint32_t crc32c(ByteView bytes, std::uint32_t before) {
  // What fits into the second-level cache and was just read or written needs no prefetch: 20 GB/s instead of 13.
  if (bytes.size() <= stream_threshold) return ~update(~before, bytes.data(), bytes.size());
  return ~sum_in_pieces(bytes, ~before, [](std::size_t, std::size_t) {});
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  // Appending n bytes multiplies what the earlier bytes contribute by x^(8 n): raised by repeated squaring.
  std::uint32_t shift = x_to_the_0;
  std::uint32_t power = x_to_the_8;
  for (std::uint64_t n = second_size; n != 0; n >>= 1) {
    if (n & 1) shift = multiply(shift, power);
    power = multiply(power, power);
  }
  return multiply(first, shift) ^ second;
}

std::uint32_t copy_crc32c(std::byte* target, ByteView source, std::uint32_t before) {
  const bool past_cache = source.size() >= stream_threshold && can_stream();
  return ~(past_cache ? copy_past_cache(target, source, ~before) : copy_cached(target, source, ~before));
}

}  // namespace backstay
