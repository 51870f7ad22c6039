// How a session goes on when a rank is lost: loop(), spares, and what is made anew.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "api/exit_status.h"
#include "api/session_impl.h"
#include "base/crc32c.h"
#include "base/flush.h"
#include "base/text.h"
#include "format/data_file.h"

namespace backstay {

namespace {
using detail::milliseconds;
using detail::value_or_throw;

/// Runs the body of loop() one more level deep.
class Depth {
 public:
  explicit Depth(int& depth) : depth_(depth) { ++depth_; }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};
}  // namespace

/// What the body protects it protects anew: what it protected the first time may lie in memory that is gone.
void Session::Impl::loop(const std::function<void()>& body) {
  require_may_call("loop()");
  require_no_init("loop()");
  if (way_)
    throw Error(Code::invalid_argument,
                "loop() was called after replay(): a body that runs again is replayed from its beginning, so call "
                "replay() inside of it");
  open_memory();
  const Depth depth(loops_);
  left_by_error_ = false;
  const auto forget_what_it_protected = what_was_protected();
  const auto outside = regions_.names();
  const auto statics_outside = statics_.names();
  outside_ = {outside.begin(), outside.end()};
  if (loops_ == 1) begin_loop();
#if BACKSTAY_HAVE_MPI
  std::optional<comm::Crew::Catching> catching;
  if (crew_ && loops_ == 1 && !settings_.errors_return) catching.emplace(*crew_, __builtin_frame_address(0));
#endif
  while (true) {
    bool finished = false;
    // In Python it holds the buffers of messages that are under way, which MPI needs until all others have left the
    // body, too. (C++: see comm/open_requests.h.)
    std::exception_ptr left_by;
    const auto leave = [&] {
      if (is_closed_) throw;
      // Whatever comes out of the body after a loss is taken for a consequence of it.
      left_by_error_ = loops_ == 1 && !has_heard_of_a_loss();
      if (loops_ > 1 || left_by_error_) {
        engine_->give_up_undecided(outside);  // what the body protected may be gone
        throw;
      }
      left_by = std::current_exception();
    };
    try {
      body();
      require_not_closed_in_body();
      end();  // a computation that the body began ends with this, too
      require_arrival();
      if (loops_ == 1) forget_way();
      engine_->give_up_undecided(outside);
      if (loops_ > 1) return;
      finished = !has_heard_of_a_loss();  // a program that looks at no error code may come here after a loss
    } catch (const detail::RolledBack& back) {
      if (back.session == this) {
        require_not_closed_in_body();
        journal_->say("rolled back: " + back.why);
        forget_what_it_protected();
        continue;
      }
      leave();  // another session's loop() catches it
    } catch (...) {
      leave();
    }
    if (loops_ == 1) look_what_is_unprotected(outside, statics_outside);
    if (come_together(finished)) return;
    left_by = nullptr;
    look_what_was_protected_late();
    forget_what_it_protected();
    if (beginning_ && beginning_->missing.empty())
      if (const auto done = put_back(beginning_->at_loop); !done) beginning_->missing = done.failure().what;
  }
}

void Session::Impl::require_not_closed_in_body() const {
  if (is_closed_)
    throw Error(Code::invalid_argument, "the session was closed inside the body of loop(): close it behind that");
}

/// A process that takes a place protects what the program protects before loop(), and could not go on together with
/// this one.
void Session::Impl::look_what_is_unprotected(const std::vector<std::string>& regions,
                                             const std::vector<std::string>& statics) {
  if (!repairs()) return;
  unprotected_.clear();
  for (const auto& name : regions)
    if (regions_.find(name) == nullptr) unprotected_ = name;
  for (const auto& name : statics)
    if (statics_.find(name) == nullptr) unprotected_ = name;
  if (!unprotected_.empty()) bar_spares();
}

std::function<void()> Session::Impl::what_was_protected() {
  return [this, regions = regions_.names(), statics = statics_.names(), declared = declared_.size(), only = only_] {
    if (engine_) engine_->give_up_undecided(regions);
    if (engine_) engine_->begin_again();
    forget_way();
    regions_.keep_only(regions);
    statics_.keep_only(statics);
    declared_.keep_first(declared);
    only_ = only;  // a process that takes a place has no other list
    if (engine_) engine_->save_only(only);
  };
}

/// A spare would come to the first one, however that ended on the others.
void Session::Impl::begin_loop() {
  ++loops_begun_;
  if (!repairs()) return;
  if (loops_begun_ == 1) return keep_beginning();
  beginning_.reset();
  if (loops_begun_ > 2) return;
  journal_->say(
      "loop() is called for the second time in this session, where a spare cannot follow: a rank that is lost from "
      "here "
      "on ends the job, which can be started again; put all that is to be repaired into the body of one loop()");
  bar_spares();
}

/// All that is protected now, but for regions of these names.
Result<void> Session::Impl::hold(Held& target, const std::set<std::string>& but) const {
  for (const bool are_static : {false, true}) {
    std::vector<engine::Wanted> wanted;
    for (const auto& spec : (are_static ? statics_ : regions_).specs()) {
      if (but.contains(spec.name) || spec.name == format::replay_region) continue;
      wanted.push_back({&spec});
      target.names.insert(spec.name);
    }
    BACKSTAY_TRY(engine::capture_more(wanted, {rank, 1, 0}, are_static ? target.statics : target.regions));
  }
  return {};
}

Result<void> Session::Impl::put_back(Held& held) {
  BACKSTAY_TRY(engine::put_back_regions(regions_, held.regions));
  return engine::put_back_regions(statics_, held.statics);
}

/// Until the first line is whole there is nothing else to roll back to. It is put back before the body begins again, so
/// that what the body makes before resume() stays.
void Session::Impl::keep_beginning() {
  if (has_lasting_line()) return;
  beginning_ = Beginning{};
  const auto kept = hold(beginning_->at_loop, {});
  if (!kept) beginning_->missing = kept.failure().what;
}

/// Memory that lives longer than the body, and is protected by it, is as the body found it when it calls resume() for
/// the first time, and is put back there. Callbacks are not called: what they save may not be there yet.
void Session::Impl::keep_what_the_body_protects() {
  if (!beginning_ || beginning_->at_resume || !beginning_->missing.empty()) return;
  beginning_->rank = rank;
  beginning_->size = size;
  const auto& outside = beginning_->at_loop.names;
  for (const auto* set : {&regions_, &statics_})
    for (const auto& spec : set->specs())
      if (spec.save && spec.type.kind == Type::Kind::opaque && spec.name != format::replay_region &&
          !outside.contains(spec.name))
        beginning_->missing = cat("the callbacks of region '", spec.name,
                                  "' cannot be asked before resume() (protected before loop(), they can)");
  if (!beginning_->missing.empty()) return;
  const auto kept = hold(beginning_->at_resume.emplace(), outside);
  if (!kept) beginning_->missing = kept.failure().what;
}

/// After a loss, while all that the body has protected still is.
void Session::Impl::look_what_was_protected_late() {
  if (!beginning_ || !beginning_->at_resume || !beginning_->missing.empty()) return;
  for (const auto* set : {&regions_, &statics_})
    for (const auto& name : set->names())
      if (name != format::replay_region && !beginning_->at_loop.names.contains(name) &&
          !beginning_->at_resume->names.contains(name))
        beginning_->late = name;
}

Result<void> Session::Impl::may_go_back_to_the_beginning() const {
  if (!beginning_)
    return fail(Code::rank_lost,
                "a rank was lost, and there is no line to roll back to: start the job again (call resume() inside "
                "loop())");
  std::string missing = beginning_->missing;
  if (missing.empty() && !beginning_->late.empty() && is_numbered_as_then())
    missing = cat("region '", beginning_->late, "' was protected behind resume()");
  if (missing.empty() && beginning_->at_resume && is_numbered_as_then())
    for (const auto& name : beginning_->at_resume->names)
      if (regions_.find(name) == nullptr && statics_.find(name) == nullptr)
        missing = cat("the body has protected region '", name, "' the first time only");
  if (missing.empty()) return {};
  return fail(Code::rank_lost,
              "a rank was lost before a line was whole, and there is no way back to what loop() began with: ", missing,
              "; start the job again");
}

bool Session::Impl::protects_unplaced() const {
  return unplaced_ || std::ranges::any_of(std::array{&regions_, &statics_}, [](const auto* set) {
           return std::ranges::any_of(set->specs(), [](const RegionSpec& spec) {
             return spec.placement.kind == Placement::Kind::rank_private && !spec.redistribute;
           });
         });
}

bool Session::Impl::is_numbered_as_then() const { return beginning_->rank == rank && beginning_->size == size; }

/// Where fewer ranks are left the body has set up other parts than before, which are what counts from here on.
Result<void> Session::Impl::go_back_to_the_beginning() {
  BACKSTAY_TRY(may_go_back_to_the_beginning());
  if (beginning_->at_resume && is_numbered_as_then()) return put_back(*beginning_->at_resume);
  beginning_->at_resume.reset();
  keep_what_the_body_protects();
  return {};
}

#if !BACKSTAY_HAVE_MPI
bool detail::ends_by_a_signal() { return false; }
void detail::end_by_a_signal(int) {}
detail::AtTheEnd detail::meet_before_the_end() { return AtTheEnd::met; }
bool Session::Impl::a_rank_is_lost() const { return false; }
bool Session::Impl::has_heard_of_a_loss() const { return false; }
bool Session::Impl::repairs() const { return false; }
std::size_t Session::Impl::repairs_begun() const { return 0; }
bool Session::Impl::fewer_are_left() const { return false; }
void Session::Impl::leave_if_lost() {}
void Session::Impl::init(const std::function<void()>& phase) { phase(); }
bool Session::Impl::come_together(bool finished) { return finished; }
bool Session::Impl::let_spares_go() { return true; }
void Session::Impl::bar_spares() {}
void Session::Impl::fit_to_those_left(engine::LevelConfig&, int) {}
#else

bool detail::ends_by_a_signal() { return comm::leaving::am_counted_on(); }
void detail::end_by_a_signal(int status) { comm::leaving::end_at_exit(status); }
detail::AtTheEnd detail::meet_before_the_end() {
  if (!comm::leaving::job_is_lost()) comm::leaving::meet_before_the_end();
  if (comm::leaving::ends_without_spares() && !api::take_back_failure()) return AtTheEnd::without_spares;
  return comm::leaving::job_is_lost() ? AtTheEnd::lost : AtTheEnd::met;
}

bool Session::Impl::a_rank_is_lost() const { return crew_ && crew_->alarm()->rung(); }

bool Session::Impl::has_heard_of_a_loss() const { return a_rank_is_lost() || (repairs() && crew_->knows_of_a_loss()); }

bool Session::Impl::repairs() const { return crew_ && crew_->repairs(); }

std::size_t Session::Impl::repairs_begun() const { return repaired_.size(); }

bool Session::Impl::fewer_are_left() const {
  return std::ranges::any_of(repaired_, [](const auto& meeting) {
    return std::ranges::any_of(meeting.replaced, [](const auto& replaced) { return replaced.by_number < 0; });
  });
}

/// Every call of the session inside loop() is a way back to it.
void Session::Impl::leave_if_lost() {
  if (!a_rank_is_lost()) return;
  crew_->alarm()->ring_if_asked();
  crew_->settle();
  if (is_inside()) throw RankLost{};
  throw Error(
      Code::rank_lost,
      "a rank was lost while this one was not inside loop(), so nothing can be repaired: start the job again; it goes "
      "on from the newest line that is left, or from its beginning");
}

// ---- spares ----------------------------------------------------------------------------------------------------

/// Of this process, at each level; ranks need not be known.
comm::FailureUnits Session::Impl::own_units() const {
  using Kind = api::UnitChoice::Kind;
  comm::FailureUnits units{};
  for (std::size_t i = 0; i < settings_.levels.size() && i < units.size(); ++i) {
    const auto& level = settings_.levels[i];
    if (level.parity.p == 0 && level.kind != engine::LevelKind::partner) continue;
    const auto found = settings_.units.find(level.name);
    const api::UnitChoice choice = found != settings_.units.end() ? found->second : api::UnitChoice{};
    if (choice.kind == Kind::node) units[i] = static_cast<std::uint64_t>(node_) + 1;
    if (choice.kind == Kind::sets) units[i] = choice.set_of(node_).value_or(0) + 1;
    const char* const value = choice.kind == Kind::variable ? std::getenv(choice.variable.c_str()) : nullptr;
    if (value != nullptr) units[i] = std::uint64_t{crc32c(as_bytes(value))} + 1;
  }
  return units;
}

void Session::Impl::open_with_spares(MPI_Comm comm) {
  if (!comm::is_of_all_processes(comm))
    throw Error(Code::invalid_argument,
                "the option spares is for sessions on all processes of the job: this one's communicator has not all of "
                "MPI_COMM_WORLD");
  crew_ = value_or_throw(comm::Crew::muster(
      comm, {settings_.spares, milliseconds(settings_.timeout), settings_.shrink, settings_.errors_return, node_,
             own_units(), engine::newest_line_on_node(local_dir_),
             [dir = settings_.dir, name = settings_.name, seconds = settings_.timeout] {
               api::Journal(0, api::Log::quiet, dir, name).event("stuck", {api::Journal::number("seconds", seconds)});
             }}));
  comm::leaving::tell_of_it_by([dir = settings_.dir, name = settings_.name](int status) {
    api::tell_launcher(cat("left ", status));  // the directory may be where nothing can be written for long
    api::Journal(0, api::Log::quiet, dir, name).event("left", {api::Journal::number("status", status)});
  });
  comm::leaving::tell_that_all_have_come_by(
      [dir = settings_.dir, name = settings_.name] { tell_that_all_came(dir, name); });
  comm::leaving::where_no_spare_comes([dir = settings_.dir, name = settings_.name](const std::vector<int>& spares) {
    std::string numbers;
    for (const int number : spares) numbers += cat(numbers.empty() ? "" : ",", number);
    api::Journal(0, api::Log::quiet, dir, name)
        .event("stuck", {api::Journal::text("who", "spares"), api::Journal::text("numbers", numbers)});
  });
  make_journal(crew_->rank());  // another loss may come before the session is open
  if (settings_.signals) signals_ = std::make_unique<api::SignalListener>();  // which would end a spare
  stand_by();
  if (crew_->began_as_spare() && crew_->spares_left() > 0)  // the last one does without that level, or says why not
    if (const auto writable = can_write_on_its_node(); !writable) leave_to_another_spare(writable.failure().what);
  try {
    start_with_crew();
  } catch (const Error& e) {  // of all ranks alike; spares know nothing of it
    // The program has no session here by which it would know that this process speaks for all now.
    if (crew_->began_as_spare() && crew_->rank() == 0 && !is_lost_) journal_->insist(e.what());
    let_spares_go();
    throw;
  }
  say_repairs();
  api::tell_launcher("open");
  if (!crew_->repairs())
    journal_->say(
        "this MPI cannot go on after the loss of a rank (it is not Open MPI 5 started with --with-ft ulfm), so spares "
        "are of no use: everything else works, and the job can be started again");
}

/// For `backstay run`, whose launcher may have status 0 wherever it has none. Its directory may be where nothing can be
/// written for long.
void Session::Impl::tell_that_all_came(const std::string& dir, const std::string& name) {
  api::tell_launcher("over");
  api::Journal(0, api::Log::quiet, dir, name).event("over", {});
}

/// A spare stays here until it takes a rank's place. If it never does, its process ends here, with status 0: the
/// program's own code is for ranks.
void Session::Impl::stand_by() {
  api::Journal journal(0, settings_.log, settings_.dir, settings_.name);
  knows_what_was_whole_ = crew_->rank() >= 0;
  while (crew_->rank() < 0) {
    const auto met = crew_->meet(comm::Word::waiting);
    if (!met && met.failure().code == Code::timeout) {
      // The others are where nothing reaches them but the end of the job: by `backstay run`, which reads this, or
      // else by MPI, as far as it can.
      journal.insist(met.failure().what);
      journal.event("stuck", {api::Journal::number("seconds", 2 * settings_.timeout)});
      comm::leaving::nobody_counts_on_me();
      MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    const auto meeting = value_or_throw(met);
    if (crew_->rank() >= 0) repaired_.push_back(meeting);
    if (meeting.fate != comm::Fate::closed && meeting.fate != comm::Fate::lost) continue;
    if (meeting.fate == comm::Fate::lost) {
      if (meeting.speaks) journal.insist(nobody_goes_on(meeting, false));
      note_who_is_lost(meeting);
      crew_->part();
    }
    crew_.reset();
    // The ranks of a job that is lost leave without MPI_Finalize, too, which would wait for them.
    if (meeting.fate == comm::Fate::lost) std::exit(EXIT_FAILURE);
    comm::leaving::finalize();
    std::exit(EXIT_SUCCESS);
  }
}

/// A spare that cannot write where its place needs it to, which may have come about since the job began, is lost before
/// the ranks open the session with it, or while they resume: as any loss, that is repaired by another one.
void Session::Impl::leave_to_another_spare(const std::string& why) const {
  const auto sentence =
      cat("a spare on node ", node_, " ends where it was to take a place, so that another one does: ", why);
  call_in_time([log = settings_.log, dir = settings_.dir, name = settings_.name, sentence] {
    api::Journal(0, log, dir, name).insist(sentence);
  });
  flush_all_files();
  (void)raise(SIGKILL);
}

void Session::Impl::bar_spares() { crew_->roll_back_no_more(); }

/// The last meeting: spares end with the session. False: somebody was lost before it.
bool Session::Impl::let_spares_go() {
  if (!crew_ || crew_is_gone_ || std::uncaught_exceptions() > 0) return !is_lost_;
  crew_is_gone_ = true;
  while (true) {
    const auto meeting = crew_->meet(comm::Word::closing);
    if (!meeting) {
      const bool lost = crew_->knows_of_a_loss();
      if (lost) comm::leaving::others_may_not_come();
      journal_->say(meeting.failure().what);
      return !lost;
    }
    if (meeting->fate == comm::Fate::finished) continue;  // others are still at the end of loop()
    is_lost_ = meeting->fate == comm::Fate::lost;
    if (is_lost_ && meeting->speaks)
      journal_->insist(cat(lost_ranks(*meeting), loops_begun_ == 0
                                                     ? " lost as the session was opened: start the job again"
                                                     : " lost after the end of loop(): what was still to be done there "
                                                       "is not done"));
    if (!is_lost_) return true;
    note_who_is_lost(*meeting);
    api::fail_at_exit();  // what is still to be done may be done by nobody
    crew_->part();
    return false;
  }
}

// ---- repair ----------------------------------------------------------------------------------------------------

namespace {
std::string numbers_of(const comm::Verdict& meeting) {
  std::string ranks;
  for (const auto& replaced : meeting.replaced) ranks += cat(ranks.empty() ? "" : ", ", replaced.rank);
  return ranks;
}
}  // namespace

std::string Session::Impl::lost_ranks(const comm::Verdict& meeting) {
  const std::string ranks = numbers_of(meeting);
  if (ranks.empty()) return "a rank was";
  return cat(meeting.replaced.size() > 1 ? "ranks " : "rank ", ranks, meeting.replaced.size() > 1 ? " were" : " was");
}

/// Ranks of which none is left may have ended for a reason, and said so.
std::string Session::Impl::nobody_goes_on(const comm::Verdict& meeting, bool any_is_left) const {
  const auto spares = static_cast<std::size_t>(std::count_if(
      meeting.replaced.begin(), meeting.replaced.end(), [](const auto& replaced) { return replaced.by_number >= 0; }));
  const bool could_go_on = any_is_left && (spares == meeting.replaced.size() || settings_.shrink);
  const std::string why = loops_begun_ <= 1 && could_go_on && !unprotected_.empty()
                              ? " lost while the body of loop() had unprotected what is protected before it"
                          : loops_begun_ > 1 ? " lost in a loop() that is not the first one of the session"
                          : spares == meeting.replaced.size() && any_is_left ? " lost where others had ended their part"
                          : spares == 0 ? " lost, and no spare is left to take the place"
                                        : cat(" lost, and only ", counted(spares, "spare"),
                                              spares == 1 ? " is" : " are", " left to take the places");
  return cat(lost_ranks(meeting), why, ": start the job again; ",
             any_is_left ? "it goes on from the newest line that is left, or from its beginning"
                         : "it goes on from the newest line that is left (no rank is: where they have said above why "
                           "they ended, that is the reason, and not the spares)");
}

/// For `backstay report`: whose loss ends the job. By one rank, in time also where the directory hangs.
void Session::Impl::note_who_is_lost(const comm::Verdict& meeting) const {
  if (!meeting.speaks) return;
  call_in_time([dir = settings_.dir, name = settings_.name, meeting] {
    api::Journal(0, api::Log::quiet, dir, name)
        .event("lost",
               {api::Journal::text("numbers", numbers_of(meeting)), api::Journal::number("seconds", meeting.seconds)});
  });
}

/// Ends the engine and its thread; regions stay, and so does what the memory level holds.
void Session::Impl::stop_engine(comm::Alarm& alarm) {
  alarm.ring();  // who waits for another rank, in the background too, gets an error now
  unplaced_ = protects_unplaced();
  if (!engine_) return;
  engine_->give_up_undecided();
  value_or_throw(engine_->drain());
  captured_before_ += engine_->captured();
  saved_statics_ = engine_->saved_statics();
  for (const auto& [companion, lines] : engine_->distrusted())
    distrusted_[companion].insert(lines.begin(), lines.end());
  if (knows_shared_) newest_shared_ = engine_->newest_shared().value_or(newest_shared_);
  next_line_ = std::max(next_line_, engine_->next_line());        // its opening may not have come that far
  kills_done_ = std::max(kills_done_, engine_->next_call() + 1);  // the others may be a call ahead
  engine_.reset();
  thrown_ = 0;
}

/// Opens the session for the ranks that work now. Another loss on the way is repaired, too.
void Session::Impl::start_with_crew() {
  while (true) {
    user_comm = crew_->workers();
    knows_shared_ = false;
    if (!repaired_.empty()) kill_if_asked(api::Kill::in_opening);
    try {
      start(value_or_throw(comm::make_mpi_comm(user_comm, mpi_options())));
      if (!repaired_.empty()) say_what_has_vanished();
      knows_shared_ = true;
      if (!repaired_.empty()) find_logs();
      if (!repaired_.empty() && settings_.shrink) save_what_fewer_cannot_take();
      return;
    } catch (const Error&) {
      if (!a_rank_is_lost()) throw;
    }
    meet_after_a_loss();
  }
}

/// By one that was there before; nobody else knows.
void Session::Impl::say_what_has_vanished() {
  const auto newest = engine_->newest_shared();
  if (!newest) return;
  const auto before = std::exchange(newest_shared_, *newest);
  if (before == 0 || *newest >= before || engine_->found_shared(before) || !repaired_.back().speaks) return;
  journal_->insist(cat("line ", before, " was whole at level shared and is not there any more, and ",
                       newest_shared_ == 0 ? "no other line is" : cat("line ", newest_shared_, " is the newest one"),
                       ": was ", settings_.dir,
                       " removed, or another file system put in its place? The job goes on from "
                       "what is left"));
}

void Session::Impl::meet_after_a_loss() {
  stop_engine(*crew_->alarm());
  kill_if_asked(api::Kill::in_repair);
  const auto meeting = value_or_throw(crew_->meet(comm::Word::failed));
  note_repair(meeting);
}

/// The order that rank obeyed, or the first one that it has not: another rank may get its number where fewer are left.
void Session::Impl::forget_kill_of(int lost) {
  const auto turn = [&](const api::Kill& kill) {
    const bool later = kill.call == api::Kill::in_repair || kill.call == api::Kill::in_opening;
    return std::pair(later, kill.call);
  };
  auto& kills = settings_.kills;
  auto done = kills.end();
  for (auto kill = kills.begin(); kill != kills.end(); ++kill) {
    if (kill->node || kill->number != lost || (!turn(*kill).first && kill->call > kills_done_)) continue;
    if (done == kills.end() || turn(*kill) < turn(*done)) done = kill;
  }
  if (done != kills.end()) kills.erase(done);
}

bool Session::Impl::may_save_what_memory_holds() const {
  const auto has = [&](engine::LevelKind kind) {
    return std::any_of(settings_.levels.begin(), settings_.levels.end(), [&](const auto& l) { return l.kind == kind; });
  };
  return has(engine::LevelKind::memory) && has(engine::LevelKind::shared);
}

namespace {
constexpr const char* not_saved_in_time =
    "the newest line in memory could not be saved at level shared within the option timeout: this process ends";
}  // namespace

/// Fewer ranks are left, and resume() will refuse what is not placed. As a part of the session's opening, so that
/// another loss on the way is repaired as any is there.
void Session::Impl::save_what_fewer_cannot_take() {
  if (!may_save_what_memory_holds()) return;
  // Who took a place knows neither.
  const auto who = value_or_throw(engine_->add_up({fewer_are_left() ? 1 : 0, unplaced_ ? 1 : 0}));
  if (who.size() < 2 || who[0] == 0 || who[1] == 0) return;
  const comm::Watch watch(milliseconds(settings_.timeout), not_saved_in_time);
  const auto began = std::chrono::steady_clock::now();
  const auto saved = engine_->save_what_memory_holds();
  if (saved)
    return tell_of_what_was_saved(*saved, began, rank == 0 ? "as fewer ranks cannot take what is not placed" : "");
  if (a_rank_is_lost() || saved.failure().code == Code::comm || saved.failure().code == Code::timeout)
    throw Error(saved.failure().code, saved.failure().what);
  if (rank == 0)
    journal_->insist("the newest line in memory could not be saved at level shared: " + saved.failure().what);
}

void Session::Impl::tell_of_what_was_saved(const engine::Rescued& saved, std::chrono::steady_clock::time_point began,
                                           const std::string& when) const {
  if (when.empty() || saved.line == 0) return;
  journal_->insist(cat("line ", saved.line, " was in memory only, and was saved at level shared ", when));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
  api::Journal(0, api::Log::quiet, settings_.dir, settings_.name)
      .event("commit",
             {api::Journal::number("line", static_cast<double>(saved.line)), api::Journal::text("level", "shared"),
              api::Journal::number("call", static_cast<double>(saved.call)),
              api::Journal::number("seconds", seconds.count()),
              api::Journal::number("bytes", static_cast<double>(saved.bytes))});
}

/// Nobody goes on: the next launch should not fall back to the last line at a level that outlives the job.
void Session::Impl::save_what_memory_holds(bool speaks) {
  if (!may_save_what_memory_holds() || crew_->workers() == MPI_COMM_NULL) return;
  const comm::Watch watch(milliseconds(settings_.timeout), not_saved_in_time);
  const auto began = std::chrono::steady_clock::now();
  try {
    auto left = value_or_throw(comm::make_mpi_comm(crew_->workers(), mpi_options()));
    auto config = make_config(find_topology(*left));
    std::erase_if(config.levels, [](const auto& level) {
      return level.kind != engine::LevelKind::memory && level.kind != engine::LevelKind::shared;
    });
    for (auto& level : config.levels) level.parity = {};  // nothing is written there
    engine::EngineHooks hooks;
    hooks.say = [](const std::string&) {};
    hooks.settled = [](const engine::Settled&, const std::string&) {};
    engine::Engine engine(std::move(config), std::move(hooks), std::move(left));
    value_or_throw(engine.open());
    tell_of_what_was_saved(value_or_throw(engine.save_what_memory_holds()), began, speaks ? "before the end" : "");
  } catch (const Error& e) {
    if (speaks) journal_->insist(cat("the newest line in memory could not be saved at level shared: ", e.what()));
  }
}

/// A meeting in which not all had finished: this rank goes on from the newest line, or the job ends.
void Session::Impl::note_repair(const comm::Verdict& meeting) {
  repaired_.push_back(meeting);
  for (const auto& lost : meeting.replaced) forget_kill_of(lost.rank);
  if (meeting.fate == comm::Fate::again) return;
  crew_is_gone_ = is_lost_ = true;
  if (!meeting.anybody_closes) save_what_memory_holds(meeting.speaks);  // those who close do not come to it
  const std::string sentence = nobody_goes_on(meeting, true);
  if (!unprotected_.empty() && loops_begun_ <= 1)
    journal_->insist(cat("rank ", rank, ": region '", unprotected_, "' was protected before loop(), and its body has ",
                         "unprotected it: a rank that takes the place of another one has it protected, so that they ",
                         "cannot go on together; protect inside of the body what that unprotects"));
  // Said here, too: the program may leave its words to a rank that is gone.
  if (meeting.speaks) journal_->insist(sentence);
  note_who_is_lost(meeting);
  crew_->part();
  throw Error(Code::rank_lost, sentence);
}

/// The end of the body of loop(). True: all ranks have finished. False: they have been brought together again, and the
/// body is to be run again.
bool Session::Impl::come_together(bool finished) {
  if (!crew_) return finished;
  try {
    return meet_at_the_end(finished);
  } catch (const Error& e) {
    if (!engine_) ended_by_ = {e.code(), e.what()};
    throw;
  }
}

bool Session::Impl::meet_at_the_end(bool finished) {
  constexpr std::size_t most_in_vain = 3;
  const auto alarm = crew_->alarm();
  if (finished) {
    // A thread of ours that is inside MPI would spoil the agreement; where a line waits for computations on one rank,
    // it waits there for that one on others.
    if (engine_) engine_->decide();
    if (engine_) engine_->rest();
    const auto meeting = value_or_throw(crew_->meet(comm::Word::finished));
    if (meeting.fate == comm::Fate::finished || meeting.fate == comm::Fate::closed) return true;
    stop_engine(*alarm);
    note_repair(meeting);
  } else {
    meet_after_a_loss();
  }
  const auto in_vain = [](const comm::Verdict& meeting) { return meeting.replaced.empty(); };
  if (repaired_.size() >= most_in_vain && std::all_of(repaired_.end() - most_in_vain, repaired_.end(), in_vain)) {
    let_spares_go();
    throw Error(
        Code::comm,
        "MPI reported lost ranks three times, and none was lost: does the program use a communicator of before a "
        "repair? Take comm() and make others from it inside loop()");
  }
  try {
    start_with_crew();
  } catch (const Error& e) {
    engine_.reset();
    const bool together = e.code() != Code::comm && e.code() != Code::timeout && e.code() != Code::rank_lost;
    if (together)
      let_spares_go();
    else
      finalize_ = false;  // it would wait for the others
    throw;
  }
  must_resume_ = true;
  say_repairs();
  return false;
}

/// After a loss the ranks may be in fewer failure units: fewer of them are left, or spares wait in those of other
/// ranks. The job goes on with as many parities as these can carry.
void Session::Impl::fit_to_those_left(engine::LevelConfig& level, int nodes) {
  if (repaired_.empty()) return;
  if (level.kind == engine::LevelKind::partner && nodes > 1 && level.distance % nodes == 0) {
    journal_->say(cat("level partner keeps each copy on the next node from here on: the ranks are on ", nodes,
                      " nodes now, and partner.distance=", level.distance, " leads back to the same one"));
    level.distance = 1;
  }
  if (level.parity.p == 0) return;
  const int units = static_cast<int>(std::set<int>(level.parity.units.begin(), level.parity.units.end()).size());
  if (level.parity.p < units) return;
  const std::string parities = units == 1 ? "no parity" : units == 2 ? "one parity" : cat(units - 1, " parities");
  journal_->say(cat("level ", engine::level_name(level), " has ", parities, " from here on: it is spread over ",
                    counted(units, "failure unit"), " now"));
  if (units == 1)
    level.parity = {};
  else
    level.parity.p = units - 1;
}

/// By the lowest rank that was one before the last repair: it has seen what a spare, which may be rank 0 now, has not.
void Session::Impl::say_repairs() {
  if (said_ == repaired_.size()) return;
  api::Journal journal(repaired_.back().speaks ? 0 : 1, settings_.log, settings_.dir, settings_.name);
  for (; said_ < repaired_.size(); ++said_) {
    const auto& meeting = repaired_[said_];
    std::string sentence = cat(lost_ranks(meeting), " lost");
    for (const auto& replaced : meeting.replaced)
      if (replaced.by_number >= 0)
        sentence += cat("; spare ", replaced.by_number, " (node ", replaced.node, ") is rank ", replaced.rank, " now");
    const auto by_spares = std::count_if(meeting.replaced.begin(), meeting.replaced.end(),
                                         [](const auto& replaced) { return replaced.by_number >= 0; });
    const bool fewer = static_cast<std::size_t>(by_spares) < meeting.replaced.size();
    if (fewer && said_ + 1 == repaired_.size())
      sentence += cat("; ", counted(size, "rank"), size == 1 ? " is" : " are", " left, numbered anew");
    journal.say(cat(sentence, "; together again after ", human_seconds(meeting.seconds)));
    if (repaired_.back().speaks) api::tell_launcher("repair");
    journal.event("repair", {api::Journal::number("lost", static_cast<double>(meeting.replaced.size())),
                             api::Journal::text("numbers", numbers_of(meeting)),
                             api::Journal::number("replaced", static_cast<double>(by_spares)),
                             api::Journal::number("seconds", meeting.seconds)});
  }
}
#endif

}  // namespace backstay
