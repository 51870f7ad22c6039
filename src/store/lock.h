// One running job for one directory.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "store/descriptor.h"

namespace backstay::store {

/// Holds the file `lock` in a directory from take() to its destructor. The kernel keeps the lock, not the file: a job
/// that dies loses it at once, and the file stays behind and means nothing. It conflicts with every other DirLock on
/// the directory, in this process too. Neither a child that is forked nor a program that this one starts has a part in
/// it. Advisory: who does not ask is not stopped.
class DirLock {
 public:
  /// Never waits. Code::locked if another holds it: the sentence names its program, process, host and time of taking,
  /// and says what to do. Code::not_found and Code::permission for the directory; Code::io where the file system has no
  /// locks. `program` is the name to leave for others; empty: that of the running executable. `run` is what the
  /// launcher knows its processes by: of those that are lost with a node, a file system may keep locks for a while.
  static Result<DirLock> take(const std::string& directory, std::string program = {}, const std::string& run = {});

  /// Is the file that this lock holds still the `lock` of its directory? If someone removed or replaced it, or the
  /// whole directory, another job may be at work there: Code::locked; Code::not_found where the directory itself is
  /// gone.
  [[nodiscard]] Result<void> check() const;

  DirLock(DirLock&&) noexcept = default;
  DirLock& operator=(DirLock&&) = delete;
  ~DirLock();

 private:
  DirLock(Descriptor file, std::string directory);

  Descriptor file_;
  std::string directory_;
  pid_t owner_;  ///< a forked child must not let go of its parent's lock
};

}  // namespace backstay::store
