// A tree of files at one place: a directory, memory, or one of them with faults added.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/scratch.h"

namespace backstay::store {

/// An open file. Different ranges may be written from several threads and processes at once.
class File {
 public:
  virtual ~File() = default;
  /// All of `bytes` at `offset`, or a failure (then that range is undefined).
  virtual Result<void> write_at(std::uint64_t offset, ByteView bytes) = 0;
  /// Fills `bytes` from `offset`; Code::corrupt if the file ends before.
  virtual Result<void> read_at(std::uint64_t offset, MutableByteView bytes) = 0;
  /// The same bytes, read into `room` or where they lie. That stays so while the file is open and nobody writes into
  /// it.
  virtual Result<ByteView> bytes_at(std::uint64_t offset, std::size_t size, Scratch& room) {
    const MutableByteView bytes = room.of(size);
    if (auto read = read_at(offset, bytes); !read) return read.failure();
    return ByteView(bytes);
  }
  virtual Result<std::uint64_t> size() = 0;
  /// Cuts or extends (with zeros) to `size`.
  virtual Result<void> resize(std::uint64_t size) = 0;
  /// When this returns, the bytes and the size survive a power cut (the name does not: see Store::sync_dir).
  virtual Result<void> sync() = 0;
};

struct Entry {
  std::string name;  ///< last component
  bool is_dir = false;
  std::uint64_t size = 0;  ///< where it is a link, of what it leads to
  bool is_link = false;    ///< to whatever: no directory and no file of its own
};

/// Paths are relative to the store's root, with '/'; "" is the root; Code::invalid_argument for one that leads out of
/// it (store/path.h). Safe from several threads; makes no MPI calls. Failures name the full path and the system's
/// reason.
class Store {
 public:
  virtual ~Store() = default;
  /// Where it is, for sentences: "/scratch/run" or "memory".
  [[nodiscard]] virtual std::string where() const = 0;
  /// For writing; made if missing; bytes already there are kept, so that their pages and blocks are used again. A file
  /// that has other names, as hard links of an archive, or that is a link to a file, is replaced by a new one: what
  /// those lead to stays.
  virtual Result<std::unique_ptr<File>> open_to_write(const std::string& path) = 0;
  /// For writing beside another rank, which has opened it so: whatever its names are, it is neither made nor replaced.
  /// Code::not_found if it is not there.
  virtual Result<std::unique_ptr<File>> open_to_write_along(const std::string& path) = 0;
  /// Code::not_found if it is not there.
  virtual Result<std::unique_ptr<File>> open_to_read(const std::string& path) = 0;
  /// Makes a directory and its parents; fine if it is there.
  virtual Result<void> make_dir(const std::string& path) = 0;
  /// Entries of a directory, sorted by name. Code::not_found if it is not there.
  virtual Result<std::vector<Entry>> list(const std::string& path) = 0;
  /// Atomic; replaces a file at `to`.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// A file or an empty directory; fine if it is not there.
  virtual Result<void> remove(const std::string& path) = 0;
  /// When this returns, makes, renames and removes in this directory survive a power cut.
  virtual Result<void> sync_dir(const std::string& path) = 0;
  /// Lets go of what is kept of files that were removed, by whomever: only then is their space free.
  virtual void forget_removed() {}
};

/// A whole small file. Not atomic; syncs the file, not the directory. Code::corrupt if it is longer than `at_most`.
Result<void> write_file(Store& store, const std::string& path, ByteView bytes);
Result<Bytes> read_file(Store& store, const std::string& path, std::uint64_t at_most);
/// Renames `from` to `to`; a directory that stands there, where backstay makes none, is removed before.
Result<void> put_in_place(Store& store, const std::string& from, const std::string& to);
/// A directory with all that is in it; fine if it is not there. The root is emptied and stays. Follows no links.
Result<void> remove_tree(Store& store, const std::string& path);

}  // namespace backstay::store
