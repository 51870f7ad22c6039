// The engine of a session: levels, the background, the decision, resume. Knows no MPI and no options.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backstay/session.hpp"
#include "engine/aside.h"
#include "engine/background.h"
#include "engine/groups.h"
#include "engine/kept_log.h"
#include "engine/line_reader.h"
#include "engine/open_line.h"
#include "engine/rescue.h"
#include "engine/statics.h"
#include "plan/decider.h"
#include "region/region_set.h"
#include "select/declared.h"
#include "store/lock.h"
#include "store/posix_store.h"

namespace backstay::engine {

/// Lines of a companion, by its name, of which a resume found something damaged: see Level::distrusted.
using Distrusted = std::map<std::string, std::set<std::uint64_t>>;

/// What to do when a checkpoint falls due while an earlier one is in flight.
enum class Policy { skip, wait, degrade };

struct EngineConfig {
  std::vector<LevelConfig> levels;  ///< cheapest first
  Topology topology;
  std::string shared_dir;
  std::string local_dir;  ///< of this rank's node
  Policy policy = Policy::skip;
  std::chrono::milliseconds timeout{};
  /// How long the lock of a directory is waited for: of who held it before, who was lost with a node, a file system may
  /// keep it for a while.
  std::chrono::milliseconds lock_patience{};
  /// It goes on for another one after a loss: without stores that are gone or cannot be written any more, as a job does
  /// whose disk fails.
  bool goes_on = false;
  std::uint64_t next_line = 1;  ///< of the one before: lines that cannot be seen now may have the numbers below
  std::uint64_t staging_limit = 0;
  int capture_threads = 1;
  int nice = 10;
  bool direct_io = true;
  bool lenient = false;  ///< regions=lenient
  double agreement_period = 0.02;
  std::string program;
  std::string run;                                    ///< of its launcher; for the locks
  std::shared_ptr<store::Store> memory;               ///< of level memory; null: a new one
  region::RegionSet* regions = nullptr;               ///< not owned; null: the engine's own
  region::RegionSet* statics = nullptr;               ///< the same of those that do not change
  const select::Declared* declared = nullptr;         ///< computations; not owned; null: there are none
  const std::vector<std::size_t>* running = nullptr;  ///< of these, inside each other; not owned; null: none
  std::uint64_t saved_statics = 0;  ///< changes() of those when they were last saved or put back; 0: never
  Distrusted distrusted;            ///< as the engine before this one knew them
  /// For tests: what every store of a level is replaced by; empty: nothing.
  std::function<std::shared_ptr<store::Store>(std::shared_ptr<store::Store>)> wrap_store;
};

struct EngineHooks {
  std::function<void(const std::string&)> say;  ///< a sentence for people, the same on every rank
  std::function<void(const Settled&, const std::string& level)> settled;  ///< on the background thread
  std::function<void()> pump;                                             ///< empty: not needed
  /// A sentence about a rank that others wait for, who may be the one that says things to people; empty: said by none.
  std::function<void(const std::string&)> say_of_others = {};
  /// A sentence of this rank, which others need not have; empty: said by none.
  std::function<void(const std::string&)> insist = {};
  /// Why a rank may be late, for the end of such a sentence; empty: nothing is known.
  std::function<std::string()> why_late = {};
  std::function<void()> line_began = {};                          ///< see LineHooks::began; empty: not needed
  std::function<void(const Failure&)> cannot_write_rebuilt = {};  ///< see rebuild(); empty: not needed
};

/// One rank's engine. All ranks call open(), checkpoint(), resume(), wait(), verify(), prune() in the same order.
class Engine {
 public:
  /// `ranks`: of the session; the engine talks in duplicates of it.
  Engine(EngineConfig config, EngineHooks hooks, std::unique_ptr<comm::Comm> ranks);
  ~Engine();

  /// Makes and locks the directories, and looks at what is in them. Code::locked, permission, io, invalid_argument.
  Result<void> open();

