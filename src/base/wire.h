// Numbers and texts as bytes, for messages between ranks of one job (never on disk).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/bytes.h"

namespace backstay {

class WireWriter {
 public:
  template <class N>
    requires std::is_arithmetic_v<N>
  void number(N n) {
    const auto* raw = reinterpret_cast<const std::byte*>(&n);
    bytes_.insert(bytes_.end(), raw, raw + sizeof n);
  }
  void bytes(ByteView b) {
    number(static_cast<std::uint64_t>(b.size()));
    bytes_.insert(bytes_.end(), b.begin(), b.end());
  }
  void text(std::string_view s) { bytes(as_bytes(s)); }
  [[nodiscard]] const Bytes& message() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Reads what WireWriter wrote, in the same order. Reading past the end gives zeros and `complete() == false`.
class WireReader {
 public:
  explicit WireReader(ByteView bytes) : rest_(bytes) {}
  template <class N>
    requires std::is_arithmetic_v<N>
  N number() {
    N n{};
    if (rest_.size() < sizeof n) {
      complete_ = false;
      rest_ = {};
      return n;
    }
    std::memcpy(&n, rest_.data(), sizeof n);
    rest_ = rest_.subspan(sizeof n);
    return n;
  }
  ByteView bytes() {
    const auto n = number<std::uint64_t>();
    if (n > rest_.size()) complete_ = false;
    const auto out = rest_.first(std::min<std::size_t>(n, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }
  std::string text() { return std::string(as_text(bytes())); }
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

 private:
  ByteView rest_;
  bool complete_ = true;
};

}  // namespace backstay
