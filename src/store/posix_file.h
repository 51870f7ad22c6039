// An open file of the file system.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "store/descriptor.h"
#include "store/mapped_files.h"
#include "store/posix_store.h"

namespace backstay::store {

/// A range in three: `bulk` bytes of whole pages, and what is before and after them.
struct PageSplit {
  std::size_t head = 0;
  std::size_t bulk = 0;
  std::size_t tail = 0;
  bool operator==(const PageSplit&) const = default;
};

/// Splits `size` bytes at `offset` of a file and at `address` in memory. `bulk` is 0 (all is head) if the two are not
/// aligned alike or if fewer than `least` bytes would be in it.
PageSplit split_pages(std::uint64_t offset, std::uintptr_t address, std::size_t size, std::size_t least);

class PosixFile final : public File {
 public:
  /// `path` is for sentences only. `mapped` is used where the file is in memory and written with Direct::automatic.
  PosixFile(Descriptor file, std::string path, Direct direct, std::shared_ptr<MappedFiles> mapped = nullptr);

  Result<void> write_at(std::uint64_t offset, ByteView bytes) override;
  Result<void> read_at(std::uint64_t offset, MutableByteView bytes) override;
  Result<ByteView> bytes_at(std::uint64_t offset, std::size_t size, Scratch& room) override;
  Result<std::uint64_t> size() override;
  Result<void> resize(std::uint64_t size) override;
  Result<void> sync() override;

 private:
  Result<void> write_buffered(std::uint64_t offset, ByteView bytes);
  Result<void> write_direct(std::uint64_t offset, ByteView bytes);
  Result<void> read_buffered(std::uint64_t offset, MutableByteView bytes);
  Result<void> read_direct(std::uint64_t offset, MutableByteView bytes);
  [[nodiscard]] bool is_cached(std::uint64_t offset, MutableByteView bytes) const;
  [[nodiscard]] Failure write_failure(std::uint64_t offset, std::size_t size, int error) const;
  bool write_mapped(std::uint64_t offset, ByteView bytes);
  bool may_go_direct();
  void open_direct();
  [[nodiscard]] Result<void> check_end(std::uint64_t offset, std::uint64_t size) const;

  Descriptor file_;
  std::string path_;
  Direct direct_;
  std::shared_ptr<MappedFiles> mapped_;  ///< empty: writes through a mapping are not wanted here
  std::once_flag looked_at_;
  std::unique_ptr<MappedToRead> to_read_;  ///< of a file in memory
  std::once_flag direct_opened_;
  Descriptor direct_file_;                   ///< the same file with O_DIRECT; opened by the first big transfer
  std::atomic<bool> direct_refused_{false};  ///< the file system took the open but not the transfer
};

}  // namespace backstay::store