  region::RegionSet& regions() { return regions_; }
  region::RegionSet& static_regions() { return static_regions_; }
  [[nodiscard]] std::uint64_t saved_statics() const { return config_.saved_statics; }
  [[nodiscard]] Distrusted distrusted() const;
  /// The next capture writes the cheapest level whose lines outlive a rank, due or not: there is nothing to roll back
  /// to.
  void want_a_line();
  [[nodiscard]] bool has_lines() const;

  /// `signal`: this rank was asked to end. `now`: due, whatever the decision says.
  Result<Outcome> checkpoint(bool now, bool signal);
  /// What of a line this rank has not decided yet, see engine/open_line.h.
  Result<void> before(std::size_t computation) { return open_line_.before(computation); }
  void after(std::size_t computation, bool completed) { open_line_.after(computation, completed); }
  void decide() { open_line_.decide(); }
  void begin_way(std::set<std::string> others) { open_line_.begin_way(std::move(others)); }
  Result<void> note_made() { return open_line_.note_made(); }
  void note_exchanged(const std::string& region) { open_line_.note_exchanged(region); }
  void end_way() { open_line_.end_way(); }
  /// What resume() found is not what the program goes on with.
  void forget_resumed() {
    looked_back_ = false;
    was_refused_ = true;
    resumed_call_ = 0;
  }
  void begin_again() { open_line_.begin_again(); }
  void save_only(std::set<std::string> names) { open_line_.save_only(std::move(names)); }
  void note(std::size_t computation) { open_line_.note(computation); }
  [[nodiscard]] std::set<std::string> as_made() const { return open_line_.as_made(); }
  void give_up_undecided(const std::vector<std::string>& still_there = {}) {
    open_line_.give_up_undecided(still_there);
  }
  [[nodiscard]] std::uint64_t left_out_bytes() const { return open_line_.left_out_bytes(); }
  /// A line waits for what computations show.
  [[nodiscard]] bool waits() const { return open_line_.waits(); }
  /// Staging memory for what is protected now, so that the first checkpoint need not make it.
  void make_ready();
  /// Into `aside`, if there is one, instead of the regions: put_back() follows.
  Result<Resumed> resume(Aside* aside = nullptr);
  /// Collective: what was read aside goes into the regions.
  Result<void> put_back(const Aside& aside);
  /// Collective, before the session ends, so that a rank that is late costs the last line nothing. If others go on
  /// instead, all hear of it, and nothing more is saved: Code::comm, or Code::mismatch if one was refused a
  /// computation.
  Result<void> meet_to_close() { return meet(Meeting::close); }
  /// The same without waiting, where only this rank may be ending its session. It `leaves`: see leave().
  void announce_close(bool leaves);
  /// The background makes no further MPI calls: MPI may end while it is stuck.
  void leave() { groups_.background().leave(); }
  /// Collective: success if every rank brings it, else the failure of the lowest one that does not.
  Result<void> agree_on(const Result<void>& mine);
  /// Collective: the sums over all ranks; empty where they have not equally many.
  Result<std::vector<std::int64_t>> add_up(const std::vector<std::int64_t>& mine);
  /// Until what was taken so far is settled on every rank.
  Result<void> wait();
  /// The same for this rank alone: not collective, but after a meet_to_close() in which all have come to wait.
  Result<void> drain();
  /// The background makes no calls of MPI from here on, until it is given the next line, if half the time-out was
  /// enough for it to end what it does.
  void rest() { (void)settled_here().ok(); }
  Result<Verified> verify();
  Result<void> prune(std::size_t keep);
  /// Collective, before the first checkpoint: see engine/rescue.h.
  Result<Rescued> save_what_memory_holds();
  /// Collective, before the first checkpoint: the messages that set this rank up, or why there is no log of them, which
  /// is the failure of all. See engine/kept_log.h.
  Result<void> keep_log(const Result<std::string>& log);
  struct FoundLog {
    std::string log;
    std::int64_t phases = 0;  ///< the most that any rank brought
  };
  /// Collective, right after open(). `phases`: how many of its phases this rank has behind it.
  Result<FoundLog> find_log(std::int64_t phases);

