// Communicators that the program makes from ours: noted as they are made, so that a loss reaches those who wait in
// them, and recorded or answered where a phase of the program is (comm/message_log.h).
//
// These are the MPI functions that make and free communicators, under their own names, in the way that MPI's profiling
// interface is made for; each calls MPI's under the name PMPI_.... They are seen by programs in C and C++ that are
// linked with backstay before MPI, which CMake's target does. What else makes communicators (Fortran, mpi4py) is named
// to Session::include(). Of MPI_Comm_idup only the beginning is seen: what it makes is looked for when a rank is lost.
#include <mpi.h>

#include <memory>

#include "comm/crew.h"
#include "comm/message_log/phase.h"

namespace backstay::comm::message_log {

int logged_making(const Call& call, MPI_Comm* made, const Real& real, bool copied) {
  return logged(call, real, [&](Flow& flow) {
    if (flow.failed())
      *made = MPI_COMM_NULL;
    else
      flow.made(call.comm, made, copied);
  });
}

int logged_free(const char* name, MPI_Comm* comm, const Real& real) {
  const MPI_Comm handle = *comm;
  forget_left_over(handle);
  return logged({name, handle, "", {}, Use::asks}, real, [&](Flow& flow) {
    flow.freed(handle);
    if (flow.failed()) *comm = MPI_COMM_NULL;
    if (!flow.failed() && !flow.recording()) PMPI_Comm_free(comm);
  });
}

bool is_stand_in(MPI_Comm comm) {
  const Phase* const phase = quiet() ? nullptr : own_phase();
  return phase != nullptr && phase->replays && phase->find(comm) != nullptr;
}

namespace {

/// What `code` says of the making of `*made` from `from`.
int made_from(MPI_Comm from, const MPI_Comm* made, int code) {
  Crew* const crew = Crew::present();
  if (crew != nullptr && code == MPI_SUCCESS && !is_stand_in(*made)) crew->note_made(from, *made);
  return code;
}

/// The making of `*made` from `from`, which waits for all of its processes.
template <class Make>
int made_by(MPI_Comm from, const MPI_Comm* made, const Make& make) {
  Crew* const crew = Crew::present();
  const auto watch = crew == nullptr ? nullptr : crew->watch_over_making();
  return made_from(from, made, make());
}

/// The making of a communicator from `from`, of which nobody sees the end.
template <class Start>
int unseen(MPI_Comm from, const Start& start) {
  if (Crew* const crew = Crew::present()) crew->note_unseen_making(from);
  return start();
}

/// The making of `*made` from call.comm.
int make(const Call& call, MPI_Comm* made, const Real& real, bool copied = false) {
  return made_by(call.comm, made, [&] { return logged_making(call, made, real, copied); });
}

/// MPI's freeing of a communicator; one in which a rank was lost is left to MPI: see Crew::may_free().
int free_by(int (*call)(MPI_Comm*), MPI_Comm* comm) {
  Crew* const crew = Crew::present();
  if (crew == nullptr || comm == nullptr || *comm == MPI_COMM_NULL) return call(comm);
  const bool may_free = crew->may_free(*comm);
  crew->note_freed(*comm);
  if (may_free) return call(comm);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

constexpr const char* arguments = "with arguments that sum up to %";

/// Tells lists of arguments from others.
std::int64_t sum_of(std::int64_t before, const int list[], std::int64_t count) {
  auto sum = static_cast<std::uint64_t>(before);
  for (std::int64_t i = 0; i < count; ++i) sum = sum * 1000003 + static_cast<std::uint64_t>(list[i]);
  return static_cast<std::int64_t>(sum);
}

/// What a group holds differs in a replay: only its size is compared.
std::int64_t size_of_group(MPI_Group group) {
  int size = 0;
  PMPI_Group_size(group, &size);
  return size;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_dup(comm, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Comm_dup", comm}, made, real, true);
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_dup_with_info(comm, info, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Comm_dup_with_info", comm}, made, real, true);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  const auto real = [&] { return unseen(comm, [&] { return PMPI_Comm_idup(comm, made, request); }); };
  if (quiet()) return real();
  return logged_start({"MPI_Comm_idup", comm, "", {}, Use::starts}, request, real,
                      {.name = "MPI_Comm_idup", .from = comm, .made = made});
}

#ifdef BACKSTAY_HAS_MPI_4
int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* made, MPI_Request* request) {
  const auto real = [&] { return PMPI_Comm_idup_with_info(comm, info, made, request); };
  return quiet() ? unseen(comm, real) : refused("MPI_Comm_idup_with_info", comm, real);
}

int MPI_Comm_create_from_group(MPI_Group group, const char* tag, MPI_Info info, MPI_Errhandler handler,
                               MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_create_from_group(group, tag, info, handler, made); };
  const Phase* const phase = quiet() ? nullptr : own_phase();
  if (phase != nullptr) return refused("MPI_Comm_create_from_group", phase->workers, real);
  const int code = real();
  Crew* const crew = Crew::present();
  if (crew != nullptr && code == MPI_SUCCESS) crew->note_made_of(group, *made);
  return code;
}
#endif

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_split(comm, color, key, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Comm_split", comm, "with color % and key %", {color, key}}, made, real);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_split_type(comm, type, key, info, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Comm_split_type", comm, "with type % and key %", {type, key}}, made, real);
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_create(comm, group, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Comm_create", comm, "of % processes", {size_of_group(group)}}, made, real);
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Comm_create_group(comm, group, tag, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Comm_create_group", comm, "of % processes with tag %", {size_of_group(group), tag}}, made, real);
}

int MPI_Cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Cart_create(comm, ndims, dims, periods, reorder, made); };
  if (quiet()) return made_by(comm, made, real);
  const auto sum = sum_of(sum_of(reorder, dims, ndims), periods, ndims);
  return make({"MPI_Cart_create", comm, arguments, {sum}}, made, real);
}

int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* made) {
  const auto real = [&] { return PMPI_Cart_sub(comm, remain, made); };
  if (quiet()) return made_by(comm, made, real);
  return make({"MPI_Cart_sub", comm}, made, real);
}

