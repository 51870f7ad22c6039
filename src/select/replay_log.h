// The way a program took, and what it was told on it: enough to take the same way again without computing.
//
// Source: OPS checkpointing, section 4, Algorithm 2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backstay/ahead.hpp"
#include "base/bytes.h"
#include "base/result.h"

namespace backstay::select {

/// Something that happened on the way: a computation, or a result of some bytes that the program was given.
class Event {
 public:
  static Event computation(std::uint32_t number) { return Event(std::uint64_t{number} << 1); }
  static Event result(std::size_t bytes) { return Event(static_cast<std::uint64_t>(bytes) << 1 | 1); }
  static Event of(std::uint64_t symbol) { return Event(symbol); }
  [[nodiscard]] bool is_result() const { return (symbol_ & 1) != 0; }
  [[nodiscard]] std::uint64_t value() const { return symbol_ >> 1; }  ///< number or bytes
  [[nodiscard]] std::uint64_t symbol() const { return symbol_; }
  bool operator==(const Event&) const = default;

 private:
  explicit Event(std::uint64_t symbol) : symbol_(symbol) {}
  std::uint64_t symbol_;
};

/// Expects the event that came the last times after the same three. A program is loops, so it is wrong about once when
/// a loop ends. The same events give the same expectations, everywhere.
class Expectation {
 public:
  /// The three events before, and where the guess stands that follows them.
  struct At {
    std::array<std::uint64_t, 3> last{};
    std::size_t slot = 0;
    bool operator==(const At&) const = default;
    /// Where it is after another one.
    void pass(Event event);
  };

  Expectation() : guesses_(slots) {}
  [[nodiscard]] Event next() const { return next(at_); }
  [[nodiscard]] Event next(const At& at) const { return Event::of(guesses_[at.slot].symbol); }
  void came(Event event);
  [[nodiscard]] const At& at() const { return at_; }
  /// All came as expected on the way from at() to `at`: for each guess on it confirm() was called once, or more often.
  void go_to(const At& at) { at_ = at; }
  void confirm(std::size_t slot) { guesses_[slot].doubted = false; }

 private:
  static constexpr std::size_t slots = std::size_t{1} << 14;
  struct Guess {
    std::uint64_t symbol = 0;
    bool doubted = false;  ///< it was wrong the last time; twice, and another takes its place
  };

  std::vector<Guess> guesses_;
  At at_;
};

/// Grows with what could not be expected, and with the results: a few bytes for each end of a loop.
class ReplayLog {
 public:
  void computation(std::uint32_t number);
  void result(ByteView value);
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// What encode() gives, about.
  [[nodiscard]] std::uint64_t bytes() const { return surprises_.size() + results_.size(); }
  /// All so far. Recording goes on.
  [[nodiscard]] Bytes encode() const;

 private:
  friend class Replay;
  void add(Event event);

  Expectation expectation_;
  std::uint64_t events_ = 0;
  std::uint64_t as_expected_ = 0;  ///< events since the last surprise
  Bytes surprises_;                ///< for each: how many events were as expected before it, and its symbol
  Bytes results_;                  ///< one after the other
};

/// Goes the way of a log. What the program does must be what the log says.
class Replay {
 public:
  /// What the computations are called in sentences. Code::corrupt: these are not the bytes of a log.
  static Result<Replay> open(ByteView encoded, std::vector<std::string> names);
  /// The events of `shorter`, with their results, are the first ones of `longer`; nothing of either was replayed.
  static bool begins(Replay shorter, Replay longer);
  [[nodiscard]] bool at_end() const { return done_ == events_; }
  [[nodiscard]] bool next_is(std::uint32_t computation) const {
    return !at_end() && next() == Event::computation(computation);
  }
  [[nodiscard]] std::uint64_t done() const { return done_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// The result that is next, if there is one of so many bytes.
  [[nodiscard]] std::optional<ByteView> next_result(std::size_t bytes) const;
  /// False: another computation is next, or a result, or nothing. The replay stands still.
  bool computation(std::uint32_t number) {
    if (!next_is(number)) return false;
    pass();
    return true;
  }
  /// Why a computation that is not next cannot be: Code::mismatch, with a sentence.
  [[nodiscard]] Failure why_not(std::uint32_t computation) const { return why_not(Event::computation(computation)); }
  /// Fills in the result. Code::mismatch as above, or another size; Code::corrupt: the log has no bytes for it.
  Result<void> result(MutableByteView value);
  /// What comes next, `most` events of it, as far as it is expected, and is results and computations that are `known`:
  /// these are numbers less one, as the first one is not among them. The replay stands still until pass(); nothing else
  /// may be done with it before.
  [[nodiscard]] detail::Ahead look_ahead(const std::vector<bool>& known, std::uint64_t most);
  /// What look_ahead() gave is behind, as far as the program has passed it. How many computations that are.
  std::uint64_t pass(const detail::Ahead& ahead);
  /// What was replayed so far, to be continued.
  [[nodiscard]] ReplayLog log() const;

 private:
  Replay() = default;
  [[nodiscard]] Event next() const;
  [[nodiscard]] Failure why_not(Event event) const;
  void pass();
  void find_surprise();
  [[nodiscard]] std::string name_of(Event event) const;

  /// Events that follow each other as long as no guess changes, which a surprise does. Programs repeat themselves, so
  /// it is used again.
  struct Run {
    void begin_at(const Expectation::At& at, std::uint64_t met);
    Expectation::At from, to;
    std::vector<detail::Ahead::Symbol> symbols;
    std::vector<std::uint32_t> slots;  ///< of the guesses
    std::size_t confirmed = 0;         ///< so many of these, the first ones
    std::uint64_t computations = 0, result_bytes = 0;
    std::uint64_t surprises_met = 0;
    bool is_open = false;  ///< it ends where a computation was not known
  };
  static constexpr std::size_t longest_run = 1024, most_runs = 1024;
  Run& run_from_here(const std::vector<bool>& known, std::uint64_t most);

  std::vector<std::string> names_;
  std::uint64_t events_ = 0, done_ = 0;
  Bytes surprises_, results_;
  std::size_t next_surprise_ = 0, next_result_ = 0;  ///< in those
  std::uint64_t before_surprise_ = 0;                ///< events as expected, from here on
  std::optional<Event> surprise_;
  std::size_t taken_surprises_ = 0;  ///< bytes of those that have come
  std::uint64_t as_expected_ = 0;    ///< events since the last of them
  Expectation expectation_;
  std::unordered_map<std::size_t, Run> runs_;  ///< by the slot that they begin at
  std::uint64_t surprises_met_ = 0;
  Run* run_ = nullptr;  ///< that look_ahead() gave
};

}  // namespace backstay::select