  /// After Outcome::stop: the line of that call was committed at some level; the same on every rank.
  [[nodiscard]] bool last_line_is_whole() const;
  [[nodiscard]] bool stopping() const { return stopping_; }
  /// The number of the call of checkpoint() that comes next.
  [[nodiscard]] std::uint64_t next_call() const { return decider_.call() + 1; }
  /// Lines given up since the session was opened, as all ranks knew at the last agreement: the same on every rank.
  [[nodiscard]] std::int64_t agreed_failures() const { return decider_.failures(); }
  /// Checkpoints handed to the background since the session was opened.
  [[nodiscard]] std::uint64_t captured() const { return captured_; }
  [[nodiscard]] std::size_t in_flight() const {
    return (background_ ? background_->in_flight() : 0) + (open_line_.waits() ? 1 : 0);
  }
  [[nodiscard]] std::uint64_t staging_bytes() const { return background_ ? background_->staging_bytes() : 0; }
  [[nodiscard]] const std::vector<Level>& levels() const { return levels_; }
  /// The number of the line that comes next.
  [[nodiscard]] std::uint64_t next_line() const { return next_line_; }
  /// The newest whole line at level shared, as far as this rank knows; 0: none; nothing if that could not be looked at
  /// when the engine was opened. While nothing is in flight.
  [[nodiscard]] std::optional<std::uint64_t> newest_shared() const;
  /// There was something of that line then.
  [[nodiscard]] bool found_shared(std::uint64_t line) const { return shared_there_ && shared_there_->contains(line); }

 private:
  Result<void> make_levels();
  Result<void> look_at_other_levels();
  Result<void> make_level(Level& level);
  [[nodiscard]] const std::string& directory_of(const Level& level) const {
    return is_on_nodes(level.config.kind) ? config_.local_dir : config_.shared_dir;
  }
  [[nodiscard]] store::PosixOptions posix_options() const {
    return {config_.direct_io ? store::Direct::automatic : store::Direct::off};
  }
  Result<void> only_read(Level& level, const Failure& why);
  Result<store::DirLock> take_lock(const std::string& dir);
  Result<void> lock_directories();
  Result<void> make_names_durable();
  /// What a rank comes to the others for.
  enum class Meeting { next_call, room, statics, init, resume, verify, prune, wait, place, close };
  Result<std::unique_ptr<comm::PendingMax>> start_meeting(Meeting meeting, std::vector<std::int64_t> numbers,
                                                          std::int64_t handed_over, bool waits = true);
  [[nodiscard]] std::int64_t handed_over() const { return static_cast<std::int64_t>(captured_); }
  /// Code::comm: ranks have come for different things; nobody comes to another meeting.
  Result<std::vector<std::int64_t>> finish_meeting(comm::PendingMax& meeting);
  Result<std::int64_t> meet_and_compare(Meeting meeting, std::int64_t in_flight);
  Result<void> come_to(Meeting meeting);
  Result<void> finish_agreement();
  Result<void> start_agreement(bool signal);
  Result<Resumed> put_back_newest_line(Aside* later);
  void note_what_is_owed(const Inventory& lines, const PutBack& found);
  Result<void> make_aside(std::optional<Aside>& aside) const;
  Result<void> take(const PutBack& found, const Aside* aside, bool later);
  Result<void> meet(std::optional<Meeting> meeting = {});
  void tell_who_is_late();
  void tell_what_is_stuck();
  Result<void> settle();
  Result<void> settled_here();
  Result<void> write_last();
  void say_that_all_have_come();
  Result<void> look_what_is_in_flight();
  Result<Outcome> take(std::vector<bool> levels, bool must_wait);
  Result<Outcome> capture(const std::vector<bool>& levels, bool now);
  Result<Level*> level_of_logs();
  [[nodiscard]] bool must_look_after_statics(const std::vector<bool>& levels) const;
  Result<void> look_after_statics(const std::vector<bool>& levels, bool now);
  [[nodiscard]] Result<void> require_regions() const;
  [[nodiscard]] CaptureOptions capture_options() const {
    return {groups_.app().rank(), config_.capture_threads, config_.staging_limit};
  }
  Result<void> write_statics(const std::vector<bool>& levels);
  Result<Outcome> take_last();
  [[nodiscard]] std::string what_is_left_behind() const;
  std::vector<bool> due_levels(bool now);
  void note_lines(const Inventories& found);
  void note_statics(const Inventory& found);
  void note_what_is_shared(const Inventory& found);
  [[nodiscard]] std::vector<bool> cheapest() const;
  void start_background();

