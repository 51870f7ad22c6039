// What several tests of this folder need: a directory of their own, and work done in another process.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/result.h"

namespace backstay::store {

/// A new directory, removed with all that is in it at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(std::filesystem::temp_directory_path() / "backstay-test.XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What `body` says in a forked process, whose rights, limits and mounts it may change.
inline std::string said_by_child(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string said = body();
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;)
    said.append(part.data(), static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : cat("ended by signal ", WTERMSIG(status));
}

inline constexpr std::string_view no_mounts = "this process may not mount";

/// Does `body` with a fresh file system mounted at `place`, seen by nobody else.
inline std::string said_with_mount(const std::string& place, const char* kind, const char* options,
                                   const std::function<std::string()>& body) {
  return said_by_child([&]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return std::string(no_mounts);
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return std::string(no_mounts);
    if (::mount("none", place.c_str(), kind, 0, options) != 0) return std::string(no_mounts);
    return body();
  });
}

/// "ok", or the code as a number and the sentence.
template <class T>
std::string say(const Result<T>& result) {
  return result ? "ok" : cat(static_cast<int>(result.failure().code), ": ", result.failure().what);
}

/// The code in front, for comparing with the start of what say() gives.
inline std::string starting_with(Code code) { return cat(static_cast<int>(code), ": "); }

}  // namespace backstay::store
