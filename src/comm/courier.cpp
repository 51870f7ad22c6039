#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/mpi_comm.h"
#include "comm/patience.h"

namespace backstay::comm {

/// A step that was handed over, on the stack of the thread that waits for the answer.
struct Courier::Errand {
  std::function<Result<bool>()> step;
  std::optional<Patience>
      patience;  // of pumps: the application computes between two of them, and nobody waits in vain meanwhile
  std::optional<Result<void>> answer;
};

struct Courier::State {
  mutable std::mutex mutex;
  std::condition_variable answered;
  std::list<Errand*> errands;
  std::thread::id application;
  bool shut = false;
};

Courier::Courier() : state_(std::make_unique<State>()) { state_->application = std::this_thread::get_id(); }
Courier::~Courier() = default;

void Courier::pump() {
  // The steps run under the lock: run() can then only give up between two steps, never during one.
  const std::lock_guard lock(state_->mutex);
  state_->application = std::this_thread::get_id();
  const auto waiting = state_->errands.size();
  state_->errands.remove_if([](Errand* errand) {
    const Result<bool> done = errand->step();
    if (!done) errand->answer = done.failure();
    if (done && *done) errand->answer = Result<void>();
    if (done && !*done && errand->patience && errand->patience->exhausted())
      errand->answer = fail(Code::timeout, "not done in the time that this program spent in calls of backstay");
    return errand->answer.has_value();
  });
  if (state_->errands.size() != waiting) state_->answered.notify_all();
}

Result<void> Courier::run(std::function<Result<bool>()> step, std::optional<std::chrono::milliseconds> bound) {
  if (on_application_thread())
    return fail(Code::internal, "the application's thread handed an operation to itself, which would wait forever");
  Errand errand{std::move(step), bound ? std::optional(Patience(*bound)) : std::nullopt, {}};
  std::unique_lock lock(state_->mutex);
  state_->errands.push_back(&errand);
  const auto over = [&] { return errand.answer.has_value() || state_->shut; };
  if (bound)  // calls may be far apart, but not for ever
    state_->answered.wait_for(lock, Patience::fewest_gaps * *bound, over);
  else
    state_->answered.wait(lock, over);
  if (errand.answer) return *errand.answer;
  state_->errands.remove(&errand);
  if (state_->shut) return fail(Code::comm, "the session was closed meanwhile");
  return fail(Code::timeout, "not done within ", (Patience::fewest_gaps * *bound).count(),
              " ms: another rank did not come, or the application did not call backstay in that time");
}

void Courier::shut() {
  const std::lock_guard lock(state_->mutex);
  state_->shut = true;
  state_->answered.notify_all();
}

bool Courier::on_application_thread() const {
  const std::lock_guard lock(state_->mutex);
  return state_->application == std::this_thread::get_id();
}

}  // namespace backstay::comm
