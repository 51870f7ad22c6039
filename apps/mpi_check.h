// What the example programs do when a call of MPI fails.
#pragma once

#include <mpi.h>

#include <array>
#include <stdexcept>
#include <string>

namespace program {

/// Throws std::runtime_error, naming `call`, unless `code` is MPI_SUCCESS.
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(std::string(call) + " failed: " + text.data() + "; another rank may have been lost");
}

}  // namespace program
