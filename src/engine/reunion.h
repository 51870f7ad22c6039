// How ranks that have waited for each other in vain agree on a call from which they act together again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/comm.h"

namespace backstay::engine {

/// Carried on over the calls of a program, call by call, and never waited for longer than a call allows: a rank that
/// stays away may be waiting in the program's own communication for one that would wait here.
///
/// First a new group, which is there once every rank has come; then rounds in it. In each a rank says in which call it
/// may be when it hears of the others: a few after the one that it is in, and as many again as it has made since the
/// group was there, as ranks run ahead of each other from one communication of the program to the next. The highest one
/// is the proposal. In the next round each says whether it is past that call already. If none is, they act together
/// from the call after it.
///
/// Invariants: (a) Every rank goes through the same rounds: none leaves them before all have said yes. (b) A rank that
/// has said yes stays in the call after the proposal until it knows the outcome, for as long as it is patient. If it
/// goes on, and the outcome was that all have said yes, it begins again, and the others begin again when they have
/// waited for it in vain, once.
class Reunion {
 public:
  /// What a rank brings to a round.
  struct Here {
    std::uint64_t call = 0;           ///< it is in, counted from 1
    bool stays = false;               ///< it waits in this call
    std::vector<std::int64_t> state;  ///< of which all need the maxima; the same length on every rank
  };

  /// Not a wait: goes as far as it can. True: all ranks act together from the call after last_alone(), in take(). To be
  /// called in each call, with ever higher numbers.
  Result<bool> advance(comm::Comm& origin, const Here& here);
  /// Every rank has come, and will answer as soon as it makes a call.
  [[nodiscard]] bool all_have_come() const { return group_ != nullptr; }
  /// This rank has said yes to a proposal, and is in the call after it.
  [[nodiscard]] bool must_stay(std::uint64_t call) const { return said_yes_ && call == proposed_ + 1; }

  [[nodiscard]] std::uint64_t last_alone() const { return proposed_; }
  /// The maxima of what ranks brought to the last round.
  [[nodiscard]] const std::vector<std::int64_t>& state() const { return state_; }
  /// The group, once.
  std::unique_ptr<comm::Comm> take() { return std::move(group_); }

 private:
  Result<bool> joined(comm::Comm& origin, std::uint64_t call);
  Result<void> start_round(const Here& here);
  void end_round();
  void begin_again();

  std::unique_ptr<comm::PendingComm> coming_;  ///< the group
  std::unique_ptr<comm::Comm> group_;
  std::unique_ptr<comm::PendingMax> round_;
  std::uint64_t joined_in_ = 0;  ///< the call in which this rank saw that the group was there
  std::uint64_t proposed_ = 0;   ///< 0: nothing yet
  bool said_yes_ = false;        ///< to that
  bool agreed_ = false;
  std::vector<std::int64_t> state_;
};

}  // namespace backstay::engine
