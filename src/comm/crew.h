// Workers and spares: the processes of a job, and how those who are left go on when one dies.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backstay/error.hpp"
#include "base/result.h"
#include "comm/alarm.h"
#include "comm/mpi_comm.h"
#include "comm/repair_plan.h"
#include "comm/watch.h"

namespace backstay::comm {

struct CrewOptions {
  int spares = 0;
  std::chrono::milliseconds timeout{};
  bool may_shrink = false;
  bool errors_return = false;  ///< MPI calls of the program return the error of a loss, instead of throwing RankLost
  int node = 0;                ///< of this process
  FailureUnits units = {};     ///< of this process
  std::uint64_t claim = 0;     ///< what this process has to offer as a rank, see muster()
  /// Called before this process ends because others do not come to a repair or to the end of the work, from a thread
  /// that may not call MPI.
  std::function<void()> stuck = {};
};

/// How a meeting ended; the same for all who met.
struct Verdict {
  Fate fate = Fate::again;
  std::vector<Replaced> replaced;
  bool anybody_closes = false;  ///< and does nothing else with the others any more
  bool speaks = false;          ///< of all ranks that are left, this is the lowest one; of spares, if no rank is left
  double seconds = 0;           ///< from the coming of the first rank to its end
};

/// It has all processes of MPI_COMM_WORLD, in the same order.
bool is_of_all_processes(MPI_Comm comm);

/// All processes of a job: N work and are its ranks, and S spares wait to take the place of one that dies.
///
/// All processes that live meet in meet(): workers when they have left loop(), whether at its end or because a rank was
/// lost; spares are always there. If somebody was lost, those who are left become a new crew, in rounds:
/// 1. shrink: a communicator of those who live; 2. everyone says who it is; 3. each computes the same RepairPlan;
/// 4. the workers' communicator is split off; 5. all agree that each has got so far. If not, or if another one has died
/// meanwhile, the next round begins with 1, and nothing of this one counts.
///
/// Invariants: (a) rank numbers change only in step 5, for all or for nobody. (b) Every process that lives goes through
/// the same sequence of agreements and shrinks, as only results of agreements decide what comes next. (c) Nobody uses a
/// store for the ranks that are there now before all have ended what they had under way: the session's opening, which
/// follows a meeting that ends with Fate::again, begins with a collective call, and each rank ends its engine before.
class Crew {
 public:
  /// Collective over `all`, which is duplicated. Spares are the `spares` processes with the lowest claims, the last
  /// ones among equals: who is on a node with newer lines than others have works, as only ranks read what nodes hold.
  /// The numbers of options have been compared: they are the same on all.
  static Result<std::unique_ptr<Crew>> muster(MPI_Comm all, const CrewOptions& options);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// From here on nobody is replaced: a loss ends with Fate::lost.
  void roll_back_no_more() { may_roll_back_ = false; }

  /// Losses can be repaired: this MPI survives them.
  [[nodiscard]] bool repairs() const { return repairs_; }
  [[nodiscard]] int rank() const { return rank_; }  ///< -1: a spare
  [[nodiscard]] int node() const { return options_.node; }
  /// Of the workers; MPI_COMM_NULL for a spare. Another one after each meeting that ends with Fate::again.
  [[nodiscard]] MPI_Comm workers() const { return workers_; }
  /// How often ranks were replaced.
  [[nodiscard]] int repairs_done() const { return repairs_done_; }
  /// Processes that wait, as of the last meeting.
  [[nodiscard]] int spares_left() const;
  /// This process began as a spare.
  [[nodiscard]] bool began_as_spare() const { return began_as_spare_; }
  /// Of the present workers(). From any thread.
  [[nodiscard]] std::shared_ptr<Alarm> alarm() const {
    const std::lock_guard lock(alarm_mutex_);
    return alarm_;
  }

  /// No other thread is inside MPI meanwhile, which would spoil agreements (docs/decisions/0011).
  /// Collective among all who live, see above. Bounded by the time-out, but for spares, who wait as long as nobody is
  /// lost, and from then on for twice as long, or until ranks that did not wait for another spare say that all is done.
  /// Code::timeout: somebody did not come; Code::rank_lost: MPI cannot go on.
  Result<Verdict> meet(Word word);
  /// After a meeting that ends with Fate::lost, before this process ends, bounded by the time-out: until all who live
  /// have come here. The launcher ends what is left of a job when one process ends with a status.
  void part();

