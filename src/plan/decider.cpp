#include "plan/decider.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace backstay::plan {

namespace {
constexpr std::uint64_t longest_stride = 1000;
// What is agreed: [signal, in flight, failures, stride, steps are short somewhere, one number a level].
constexpr std::size_t fixed_numbers = 5;
constexpr double long_step = 1;  // seconds, beside which it is nothing that all ranks come together
constexpr double not_yet = -std::numeric_limits<double>::infinity();
}  // namespace

Decider::Decider(std::vector<Cadence> levels, double agreement_period)
    : levels_(std::move(levels)),
      agreement_period_(agreement_period),
      due_by_time_(levels_.size(), false),
      last_taken_(levels_.size(), not_yet) {}

void Decider::begin_call(double now) {
  ++call_;
  if (last_call_time_ >= 0) {
    const double seconds = now - last_call_time_;
    // The longest of the recent ones: a stride that was right for short steps is wrong for the long ones that follow.
    seconds_per_call_ = std::max(seconds, 0.9 * seconds_per_call_);
    usual_step_ = last_step_ > 0 ? std::min(seconds, last_step_) : seconds;
    last_step_ = seconds;
  }
  last_call_time_ = now;
  for (auto& t : last_taken_)
    if (t == not_yet) t = now;  // intervals count from the first call
}

void Decider::agreed(const std::vector<std::int64_t>& maxima) {
  under_way_ = false;
  stop_ = stop_ || maxima[0] != 0;
  in_flight_ = maxima[1];
  failures_ = maxima[2];
  stride_ = static_cast<std::uint64_t>(std::max<std::int64_t>(1, maxima[3]));
  steps_are_long_ = maxima[4] == 0;
  for (std::size_t i = 0; i < levels_.size(); ++i) due_by_time_[i] = maxima[fixed_numbers + i] != 0;
}

std::vector<bool> Decider::due() const {
  std::vector<bool> out(levels_.size());
  for (std::size_t i = 0; i < levels_.size(); ++i)
    out[i] = due_by_time_[i] || (levels_[i].every > 0 && call_ % levels_[i].every == 0);
  return out;
}

bool Decider::some_level_due_by_count(std::uint64_t call) const {
  return std::any_of(levels_.begin(), levels_.end(),
                     [&](const Cadence& c) { return c.every > 0 && call % c.every == 0; });
}

bool Decider::wants_agreement() const {
  return !under_way_ &&
         (last_agreement_ == 0 || call_ >= last_agreement_ + stride_ || some_level_due_by_count(call_ + 1));
}

std::size_t Decider::numbers() const { return fixed_numbers + levels_.size(); }

std::vector<std::int64_t> Decider::propose(const Proposal& mine, double now) {
  under_way_ = true;
  last_agreement_ = call_;
  const double calls = seconds_per_call_ > 0 ? agreement_period_ / seconds_per_call_ : 1;
  // At most twice the last one, so that two quick calls at the start do not put off the next agreement for long.
  const double most = static_cast<double>(std::min(2 * stride_, longest_stride));
  const auto stride = static_cast<std::int64_t>(std::clamp(std::floor(calls), 1.0, most));
  std::vector<std::int64_t> out{mine.signal ? 1 : 0, mine.in_flight, mine.failures, stride,
                                usual_step_ < long_step ? 1 : 0};
  // What is agreed is used at the next call, which is expected to come as those before. (One that was late is no
  // measure.)
  const double next = now + usual_step_;
  for (std::size_t i = 0; i < levels_.size(); ++i)
    out.push_back(levels_[i].interval > 0 && next - last_taken_[i] >= levels_[i].interval ? 1 : 0);
  return out;
}

void Decider::taken(const std::vector<bool>& levels, double now) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (!levels[i]) continue;
    last_taken_[i] = now;
    due_by_time_[i] = false;
  }
}

void Decider::passed_over() { std::fill(due_by_time_.begin(), due_by_time_.end(), false); }

}  // namespace backstay::plan
