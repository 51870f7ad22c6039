// Tells every rank that one was lost, wherever in MPI it waits.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

namespace backstay::comm {

/// The communicators in which ranks of a session may wait for each other. Once the alarm is rung on one rank, all
/// operations in them fail on every rank, those under way too. It is rung once: after a repair there is a new one. Safe
/// from several threads; what calls MPI comes from threads that may.
class Alarm {
 public:
  Alarm() = default;
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm();
  /// Calls MPI if the alarm has been rung.
  void watch(MPI_Comm comm);
  void forget(MPI_Comm comm);
  [[nodiscard]] bool watches(MPI_Comm comm);
  /// One of the same processes is made from one that is watched, in a way in which nobody sees its end.
  void expect_one_of(MPI_Comm comm);
  [[nodiscard]] bool expects_any();
  /// It is of the same processes as one that is expected.
  [[nodiscard]] bool may_be_expected(MPI_Comm comm);
  /// A communicator of several processes, those of one that is watched or of one that is expected, in the same order.
  [[nodiscard]] bool watches_one_like(MPI_Comm comm);
  void ring();
  /// The same from a thread that may not call MPI: the next ring_if_asked() does it.
  void ask() { asked_ = true; }
  void ring_if_asked() {
    if (asked_ && !rung_) ring();
  }
  [[nodiscard]] bool rung() const { return rung_ || asked_; }
  /// When this rank has heard: now, if it has not been rung.
  [[nodiscard]] std::chrono::steady_clock::time_point rung_since();

 private:
  std::mutex mutex_;
  std::vector<MPI_Comm> watched_;
  std::vector<MPI_Group> expected_;
  std::chrono::steady_clock::time_point newest_{};  ///< when the last of them was made
  std::chrono::steady_clock::time_point rung_since_{};
  std::atomic<bool> rung_{false};
  std::atomic<bool> asked_{false};
};

}  // namespace backstay::comm
