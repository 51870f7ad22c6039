#include "wire.h"

#include <array>
#include <string>

namespace heat {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(std::string(call) + " failed: " + text.data());
}

Wire::Wire(MPI_Comm comm) {
  check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

void Wire::close() { check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free"); }

std::int64_t Wire::sum_before(std::int64_t mine) {
  std::int64_t before = 0;
  check_mpi(MPI_Exscan(&mine, &before, 1, MPI_INT64_T, MPI_SUM, comm_), "MPI_Exscan");
  received_ += sizeof(before);
  return rank_ == 0 ? 0 : before;  // MPI leaves it undefined there
}

}  // namespace heat
