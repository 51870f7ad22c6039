// A bound for a call that waits inside MPI and cannot be given up.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/flush.h"
#include "comm/patience.h"

namespace backstay::comm {

/// Ends the process with a sentence when it has lived for too long: it could not go on, and the job can be launched
/// again. `tell` is called before that, and has to end in time by itself. `is_over`: what it bounds has ended, although
/// the watch has not; asked every 100 ms at least.
class Watch {
 public:
  Watch(std::chrono::milliseconds bound, std::string sentence, std::function<void()> tell = {},
        std::function<bool()> is_over = {})
      : sentence_(std::move(sentence)),
        tell_(std::move(tell)),
        is_over_(std::move(is_over)),
        thread_([this, bound] { wait(bound); }) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void wait(std::chrono::milliseconds bound) {
    Patience patience(bound);  // not of a job that is suspended as a whole
    const auto look = std::min(std::chrono::milliseconds(100), bound / Patience::fewest_gaps);
    std::unique_lock lock(mutex_);
    while (!patience.exhausted())
      if (changed_.wait_for(lock, look, [this] { return done_; }) || (is_over_ && is_over_())) return;
    call_in_time([sentence = sentence_] { std::fprintf(stderr, "backstay: %s\n", sentence.c_str()); });
    if (tell_) tell_();
    flush_all_files();
    (void)raise(SIGKILL);  // which the others notice
  }

  std::string sentence_;
  std::function<void()> tell_;
  std::function<bool()> is_over_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace backstay::comm
