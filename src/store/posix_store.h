// A directory of the file system as a store.
#pragma once

#include <memory>
#include <string>

#include "store/store.h"

namespace backstay::store {

/// Whether big transfers go past the page cache (O_DIRECT).
enum class Direct {
  automatic,  ///< the whole pages of transfers of 1 MiB and more; on file systems in memory such writes go through a
              ///< mapping that is kept (MappedFiles)
  on,         ///< the whole pages of every transfer, on any file system that accepts it
  off,        ///< never
};

struct PosixOptions {
  /// Where the file system refuses O_DIRECT the transfer is buffered, without a word. Only pages that begin at a
  /// multiple of 4096 both in memory and in the file go direct: keep the staging memory aligned as the file is.
  Direct direct = Direct::automatic;
};

/// The tree under the directory `root`, which is made with its parents if it is missing (and synced with them). A
/// relative `root` is taken from the working directory of now. Code::invalid_argument if it is not a directory,
/// Code::permission if it may not be written. If `root` is removed later, calls fail with Code::not_found; it is not
/// made again, because what is there then may be the empty place of a file system that has gone. A symbolic link inside
/// is followed on open and list, but never by remove and remove_tree.
Result<std::unique_ptr<Store>> make_posix_store(std::string root, PosixOptions options = {});

/// The same as it is: nothing is made, nothing need be there or be writable.
Result<std::unique_ptr<Store>> look_at_posix_store(std::string root, PosixOptions options = {});

/// `inner`, of which nothing can be changed, as calls that would do so fail with `why`. What has been written there is
/// durable as far as it will be.
std::unique_ptr<Store> make_read_only_store(std::unique_ptr<Store> inner, Failure why);

/// The names by which `directory` is found survive a power cut, up to the root of its file system, though who made them
/// was stopped before it could see to that. As far as the directories above may be read.
void make_path_durable(const std::string& directory);

}  // namespace backstay::store
