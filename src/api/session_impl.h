// What is behind a Session.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "api/checker.h"
#include "api/journal.h"
#include "api/observer.h"
#include "api/options.h"
#include "api/signals.h"
#include "backstay/session.hpp"
#include "engine/engine.h"
#include "engine/staging.h"
#include "select/watcher.h"
#include "select/way.h"
#if BACKSTAY_HAVE_MPI
#include "comm/crew.h"
#include "comm/leaving.h"
#include "comm/mpi_comm.h"
#include "comm/ulfm.h"
#include "comm/watch.h"
#endif

namespace backstay {

namespace detail {
/// Thrown by rollback(), caught by loop() of the same session.
struct RolledBack {
  std::string why;
  const void* session;
};
[[noreturn]] void raise(const Failure& failure);
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) raise(result.failure());
  if constexpr (!std::is_void_v<T>) return std::move(result).value();
}
std::chrono::milliseconds milliseconds(double seconds);
/// A flag that is set while this lives.
class Within {
 public:
  explicit Within(bool& flag) : flag_(flag), before_(flag) { flag_ = true; }
  ~Within() { flag_ = before_; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  bool& flag_;
  bool before_;
};
}  // namespace detail

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
  void include(MPI_Comm made) {
    if (crew_) crew_->include(made);
  }
#endif
  region::RegionSet& regions() { return regions_; }
  region::RegionSet& statics() { return statics_; }
  detail::Ahead ahead;            ///< of the way that is gone again
  bool protects_statics = false;  ///< what is protected now is static
  /// A name is used once, whichever way it is protected.
  [[nodiscard]] Result<void> require_free(const RegionSpec& spec) const {
    return (spec.is_static ? regions_ : statics_).require_free(spec.name);
  }
  /// Refuses `call` from within a function of the program that the session calls, and where the session has ended.
  void require_may_call(const char* call) const {
    if (in_call_ && caller_ != std::this_thread::get_id())
      throw Error(Code::invalid_argument, cat(call, " was called while another thread is in a call of this session: ",
                                              "one thread at a time may, so have them take turns"));
    if (in_call_)
      throw Error(Code::invalid_argument,
                  cat(call, " was called from within checkpoint() or resume(), or another call that asks a callback: ",
                      "these (save, load, look, resize) may not call the session"));
    require_not_ended(call);
  }
  /// It ends before the program lets go of it by a loss that nobody can repair.
  void require_not_ended(const char* call) const {
    if (!engine_ || is_closed_)
      throw Error(ended_by_.code, cat(call, " was called behind the end of the session: ", ended_by_.what));
  }
  /// The threads and locks of the session are not those of a process that fork() made.
  void require_own_process(const char* call) const {
    if (getpid() != process_)
      throw Error(Code::invalid_argument,
                  cat(call, " was called in a process that fork() made, and the session is that of the one which ",
                      "opened it: open another one, in a directory of its own"));
  }
  /// A call of the session is under way that has called the program, and uses the session when that returns.
  [[nodiscard]] bool is_in_call() const { return in_call_ || in_init_; }
  [[nodiscard]] bool is_calling_back() const { return in_call_; }
  void say_not_closed() const;
  void say_that_it_ended() const;
  /// What the program gives to be called may not call the session.
  void guard(RegionSpec& spec);
  /// A line is put back, at the place, into what was protected when the way began.
  void require_no_way(const char* call) const {
    if (way_)
      throw Error(Code::invalid_argument,
                  cat(call, " was called after replay(), which has looked at what is protected: ",
                      "protect all before it, and leave it so"));
  }
  void require_no_init(const char* call) const {
    if (in_init_)
      throw Error(Code::invalid_argument,
                  cat(call, " was called inside init(): a rank that takes another's place runs that alone"));
  }
  void init(const std::function<void()>& phase);
  Computation declare(const std::string& name, const std::vector<Access>& accesses);
  /// `scoped`: it ends with leave(). False: a replay skips it.
  bool begin(Computation computation, bool scoped);
  /// The one that began last, unless that ends with leave().
  void end() {
    if (!running_.empty() && !scopes_.back().ends_with_leave) end_last(true);
  }
  /// The last one that is scoped, and what it left open. Not `completed`: its body threw.
  void leave(bool completed) {
    if (!running_.empty() && !scopes_.back().ends_with_leave) end_last(completed);
    if (!running_.empty()) end_last(completed);
  }
  /// What was undecided of the newest checkpoint is saved, before memory changes in a way that nobody declares.
  void decide() {
    end();
    open_memory();
    if (engine_) engine_->decide();
  }
  /// Where the program calls it; with place=best it looks for a signal only.
  Outcome checkpoint(bool forced);
  Resumed resume();
  Resumed replay();
  [[nodiscard]] bool replaying() const { return way_ && way_->skips(); }
  void init_done();
  /// Behind the beginning of the program, this region is other memory than that made.
  void note_exchanged(const std::string& region) {
    if (engine_) engine_->note_exchanged(region);
  }
  void save_only(const std::vector<std::string>& names);
  /// What the program was told, outside of computations or by one. A replay gives it back.
  void keep(MutableByteView value, bool of_computation);
  /// Of a computation that was skipped without begin().
  void give_back(MutableByteView value);
  void refuse_replay(Computation computation) const;
  void wait();
  Verified verify();
  void prune(int keep);
  /// Runs the body of loop(), again after each rollback and each repair.
  void loop(const std::function<void()>& body);
  [[nodiscard]] bool looping() const { return loops_ > 0; }
  /// A loss leads to a repair here.
  [[nodiscard]] bool is_inside() const { return looping() || in_init_; }
  [[nodiscard]] bool stopping() const { return engine_->stopping(); }
  [[nodiscard]] Status status() const;
  /// Waits for what is in flight. False: something is stuck, and nothing that it uses may be freed.
  bool close();
  /// Behind close(): ends MPI, too, if this session began it.
  void end_all();

 private:
