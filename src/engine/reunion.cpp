#include "engine/reunion.h"

namespace backstay::engine {

namespace {
// What goes through a round: [refused, call, calls ahead, state...].
constexpr std::size_t fixed_numbers = 3;
constexpr std::uint64_t calls_ahead = 2;
}  // namespace

Result<bool> Reunion::advance(comm::Comm& origin, const Here& here) {
  if (!first_call_) first_call_ = here.call;
  if (const auto here_too = joined(origin); !here_too || !*here_too) return here_too;
  while (!agreed_) {
    if (!round_) BACKSTAY_TRY(start_round(here));
    const auto done = round_->test();
    if (!done || !*done) return done;
    end_round();
  }
  return true;
}

/// Every rank has come into the new group.
Result<bool> Reunion::joined(comm::Comm& origin) {
  if (group_) return true;
  if (!coming_) {
    auto started = origin.start_duplicate();
    if (!started) return started.failure();
    coming_ = std::move(*started);
  }
  const auto all_here = coming_->test();
  if (!all_here || !*all_here) return all_here;
  group_ = coming_->take();
  coming_.reset();
  return true;
}

Result<void> Reunion::start_round(const Here& here) {
  proposal_.reset();
  // In the call after the proposal it is not too late: this rank stays in it.
  if (proposed_ > 0 && here.call <= proposed_ + 1) proposal_ = proposed_;
  if (proposed_ > 0 && !proposal_) in_vain_ = true;
  std::uint64_t ahead = calls_ahead;
  // Ranks run further ahead of each other than they said; they did so since they missed each other.
  if (in_vain_) ahead += here.call - *first_call_;
  if (here.stays) ahead = 0;
  std::vector<std::int64_t> mine{proposal_ ? 0 : 1, static_cast<std::int64_t>(here.call),
                                 static_cast<std::int64_t>(ahead)};
  mine.insert(mine.end(), here.state.begin(), here.state.end());
  auto started = group_->start_all_max(std::move(mine), comm::Asking::without_end);
  if (!started) return started.failure();
  round_ = std::move(*started);
  return {};
}

void Reunion::end_round() {
  const auto& all = round_->values();
  agreed_ = all[0] == 0;
  if (!agreed_) proposed_ = static_cast<std::uint64_t>(all[1] + all[2]);
  state_.assign(all.begin() + fixed_numbers, all.end());
  round_.reset();
}

void Reunion::give_up() {
  in_vain_ = true;
  proposed_ = 0;
  proposal_.reset();
  round_.reset();
  group_.reset();
}

}  // namespace backstay::engine
