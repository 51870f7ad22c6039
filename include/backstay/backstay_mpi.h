/* What backstay.h adds for programs that bring a communicator of their own. Only in builds with MPI. */
#ifndef BACKSTAY_BACKSTAY_MPI_H
#define BACKSTAY_BACKSTAY_MPI_H

#include <mpi.h>

#include "backstay/backstay.h"

#ifdef __cplusplus
extern "C" {
#endif

/** On the ranks of `comm` only, which is duplicated and stays the caller's. MPI must have been initialised, and stays
 *  so until after backstay_close. */
BACKSTAY_EXPORT int backstay_open_mpi(MPI_Comm comm, const char* const* options, backstay_session** session,
                                      backstay_error* error);

/** The communicator to use in the program: as many ranks as work on the problem. MPI_COMM_NULL in a session that is
 *  alone. */
BACKSTAY_EXPORT int backstay_comm(const backstay_session* session, MPI_Comm* comm, backstay_error* error);

/** A communicator that the program made from that one where backstay does not see it (in Fortran): a rank
 *  that waits in it is woken when another is lost. */
BACKSTAY_EXPORT int backstay_include(backstay_session* session, MPI_Comm made, backstay_error* error);

/** The same three with the handles that communicators have in Fortran; what the Fortran module calls. */
BACKSTAY_EXPORT int backstay_open_fortran(MPI_Fint comm, const char* const* options, backstay_session** session,
                                          backstay_error* error);
BACKSTAY_EXPORT int backstay_comm_fortran(const backstay_session* session, MPI_Fint* comm, backstay_error* error);
BACKSTAY_EXPORT int backstay_include_fortran(backstay_session* session, MPI_Fint made, backstay_error* error);

#ifdef __cplusplus
}
#endif

#endif
