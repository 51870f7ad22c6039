#include "engine/reunion.h"

namespace backstay::engine {

namespace {
// What goes through a round: [refused, call that this rank may be in when it hears, state...].
constexpr std::size_t fixed_numbers = 2;
constexpr std::uint64_t calls_ahead = 2;
}  // namespace

Result<bool> Reunion::advance(comm::Comm& origin, const Here& here) {
  while (true) {
    const auto all_here = joined(origin, here.call);
    if (!all_here || !*all_here) return all_here;
    if (!round_) BACKSTAY_TRY(start_round(here));
    const auto done = round_->test();
    if (!done || !*done) return done;
    end_round();
    if (!agreed_) continue;
    if (here.call <= proposed_ + 1) return true;
    begin_again();
  }
}

/// Every rank has come into the new group.
Result<bool> Reunion::joined(comm::Comm& origin, std::uint64_t call) {
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
  joined_in_ = call;
  return true;
}

Result<void> Reunion::start_round(const Here& here) {
  // In the call after the proposal it is not too late: this rank stays in it.
  said_yes_ = proposed_ > 0 && here.call <= proposed_ + 1;
  const std::uint64_t ahead = here.stays ? 0 : calls_ahead + here.call - joined_in_;
  std::vector<std::int64_t> mine{said_yes_ ? 0 : 1, static_cast<std::int64_t>(here.call + ahead)};
  mine.insert(mine.end(), here.state.begin(), here.state.end());
  auto started = group_->start_all_max(std::move(mine), comm::Asking::without_end);
  if (!started) return started.failure();
  round_ = std::move(*started);
  return {};
}

void Reunion::end_round() {
  const auto& all = round_->values();
  agreed_ = all[0] == 0;
  if (!agreed_) {
    proposed_ = static_cast<std::uint64_t>(all[1]);
    said_yes_ = false;
  }
  state_.assign(all.begin() + fixed_numbers, all.end());
  round_.reset();
}

/// All have said yes, and this rank has gone on since. The others begin again, too.
void Reunion::begin_again() {
  group_.reset();
  proposed_ = 0;
  said_yes_ = agreed_ = false;
}

}  // namespace backstay::engine
