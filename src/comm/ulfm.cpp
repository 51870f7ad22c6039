#include "comm/ulfm.h"

#include <numeric>

// That of another MPI may lie in the include path, too.
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace backstay::comm {

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && defined(MPIX_FT)
namespace {
/// Open MPI 5.0 makes communicators in turns, those from one with a lower number first. A making that a loss ends keeps
/// its turn, and all from higher numbers wait for ever. One of this process alone goes before them, and ends its own.
/// Past it go only those from MPI_COMM_WORLD, after which nothing helps.
int end_turns() {
  MPI_Comm own = MPI_COMM_NULL;
  const int code = MPI_Comm_split(MPI_COMM_SELF, 0, 0, &own);
  return code == MPI_SUCCESS ? MPI_Comm_free(&own) : code;
}
}  // namespace

bool survives_losses() {
  int* enabled = nullptr;
  int known = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_FT, &enabled, &known);
  return known != 0 && *enabled != 0;
}
bool tells_of_a_loss(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind == MPIX_ERR_PROC_FAILED || kind == MPIX_ERR_PROC_FAILED_PENDING || kind == MPIX_ERR_REVOKED;
}
bool is_revoked(MPI_Comm comm) {
  int revoked = 0;
  MPIX_Comm_is_revoked(comm, &revoked);
  return revoked != 0;
}
bool has_a_loss(MPI_Comm comm) {
  if (is_revoked(comm)) return true;
  MPI_Group lost = MPI_GROUP_NULL;
  int size = 0;
  MPIX_Comm_failure_ack(comm);
  if (MPIX_Comm_failure_get_acked(comm, &lost) != MPI_SUCCESS) return true;
  MPI_Group_size(lost, &size);
  MPI_Group_free(&lost);
  return size > 0;
}
std::vector<int> known_losses(MPI_Comm comm) {
  MPI_Group lost = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  int size = 0;
  if (MPIX_Comm_get_failed(comm, &lost) != MPI_SUCCESS) return {};
  MPI_Group_size(lost, &size);
  std::vector<int> numbers(static_cast<std::size_t>(size)), ranks(numbers.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  MPI_Comm_group(comm, &all);
  MPI_Group_translate_ranks(lost, size, numbers.data(), all, ranks.data());
  MPI_Group_free(&all);
  if (lost != MPI_GROUP_EMPTY) MPI_Group_free(&lost);
  return ranks;
}
/// Open MPI gives each one a number for Fortran, the lowest that is free.
std::vector<MPI_Comm> all_communicators() {
  constexpr MPI_Fint most = 65536;
  std::vector<MPI_Comm> out;
  for (MPI_Fint number = 0; number < most; ++number) {
    MPI_Comm comm = MPI_Comm_f2c(number);
    if (comm != nullptr && comm != MPI_COMM_NULL && comm != MPI_COMM_WORLD && comm != MPI_COMM_SELF)
      out.push_back(comm);
  }
  return out;
}
void revoke(MPI_Comm comm) { MPIX_Comm_revoke(comm); }
int start_agreement(MPI_Comm comm, int* flags, MPI_Request* request) {
  return survives_losses() ? MPIX_Comm_iagree(comm, flags, request)
                           : MPI_Iallreduce(MPI_IN_PLACE, flags, 1, MPI_INT, MPI_BAND, comm, request);
}
int shrink(MPI_Comm comm, MPI_Comm* out) {
  const int code = end_turns();
  return code == MPI_SUCCESS ? MPIX_Comm_shrink(comm, out) : code;
}
#else
bool survives_losses() { return false; }
bool tells_of_a_loss(int) { return false; }
bool has_a_loss(MPI_Comm) { return false; }
std::vector<int> known_losses(MPI_Comm) { return {}; }
std::vector<MPI_Comm> all_communicators() { return {}; }
void revoke(MPI_Comm) {}
bool is_revoked(MPI_Comm) { return false; }
int start_agreement(MPI_Comm comm, int* flags, MPI_Request* request) {
  return MPI_Iallreduce(MPI_IN_PLACE, flags, 1, MPI_INT, MPI_BAND, comm, request);
}
int shrink(MPI_Comm, MPI_Comm*) { return MPI_ERR_OTHER; }
#endif

}  // namespace backstay::comm
