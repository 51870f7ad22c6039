// How ranks that have waited for each other in vain agree on a call from which they act together again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/comm.h"

namespace backstay::engine {

/// Carried on over the calls of a program, call by call, and never waited for longer than a call allows: a rank that
/// stays away may be waiting in the program's own communication for one that would wait here.
///
/// First a new group, which is there once every rank has come; then rounds in it. In each a rank says which call it is
/// in, and how many calls it may make before it hears of the others: few at first. The sum of the maxima is the
/// proposal. In the next round each says whether it is behind that call already. If none is, they act together from the
/// call after it; if one is, the next proposal is further ahead by as many calls as ranks have made in coming together.
///
/// Invariant: a rank that has said yes to a proposal does not leave the call after it before it knows the outcome, or
/// has given up the group: then those who go by its yes wait for it in vain in that group, once, and all begin again.
class Reunion {
 public:
  /// What a rank brings to a round.
  struct Here {
    std::uint64_t call = 0;           ///< it is in, counted from 1
    bool stays = false;               ///< it waits in this call
    std::vector<std::int64_t> state;  ///< of which all need the maxima; the same length on every rank
  };

  /// Not a wait: goes as far as it can. True: all ranks act together from the call after last_alone(), in take().
  Result<bool> advance(comm::Comm& origin, const Here& here);
  /// Every rank has come, and will answer as soon as it makes a call.
  [[nodiscard]] bool all_have_come() const { return group_ != nullptr; }
  /// This rank has said yes to a proposal, and is in the call after it.
  [[nodiscard]] bool must_stay(std::uint64_t call) const { return proposal_ && call > *proposal_; }
  /// This rank leaves a call in which it must stay.
  void give_up();

  [[nodiscard]] std::uint64_t last_alone() const { return *proposal_; }
  /// The maxima of what ranks brought to the last round.
  [[nodiscard]] const std::vector<std::int64_t>& state() const { return state_; }
  /// The group, once.
  std::unique_ptr<comm::Comm> take() { return std::move(group_); }

 private:
  Result<bool> joined(comm::Comm& origin);
  Result<void> start_round(const Here& here);
  void end_round();

  std::unique_ptr<comm::PendingComm> coming_;  ///< the group
  std::unique_ptr<comm::Comm> group_;
  std::unique_ptr<comm::PendingMax> round_;
  std::optional<std::uint64_t> proposal_;    ///< a call that this rank is not behind
  std::optional<std::uint64_t> first_call_;  ///< of this rank that was made for this
  bool agreed_ = false;
  bool in_vain_ = false;  ///< a proposal was refused, or a group given up
  std::uint64_t proposed_ = 0;
  std::vector<std::int64_t> state_;
};

}  // namespace backstay::engine
