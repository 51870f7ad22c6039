// Bytes that many have.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "base/bytes.h"

namespace backstay {

/// Bytes that never change, and that a copy shares.
class SharedBytes {
 public:
  SharedBytes() = default;
  SharedBytes(Bytes bytes)  // NOLINT: they are the same to who gives them
      : bytes_(bytes.empty() ? nullptr : std::make_shared<const Bytes>(std::move(bytes))) {}
  [[nodiscard]] bool empty() const { return bytes_ == nullptr; }
  operator ByteView() const { return bytes_ ? ByteView(*bytes_) : ByteView(); }  // NOLINT: and to who takes them
  friend bool operator==(const SharedBytes& a, const SharedBytes& b) {
    return a.bytes_ == b.bytes_ || std::ranges::equal(ByteView(a), ByteView(b));
  }

 private:
  std::shared_ptr<const Bytes> bytes_;
};

}  // namespace backstay
