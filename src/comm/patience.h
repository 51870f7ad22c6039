// How to wait without spinning, and when to stop.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace backstay::comm {

/// Sleeps between looks at something that another rank must do: each time a sixteenth of what was waited so far, from
/// 20 microseconds to 1 millisecond. What takes long is looked at seldom, and found little later than it happens.
class Backoff {
 public:
  void sleep() {
    const std::chrono::nanoseconds waited = Clock::now() - start_;
    std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(waited / 16, shortest, longest));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds shortest{20};
  static constexpr std::chrono::microseconds longest{1000};
  Clock::time_point start_ = Clock::now();
};

/// Bounds the time that a caller spends asking again and again. A caller that went away to compute between two
/// looks was not waiting: such a gap counts as `longest_gap` at most, so a long step is never a time-out.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds longest_gap{1};

  explicit Patience(std::chrono::milliseconds bound) : bound_(bound) {}

  /// To be called after each look that saw nothing; true once the bound is used up.
  bool exhausted(Clock::time_point now = Clock::now()) {
    if (last_look_ != Clock::time_point{}) waited_ += std::min<Clock::duration>(now - last_look_, longest_gap);
    last_look_ = now;
    return waited_ >= bound_;
  }

 private:
  std::chrono::milliseconds bound_;
  Clock::duration waited_{0};
  Clock::time_point last_look_{};
};

}  // namespace backstay::comm
