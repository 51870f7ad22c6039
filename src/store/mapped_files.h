// Files of a file system in memory, kept mapped from one checkpoint to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace backstay::store {

/// write(2) into a file in memory reads each of its cache lines before it overwrites it, and takes the file's lock, so
/// that ranks which share a file wait for each other. A copy into a mapping does neither; but making the mapping costs
/// as much again. So the mappings of files that are written again and again are kept, `most` at a time.
///
/// Each is a second name for memory that the file has anyway; it goes as soon as the file has no name left, looked for
/// at each forget_removed(). Safe from several threads.
class MappedFiles {
 public:
  static constexpr std::size_t most = 16;

  /// Copies `bytes` to `offset`. False, and nothing was done, where the file does not have all these pages yet (or the
  /// kernel cannot tell): the caller then writes as usual.
  bool write(int file, std::uint64_t offset, ByteView bytes);

  /// Unmaps files that have been removed.
  void forget_removed();

  [[nodiscard]] std::size_t count() const;

 private:
  class Mapping;
  std::shared_ptr<Mapping> mapping_of(int file, std::uint64_t end);

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Mapping>> mappings_;  // the one used last is last
};

/// A file in memory that is read where it lies.
class MappedToRead {
 public:
  /// The whole of it, as it is now.
  explicit MappedToRead(int file);
  MappedToRead(const MappedToRead&) = delete;
  MappedToRead& operator=(const MappedToRead&) = delete;
  ~MappedToRead();

  /// Nothing where the file is not mapped so far, was cut since, or the kernel cannot tell: the caller reads as usual.
  [[nodiscard]] std::optional<ByteView> bytes(std::uint64_t offset, std::size_t size) const;

 private:
  std::size_t size_ = 0;
  void* data_ = nullptr;
};

}  // namespace backstay::store
