// What the tests on MPI ranks share: a directory of their own, sessions on it, and how ranks compare notes.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace backstay::mpi_test {

inline int rank_of(MPI_Comm comm = MPI_COMM_WORLD) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
inline int size_of(MPI_Comm comm = MPI_COMM_WORLD) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

/// A new directory that all ranks know; removed at the end by rank 0. In memory where there is such a place, because
/// these tests sync a lot.
class SharedDirectory {
 public:
  SharedDirectory() {
    std::error_code ignored;
    const bool in_memory = std::filesystem::is_directory("/dev/shm", ignored);
    std::string pattern =
        (in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/backstay-test.XXXXXX";
    if (rank_of() == 0 && mkdtemp(pattern.data()) == nullptr) pattern.assign(pattern.size(), '?');
    MPI_Bcast(pattern.data(), static_cast<int>(pattern.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = pattern;
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  ~SharedDirectory() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (rank_of() == 0) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// `base` with `more` added or replaced.
inline Options with(Options base, const Options& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

/// Quiet, every call a checkpoint, never skipped; the tests say the rest.
inline Options usual(const std::string& dir) {
  return {{"dir", dir}, {"every", "1"}, {"policy", "wait"}, {"log", "quiet"}, {"timeout", "60"}, {"levels", "shared"}};
}

/// Nodes to simulate: two, where there are ranks for two.
inline std::string two_nodes() { return size_of() > 1 ? "2" : "1"; }

/// The same on every rank, with the sentence of the first that differs.
inline void expect_same_on_all_ranks(const std::string& text, MPI_Comm comm = MPI_COMM_WORLD) {
  int length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, comm);
  std::string first(static_cast<std::size_t>(length), '\0');
  if (rank_of(comm) == 0) first = text;
  MPI_Bcast(first.data(), length, MPI_CHAR, 0, comm);
  EXPECT_EQ(text, first);
}

struct Refusal {
  Code code = Code::ok;
  std::string what;
};

/// What a call throws; Code::ok if nothing. Checked to be the same on every rank of `comm`.
inline Refusal refusal_of(const std::function<void()>& call, MPI_Comm comm = MPI_COMM_WORLD) {
  Refusal refusal;
  try {
    call();
  } catch (const Error& e) {
    refusal = {e.code(), e.what()};
  }
  expect_same_on_all_ranks(std::to_string(static_cast<int>(refusal.code)) + refusal.what, comm);
  return refusal;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace backstay::mpi_test