int MPI_Graph_create(MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Graph_create(comm, nodes, index, edges, reorder, made); };
  if (quiet()) return made_by(comm, made, real);
  const auto sum = sum_of(sum_of(reorder, index, nodes), edges, nodes == 0 ? 0 : index[nodes - 1]);
  return make({"MPI_Graph_create", comm, arguments, {sum}}, made, real);
}

int MPI_Dist_graph_create(MPI_Comm comm, int n, const int nodes[], const int degrees[], const int targets[],
                          const int weights[], MPI_Info info, int reorder, MPI_Comm* made) {
  const auto real = [&] {
    return PMPI_Dist_graph_create(comm, n, nodes, degrees, targets, weights, info, reorder, made);
  };
  if (quiet()) return made_by(comm, made, real);
  const auto sum = sum_of(sum_of(reorder, nodes, n), degrees, n);
  return make({"MPI_Dist_graph_create", comm, arguments, {sum}}, made, real);
}

int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
                                   int outdegree, const int destinations[], const int destweights[], MPI_Info info,
                                   int reorder, MPI_Comm* made) {
  const auto real = [&] {
    return PMPI_Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree, destinations, destweights,
                                           info, reorder, made);
  };
  if (quiet()) return made_by(comm, made, real);
  const auto sum = sum_of(sum_of(reorder, sources, indegree), destinations, outdegree);
  return make({"MPI_Dist_graph_create_adjacent", comm, arguments, {sum}}, made, real);
}

int MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Intercomm_create(local, local_leader, peer, remote_leader, tag, made); };
  if (quiet()) return made_by(local, made, real);
  return made_from(local, made, refused("MPI_Intercomm_create", local, real));
}

int MPI_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm* made) {
  const auto real = [&] { return PMPI_Intercomm_merge(intercomm, high, made); };
  if (quiet()) return made_by(intercomm, made, real);
  return made_from(intercomm, made, refused("MPI_Intercomm_merge", intercomm, real));
}

int MPI_Comm_free(MPI_Comm* comm) {
  const auto real = [&] { return free_by(PMPI_Comm_free, comm); };
  return quiet() || comm == nullptr ? real() : logged_free("MPI_Comm_free", comm, real);
}

int MPI_Comm_disconnect(MPI_Comm* comm) {
  const auto real = [&] { return free_by(PMPI_Comm_disconnect, comm); };
  return quiet() || comm == nullptr ? real() : logged_free("MPI_Comm_disconnect", comm, real);
}

#pragma GCC visibility pop
}

}  // namespace backstay::comm::message_log
