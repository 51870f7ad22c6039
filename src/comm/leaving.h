// How a process of a job that can be repaired ends, so that the others do not wait for it.
#pragma once

#include <mpi.h>

#include <chrono>

namespace backstay::comm::leaving {

/// From now on the others count on this process, whose crew is `all`: until it ends in finalize(), or the job is lost,
/// its end is a loss that they have to notice. `bound`: of what waits inside MPI_Finalize.
///
/// Open MPI's launcher (5.0.x, --with-ft ulfm) tells the others of a process that a signal ends, and of one that ends
/// with status 0 before MPI_Finalize; of one that ends with another status it does not, and they wait for ever. Nor
/// does MPI_Abort end the others then. Such a process therefore ends by SIGKILL, as the last thing that its exit does.
void others_count_on_me(MPI_Comm all, std::chrono::milliseconds bound);

/// The job is lost, and all know.
void nobody_counts_on_me();

/// The others count on this process, which is not one that it has forked.
bool am_counted_on();

/// MPI_Finalize. Open MPI's makes a communicator of those who live, in which all meet: who waits there is not woken
/// when another one dies in it, and waits with a busy core. So all meet before it, asleep; who dies there is noticed.
/// After that, a loss inside of it ends at the bound.
int finalize();

}  // namespace backstay::comm::leaving
