// What is known of the phase that is recorded or replayed in this process.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/message_log/log_stream.h"
#include "comm/message_log/logged_call.h"

// Open MPI 5 has most of MPI 4 and says that it is 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define BACKSTAY_HAS_MPI_4
#endif

namespace backstay::comm::message_log {

/// A communicator of the phase. Those of the replay are stand-ins, of one process.
struct Member {
  std::int64_t number = 0;  ///< 0: of the workers, 1: MPI_COMM_SELF, then in the order of their making
  int size = 0;
  int rank = 0;
  std::vector<int> ranks;    ///< its processes as ranks of the workers
  std::vector<int> sources;  ///< see sources_in()
  int targets = 0;
};
constexpr std::int64_t workers_number = 0;
constexpr std::int64_t self_number = 1;
constexpr std::int64_t other_number = -1;  ///< any that is not of the phase

/// An operation that was started in the phase.
struct Pending {
  const char* name = "";
  std::vector<TypedData> written = {};  ///< by MPI, when it is done
  bool is_message = false;              ///< the status says how much of it
  bool persistent = false;
  MPI_Comm from = MPI_COMM_NULL;  ///< a communicator is made from it,
  MPI_Comm* made = nullptr;       ///< and put there
  // Filled in when it starts:
  std::int64_t number = 0;
  bool active = true;
  bool given = false;  ///< `written` is in the log already
};

/// The operations behind one handle: several where MPI gives out one handle for all operations that were done at once.
struct Shared {
  std::vector<Pending> pending;
  bool interchangeable = false;  ///< there were several
};

struct Phase {
  bool replays = false;
  MPI_Comm workers = MPI_COMM_NULL;
  MPI_Comm alias = MPI_COMM_NULL;    ///< of the replay: of several processes, and answered like its stand-in `workers`
  MPI_Group group = MPI_GROUP_NULL;  ///< of the workers
  LogWriter writer;
  LogReader reader{Bytes()};
  std::int64_t calls = 0;
  std::int64_t next_comm = 2;
  std::int64_t next_request = 0;
  std::int64_t next_message = 0;
  std::unordered_map<MPI_Comm, Member> comms;
  std::unordered_map<MPI_Request, Shared> requests;
  std::map<MPI_Message, std::int64_t> messages;
  std::atomic<bool> in_vain{false};  ///< the sentence below says why
  std::string why;
  std::function<void(const std::string&)> say;  ///< what a recording cannot wait with
  bool damaged = false;

  ~Phase() {
    if (group != MPI_GROUP_NULL) PMPI_Group_free(&group);
  }
  /// The first reason counts. Held by a lock: other threads may say so, too.
  void give_up(std::string reason);
  void give_up_unlocked(std::string reason);
  void add(MPI_Comm comm, Member member);
  [[nodiscard]] const Member* find(MPI_Comm comm) const;
};

/// Guards the present phase, its communicators and its requests, where another thread looks at them.
std::mutex& phase_mutex();
/// Of this process, for who holds that; null: none.
Phase* present_phase_unlocked();
/// Of this thread; null: none.
Phase* own_phase();
/// This thread is inside MPI, or does something of its own.
bool is_unseen();

/// What a log says of `comm`, a communicator of a phase that is recorded.
Member describe(const Phase& phase, MPI_Comm comm);
void exchange_member(Flow& flow, Member& member);
/// A group of as many processes as that of the recording, in which this process has the same rank.
Result<MPI_Group> group_of_stand_in(const Phase& phase, const Member& member);
/// A request that stands for one of the recording, and its end.
MPI_Request make_stand_in();
void end_stand_in(MPI_Request* request);
/// An operation was started, in MPI or in the log.
void started(Flow& flow, MPI_Request* request, Pending pending);
/// `comm` is no longer there; it may have been left over by a replay.
void forget_left_over(MPI_Comm comm);
/// Fails `comm`'s call, in its way.
int fail_call(MPI_Comm comm);

}  // namespace backstay::comm::message_log
