// The background: one thread that takes captures through the levels, in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/line_writer.h"

namespace backstay::engine {

/// What the background did with one line at one level.
struct Settled {
  std::uint64_t line = 0;
  std::uint64_t call = 0;
  std::size_t level = 0;
  double seconds = 0;                              ///< from the start of its writing
  Result<std::uint64_t> bytes = std::uint64_t{0};  ///< of the whole line, or why it was given up
  bool last = false;                               ///< the checkpoint goes to no further level
  bool of_statics = false;                         ///< at the level's companion
  bool surplus = false;  ///< said before: the line is whole; `bytes` tells why an older one could not be removed
};

struct BackgroundOptions {
  int nice = 10;                                ///< added to the thread's niceness
  std::size_t buffers = 1;                      ///< captures that may be in flight
  std::chrono::milliseconds timeout{};          ///< bound on a wait for a free buffer or for all to settle
  std::function<void()> pump;                   ///< called while the application's thread waits here
  std::function<void(const Settled&)> settled;  ///< called on the background thread after each line
};

/// Owns the captures. `take`, `make_ready`, `put`, `in_flight`, `wait_idle` are called by the application's thread.
class Background {
 public:
  Background(std::vector<Level>& levels, std::vector<Level>& statics, const Job& job, const Topology& topology,
             comm::Comm& comm, BackgroundOptions options);
  /// Ends the thread; what is still queued is dropped. Call wait_idle() first to keep it.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// A checkpoint to fill, its staging memory reused; waits for one, bounded: Code::timeout. It is to be handed over
  /// all the same then (see in_vain()), as the other ranks have one.
  Result<std::unique_ptr<Checkpoint>> take();
  /// Makes staging memory of `bytes` for each capture that is not in flight; where there is none left, the capture
  /// says so.
  void make_ready(std::uint64_t bytes);
  /// A checkpoint that holds nothing but why.
  static std::unique_ptr<Checkpoint> in_vain(const Failure& why);
  /// Hands a filled checkpoint to the thread.
  void put(std::unique_ptr<Checkpoint> checkpoint);
  [[nodiscard]] std::size_t in_flight() const;
  /// Until everything put so far is settled; bounded by that part of the time-out: Code::timeout.
  Result<void> wait_idle(double part = 1);
  /// Seconds since the thread began with what it has in hand; 0: it has nothing.
  [[nodiscard]] double busy_for() const;
  /// Staging memory held, bytes.
  [[nodiscard]] std::uint64_t staging_bytes() const { return staging_bytes_; }

 private:
  void run();
  void write_or_end(Checkpoint& checkpoint);
  void write(Checkpoint& checkpoint);
  Result<std::uint64_t> write_at(std::size_t i, Checkpoint& checkpoint);
  Result<void> retire_at(std::size_t i, bool of_statics);
  Result<void> wait_until(const std::function<bool()>& ready, const char* what, double part = 1);

  std::vector<Level>& levels_;
  std::vector<Level>& statics_;          ///< the levels' companions
  std::vector<std::string> no_statics_;  ///< for each of them why its last line was given up
  const Job& job_;
  const Topology& topology_;
  comm::Comm& comm_;
  BackgroundOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Checkpoint>> queue_;
  std::vector<std::unique_ptr<Checkpoint>> free_;
  std::size_t in_flight_ = 0;
  double busy_since_ = 0;  // 0: nothing in hand
  bool ending_ = false;
  std::atomic<std::uint64_t> staging_bytes_{0};
  std::thread thread_;
};

}  // namespace backstay::engine