#if BACKSTAY_HAVE_MPI
  void start_mpi(int* argc, char*** argv, const Result<api::Settings>& settings);
  void open_mpi(MPI_Comm comm, const Result<api::Settings>& settings);
  void open_among(MPI_Comm comm, const Result<api::Settings>& settings);
  void open_with_spares(MPI_Comm comm);
  void leave_to_another_spare(const std::string& why) const;
  [[nodiscard]] comm::FailureUnits own_units() const;
  void stand_by();
  void start_with_crew();
  void stop_engine(comm::Alarm& alarm);
  void meet_after_a_loss();
  void note_repair(const comm::Verdict& meeting);
  [[nodiscard]] bool may_save_what_memory_holds() const;
  void save_what_memory_holds(bool speaks);
  void say_what_has_vanished();
  void save_what_fewer_cannot_take();
  void tell_of_what_was_saved(const engine::Rescued& saved, std::chrono::steady_clock::time_point began,
                              const std::string& when) const;  ///< empty: another rank says it
  void say_repairs();
  void require_that_init_can_be_recorded() const;
  void record_together(const std::function<void()>& phase);
  void record(const std::function<void()>& phase);
  void replay(const std::function<void()>& phase);
  void find_logs();
  static std::string lost_ranks(const comm::Verdict& meeting);
  static void tell_that_all_came(const std::string& dir, const std::string& name);
  void note_who_is_lost(const comm::Verdict& meeting) const;
  [[nodiscard]] std::string nobody_goes_on(const comm::Verdict& meeting, bool any_is_left) const;
  comm::MpiOptions mpi_options();
  std::unique_ptr<comm::Courier> courier_;
  std::chrono::steady_clock::time_point pumped_ = std::chrono::steady_clock::now();
  std::unique_ptr<comm::Crew> crew_;
  std::vector<comm::Verdict> repaired_;
  std::size_t said_ = 0;       // of these
  bool crew_is_gone_ = false;  // all have parted: nobody meets any more
  bool finalize_ = false;
  std::vector<Bytes> logs_;  // of init(): one for each call that all have behind them
  std::size_t phases_ = 0;   // calls of init() that this rank has behind it
#endif
  bool in_init_ = false;
  bool is_closed_ = false;  // perhaps inside the body of loop()
  Failure ended_by_{Code::internal, "it is not open"};
  void require_not_closed_in_body() const;
  bool meet_at_the_end(bool finished);
  bool is_lost_ = false;        // ranks are missing, and nobody can take their places
  bool left_by_error_ = false;  // this rank has left loop(); of the others nothing is known
  bool refused_ = false;        // a computation; of the others nothing is known
  void settle(const Result<api::Settings>& settings, comm::Comm& all);
  void make_journal(int speaker);
  void start(std::unique_ptr<comm::Comm> app);
  void require_same_options(comm::Comm& app);
  int find_node(comm::Comm& all);
  engine::Topology find_topology(comm::Comm& app);
  engine::EngineConfig make_config(const engine::Topology& topology);
  void fit_to_those_left(engine::LevelConfig& level, int nodes);
  std::vector<int> find_units(const api::UnitChoice& choice, const engine::Topology& topology, comm::Comm& app);
  void describe_job(const engine::Topology& topology, comm::Comm& app);
  Result<void> settle_directories();
  Result<void> require_own_units() const;
  [[nodiscard]] Result<void> can_write_on_its_node() const;
  [[nodiscard]] bool has_files_on_nodes() const;
  void settled(const engine::Settled& settled, const std::string& level);
  void say_of_others(const std::string& sentence);
  void pump();
  void kill_if_asked(std::uint64_t call);
  void forget_kill_of(int lost);
  void report_failures();
  void say_stop();
  void meet_to_close();
