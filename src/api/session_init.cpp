// init(): a set-up that a replacement of a lost rank goes through alone.
#include <chrono>

#include "api/session_impl.h"
#include "base/text.h"
#include "base/wire.h"
#include "comm/message_log.h"

namespace backstay {

namespace message_log = comm::message_log;

namespace {
using detail::value_or_throw;

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

/// What happens at the end of a phase, also where an exception ends it.
template <class Stop>
auto run_until(const std::function<void()>& phase, const Stop& stop) {
  try {
    phase();
  } catch (...) {
    (void)stop().ok();
    throw;
  }
  return stop();
}
}  // namespace

void Session::Impl::init(const std::function<void()>& phase) {
  require_no_call("init()");
  require_no_init("init()");
  if (looping())
    throw Error(Code::invalid_argument,
                "init() was called inside loop(): it belongs before it, as those who are not lost do not run it again");
  if (repairs() && settings_.shrink)
    throw Error(
        Code::invalid_argument,
        "init() and the option shrink do not go together: on fewer ranks the program has to set itself up anew, "
        "inside loop()");
  struct InInit {
    explicit InInit(bool& flag) : flag_(flag) { flag_ = true; }
    ~InInit() { flag_ = false; }
    bool& flag_;
  };
  const InInit in_init(in_init_);
  if (!repairs()) return phase();
  const auto start = std::chrono::steady_clock::now();
  const bool replays = next_log_ < logs_.size();
  replays ? replay(phase) : record(phase);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto bytes = static_cast<double>(logs_[next_log_ - 1].size());
  journal_->event("init", {api::Journal::number("seconds", seconds), api::Journal::number("bytes", bytes)});
  journal_->detail(cat(replays ? "set up alone, from" : "set up, with", " a log of ", human_bytes(bytes), ", in ",
                       human_seconds(seconds)));
}

/// The log is kept before init() returns: a rank may be lost in the first step.
void Session::Impl::record(const std::function<void()>& phase) {
  if (!message_log::can_record())
    throw Error(Code::invalid_argument,
                "init() cannot record the messages of this program, as MPI is not called through backstay in it (in "
                "Python, or from Fortran): set the program up inside loop()");
  value_or_throw(message_log::start_recording(user_comm));
  auto log = run_until(phase, [] { return message_log::stop_recording(); });
  if (log) logs_.push_back(std::move(*log));
  value_or_throw(engine_->keep_log(log ? Result<std::string>(encode(logs_)) : log.failure()));
  next_log_ = logs_.size();
}

void Session::Impl::replay(const std::function<void()>& phase) {
  const MPI_Comm workers = user_comm;
  user_comm = value_or_throw(message_log::start_replay(logs_[next_log_++]));
  const auto ended = run_until(phase, [&] {
    user_comm = workers;
    return message_log::stop_replay();
  });
  value_or_throw(ended);
}

/// After a repair: for those who have taken places. The others have been through init(), and have theirs.
void Session::Impl::find_logs() {
  const auto found = value_or_throw(engine_->find_log());
  if (logs_.empty()) logs_ = decode(found);
}

}  // namespace backstay
