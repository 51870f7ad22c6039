// The metadata of an HDF5 file as it grows: object headers, and heaps between them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::format {

/// libhdf5 reads an object header or a heap collection in one go and refuses to hold more than this of one.
inline constexpr std::uint64_t max_metadata_entry = 32U << 20;

/// Where an object is in the global heap.
struct HeapId {
  std::uint64_t collection = 0;
  std::uint32_t index = 0;
};

/// One contiguous range of metadata; everything in it starts at a multiple of 8.
class Metadata {
 public:
  /// `address` is that of the first byte, counted from the HDF5 base address.
  explicit Metadata(std::uint64_t address) : start_(address) {}

  /// Appends and returns the address.
  std::uint64_t append(ByteView bytes);

  /// Keeps `object` in a global heap; the same bytes twice are kept once. Code::invalid_argument if it is too large.
  Result<HeapId> keep(const std::string& object);

  [[nodiscard]] std::uint64_t end() const { return start_ + bytes_.size(); }
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  void open_collection(std::uint64_t object_size);
  void overwrite(std::uint64_t address, ByteView bytes);

  std::uint64_t start_;
  Bytes bytes_;
  std::map<std::string, HeapId> kept_;
  HeapId last_;                     ///< the object that was kept last, in the collection that is open
  std::uint64_t free_address_ = 0;  ///< of what is free in that collection
  std::uint64_t free_bytes_ = 0;
};

}  // namespace backstay::format
