/* An MPI in which a process dies: loaded before MPI into the processes of a job, it kills one of them at a call that
 * makes a communicator or starts a message or a collective, as backstay does as it opens, in a checkpoint, a rebuild
 * and a repair.
 *
 * DYING_PROCESS: which one. DYING_CALL: at which of these calls. DYING_AFTER=1: behind it, else before it. DYING_ONCE:
 * a file that it makes before it dies; where there is one already, nobody does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
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

static int dies_now(void) {
  if (atomic_fetch_add(&calls, 1) != at) return 0;
  const char* once = getenv("DYING_ONCE");
  return once == NULL || open(once, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
}

/* Those of backstay, which sees what the program makes, and MPI behind it. */
#define THEIRS(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define DIES_IN(call)                 \
  const int dies = dies_now();        \
  if (dies && !after) raise(SIGKILL); \
  const int code = call;              \
  if (dies) raise(SIGKILL);           \
  return code

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) { DIES_IN(THEIRS(MPI_Comm_dup)(comm, made)); }

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Comm_idup)(comm, made, request));
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  DIES_IN(THEIRS(MPI_Comm_split)(comm, color, key, made));
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  DIES_IN(THEIRS(MPI_Comm_split_type)(comm, type, key, info, made));
}

int MPI_Allgather(const void* mine, int count, MPI_Datatype type, void* all, int each, MPI_Datatype all_type,
                  MPI_Comm comm) {
  DIES_IN(THEIRS(MPI_Allgather)(mine, count, type, all, each, all_type, comm));
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Isend)(buffer, count, type, to, tag, comm, request));
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Irecv)(buffer, count, type, from, tag, comm, request));
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) { DIES_IN(THEIRS(MPI_Ibarrier)(comm, request)); }

int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Ibcast)(buffer, count, type, root, comm, request));
}

int MPI_Iallreduce(const void* mine, void* all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Iallreduce)(mine, all, count, type, op, comm, request));
}

int MPI_Iallgather(const void* mine, int count, MPI_Datatype type, void* all, int each, MPI_Datatype all_type,
                   MPI_Comm comm, MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Iallgather)(mine, count, type, all, each, all_type, comm, request));
}

int MPI_Iallgatherv(const void* mine, int count, MPI_Datatype type, void* all, const int counts[], const int places[],
                    MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request) {
  DIES_IN(THEIRS(MPI_Iallgatherv)(mine, count, type, all, counts, places, all_type, comm, request));
}
