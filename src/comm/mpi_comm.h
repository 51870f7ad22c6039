// Groups of MPI processes.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "comm/alarm.h"
#include "comm/comm.h"

namespace backstay::comm {

/// Runs MPI operations for a thread that may not call MPI itself. Without MPI_THREAD_MULTIPLE the background thread
/// hands each operation over, and the application's thread carries it on inside library calls (pump()).
/// With MPI_THREAD_MULTIPLE none is needed. The application's thread is the one that made the courier, or, since
/// then, the last one that pumped. It must outlive the groups that use it.
class Courier {
 public:
  /// Called by the application's thread: starts what was handed over, tests what is under way. Never blocks.
  void pump();
  /// Called by the background thread: hands `step` over and waits until it has said true (done) or failed;
  /// `step` runs on the application's thread, again and again. Fails with Code::timeout once the pumps have used up
  /// `bound`, the time between two of them hardly counting, or after 20 times that; without a bound never. When this
  /// has returned, `step` is not called any more. Refused on the application's thread, which would wait for itself.
  Result<void> run(std::function<Result<bool>()> step, std::optional<std::chrono::milliseconds> bound);
  /// From any thread: what is handed over, and all that comes later, fails.
  void shut();
  /// The calling thread is the application's: it may call MPI itself.
  [[nodiscard]] bool on_application_thread() const;
  Courier();
  ~Courier();

 private:
  struct Errand;
  struct State;
  std::unique_ptr<State> state_;
};

/// Behind it are the MPI calls of the background's groups; once it is shut none is made any more.
class Gate {
 public:
  void shut() {
    const std::lock_guard lock(mutex_);
    shut_ = true;
  }
  [[nodiscard]] bool is_shut() const {
    const std::lock_guard lock(mutex_);
    return shut_;
  }
  /// `step()` while the gate is open; nothing once it is shut.
  template <class Step>
  std::optional<Result<bool>> pass(const Step& step) {
    const std::lock_guard lock(mutex_);
    if (shut_) return std::nullopt;
    return step();
  }

 private:
  mutable std::mutex mutex_;
  bool shut_ = false;
};

struct MpiOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  Courier* courier = nullptr;  ///< not owned; null: call MPI directly
  /// Bytes in one MPI message, the same on all ranks; MPI counts with int. Tests make it small.
  std::size_t largest_message = std::size_t{1} << 30;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();  ///< shared by the groups made from a group
  /// Rung when MPI fails in one of these groups, which it then ends for all ranks; null: none.
  std::shared_ptr<Alarm> alarm = {};
  Courier* background_courier = nullptr;  ///< the `courier` of groups made by duplicate_for_background()
  bool waits_in_background = false;       ///< so that others lose no time by its waits
};

/// Collective over `comm`, which is duplicated (errors return, they do not abort) and freed with the result.
///
/// With a courier, calls from the application's thread go to MPI directly and calls from another thread go through the
/// courier, except shared_memory_node(): MPI has no nonblocking form of it, so it is refused there.
///
/// What an operation that failed or timed out has given to MPI (request, buffers) is kept for the rest of the process,
/// as MPI may still touch it. Memory of the caller is given to MPI only with shared ownership (`keep`).
///
/// The destructor frees the communicator with MPI_Comm_free, which is local work in the MPIs that we know although
/// the standard calls it collective. Where it is not safe (the group is broken, an operation was abandoned, MPI is
/// finalized, or the thread may not call MPI) the handle is left to MPI. MPI_Comm_disconnect is not used: it waits.
Result<std::unique_ptr<Comm>> make_mpi_comm(MPI_Comm comm, const MpiOptions& options);
/// The MPI communicator behind a group made by make_mpi_comm; MPI_COMM_NULL for others.
MPI_Comm mpi_handle(const Comm& comm);
/// Collective: a number that is the same on ranks that share memory, 0, 1, ... in order of the lowest rank.
/// Groups that are not MPI's live in one process and so on node 0.
Result<int> shared_memory_node(Comm& comm);

}  // namespace backstay::comm
