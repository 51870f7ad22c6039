#include "format/hdf5_writer.h"

#include <array>
#include <bit>

namespace backstay::format {

Writer& Writer::number(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
  return *this;
}

Writer& Writer::bytes(ByteView bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

Writer& Writer::zeros(std::size_t count) {
  out_.resize(out_.size() + count);
  return *this;
}

Writer& Writer::checksum() { return u32(lookup3(out_)); }

unsigned width_code(std::uint64_t value) {
  if (value <= 0xff) return 0;
  if (value <= 0xffff) return 1;
  return value <= 0xffffffff ? 2 : 3;
}

namespace {

using Words = std::array<std::uint32_t, 3>;

/// Adds up to 12 bytes to the state; missing bytes count as zero.
void absorb(Words& state, ByteView block) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    state[i / 4] += std::to_integer<std::uint32_t>(block[i]) << (8 * (i % 4));
  }
}

/// The round between two blocks: six steps, each turning the three words by one.
void stir(Words& s) {
  constexpr std::array<int, 6> turns{4, 6, 8, 16, 19, 4};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    auto& x = s[i % 3];
    auto& y = s[(i + 1) % 3];
    auto& z = s[(i + 2) % 3];
    x -= z;
    x ^= std::rotl(z, turns[i]);
    z += y;
  }
}

/// The round after the last block: seven steps; c is changed first, by b.
void finish(Words& s) {
  constexpr std::array<int, 7> turns{14, 11, 25, 16, 4, 14, 24};
  for (std::size_t i = 0; i < turns.size(); ++i) {
    auto& x = s[(i + 2) % 3];
    const auto y = s[(i + 1) % 3];
    x ^= y;
    x -= std::rotl(y, turns[i]);
  }
}

}  // namespace

std::uint32_t lookup3(ByteView bytes) {
  const auto start = 0xdeadbeefU + static_cast<std::uint32_t>(bytes.size());
  Words state{start, start, start};
  if (bytes.empty()) return start;
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    absorb(state, bytes.first(12));
    stir(state);
  }
  absorb(state, bytes);
  finish(state);
  return state[2];
}

}  // namespace backstay::format
