// How to wait without spinning, and when to stop.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

namespace backstay::comm {

/// Sleeps between looks at something that another rank must do: each time a sixteenth of what was waited so far, from
/// 20 microseconds to 1 millisecond. What takes long is looked at seldom, and found little later than it happens.
///
/// A sleep lasts for 50 microseconds more than was asked (Linux, timer slack). `at_first`: so long others are let run
/// instead, where a program waits for nothing else.
class Backoff {
 public:
  static constexpr std::chrono::microseconds usual{1000};
  static constexpr std::chrono::microseconds for_days{10000};  ///< what may well never happen
  static constexpr std::chrono::microseconds of_a_message{50};

  explicit Backoff(std::chrono::microseconds longest = usual, std::chrono::microseconds at_first = {})
      : longest_(longest), at_first_(at_first) {}
  void sleep() {
    const std::chrono::nanoseconds waited = Clock::now() - start_;
    if (waited < at_first_) return std::this_thread::yield();
    std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(waited / 16, shortest, longest_));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds shortest{20};
  std::chrono::microseconds longest_;
  std::chrono::microseconds at_first_;
  Clock::time_point start_ = Clock::now();
};

/// Bounds the time that a caller spends asking again and again. A caller that went away to compute between two
/// looks was not waiting: such a gap counts as a second at most, and as a twentieth of the bound, so a long step is
/// never a time-out.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int fewest_gaps = 20;  ///< that use it up

  explicit Patience(std::chrono::milliseconds bound)
      : bound_(bound), longest_gap_(std::min<Clock::duration>(std::chrono::seconds(1), bound_ / fewest_gaps)) {}

  /// To be called after each look that saw nothing; true once the bound is used up.
  bool exhausted(Clock::time_point now = Clock::now()) {
    if (last_look_ != Clock::time_point{}) waited_ += std::min<Clock::duration>(now - last_look_, longest_gap_);
    last_look_ = now;
    return waited_ >= bound_;
  }

 private:
  Clock::duration bound_;
  Clock::duration longest_gap_;
  Clock::duration waited_{0};
  Clock::time_point last_look_{};
};

/// What becomes of a wait that lasts for longer than `timeout`. `late` has no value: it is given up. Otherwise that is
/// called, at each doubling.
struct Waits {
  std::chrono::milliseconds timeout{};
  std::optional<std::function<void()>> late = {};

  /// A wait has lasted for `bound`; true: give it up. Otherwise `bound` is how long it may last until the next call.
  bool end_after(std::chrono::milliseconds& bound) const {
    if (!late) return true;
    if (*late) (*late)();
    bound *= 2;
    return false;
  }
};

/// A wait of someone who asks again and again, bounded as `Waits` says. A job that is suspended as a whole, for however
/// long, does not wait meanwhile.
class BoundedWait {
 public:
  explicit BoundedWait(std::chrono::milliseconds bound) : bound_(bound) {}

  /// To be called after each look that saw nothing; true: it is to be given up.
  bool is_over(const Waits& waits) {
    if (!patience_.exhausted()) return false;
    const auto waited = bound_;
    if (waits.end_after(bound_)) return true;
    patience_ = Patience(bound_ - waited);
    return false;
  }
  [[nodiscard]] std::chrono::milliseconds bound() const { return bound_; }

 private:
  std::chrono::milliseconds bound_;
  Patience patience_{bound_};
};

}  // namespace backstay::comm
