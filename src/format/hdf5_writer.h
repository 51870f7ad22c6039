// The lowest level of HDF5 metadata: little-endian numbers, names and checksums.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace backstay::format {

/// The address that means "nowhere".
inline constexpr std::uint64_t undefined_address = ~std::uint64_t{0};

/// Appends to a buffer of its own. A number that is wider than its field loses its upper bytes: callers check limits.
class Writer {
 public:
  Writer& number(std::uint64_t value, std::size_t bytes);
  Writer& u8(std::uint64_t value) { return number(value, 1); }
  Writer& u16(std::uint64_t value) { return number(value, 2); }
  Writer& u32(std::uint64_t value) { return number(value, 4); }
  Writer& u64(std::uint64_t value) { return number(value, 8); }
  Writer& bytes(ByteView bytes);
  Writer& text(std::string_view text) { return bytes(as_bytes(text)); }
  Writer& name(std::string_view text) { return this->text(text).u8(0); }  ///< with its terminator
  Writer& zeros(std::size_t count);
  Writer& checksum();  ///< lookup3 of everything so far, 4 bytes

  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] ByteView view() const { return out_; }
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

/// The smallest w such that `value` fits in 2^w bytes: 0, 1, 2 or 3.
unsigned width_code(std::uint64_t value);

/// The hash that HDF5 uses as a checksum: Bob Jenkins' lookup3, `hashlittle` with initial value 0.
std::uint32_t lookup3(ByteView bytes);

}  // namespace backstay::format
