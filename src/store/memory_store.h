// A tree of files in the memory of this process.
#pragma once

#include <memory>

#include "store/store.h"

namespace backstay::store {

/// An empty tree that lives as long as the store and its open files. Behaves as a directory of the file system does;
/// sync does nothing. A file's memory starts on a page, grows when needed and is given back only with the file: cutting
/// a file, opening it again and overwriting it neither allocates nor faults.
std::unique_ptr<Store> make_memory_store();

}  // namespace backstay::store
