// Communicators that the program makes from ours: noted as they are made, so that a loss reaches those who wait in
// them.
//
// These are the MPI functions that make and free communicators, under their own names, in the way that MPI's profiling
// interface is made for; each calls MPI's under the name PMPI_.... They are seen by programs in C and C++ that are
// linked with backstay before MPI, which CMake's target does. What else makes communicators (Fortran, mpi4py,
// MPI_Comm_idup) is named to Session::include().
#include <mpi.h>

#include "comm/crew.h"

namespace {
using backstay::comm::Crew;

/// What `code` says of the making of `*made` from `from`.
int made_from(MPI_Comm from, const MPI_Comm* made, int code) {
  Crew* const crew = Crew::present();
  if (crew != nullptr && code == MPI_SUCCESS) crew->note_made(from, *made);
  return code;
}

void freed(const MPI_Comm* comm) {
  Crew* const crew = Crew::present();
  if (crew != nullptr && comm != nullptr && *comm != MPI_COMM_NULL) crew->note_freed(*comm);
}
}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) { return made_from(comm, made, PMPI_Comm_dup(comm, made)); }

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Comm_dup_with_info(comm, info, made));
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Comm_split(comm, color, key, made));
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Comm_split_type(comm, type, key, info, made));
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Comm_create(comm, group, made));
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Comm_create_group(comm, group, tag, made));
}

int MPI_Cart_create(MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Cart_create(comm, ndims, dims, periods, reorder, made));
}

int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm* made) {
  return made_from(comm, made, PMPI_Cart_sub(comm, remain, made));
}

int MPI_Graph_create(MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Graph_create(comm, nodes, index, edges, reorder, made));
}

int MPI_Dist_graph_create(MPI_Comm comm, int n, const int nodes[], const int degrees[], const int targets[],
                          const int weights[], MPI_Info info, int reorder, MPI_Comm* made) {
  return made_from(comm, made, PMPI_Dist_graph_create(comm, n, nodes, degrees, targets, weights, info, reorder, made));
}

int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
                                   int outdegree, const int destinations[], const int destweights[], MPI_Info info,
                                   int reorder, MPI_Comm* made) {
  return made_from(comm, made,
                   PMPI_Dist_graph_create_adjacent(comm, indegree, sources, sourceweights, outdegree, destinations,
                                                   destweights, info, reorder, made));
}

int MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm peer, int remote_leader, int tag, MPI_Comm* made) {
  return made_from(local, made, PMPI_Intercomm_create(local, local_leader, peer, remote_leader, tag, made));
}

int MPI_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm* made) {
  return made_from(intercomm, made, PMPI_Intercomm_merge(intercomm, high, made));
}

int MPI_Comm_free(MPI_Comm* comm) {
  freed(comm);
  return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm* comm) {
  freed(comm);
  return PMPI_Comm_disconnect(comm);
}

#pragma GCC visibility pop
}
