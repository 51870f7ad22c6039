// What the program has begun and MPI has not done yet, so that a loss does not leave MPI with buffers that are freed.
//
// A loss leads out of all scopes of the program, back to loop(), and their destructors free the buffers of messages
// that are under way. MPI still reads and writes those: between ranks that live a message goes on, or begins only then
// (a rank that has not heard of the loss yet receives it). So a rank first waits for what it has begun: with the
// communicators revoked, each operation comes to an end as soon as its other side has heard, too. A message that a call
// has waited for, which blocks, is over when that returns an error; but of a collective that blocks Open MPI leaves
// messages under way, of which nobody outside has a handle.
//
// Noted are requests of programs in C and C++ (see derived.cpp), and in jobs that can be repaired only.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>

namespace backstay::comm {

class OpenRequests {
 public:
  /// Requests are noted from now on.
  static void note_from_now_on() { noting_ = true; }
  /// An operation was begun by an MPI call, which has returned `code`.
  static int begun(int code, const MPI_Request* request) {
    if (noting_.load(std::memory_order_relaxed) && code == MPI_SUCCESS) note(*request);
    return code;
  }
  /// The same of persistent ones, which are begun again and again.
  static int begun_again(int code, const MPI_Request* requests, int count) {
    if (noting_.load(std::memory_order_relaxed) && code == MPI_SUCCESS) note_again(requests, count);
    return code;
  }
  /// `call`, which completes some of `requests`, or frees them.
  template <class Call>
  static int completing(int count, const MPI_Request* requests, const Call& call) {
    if (!noting_.load(std::memory_order_relaxed)) return call();
    const Completion completion(count, requests);
    return completion.ended(call());
  }
  /// An MPI call of this thread has met an error. Before anything that lets MPI go on: it may have freed requests that
  /// it still works on.
  static void met_an_error();
  /// Until all that this thread has begun is done, or `deadline` has come, and nothing is left of what the dead have
  /// sent before loss number `loss`. The requests are not completed: the program can still do that. Calls MPI.
  static void settle(std::chrono::steady_clock::time_point deadline, int loss);

 private:
  /// Such a call of this thread. An error of it is heard before it returns, and it may never return.
  class Completion {
   public:
    Completion(int count, const MPI_Request* requests);
    ~Completion();
    Completion(const Completion&) = delete;
    Completion& operator=(const Completion&) = delete;
    [[nodiscard]] int ended(int code) const;
  };
  static void note(MPI_Request request);
  static void note_again(const MPI_Request* requests, int count);

  static std::atomic<bool> noting_;
};

}  // namespace backstay::comm
