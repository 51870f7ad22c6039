// What a rank received during a phase of the program, so that another process can run the phase again alone.
//
// This is for initialisation: after the loss of a rank its replacement runs the phase with the answers of the log, and
// no other rank takes part (ExaFLOW D2.4, section 2.5). The calls of MPI are seen under their own names, in the way
// that MPI's profiling interface is made for: in C and C++ programs that are linked with backstay before MPI.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::comm::message_log {

/// The program calls MPI through this library: it came to MPI_Init that way, and nobody has said that it does not.
bool can_record();
/// It does not, as what is written in Fortran or for an interpreter, also where a session has called MPI_Init for it.
void calls_are_unseen();

/// From here on what this thread receives in `workers`, in communicators made from it meanwhile, and in MPI_COMM_SELF,
/// is recorded. Local. One recording or replay at a time in a process; this thread ends it. A call in a communicator
/// that has other processes than those of `workers` is not made, as they may never make it: it fails with
/// MPI_ERR_OTHER, past its error handler, and leaves things as a call that a replay fails; `say` hears of the first.
Result<void> start_recording(MPI_Comm workers, std::function<void(const std::string&)> say = {});
/// Ends it, whatever happened in it. The log, compressed, with checksums. Code::invalid_argument: something happened
/// that a log cannot answer; the sentence says what, and what to do instead. Local.
Result<Bytes> stop_recording();

/// A communicator that stands for that of the recording: until stop_replay() this thread's calls in it, in what is made
/// from it, and in `workers`, where the recording's place is taken, are answered from the log, and nothing is
/// communicated. Code::corrupt for a damaged log.
///
/// A call that is not the one in the log fails, as do all further ones: with MPI_ERR_OTHER, through the error handler
/// of the communicator, which is MPI_ERRORS_RETURN at first (one that ends the job is not called). A failed call leaves
/// buffers alone, makes no communicator or request (their handles are null), and says of polls that they are done, so
/// that no loop waits for ever. The handler may throw.
Result<MPI_Comm> start_replay(ByteView log, MPI_Comm workers = MPI_COMM_NULL);
/// Every call of this thread's replay was answered until now.
bool all_were_answered();
/// Ends it, whatever happened in it. Code::mismatch: the phase made other calls than those in the log, or fewer; the
/// sentence says which. That communicator, and what is left of those made from it, stand for nothing any more: calls in
/// them fail, but MPI_Comm_free of the latter.
Result<void> stop_replay();

/// While one lives, calls of this thread are passed to MPI unseen: for what this library does itself inside a phase.
class Unseen {
 public:
  Unseen();
  ~Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

}  // namespace backstay::comm::message_log
