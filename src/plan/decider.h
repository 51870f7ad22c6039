// When a checkpoint is due, agreed among ranks without a barrier. Pure: numbers in, numbers out.
#pragma once

#include <cstdint>
#include <vector>

namespace backstay::plan {

/// When a level is due: every `every` calls (0: not by calls), or `interval` seconds after its last (0: not by time).
struct Cadence {
  std::uint64_t every = 0;
  double interval = 0;
};

/// Decides, call by call, for one rank. All ranks make the same calls and see the same agreed values, so all decide
/// the same. An agreement is started at one call of checkpoint() and used at the next, so it overlaps a step; it is
/// made only every `stride` calls, so that short steps do not pay for it, and always just before a level falls due by
/// count, so that the decision then knows what is in flight.
class Decider {
 public:
  /// `agreement_period`: seconds that should pass between agreements (they are made at calls, so at least one call).
  Decider(std::vector<Cadence> levels, double agreement_period);

  /// A call of checkpoint() at local time `now` (seconds, monotonic). Counts it.
  void begin_call(double now);
  /// The number of this call, 1 for the first; resume() goes on counting from the saved one.
  [[nodiscard]] std::uint64_t call() const { return call_; }
  void set_call(std::uint64_t call) {
    call_ = call;
    last_agreement_ = 0;  // a rollback goes back in calls: what was agreed in the future is no measure
  }
  /// Must the agreement that was started at the last call be waited for now?
  [[nodiscard]] bool agreement_under_way() const { return under_way_; }
  /// Hands in the maxima of all ranks' proposals.
  void agreed(const std::vector<std::int64_t>& maxima);
  /// Levels due at this call (by count, or agreed to be due by time).
  [[nodiscard]] std::vector<bool> due() const;
  [[nodiscard]] bool stop() const { return stop_; }
  /// Checkpoints in flight somewhere, at the last agreement.
  [[nodiscard]] std::int64_t in_flight() const { return in_flight_; }
  /// Everything put so far was seen to be done, on every rank.
  void all_done() { in_flight_ = 0; }
  /// That was asked anew, of all ranks.
  void set_in_flight(std::int64_t most) { in_flight_ = most; }
  /// As of the last agreement, on every rank: what was in flight at a call may long be done at the next one.
  [[nodiscard]] bool steps_are_long() const { return steps_are_long_; }
  /// Lines given up, at the last agreement.
  [[nodiscard]] std::int64_t failures() const { return failures_; }

  /// Should an agreement be started at the end of this call?
  [[nodiscard]] bool wants_agreement() const;
  /// What this rank proposes; marks the agreement as under way.
  struct Proposal {
    bool signal = false;         ///< this rank was asked to end
    std::int64_t in_flight = 0;  ///< checkpoints in its background
    std::int64_t failures = 0;   ///< lines it has given up
  };
  /// How many numbers a proposal has.
  [[nodiscard]] std::size_t numbers() const;
  std::vector<std::int64_t> propose(const Proposal& mine, double now);

  /// A checkpoint of these levels was captured at `now`.
  void taken(const std::vector<bool>& levels, double now);
  /// At `now` a run goes on from a state that is `age` seconds of computing newer than the newest line of this level.
  void goes_on(std::size_t level, double age, double now) { last_taken_[level] = now - age; }
  /// The newest call up to this one at which the level was due by count; 0: none.
  [[nodiscard]] std::uint64_t last_due_by_count(std::size_t level, std::uint64_t call) const {
    const auto every = levels_[level].every;
    return every == 0 ? 0 : call / every * every;
  }
  [[nodiscard]] double interval(std::size_t level) const { return levels_[level].interval; }
  /// What was due at this call was skipped: what was due by time is proposed again at the next agreement.
  void passed_over();

 private:
  [[nodiscard]] bool some_level_due_by_count(std::uint64_t call) const;

  std::vector<Cadence> levels_;
  double agreement_period_;
  std::uint64_t call_ = 0;
  std::uint64_t last_agreement_ = 0;  // call at which the last one was started
  std::uint64_t stride_ = 1;
  bool under_way_ = false;
  bool stop_ = false;
  bool steps_are_long_ = false;
  std::int64_t in_flight_ = 0;
  std::int64_t failures_ = 0;
  std::vector<bool> due_by_time_;
  std::vector<double> last_taken_;
  double last_call_time_ = -1;
  double seconds_per_call_ = 0;  ///< the longest of the recent ones
  double last_step_ = 0;         ///< seconds between the last two calls
  double usual_step_ = 0;        ///< the shorter one of the last two
};

}  // namespace backstay::plan
