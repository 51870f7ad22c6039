// init(): a set-up that a replacement of a lost rank goes through alone.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>

#include "api/session_impl.h"
#include "base/text.h"
#include "base/wire.h"
#include "comm/message_log.h"
#include "comm/unwinding.h"

namespace backstay {

namespace message_log = comm::message_log;

namespace {
using detail::value_or_throw;
using detail::Within;

std::string encode(const std::vector<Bytes>& logs) {
  WireWriter out;
  for (const auto& log : logs) out.bytes(log);
  return std::string(as_text(out.message()));
}

std::vector<Bytes> decode(const std::string& text) {
  std::vector<Bytes> logs;
  for (WireReader in(as_bytes(text)); !in.at_end() && in.complete();) {
    const ByteView log = in.bytes();
    logs.emplace_back(log.begin(), log.end());
  }
  return logs;
}

/// Of this thread.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

void Session::Impl::init(const std::function<void()>& phase) {
  require_may_call("init()");
  require_no_init("init()");
  if (looping())
    throw Error(Code::invalid_argument,
                "init() was called inside loop(): it belongs before it, as those who are not lost do not run it again");
  if (repairs() && loops_begun_ > 0)
    throw Error(Code::invalid_argument,
                "init() was called behind loop(), where a spare that takes a lost rank's place does not come: call it "
                "before");
  const Within within(in_init_);
  if (!repairs()) return phase();
  try {
    require_that_init_can_be_recorded();
  } catch (const Error& e) {
    if (rank == 0) api::tell_launcher(e.code());
    throw;
  }
  const auto start = std::chrono::steady_clock::now();
  const double cpu = processor_seconds();
  const bool replays = phases_ < logs_.size();
  if (replays)
    replay(phase);
  else
    record_together(phase);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto bytes = static_cast<double>(logs_[phases_++].size());
  journal_->event("init", {api::Journal::number("seconds", seconds), api::Journal::number("bytes", bytes),
                           api::Journal::number("alone", replays ? 1 : 0),
                           api::Journal::number("cpu_seconds", processor_seconds() - cpu)});
  journal_->detail(cat(replays ? "set up alone, from" : "set up, with", " a log of ", human_bytes(bytes), ", in ",
                       human_seconds(seconds)));
}

void Session::Impl::require_that_init_can_be_recorded() const {
  if (settings_.shrink)
    throw Error(
        Code::invalid_argument,
        "init() and the option shrink do not go together: on fewer ranks the program has to set itself up anew, "
        "inside loop()");
  if (!message_log::can_record())
    throw Error(Code::invalid_argument,
                "init() cannot record the messages of this program, as MPI is not called through backstay in it (in "
                "Python, or from Fortran): set the program up inside loop()");
}

/// A rank that is lost before all are through is replaced, and all run the phase again: nobody has left it. The log is
/// kept before that, as a rank may be lost in the first step.
void Session::Impl::record_together(const std::function<void()>& phase) {
  left_by_error_ = false;
  std::optional<comm::Crew::Catching> catching;
  if (!settings_.errors_return) catching.emplace(*crew_, __builtin_frame_address(0));
  const auto forget = what_was_protected();
  while (true) {
    bool finished = false;
    try {
      record(phase);
      finished = !has_heard_of_a_loss();
    } catch (...) {
      left_by_error_ = !has_heard_of_a_loss();
      if (left_by_error_) throw;
    }
    if (come_together(finished)) return;
    must_resume_ = false;  // there is nothing yet that could differ
    logs_.resize(phases_);
    forget();
  }
}

void Session::Impl::record(const std::function<void()>& phase) {
  value_or_throw(message_log::start_recording(user_comm, [this](const auto& sentence) { journal_->say(sentence); }));
  try {
    phase();
  } catch (...) {
    (void)message_log::stop_recording().ok();
    throw;
  }
  auto log = message_log::stop_recording();
  if (a_rank_is_lost()) {  // a program that looks at no error code comes here after a loss
    crew_->settle();
    throw RankLost{};
  }
  if (log) logs_.push_back(std::move(*log));
  const auto kept = engine_->keep_log(log ? Result<std::string>(encode(logs_)) : log.failure());
  if (!kept && rank == 0) api::tell_launcher(kept.failure().code);
  value_here(kept);
}

namespace {
thread_local const void* phase_runs_in = nullptr;  ///< the frame of the function that calls it
/// Thrown out of a call that the log does not answer; stop_replay() knows why.
struct NotAnswered : Error {
  NotAnswered() : Error(Code::comm, "an MPI call failed in a set-up that is answered from a log") {}
};

/// Destructors, which may free communicators, see an error and go on.
void leave(MPI_Comm*, int*, ...) {
  if (std::uncaught_exceptions() == 0 && !comm::ends_at_noexcept(phase_runs_in)) throw NotAnswered{};
}

/// A call that the log does not answer leads out of the phase, and not on to a program that looks at no error code.
void leave_on_errors(MPI_Comm stand_in) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(leave, &handler);
  MPI_Comm_set_errhandler(stand_in, handler);
  MPI_Errhandler_free(&handler);
}
}  // namespace

void Session::Impl::replay(const std::function<void()>& phase) {
  const MPI_Comm stand_in = value_or_throw(message_log::start_replay(logs_[phases_], user_comm));
  if (!settings_.errors_return) leave_on_errors(stand_in);
  phase_runs_in = __builtin_frame_address(0);
  std::exception_ptr thrown;
  std::string left_by;
  try {
    phase();
  } catch (const NotAnswered&) {
    thrown = std::current_exception();
  } catch (const std::exception& e) {
    thrown = std::current_exception();
    left_by = cat("; the phase was left by an error: ", e.what());
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool all_were_answered = message_log::all_were_answered();  // if not, the log has more to say of it
  const auto ended = message_log::stop_replay();
  if (thrown && all_were_answered) std::rethrow_exception(thrown);
  if (!ended)
    throw Error(ended.failure().code,
                cat("rank ", rank, " cannot be set up from its message log: ", ended.failure().what, left_by));
}

/// After a repair, for those who have taken places: the logs of the phases that the others have behind them.
void Session::Impl::find_logs() {
  const auto found = value_or_throw(engine_->find_log(static_cast<std::int64_t>(phases_)));
  if (logs_.empty()) logs_ = decode(found.log);
  logs_.resize(std::min(logs_.size(), static_cast<std::size_t>(found.phases)));
}

}  // namespace backstay
