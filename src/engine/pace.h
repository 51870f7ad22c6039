// What a program computes between two calls of checkpoint(), apart from its waits for other ranks.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>

namespace backstay::engine {

/// What sessions have waited for other ranks in this thread. For all of them: two sessions that took each other's waits
/// for computing would wait ever longer.
inline thread_local std::chrono::steady_clock::duration waited_in_sessions{0};

/// Its life is such a wait.
class Waiting {
 public:
  Waiting() = default;
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { waited_in_sessions += std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Of one session and rank.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  /// A call begins.
  void call(Clock::time_point now = Clock::now()) {
    const auto waited = waited_in_sessions;
    if (last_ != Clock::time_point{}) {
      const auto computed = now - last_ - (waited - waited_);
      recent_[calls_++ % recent_.size()] = std::max<Clock::duration>(computed, Clock::duration::zero());
    }
    last_ = now;
    waited_ = waited;
  }
  /// The lesser of the last two: in the other one it may have waited in its own communication.
  [[nodiscard]] Clock::duration computes() const {
    const auto known = std::min(calls_, recent_.size());
    return known == 0 ? Clock::duration::zero() : *std::min_element(recent_.begin(), recent_.begin() + known);
  }

 private:
  std::array<Clock::duration, 2> recent_{};
  std::size_t calls_ = 0;
  Clock::time_point last_{};
  Clock::duration waited_{0};
};

}  // namespace backstay::engine
