// MPI functions that a message log cannot answer. In communicators of a phase they are noticed while it is recorded,
// and fail while it is replayed (see logged_call.h).
#include <mpi.h>

#include <cstdio>

#include "comm/crew.h"
#include "comm/message_log/phase.h"

#define UNPACKED(...) __VA_ARGS__
/// Of functions that have `comm`.
#define REFUSED(Name, parameters, arguments)                                             \
  int MPI_##Name(UNPACKED parameters) {                                                  \
    if (quiet()) return PMPI_##Name(UNPACKED arguments);                                 \
    return refused("MPI_" #Name, comm, [&] { return PMPI_##Name(UNPACKED arguments); }); \
  }

namespace backstay::comm::message_log {
#ifdef BACKSTAY_HAS_MPI_4
namespace {
/// Open MPI 5.0 duplicates MPI_COMM_WORLD for the first of these (part/persist), and waits for the spares for ever.
int partitioned(const char* name, MPI_Comm comm, const Real& real) {
  const Crew* const crew = Crew::present();
  if (crew == nullptr || !crew->repairs()) return quiet() ? real() : refused(name, comm, real);
  std::fprintf(
      stderr,
      "backstay: %s: partitioned communication cannot be used in a job with spares, as Open MPI would wait for "
      "them to take part: use MPI_Send_init and MPI_Recv_init, or a job without spares\n",
      name);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_UNSUPPORTED_OPERATION);
  return MPI_ERR_UNSUPPORTED_OPERATION;
}
}  // namespace
#endif

extern "C" {
#pragma GCC visibility push(default)

REFUSED(Win_create, (void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* window),
        (base, size, unit, info, comm, window))
REFUSED(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window),
        (size, unit, info, comm, base, window))
REFUSED(Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window),
        (size, unit, info, comm, base, window))
REFUSED(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* window), (info, comm, window))

REFUSED(Comm_spawn,
        (const char* command, char* argv[], int processes, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* made,
         int codes[]),
        (command, argv, processes, info, root, comm, made, codes))
REFUSED(Comm_spawn_multiple,
        (int count, char* commands[], char** argvs[], const int processes[], const MPI_Info infos[], int root,
         MPI_Comm comm, MPI_Comm* made, int codes[]),
        (count, commands, argvs, processes, infos, root, comm, made, codes))
REFUSED(Comm_accept, (const char* port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* made),
        (port, info, root, comm, made))
REFUSED(Comm_connect, (const char* port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* made),
        (port, info, root, comm, made))
REFUSED(Comm_get_info, (MPI_Comm comm, MPI_Info* info), (comm, info))
REFUSED(Comm_set_info, (MPI_Comm comm, MPI_Info info), (comm, info))

/// A file of one process is read again in a replay.
int MPI_File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  const auto real = [&] { return PMPI_File_open(comm, name, mode, info, file); };
  if (quiet() || comm == MPI_COMM_SELF) return real();
  return refused("MPI_File_open", comm, real);
}

#ifdef BACKSTAY_HAS_MPI_4
REFUSED(Isendrecv,
        (const void* from, int count, MPI_Datatype type, int to_rank, int tag, void* to, int to_count,
         MPI_Datatype to_type, int from_rank, int to_tag, MPI_Comm comm, MPI_Request* request),
        (from, count, type, to_rank, tag, to, to_count, to_type, from_rank, to_tag, comm, request))
REFUSED(Isendrecv_replace,
        (void* buffer, int count, MPI_Datatype type, int to_rank, int tag, int from_rank, int to_tag, MPI_Comm comm,
         MPI_Request* request),
        (buffer, count, type, to_rank, tag, from_rank, to_tag, comm, request))
int MPI_Psend_init(const void* buffer, int parts, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                   MPI_Info info, MPI_Request* request) {
  return partitioned("MPI_Psend_init", comm,
                     [&] { return PMPI_Psend_init(buffer, parts, count, type, to, tag, comm, info, request); });
}
int MPI_Precv_init(void* buffer, int parts, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                   MPI_Info info, MPI_Request* request) {
  return partitioned("MPI_Precv_init", comm,
                     [&] { return PMPI_Precv_init(buffer, parts, count, type, from, tag, comm, info, request); });
}
REFUSED(Barrier_init, (MPI_Comm comm, MPI_Info info, MPI_Request* request), (comm, info, request))

using N = int;
using D = int;
#define COLLECTIVE(Name, name, parameters, arguments)                                              \
  REFUSED(Name##_init, (UNPACKED parameters, MPI_Comm comm, MPI_Info info, MPI_Request * request), \
          (UNPACKED arguments, comm, info, request))
#include "comm/message_log/collectives.inc"
#undef COLLECTIVE
#endif

#pragma GCC visibility pop
}

#if MPI_VERSION >= 4
/// Counts that are larger than int: the functions that end in _c.
namespace large {
using N = MPI_Count;
using D = MPI_Aint;
extern "C" {
#pragma GCC visibility push(default)
#define COLLECTIVE(Name, name, parameters, arguments)                                                \
  REFUSED(Name##_c, (UNPACKED parameters, MPI_Comm comm), (UNPACKED arguments, comm))                \
  REFUSED(I##name##_c, (UNPACKED parameters, MPI_Comm comm, MPI_Request * request),                  \
          (UNPACKED arguments, comm, request))                                                       \
  REFUSED(Name##_init_c, (UNPACKED parameters, MPI_Comm comm, MPI_Info info, MPI_Request * request), \
          (UNPACKED arguments, comm, info, request))
#include "comm/message_log/collectives.inc"
#undef COLLECTIVE

#define SENDING (const void* buffer, N count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
#define STARTING (const void* buffer, N count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request)
#define SEND(Name, name)                                                        \
  REFUSED(Name##_c, SENDING, (buffer, count, type, to, tag, comm))              \
  REFUSED(I##name##_c, STARTING, (buffer, count, type, to, tag, comm, request)) \
  REFUSED(Name##_init_c, STARTING, (buffer, count, type, to, tag, comm, request))
SEND(Send, send)
SEND(Bsend, bsend)
SEND(Ssend, ssend)
SEND(Rsend, rsend)
#undef SEND
#undef SENDING
#undef STARTING
REFUSED(Recv_c, (void* buffer, N count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status),
        (buffer, count, type, from, tag, comm, status))
REFUSED(Irecv_c, (void* buffer, N count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request),
        (buffer, count, type, from, tag, comm, request))
REFUSED(Recv_init_c, (void* buffer, N count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request),
        (buffer, count, type, from, tag, comm, request))
REFUSED(Sendrecv_c,
        (const void* from, N count, MPI_Datatype type, int to_rank, int tag, void* to, N to_count, MPI_Datatype to_type,
         int from_rank, int to_tag, MPI_Comm comm, MPI_Status* status),
        (from, count, type, to_rank, tag, to, to_count, to_type, from_rank, to_tag, comm, status))
REFUSED(Sendrecv_replace_c,
        (void* buffer, N count, MPI_Datatype type, int to_rank, int tag, int from_rank, int to_tag, MPI_Comm comm,
         MPI_Status* status),
        (buffer, count, type, to_rank, tag, from_rank, to_tag, comm, status))
#pragma GCC visibility pop
}
}  // namespace large
#endif
}  // namespace backstay::comm::message_log

#undef REFUSED
#undef UNPACKED