  EngineConfig config_;
  EngineHooks hooks_;
  Groups groups_;
  region::RegionSet own_regions_;
  region::RegionSet& regions_;
  region::RegionSet own_statics_;
  region::RegionSet& static_regions_;
  std::vector<Level> levels_;
  std::vector<Level> companions_;            ///< of levels_, for the static regions
  std::vector<std::uint64_t> static_lines_;  ///< for each level where they are now; 0: nowhere
  std::optional<Level> logs_;
  std::uint64_t static_changes_ = 0;  ///< of the set, when that was found
  std::int64_t static_failures_ = 0;  ///< lines that had been given up then
  std::uint64_t told_changes_ = 0;    ///< of the set, when the last meeting began
  std::int64_t told_refusal_ = 0;     ///< of a computation, then
  bool statics_are_new_ = false;      ///< on some rank: as of the last meeting, the same on every rank
  bool there_are_statics_ = false;    ///< likewise
  std::map<std::string, std::shared_ptr<const store::DirLock>> locks_;  ///< by directory
  Job job_;
  plan::Decider decider_;
  std::unique_ptr<comm::PendingMax> agreement_;
  std::optional<std::set<std::uint64_t>> shared_there_;  // lines that were found at level shared; none: not looked at
  std::uint64_t next_line_ = 1;
  std::uint64_t captured_ = 0;
  std::uint64_t agreed_at_ = 0;  ///< the call that the newest agreement was used at
  double call_began_ = 0;
  std::unique_ptr<comm::PendingMax> farewell_;
  bool all_wait_ = false;                       ///< every rank that has come to the last meeting waits for its end
  bool all_wait_to_end_ = false;                ///< and it was that of close()
  std::optional<Failure> apart_;                ///< ranks have come for different things
  bool may_be_in_flight_ = false;               ///< something, on some rank; the same on every rank
  bool all_have_come_ = false;                  ///< to this call, as was found
  bool late_said_ = false;                      ///< and not yet that all have come
  std::set<std::pair<int, int>> missing_said_;  ///< (level, server): stores that are done without
  bool stuck_said_ = false;                     ///< of what the background has in hand
  std::uint64_t resumed_call_ = 0;              ///< the state at this call is the one that was put back
  std::vector<bool> forced_;                    ///< levels that the next call must write: copies were missing
  std::vector<std::pair<std::string, std::uint64_t>> other_lines_;  ///< newest ones at levels that are not ours
  std::vector<bool> last_levels_;                                   ///< of the last checkpoint
  std::vector<bool> owed_;                                          ///< levels that fell due and were passed over since
  std::atomic<std::int64_t> failures_{0};
  bool stopping_ = false;
  bool last_settled_ = false;  ///< the checkpoint of the stop was taken, and is committed or given up
  bool looked_back_ = false;   ///< resume() has put back what is there, if something is
  bool was_refused_ = false;   ///< or could not
  std::unique_ptr<Background> background_;
  OpenLine open_line_;
};

/// The number of the newest committed line that the directory of a node holds at any level; 0: none.
std::uint64_t newest_line_on_node(const std::string& local_dir);

}  // namespace backstay::engine
