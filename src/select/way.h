// The way of a program from its beginning: what it computed and when it called checkpoint(), recorded or gone again.
//
// Source: OPS checkpointing, section 4, Algorithm 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backstay/ahead.hpp"
#include "base/bytes.h"
#include "base/result.h"
#include "select/declared.h"
#include "select/replay_log.h"

namespace backstay::select {

/// It is recorded from the beginning, saved with each line, and gone again, without computing, to the call of
/// checkpoint() where that line was taken. Until the line was handed over, what it needs was decided by what came next:
/// so far the program is followed, and told the same, unless it goes another way. From there it is recorded further.
class Way {
 public:
  /// What to do with an event.
  enum class Turn {
    run,   ///< it happens
    skip,  ///< it has happened before the line was taken
    stop,  ///< the line was taken here: what it holds is what the program goes on with
  };

  /// `ahead`: where look_ahead() leaves what comes next; null: nowhere. It must outlive this, and is read by every
  /// other call, so that those need not know of it.
  explicit Way(detail::Ahead* ahead = nullptr) : ahead_(ahead) {}
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  /// Of what ranks saved with one line: each up to where it had handed the line over, so that the others are the
  /// beginning of this one. Code::mismatch: they went different ways. Code::corrupt, Code::version: as go_again().
  static Result<ByteView> furthest(const std::vector<ByteView>& saved);
  /// The way that `saved` holds is gone again. Code::corrupt: it is none.
  Result<void> go_again(ByteView saved);
  /// The place where the line was taken is still ahead.
  [[nodiscard]] bool is_gone_again() const { return replay_ && done() < place_; }
  /// Computations are skipped: the last event was behind the beginning that runs again.
  [[nodiscard]] bool skips() const { return is_gone_again() && (beginning_ == 0 || done() > beginning_); }
  /// What is skipped next, as far as it is results and computations that came before in this replay: passing it there
  /// is as good as telling it to computation(), result() and computed(). Nothing where nothing is skipped.
  void look_ahead();
  /// What came so far runs again when the way is gone again. Code::mismatch: then it ended elsewhere.
  Result<void> end_beginning();
  /// What comes is known already: it is skipped or followed.
  [[nodiscard]] bool is_known() const { return replay_.has_value(); }
  /// A call of checkpoint() came next.
  [[nodiscard]] bool next_is_checkpoint();
  /// A line is taken at the last event.
  void mark() { place_ = replay_ ? done() : log_.events(); }
  /// A computation begins. Code::mismatch: the saved way goes on otherwise, or what it computed was declared otherwise.
  Result<Turn> computation(std::size_t number, const Declared& declared);
  /// A call of checkpoint(). Code::mismatch as above.
  Result<Turn> checkpoint();
  /// Something that the program was told, which is kept; where it is gone again or followed, `value` is what it was
  /// then. Code::mismatch, Code::corrupt.
  Result<void> result(MutableByteView value);
  /// The same of what a computation returned. If its body has run, `value` belongs to the data, and stays;
  /// Code::mismatch where the beginning of the program returns something else than then.
  Result<void> computed(MutableByteView value);
  /// Something happened that cannot be gone again: `why`. No line is saved from here on.
  void lose(std::string why) { lost_ = std::move(why); }
  /// All so far, with what is declared, and where the last line was taken. Code::invalid_argument: it was lost.
  [[nodiscard]] Result<std::string> save(const Declared& declared);
  [[nodiscard]] std::uint64_t computations() {
    settle();
    return computations_;
  }
  /// "after 12 of 40 computations, calls of checkpoint() and results"
  [[nodiscard]] std::string position() const;

 private:
  Result<Turn> take(std::uint32_t event);
  void leave();
  /// The replay goes on to where the program has come by `ahead_`.
  void settle();
  [[nodiscard]] std::uint64_t done() const { return replay_->done() + (ahead_ != nullptr ? ahead_->passed() : 0); }
  /// The place is behind, and what came after it is known.
  [[nodiscard]] bool is_followed() const { return replay_ && done() >= place_; }

  detail::Ahead* ahead_;
  ReplayLog log_;
  std::optional<Replay> replay_;
  std::uint64_t place_ = 0;      ///< events up to where the line was taken
  std::uint64_t beginning_ = 0;  ///< events whose computations run again
  bool beginning_is_over_ = false;
  std::vector<std::string> declared_then_;  ///< of the way that is gone again
  std::vector<bool> is_as_then_;            ///< of those: it has begun, behind the beginning
  std::optional<std::string> lost_;
  std::uint64_t computations_ = 0;
};

}  // namespace backstay::select
