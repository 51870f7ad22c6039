// What is behind a Session.
#pragma once

#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/journal.h"
#include "api/options.h"
#include "api/signals.h"
#include "backstay/session.hpp"
#include "engine/engine.h"
#if BACKSTAY_HAVE_MPI
#include "comm/mpi_comm.h"
#endif

namespace backstay {

class Session::Impl {
 public:
#if BACKSTAY_HAVE_MPI
  Impl(int argc, char** argv, const Options& options);
  Impl(MPI_Comm comm, const Options& options);
#endif
  Impl(Alone, const Options& options);
  ~Impl();

  int rank = 0;
  int size = 1;
#if BACKSTAY_HAVE_MPI
  MPI_Comm user_comm = MPI_COMM_NULL;
#endif
  region::RegionSet& regions() { return engine_->regions(); }
  /// Refuses `call` from within a save or load callback.
  void require_no_call(const char* call) const {
    if (in_call_)
      throw Error(Code::invalid_argument,
                  cat(call, " was called from within checkpoint() or resume(): a save or load callback may not"));
  }
  Outcome checkpoint(bool forced);
  Resumed resume();
  void wait();
  Verified verify();
  void prune(int keep);
  /// Said when loop() begins its body again.
  void rolled_back(const std::string& why) { journal_->say("rolled back: " + why); }
  /// loop() says when it begins and ends.
  void enter_loop() { ++loops_; }
  void leave_loop() { --loops_; }
  [[nodiscard]] bool looping() const { return loops_ > 0; }
  [[nodiscard]] bool stopping() const { return engine_->stopping(); }
  [[nodiscard]] Status status() const;
  /// Waits for what is in flight. False: something is stuck, and nothing that it uses may be freed.
  bool close();

 private:
#if BACKSTAY_HAVE_MPI
  void start_mpi(int* argc, char*** argv);
  void open_mpi(MPI_Comm comm, const Options& options);
  std::unique_ptr<comm::Courier> courier_;
  bool finalize_ = false;
#endif
  void open(const Result<api::Settings>& settings, std::unique_ptr<comm::Comm> app);
  void require_same_options(comm::Comm& app);
  engine::Topology find_topology(comm::Comm& app);
  engine::EngineConfig make_config(const engine::Topology& topology);
  std::vector<int> find_units(const engine::Topology& topology, comm::Comm& app);
  void describe_job(const engine::Topology& topology, comm::Comm& app);
  Result<void> settle_directories();
  void settled(const engine::Settled& settled, const std::string& level);
  void pump();
  void kill_if_asked();
  void report_failures();
  void say_stop();
  /// Of a call that calls the program's functions: they may not call the session.
  class InCall {
   public:
    InCall(Impl& impl, const char* call) : impl_(impl) {
      impl.require_no_call(call);
      impl.in_call_ = true;
    }
    ~InCall() { impl_.in_call_ = false; }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

   private:
    Impl& impl_;
  };

  api::Settings settings_;
  std::string local_dir_;
  int node_ = 0;
  std::unique_ptr<api::Journal> journal_;
  std::unique_ptr<api::SignalListener> signals_;
  std::unique_ptr<engine::Engine> engine_;

  mutable std::mutex mutex_;  // counters_ and failures_ are written by the background
  Status counters_;
  std::uint64_t ended_ = 0;  // checkpoints that are committed or given up at each of their levels
  struct Trouble {
    Failure failure;
    std::string said;  ///< the same reason again is said shortly
  };
  std::vector<Trouble> failures_;
  struct GivenUp {
    std::string why;
    unsigned times = 0;  // in a row
  };
  std::map<std::string, GivenUp> last_why_;  // why the last line of a level was given up, if it was
  std::size_t reported_ = 0;                 // failures said
  bool in_call_ = false;  // checkpoint() or resume() is under way, which may call the program's functions
  bool stop_said_ = false;
  int loops_ = 0;             // loop() inside loop()
  pid_t process_ = getpid();  // a child made by fork() has the session's memory, and none of its threads
  std::int64_t thrown_ = 0;   // failures thrown, of the agreed number
};

namespace detail {
/// Thrown by rollback(), caught by loop().
struct RolledBack {
  std::string why;
};
[[noreturn]] void raise(const Failure& failure);
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) raise(result.failure());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}
}  // namespace detail

}  // namespace backstay