#if BACKSTAY_HAVE_MPI
  /// Sessions on MPI that are not closed.
  struct Open {
    std::mutex mutex;
    std::set<Impl*> sessions;
  };
  static Open& open_ones();
  static void leave_mpi();
#endif
  bool let_spares_go();
  [[nodiscard]] bool has_lasting_line() const;
  [[nodiscard]] bool lasts(const std::string& level) const;
  /// Forgets what is protected from now on, when it is called.
  std::function<void()> what_was_protected();
  void say_idle_options();
  void look_what_is_unprotected(const std::vector<std::string>& regions, const std::vector<std::string>& statics);
  std::string unprotected_;  // by the body, and protected before it
  void begin_loop();
  void bar_spares();
  void keep_beginning();
  void keep_what_the_body_protects();
  void look_what_was_protected_late();
  [[nodiscard]] Result<void> may_go_back_to_the_beginning() const;
  [[nodiscard]] bool is_numbered_as_then() const;
  Result<void> go_back_to_the_beginning();
  void begin_after_a_loss(bool back);
  [[nodiscard]] bool a_rank_is_lost() const;
  [[nodiscard]] std::size_t repairs_begun() const;
  /// As far as this process has seen: one that took a place has not seen all.
  [[nodiscard]] bool fewer_are_left() const;
  /// Or did, before a repair: what comes back on as many ranks only.
  [[nodiscard]] bool protects_unplaced() const;
  /// The same, and MPI is asked: where the program leaves its body.
  [[nodiscard]] bool has_heard_of_a_loss() const;
  [[nodiscard]] bool repairs() const;
  void leave_if_lost();
  bool come_together(bool finished);
  /// Where a rank was lost, the way back to loop().
  template <class T>
  T value_here(Result<T> result) {
    if (!result) leave_if_lost();
    return detail::value_or_throw(std::move(result));
  }
  /// Of a call that calls the program's functions: they may not call the session.
  class InCall {
   public:
    InCall(Impl& impl, const char* call) : impl_(impl) {
      impl.require_may_call(call);
      impl.require_own_process(call);
      impl.end();
      open_memory();
      impl.caller_ = std::this_thread::get_id();
      impl.in_call_ = true;
    }
    ~InCall() { impl_.in_call_ = false; }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

   private:
    Impl& impl_;
  };

  api::Settings settings_;
  region::RegionSet regions_;
  region::RegionSet statics_;
  select::Declared declared_;
  std::vector<std::size_t> running_;  ///< computations, inside each other
  struct Scope {
    bool ends_with_leave = false;
    bool runs = true;  ///< no replay skips it
  };
  std::vector<Scope> scopes_;  ///< of these
  void end_last(bool completed);
  /// While a line waits, what is done for it in a computation is counted.
  class Blocking {
   public:
    explicit Blocking(Impl& impl);
    ~Blocking();
    Blocking(const Blocking&) = delete;
    Blocking& operator=(const Blocking&) = delete;

   private:
    Impl& impl_;
    std::optional<std::chrono::steady_clock::time_point> began_;
  };
  // ---- replay: see select/way.h
  bool has_begun_ = false;                ///< a computation, result() or checkpoint() was called
  bool beginning_is_over_ = false;        ///< init_done() was called
  bool was_resumed_ = false;              ///< resume() was called, in this turn of loop()
  std::set<std::string> only_;            ///< see save_only()
  std::optional<select::Way> way_;        ///< since replay()
  std::unique_ptr<engine::Aside> aside_;  ///< while it is gone again
  std::uint64_t replayed_line_ = 0;
  std::chrono::steady_clock::time_point replay_began_;
  void protect_way();
  [[nodiscard]] bool is_on_its_way() const { return way_ && way_->is_gone_again(); }
  void begin_way();
  std::set<std::string> outside_;  ///< regions that were protected before loop()
  Resumed find_way();
  bool goes_on_here();
  /// What comes next on the way is looked for, where `ahead` has not got it. False: this is no moment for it.
  bool looks_ahead() {
    if (!way_ || !running_.empty()) return false;
    way_->look_ahead();
    return true;
  }
  void require_arrival() const;
  bool went_astray_ = false;  ///< and was told so
  template <class T>
  T on_the_way(Result<T> result) {
    went_astray_ = went_astray_ || !result.ok();
    return detail::value_or_throw(std::move(result));
  }
  void forget_way();
  Resumed found(const Result<Resumed>& outcome);
  // ---- the place: see select/watcher.h
  std::optional<select::Watcher> watcher_;  ///< with place=best or advise=on
  std::optional<select::Seen> seen_;        ///< by it, the last time it looked
  std::vector<int> mark_;                   ///< by which the best place is known; empty: each computation is one
  std::uint64_t look_at_ = 16;              ///< this many computations
  std::uint64_t met_at_ = 0,
                patience_ = 256;  ///< when the mark was met last; for so many computations it is waited for
  [[nodiscard]] bool places_itself() const { return settings_.places_itself && way_; }
  void watch(std::size_t computation);
  void look();
  void forget_mark();
  void say_advice();
  Outcome take(bool forced);
  std::optional<api::Checker> checker_;    ///< with the option check_access
  std::optional<api::Observer> observer_;  ///< with the option observe
  /// The session is about to use the regions, perhaps inside of a computation.
  static void open_memory() { check::AccessCheck::give_up_all(); }
  std::shared_ptr<store::Store> memory_;  ///< of level memory: it outlives the engine
  std::string local_dir_;
  int node_ = 0;
  int processes_ = 1;  // when it was opened, spares among them
  std::unique_ptr<api::Journal> journal_;
  std::unique_ptr<api::SignalListener> signals_;
  std::unique_ptr<engine::Engine> engine_;

  mutable std::mutex mutex_;  // counters_ and failures_ are written by the background
  Status counters_;
  bool has_lasting_line_ = false;      // one that outlives the loss of a rank
  double blocked_by_first_ = 0;        // of counters_.blocked_seconds, up to the second checkpoint
  std::uint64_t captured_before_ = 0;  // by the engines before this one
  std::uint64_t ended_ = 0;            // checkpoints that are committed or given up at each of their levels
  struct Trouble {
    Failure failure;
    std::string said;      ///< the same reason again is said shortly
    bool surplus = false;  ///< of this rank alone: an older line could not be removed, and none was given up
  };
  /// Throws the newest reason for which a line was given up, if there is one, which all ranks know.
  void raise_newest_failure();
  std::vector<Trouble> failures_;
  struct Reason {
    std::uint64_t line = 0;  // the first one
    unsigned times = 0;
  };
  std::map<std::string, std::map<std::string, Reason>>
      reasons_;               // why lines of a level were given up since one was whole
  std::size_t reported_ = 0;  // failures said
  bool in_call_ = false;      // checkpoint() or resume() is under way, which may call the program's functions
  std::thread::id caller_;    // of that call, where one is under way
  bool stop_said_ = false;
  int loops_ = 0;        // loop() inside loop()
  int loops_begun_ = 0;  // of those that are not inside
  /// What protected memory held at one moment.
  struct Held {
    std::set<std::string> names;
    engine::Capture regions, statics;
  };
  /// To go back to until the first line is whole.
  struct Beginning {
    Held at_loop;                   ///< what was protected then
    std::optional<Held> at_resume;  ///< what the body had protected by itself when it first called resume()
    int rank = 0, size = 0;         ///< then
    std::string late;               ///< a region that the body has protected behind its first resume()
    std::string missing;            ///< why it could not be kept
  };
  [[nodiscard]] Result<void> hold(Held& target, const std::set<std::string>& but) const;
  [[nodiscard]] Result<void> put_back(Held& held);
  std::optional<Beginning> beginning_;
  std::uint64_t saved_statics_ = 0;  // by the engine before this one
  engine::Distrusted distrusted_;    // of that
  std::uint64_t next_line_ = 1;      // of that
  std::uint64_t newest_shared_ = 0;  // a whole line, by that
  bool knows_shared_ = false;        // what the engine has found there was compared with that
  std::uint64_t kills_done_ = 0;     // up to that call of checkpoint()
  bool unplaced_ = false;            // see protects_unplaced()
  bool must_resume_ = false;         // a rank was replaced, and resume() was not called since
  /// Whether a line was whole: false on a process that took a place, until it has gone on with ranks that know it.
  bool knows_what_was_whole_ = true;
  pid_t process_ = getpid();  // a child made by fork() has the session's memory, and none of its threads
  std::int64_t thrown_ = 0;   // failures thrown, of the agreed number
};

}  // namespace backstay
