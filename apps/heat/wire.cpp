#include "wire.h"

namespace heat {

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
