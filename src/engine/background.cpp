#include "engine/background.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "base/text.h"
#include "comm/patience.h"
#include "engine/agree.h"
#include "engine/statics.h"

namespace backstay::engine {

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Signals belong to the application's thread, but for those that come of what this one does.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, own);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// On Linux niceness and policy belong to the thread; where they cannot be set, the thread just competes. Niceness
/// alone does not keep a thread that is woken, as by a line that is handed over, from taking the core of the one that
/// woke it for a few milliseconds; one of batches waits until a core is free, or its turn has come.
void lower_priority(int by) {
  if (by == 0) return;
  const auto id = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, id, getpriority(PRIO_PROCESS, id) + by);
  const sched_param none{};
  if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
}
}  // namespace

Background::Background(std::vector<Level>& levels, std::vector<Level>& statics, const Job& job,
                       const Topology& topology, comm::Comm& comm, BackgroundOptions options)
    : levels_(levels),
      statics_(statics),
      no_statics_(statics.size()),
      job_(job),
      topology_(topology),
      comm_(comm),
      options_(std::move(options)) {
  for (std::size_t i = 0; i < options_.buffers; ++i) free_.push_back(std::make_unique<Checkpoint>());
  thread_ = std::thread([this] { run(); });
}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

Result<void> Background::wait_until(const std::function<bool()>& ready, const char* what, double part) {
  const auto bound =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(options_.timeout) * part);
  comm::Patience patience(bound);  // also where the whole job is suspended for longer
  std::unique_lock lock(mutex_);
  // With a pump this thread carries the background's messages, so it looks again every 100 microseconds.
  const auto look = options_.pump ? std::chrono::microseconds(100)
                                  : std::min<std::chrono::microseconds>(std::chrono::milliseconds(100),
                                                                        bound / comm::Patience::fewest_gaps);
  while (!ready()) {
    if (patience.exhausted())
      return fail(Code::timeout, what, " was not done within ",
                  human_seconds(std::chrono::duration<double>(options_.timeout).count() * part),
                  part < 1 ? " (a part of the option timeout)" : " (option timeout)",
                  ": a rank or its storage is stuck");
    changed_.wait_for(lock, look);
    if (!options_.pump) continue;
    lock.unlock();
    options_.pump();
    lock.lock();
  }
  return {};
}

Result<std::unique_ptr<Checkpoint>> Background::take() {
  BACKSTAY_TRY(wait_until([this] { return !free_.empty(); }, "an earlier checkpoint"));
  const std::lock_guard lock(mutex_);
  auto checkpoint = std::move(free_.back());
  free_.pop_back();
  return checkpoint;
}

void Background::make_ready(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& checkpoint : free_)
    if (checkpoint->capture.buffer.reserve(bytes))
      staging_bytes_ = checkpoint->capture.buffer.capacity() * options_.buffers;
}

std::unique_ptr<Checkpoint> Background::in_vain(const Failure& why) {
  auto checkpoint = std::make_unique<Checkpoint>();
  checkpoint->captured = why;
  checkpoint->is_single = true;
  return checkpoint;
}

double Background::busy_for() const {
  const std::lock_guard lock(mutex_);
  return busy_since_ > 0 ? now() - busy_since_ : 0;
}

void Background::put(std::unique_ptr<Checkpoint> checkpoint) {
  {
    const std::lock_guard lock(mutex_);
    ++in_flight_;
    queue_.push_back(std::move(checkpoint));
  }
  changed_.notify_all();
}

std::size_t Background::in_flight() const {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

Result<void> Background::wait_idle(double part) {
  return wait_until([this] { return in_flight_ == 0; }, "writing the last checkpoint", part);
}

void Background::run() {
  block_signals();
  lower_priority(options_.nice);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    auto checkpoint = std::move(queue_.front());
    queue_.pop_front();
    busy_since_ = now();
    lock.unlock();
    write_or_end(*checkpoint);
    lock.lock();
    busy_since_ = 0;
    if (!checkpoint->is_single) {
      staging_bytes_ = checkpoint->capture.buffer.capacity() * options_.buffers;
      free_.push_back(std::move(checkpoint));
    }
    --in_flight_;
    changed_.notify_all();
  }
}

void Background::write_or_end(Checkpoint& checkpoint) {
  try {
    write(checkpoint);
  } catch (const std::exception& e) {
    end_where_others_wait("saving a checkpoint", e);
  }
}

void Background::write(Checkpoint& checkpoint) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (!checkpoint.levels[i]) continue;
    const double start = now();
    Settled settled;
    settled.line = checkpoint.line;
    settled.call = checkpoint.call;
    settled.level = i;
    settled.of_statics = checkpoint.of_statics;
    settled.last = std::find(checkpoint.levels.begin() + static_cast<std::ptrdiff_t>(i) + 1, checkpoint.levels.end(),
                             true) == checkpoint.levels.end();
    settled.bytes = write_at(i, checkpoint);
    settled.seconds = now() - start;
    options_.settled(settled);
    if (!settled.bytes) continue;
    if (auto retired = retire_at(i, checkpoint.of_statics); !retired) {
      settled.bytes = retired.failure();
      settled.surplus = true;
      options_.settled(settled);
    }
  }
}

/// All ranks know alike whether the line of the static regions is whole, as its commit was agreed.
Result<std::uint64_t> Background::write_at(std::size_t i, Checkpoint& checkpoint) {
  if (checkpoint.of_statics) {
    auto written = write_line(statics_[i], checkpoint, job_, topology_, comm_);
    no_statics_[i] = written ? "" : written.failure().what;
    return written;
  }
  checkpoint.static_line = checkpoint.statics.empty() ? 0 : checkpoint.statics[i];
  const auto time = statics_[i].times.find(checkpoint.static_line);
  checkpoint.static_time = time == statics_[i].times.end() ? 0 : time->second;
  const auto own_file = statics_[i].own_files.find(checkpoint.static_line);
  checkpoint.static_file = own_file == statics_[i].own_files.end() ? "" : own_file->second;
  const auto& whole = statics_[i].whole;
  if (checkpoint.static_line > 0 && std::find(whole.begin(), whole.end(), checkpoint.static_line) == whole.end())
    return fail(Code::io, "its static regions, line ", checkpoint.static_line, " at level ", statics_[i].name,
                ", were not saved: ", no_statics_[i], "; they are written anew with a later checkpoint");
  return write_line(levels_[i], checkpoint, job_, topology_, comm_);
}

Result<void> Background::retire_at(std::size_t i, bool of_statics) {
  if (of_statics) return {};  // the lines that are there still need the ones before
  BACKSTAY_TRY(retire_surplus(levels_[i], levels_[i].config.keep));
  return retire_statics(statics_[i], levels_[i]);
}

}  // namespace backstay::engine
