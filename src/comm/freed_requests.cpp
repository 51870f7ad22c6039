// Keeps Open MPI from ending a job that goes on after a loss.
//
// A loss ends operations under way: MPI_Wait and its kin return the error and free the request, as MPI says. Where such
// a send was of more than the eager limit, its receiver may answer later. Open MPI 5.0.10 and newer then find a request
// that was freed and had an error, take that for a fault of the program, and call their handler for fatal errors,
// without a communicator. That handler is theirs, under their name, here: it passes on all but this.
#include "comm/crew.h"

#if defined(OPEN_MPI) && defined(__GNUC__)
#include <dlfcn.h>

#include <cstdarg>
#include <cstring>

extern "C" {
#pragma GCC visibility push(default)

void ompi_mpi_errors_are_fatal_comm_handler(MPI_Comm* comm, int* code, ...);  // declared in no header for users

void ompi_mpi_errors_are_fatal_comm_handler(MPI_Comm* comm, int* code, ...) {
  std::va_list rest;
  va_start(rest, code);
  const char* what = va_arg(rest, const char*);
  va_end(rest);
  const backstay::comm::Crew* crew = backstay::comm::Crew::present();
  const bool was_freed =
      comm == nullptr && what != nullptr && std::strstr(what, "error after request freed") != nullptr;
  if (was_freed && crew != nullptr && crew->repairs()) return;
  using Handler = void (*)(MPI_Comm*, int*, ...);
  if (const auto theirs = reinterpret_cast<Handler>(dlsym(RTLD_NEXT, "ompi_mpi_errors_are_fatal_comm_handler")))
    theirs(comm, code, what, nullptr);
  PMPI_Abort(MPI_COMM_WORLD, code != nullptr ? *code : MPI_ERR_OTHER);
}

#pragma GCC visibility pop
}
#endif