  /// The crew of this process; null: none.
  static Crew* present();
  /// There is one, or was: nobody can meet the spares in MPI_COMM_WORLD any more.
  static bool was_there();
  /// The program made `made` from `from`, or frees `made`.
  void note_made(MPI_Comm from, MPI_Comm made);
  /// The program names one that it has made, and may free it where nobody sees that.
  void include(MPI_Comm made);
  /// `made` from no other one, of the processes of `group`: noted if all of these are workers.
  void note_made_of(MPI_Group group, MPI_Comm made);
  /// It makes one of the same processes from `from`, and nobody sees when that is done.
  void note_unseen_making(MPI_Comm from);
  void note_freed(MPI_Comm made);
  /// While it lives, a process that has taken a lost rank's place ends after twice the time-out: it waits for ranks
  /// that have kept their communicator. Null: nothing of the kind.
  [[nodiscard]] std::unique_ptr<Watch> watch_over_making() const;
  /// No rank was lost while the program had it. Where one was, others may still have sent something into it, and Open
  /// MPI would find that in the next communicator of the same number (docs/decisions/0011).
  [[nodiscard]] bool may_free(MPI_Comm made) const;
  /// The program keeps communicators that it made before the last repair, and has made none since: one that took a lost
  /// rank's place may wait for it to make them. From any thread.
  [[nodiscard]] bool keeps_communicators_of_before() const;

  /// MPI has told this process of a loss among the workers, whether in a call or not: the program may have an error
  /// handler of its own.
  [[nodiscard]] bool knows_of_a_loss() const;

  /// After a loss, before the program leaves its scopes, which may free what MPI still works on: see OpenRequests.
  void settle() const;

  /// While one lives, an MPI call of this thread in a communicator of the workers throws RankLost when a rank was lost,
  /// but where that would end the process: in a destructor. Otherwise such a call returns MPI's error, with the option
  /// errors_return, or ends the job. `frame`: of the function that catches, __builtin_frame_address(0) there.
  class Catching {
   public:
    Catching(Crew& crew, const void* frame) : crew_(crew) {
      crew_.catches_in_ = frame;
      crew_.catcher_ = std::this_thread::get_id();
    }
    ~Catching() { crew_.catcher_ = std::thread::id(); }
    Catching(const Catching&) = delete;
    Catching& operator=(const Catching&) = delete;

   private:
    Crew& crew_;
  };

 private:
  Crew(const CrewOptions& options, MPI_Comm all) : options_(options), all_(all) {}
  Result<void> split_workers(MPI_Comm among, int rank, MPI_Comm& out) const;
  void adopt(MPI_Comm workers);
  Result<bool> agree(MPI_Comm comm, int& flags, bool bounded) const;
  void revoke_duplicates();
  [[nodiscard]] bool knows_of_a_lost_worker() const;
  void tell_of_standing_still() const;
  Result<Verdict> repair(Word word, std::chrono::steady_clock::time_point came);
  struct Round;
  Result<bool> try_repair(MPI_Comm among, Word word, double waited, Round& round) const;
  static void on_error(MPI_Comm* comm, int* code, ...);
  static int on_freed(MPI_Comm comm, int key, void* value, void* state);
  void heard(MPI_Comm comm, int code);
  [[nodiscard]] bool comes_of_a_loss(MPI_Comm comm, int code) const;
  void pass_on(int code);
  Result<void> choose_rank();
  [[nodiscard]] bool is_ours(MPI_Comm comm) const;
  void note(MPI_Comm made);

  CrewOptions options_;
  MPI_Comm all_ = MPI_COMM_NULL;
  MPI_Comm workers_ = MPI_COMM_NULL;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
  int freed_key_ = MPI_KEYVAL_INVALID;  ///< of an attribute: MPI tells when a communicator that has it is freed
  MPI_Errhandler usual_handler_ = MPI_ERRHANDLER_NULL;  ///< of MPI_COMM_WORLD
  mutable std::mutex alarm_mutex_;
  std::shared_ptr<Alarm> alarm_ = std::make_shared<Alarm>();
  std::vector<std::pair<MPI_Comm, int>> made_;  ///< by the program, and after how many repairs; guarded by alarm_mutex_
  bool repairs_ = false;
  bool began_as_spare_ = false;
  bool may_roll_back_ = true;
  int number_ = 0;
  int rank_ = -1;
  int worker_count_ = 0;
  std::vector<bool> works_;  ///< by rank in all_: it is a worker
  std::atomic<int> repairs_done_{0};
  std::atomic<std::thread::id> catcher_{};
  const void* catches_in_ = nullptr;  ///< where in the stack of that thread; read by it alone
};

}  // namespace backstay::comm
