#include "check/access_check.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "check/fenceable.h"
#include "check/fences.h"

namespace backstay::check {

namespace {
constexpr std::size_t most_kept = std::size_t{256} << 20;  ///< bytes
constexpr std::uint64_t at_first = 3;                      ///< times, for each computation, as long as that is quick
/// Of the time of computations that are not looked at: what may be spent with looking, so that all of them take no
/// longer than so much, and once more. What else a program does is not counted, and each computation counts as the
/// quickest of its kind: the rest may be waits for other ranks, which look.
constexpr double most_of_the_time = 3;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_same(const View& a, const View& b) {
  return a.valid && b.valid && a.data == b.data && a.shape == b.shape && a.strides == b.strides;
}
}  // namespace

AccessCheck::AccessCheck(double quick) : fences_(Fences::get()), quick_(quick) {}

AccessCheck::~AccessCheck() {
  std::vector<bool> moved;
  if (looking_) {
    give_up();
    (void)end({}, false, moved);
  }
  if (fences_ != nullptr) fences_->release(this);
}

std::vector<Allocation> AccessCheck::found() const {
  std::vector<Allocation> out;
  if (fences_ == nullptr) return out;
  fences_->for_each_allocation([&](const backstay_check_memory& memory) {
    if (memory.is_lent != 0) return;
    out.push_back({static_cast<std::byte*>(memory.data), memory.bytes, memory.number,
                   std::vector<const void*>(memory.stack, memory.stack + memory.frames)});
  });
  return out;
}

bool AccessCheck::is_due(int number) {
  const Spent& spent = spent_[number];
  if (spent.times == 0 || (spent.times < at_first && spent_in_all_ < quick_)) return true;
  return spent.seconds * static_cast<double>(spent_.size()) < most_of_the_time * passed_over_;
}

void AccessCheck::pass_over(int number) {
  end_passed_over();
  passing_ = number;
  passing_since_ = seconds_now();
}

void AccessCheck::end_passed_over() {
  if (!passing_) return;
  Spent& spent = spent_[*passing_];
  passed_over_ -= static_cast<double>(spent.passed_over) * spent.quickest;
  spent.quickest = std::min(spent.quickest, seconds_now() - passing_since_);
  passed_over_ += static_cast<double>(++spent.passed_over) * spent.quickest;
  passing_.reset();
}

bool AccessCheck::begin(int number, std::vector<Subject> regions, const select::Effects& effects) {
  return begin(number, std::move(regions), effects, Closely::in_turns);
}

bool AccessCheck::begin(int number, std::vector<Subject> regions, const select::Effects& effects, Closely closely) {
  if (looking_) {
    std::vector<bool> moved;
    give_up();
    (void)end({}, false, moved);
  }
  began_ = seconds_now();
  auto* const fenced = fences_ != nullptr ? fences_->begin(this, regions.size()) : nullptr;
  if (fences_ != nullptr && fenced == nullptr) return false;
  subjects_ = std::move(regions);
  View nothing;
  nothing.valid = false;
  watched_.reserve(subjects_.size());
  for (const auto& subject : subjects_) {
    const Layout layout(subject.is_watched ? subject.view : nothing, subject.element);
    watched_.emplace_back(layout, subject.units, std::pmr::get_default_resource());
  }
  for (const auto& effect : effects) watched_[effect.region].allow(effect);
  mark_shared(watched_);
  if (fenced != nullptr) {
    // What was given back before it is heard of.
    const auto there = found();
    const auto is_there = [&](std::uint64_t allocation) {
      return allocation == 0 || std::ranges::find(there, allocation, &Allocation::number) != there.end();
    };
    for (std::size_t r = 0; r < subjects_.size(); ++r) {
      auto& region = fenced->emplace_back(watched_[r].layout(), subjects_[r].units, fences_->memory());
      region.is_shared = watched_[r].is_shared;
      region.is_traced = subjects_[r].is_traced || subjects_[r].allocation != 0;
      region.is_found = subjects_[r].allocation != 0;
      region.is_gone = !is_there(subjects_[r].allocation);
      region.settled = &subjects_[r].settled;
    }
    for (const auto& effect : effects) (*fenced)[effect.region].allow(effect);
  }
  auto& spent = spent_[number];
  const Ranges pages = fenced != nullptr ? fenceable(watched_, own_memory(), fences_->allocations()) : Ranges();
  keep(pages);
  if (fenced != nullptr) fences_->close(pages, spent.times, spent.suspects, closely);
  looking_ = true;
  given_up_ = false;
  number_ = number;
  return true;
}

/// What lies outside of closed pages, and may not be written.
void AccessCheck::keep(const Ranges& closed) {
  std::size_t bytes = 0;
  for (std::size_t r = 0; r < watched_.size(); ++r) {
    const auto& layout = watched_[r].layout();
    const auto& rule = watched_[r].common_rule();
    if (!layout.is_usable() || (rule && rule->write)) continue;
    std::byte* from = layout.begin();
    const auto keep_to = [&](std::byte* to) {
      to = std::min(to, layout.end());
      const auto length = from < to ? static_cast<std::size_t>(to - from) : 0;
      if (length == 0 || bytes + length > most_kept) return;
      bytes += length;
      kept_.push_back({r, from, to, {from, to}});
    };
    for (const auto& [begin, end] : closed) {
      if (end <= from || begin >= layout.end()) continue;
      keep_to(begin);
      from = end;
    }
    keep_to(layout.end());
  }
}

void AccessCheck::look_at_kept(const std::vector<bool>& moved, std::vector<Finding>& findings) const {
  std::map<std::size_t, Finding> changed;
  for (const auto& kept : kept_) {
    const Watched& region = watched_[kept.region];
    if (moved[kept.region] || std::memcmp(kept.from, kept.bytes.data(), kept.bytes.size()) == 0) continue;
    region.for_each_in(kept.from, kept.to, [&](std::byte* element, const Index& index) {
      const auto bytes = std::min<std::ptrdiff_t>(region.layout().element(), kept.to - element);
      if (std::memcmp(element, kept.bytes.data() + (element - kept.from), static_cast<std::size_t>(bytes)) == 0) return;
      if (region.rule_of(index).write) return;
      auto [at, is_first] = changed.try_emplace(kept.region, Finding{kept.region, Fault::writes, {}, 0, 0, 0});
      ++at->second.elements;
      if (is_first)
        at->second.index.assign(index.begin(),
                                index.begin() + static_cast<std::ptrdiff_t>(region.layout().dimensions()));
    });
  }
  for (auto& [region, finding] : changed) {
    const auto is_known = [&, r = region](const Finding& f) { return f.region == r && f.fault == Fault::writes; };
    const auto known = std::ranges::find_if(findings, is_known);
    if (known == findings.end()) {
      findings.push_back(std::move(finding));
    } else {
      known->elements += finding.elements;
      known->index = std::min(known->index, finding.index);
    }
  }
}

void AccessCheck::give_up() {
  given_up_ = true;
  if (looking_ && fences_ != nullptr && fences_->is_open(this)) fences_->open(true);
}

void AccessCheck::give_up_all() {
  if (auto* const fences = Fences::get()) fences->open(true);
}

void AccessCheck::open() {
  if (looking_ && fences_ != nullptr && fences_->is_open(this)) fences_->open(false);
}

/// Units that leave bytes of an element out (of 1 or 2 bytes, say) tell nothing of those.
std::vector<Fate> AccessCheck::fates(std::size_t region) const {
  const Subject& subject = subjects_[region];
  std::size_t covered = 0;
  for (const auto& unit : subject.units.units) covered += unit.bytes;
  if (!looking_ || given_up_ || fences_ == nullptr || !fences_->is_open(this) || covered != subject.element) return {};
  return fences_->fates(region);
}

bool AccessCheck::is_unwritten(std::size_t region) const {
  return looking_ && !given_up_ && fences_ != nullptr && fences_->is_open(this) && fences_->is_unwritten(region);
}

std::vector<Finding> AccessCheck::end(const std::vector<View>& now, bool completed, std::vector<bool>& moved) {
  std::vector<Finding> out;
  moved.assign(subjects_.size(), false);
  if (!looking_) return out;
  if (!completed) give_up();
  open();
  for (std::size_t r = 0; r < subjects_.size(); ++r)
    moved[r] = subjects_[r].is_watched && (r >= now.size() || !is_same(now[r], subjects_[r].view));
  auto& spent = spent_[number_];
  if (fences_ != nullptr && fences_->is_open(this)) {
    for (std::size_t r = 0; r < subjects_.size(); ++r) moved[r] = moved[r] || fences_->is_gone(r);
    out = fences_->end(moved, spent.suspects);
  }
  // Where the session was called meanwhile it may have put back what was saved.
  if (!given_up_) look_at_kept(moved, out);
  kept_.clear();
  watched_.clear();
  subjects_.clear();
  looking_ = false;
  ++spent.times;
  const double seconds = seconds_now() - began_;
  spent.seconds += seconds;
  spent_in_all_ += seconds;
  return out;
}

}  // namespace backstay::check
