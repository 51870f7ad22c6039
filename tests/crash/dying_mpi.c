/* An MPI in which a process dies: loaded before MPI by middles.py into the processes of a job, it kills one of them at
 * a call that starts a message or a collective, as backstay does in a checkpoint, a rebuild and a repair.
 *
 * DYING_PROCESS: which one. DYING_CALL: at which of these calls. DYING_AFTER=1: behind it, else before it. */
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long calls;
static long at = -1;
static int after;

__attribute__((constructor)) static void begin(void) {
  const char *me = getenv("OMPI_COMM_WORLD_RANK"), *process = getenv("DYING_PROCESS"), *call = getenv("DYING_CALL");
  if (me == NULL || process == NULL || call == NULL || atol(me) != atol(process)) return;
  at = atol(call);
  after = getenv("DYING_AFTER") != NULL;
}

static int dies_now(void) { return atomic_fetch_add(&calls, 1) == at; }

#define DIES_IN(call)                 \
  const int dies = dies_now();        \
  if (dies && !after) raise(SIGKILL); \
  const int code = call;              \
  if (dies) raise(SIGKILL);           \
  return code

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(PMPI_Isend(buffer, count, type, to, tag, comm, request));
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(PMPI_Irecv(buffer, count, type, from, tag, comm, request));
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) { DIES_IN(PMPI_Ibarrier(comm, request)); }

int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(PMPI_Ibcast(buffer, count, type, root, comm, request));
}

int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  DIES_IN(PMPI_Iallreduce(mine, all, count, type, op, comm, request));
}

int MPI_Iallgather(const void* mine, int count, MPI_Datatype type, void* all, int each, MPI_Datatype all_type,
                   MPI_Comm comm, MPI_Request* request) {
  DIES_IN(PMPI_Iallgather(mine, count, type, all, each, all_type, comm, request));
}

int MPI_Iallgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int counts[], const int places[],
                    MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(PMPI_Iallgatherv(mine, count, type, all, counts, places, all_type, comm, request));
}
