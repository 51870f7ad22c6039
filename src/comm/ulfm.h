// What MPI offers to the processes that outlive one of theirs (user-level failure mitigation, MPI-5), where it does.
#pragma once

#include <mpi.h>

#include <vector>

namespace backstay::comm {

/// This MPI goes on after the loss of a process: it is built so, and was started so (mpirun --with-ft ulfm).
bool survives_losses();
/// `code` says that a process is gone, or that a communicator was revoked because of one.
bool tells_of_a_loss(int code);
/// A process of `comm` is known to be gone, or it was revoked.
bool has_a_loss(MPI_Comm comm);
/// The ranks of `comm` of which this process knows that they have died. Local, and changes nothing: agreements still
/// fail for them.
std::vector<int> known_losses(MPI_Comm comm);
/// All communicators that this process has, whoever made them, but those of MPI itself; none where this MPI does not
/// tell. Not while another thread makes or frees some.
std::vector<MPI_Comm> all_communicators();
/// From now on every operation in `comm` fails, on every rank. Local; returns at once.
void revoke(MPI_Comm comm);
bool is_revoked(MPI_Comm comm);
/// Starts the bitwise and of `flags` over all processes of `comm` that live, the same for each of them, as is the error
/// of the request: one has died. Works where `comm` is revoked. Without ULFM: a reduction.
int start_agreement(MPI_Comm comm, int* flags, MPI_Request* request);
/// Collective among those that live: a communicator without the dead. Blocks.
int shrink(MPI_Comm comm, MPI_Comm* out);

}  // namespace backstay::comm
