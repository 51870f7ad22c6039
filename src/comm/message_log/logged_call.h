// How the MPI functions of this library are made: each is passed to MPI, recorded, answered from the log, or refused.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "comm/message_log/log_stream.h"
#include "comm/message_log/typed_data.h"

namespace backstay::comm::message_log {

struct Phase;
struct Pending;

/// True where nothing is recorded or replayed in this process, and nothing is left of a replay.
extern std::atomic<bool> calls_are_watched;
inline bool quiet() { return !calls_are_watched.load(std::memory_order_relaxed); }

enum class Use {
  communicates,  ///< in this communicator
  starts,        ///< does so with a request, or a handle of a message
  asks_size,     ///< asks something of a communicator that differs from process to process
  asks,          ///< anything else; of no concern in communicators that are not of the phase
};

struct Call {
  const char* name;  ///< a literal
  MPI_Comm comm;
  const char* words = "";  ///< what the facts are: "to rank %, tag %, % bytes"
  Facts facts = {};        ///< what must be the same in the replay
  Use use = Use::communicates;
};

/// What an MPI call gives, on its way into the log or out of it: the same code describes both. Of a call that fails in
/// a replay, values are `otherwise`, and data are left alone.
class Flow {
 public:
  enum class Way { in, out, failed };
  Flow(Phase* phase, Way way) : phase_(phase), way_(way) {}
  [[nodiscard]] bool recording() const { return way_ == Way::in; }
  [[nodiscard]] bool failed() const { return way_ == Way::failed; }
  [[nodiscard]] Phase& phase() const { return *phase_; }  ///< not if failed()

  template <class N>
  void number(N& value, N otherwise = 0) {
    std::int64_t n = static_cast<std::int64_t>(value);
    integer(n, static_cast<std::int64_t>(otherwise));
    value = static_cast<N>(n);
  }
  void numbers(int* values, std::int64_t count);
  /// Ends with a null character, which is not counted.
  void text(char* at, int* length, int room);
  void status(MPI_Status& status);
  void data(const TypedData& data) { this->data(data, data.bytes()); }
  /// `bytes` of it, known when recording.
  void data(const TypedData& data, std::int64_t bytes);
  /// A communicator made from `parent`; `copied`: with its attributes.
  void made(MPI_Comm parent, MPI_Comm* made, bool copied = false);
  /// `comm` is freed.
  void freed(MPI_Comm comm);
  /// A poll that found nothing.
  void idle() { idle_ = true; }
  [[nodiscard]] bool is_idle() const { return idle_; }
  /// Recording: the log is of no use. Replaying: the phase is not that of the log.
  void give_up(std::string why);

 private:
  void integer(std::int64_t& value, std::int64_t otherwise);
  MPI_Comm stand_in(MPI_Comm parent, bool copied);

  Phase* phase_;
  Way way_;
  bool idle_ = false;
};

using Real = std::function<int()>;
using Exchange = std::function<void(Flow&)>;

enum class Way { pass, record, replay, refuse };
/// What becomes of a call. Says that the log is of no use where the call is what no log can answer.
Way way_of(MPI_Comm comm, Use use, const char* name);
/// `real` is the call itself; `exchange` describes what it gives.
int carry_out(Way way, const Call& call, const Real& real, const Exchange& exchange);
int logged(const Call& call, const Real& real, const Exchange& exchange);
/// A call that no log can answer, if it is of concern.
int refused(const char* name, MPI_Comm comm, const Real& real);
/// Of a phase that is recorded or replayed by this thread: what is asked without being logged.
int rank_in(MPI_Comm comm);
int size_of(MPI_Comm comm);
/// Neighbours from which neighbourhood collectives receive (MPI_PROC_NULL: from nobody), and how many they send to.
const std::vector<int>& sources_in(MPI_Comm comm);
int target_count_in(MPI_Comm comm);

/// Starts an operation; `pending` says what it will give.
int logged_start(const Call& call, MPI_Request* request, const Real& real, const Pending& pending);

/// A call that makes a communicator of `parent`, or frees one. `copied`: with attributes.
int logged_making(const Call& call, MPI_Comm* made, const Real& real, bool copied = false);
int logged_free(const char* name, MPI_Comm* comm, const Real& real);
/// `comm` is of a replay of this thread.
bool is_stand_in(MPI_Comm comm);

/// What the program was given of a status, but for its error, which MPI leaves alone.
void give(MPI_Status* to, const MPI_Status& status);
MPI_Status empty_status();
std::int64_t received_bytes(const MPI_Status& status);

}  // namespace backstay::comm::message_log
