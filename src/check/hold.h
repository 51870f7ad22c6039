// Who may use the closed pages' books.
#pragma once

#include <sched.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <optional>

namespace backstay::check {

/// Held while pages are closed, opened or looked at: other threads use memory in them, too. In a handler of faults
/// nothing else can be waited for; who holds it uses memory of Fences alone.
class Hold {
 public:
  Hold() {
    for (int spins = 0; busy.test_and_set(std::memory_order_acquire); ++spins)
      if (spins > 100) sched_yield();
  }
  ~Hold() { busy.clear(std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  static void forget() { busy.clear(); }

 private:
  inline static std::atomic_flag busy;
};

/// The same outside of such handlers, where another handler might come in between that needs it, too.
class QuietHold {
 public:
  QuietHold() : errno_(errno) {
    sigset_t all;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
    hold_.emplace();
  }
  ~QuietHold() {
    hold_.reset();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = errno_;
  }
  QuietHold(const QuietHold&) = delete;
  QuietHold& operator=(const QuietHold&) = delete;

 private:
  std::optional<Hold> hold_;
  sigset_t before_{};
  int errno_;
};

}  // namespace backstay::check
