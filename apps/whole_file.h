// Results of the example programs: a reader finds the old file or the new one, never half of it.
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace program {

inline std::string part_of(const std::string& path) { return path + ".part"; }

inline void write_part(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(part_of(path), std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error("cannot write the results to " + path + ": " + std::strerror(errno) +
                             "; name another file with --csv");
}

/// Replaces `path` at once. Throws std::runtime_error with the system's reason.
inline void write_whole_file(const std::string& path, const std::string& text) {
  write_part(path, text);
  std::filesystem::rename(part_of(path), path);
}

/// Throws std::runtime_error where write_whole_file() would, so that this is known before the run and not after it.
inline void require_writable(const std::string& path) {
  write_part(path, "");
  std::filesystem::remove(part_of(path));
}

}  // namespace program
