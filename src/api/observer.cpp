#include "api/observer.h"

#include <algorithm>
#include <exception>

#include "api/checker.h"
#include "api/live_part.h"
#include "base/text.h"
#include "check/fences.h"

namespace backstay::api {

namespace {
using check::Fate;

select::BoxSet all_of(const View& view) {
  return select::BoxSet(select::box_of(std::vector<std::int64_t>(view.shape.begin(), view.shape.end())));
}

void merge(std::vector<Fate>& into, const std::vector<Fate>& from) {
  if (into.size() != from.size())
    into.assign(std::max(into.size(), from.size()), Fate::unknown);
  else
    std::ranges::transform(into, from, into.begin(), [](Fate a, Fate b) { return std::max(a, b); });
}

/// What the step after it, of which this is known by now, makes of what it leaves untouched.
void go_on(RegionInStep& done, const RegionInStep* next) {
  for (std::size_t e = 0; e < done.fates.size(); ++e) {
    if (done.fates[e] != Fate::untouched) continue;
    done.fates[e] = next == nullptr || next->fates.size() != done.fates.size() ? Fate::unknown : next->fates[e];
    if (done.fates[e] == Fate::read && done.where.program.empty()) done.where = next->where;
  }
}

const RegionInStep* find(const Step& step, std::size_t region) {
  return region < step.regions.size() && step.regions[region] ? &*step.regions[region] : nullptr;
}

/// Each with what those after it do.
std::vector<Step> followed_up(std::vector<Step> steps) {
  for (std::size_t i = steps.size(); i-- > 1;) {
    if (!steps[i].follows) continue;
    for (std::size_t r = 0; r < steps[i - 1].regions.size(); ++r)
      if (auto& done = steps[i - 1].regions[r]) go_on(*done, find(steps[i], r));
  }
  return steps;
}
}  // namespace

std::vector<RegionInStep> fates_at(std::size_t place, const std::vector<Step>& steps) {
  std::vector<RegionInStep> out;
  std::vector<bool> has;
  for (const auto& step : followed_up(steps)) {
    if (step.place != place || !step.counts) continue;
    out.resize(std::max(out.size(), step.regions.size()));
    has.resize(out.size(), false);
    for (std::size_t r = 0; r < step.regions.size(); ++r) {
      const auto* const done = find(step, r);
      if (done == nullptr) continue;
      if (!has[r]) {
        out[r] = *done;
      } else {
        merge(out[r].fates, done->fates);
        if (out[r].where.program.empty()) out[r].where = done->where;
      }
      has[r] = true;
    }
  }
  // Whatever the place.
  for (const auto& step : steps)
    for (std::size_t r = 0; r < std::min(out.size(), step.regions.size()); ++r)
      if (const auto* const done = find(step, r)) out[r].is_unwritten = out[r].is_unwritten && done->is_unwritten;
  return out;
}

std::size_t Observer::place_of(const check::CodePlace& at) {
  const auto is_it = [&](const Place& place) { return place.at.program == at.program && place.at.offset == at.offset; };
  const auto found = std::ranges::find_if(places_, is_it);
  if (found != places_.end()) return static_cast<std::size_t>(found - places_.begin());
  places_.push_back({at, 0, {}});
  return places_.size() - 1;
}

std::size_t Observer::region_of(const RegionSpec& spec, const View& view) {
  auto at = std::ranges::find(known_, spec.name, &Region::name);
  if (at == known_.end()) {
    at = known_.emplace(known_.end());
    at->name = spec.name;
    at->type = region::describe_type(spec.type);
    at->element = spec.type.size;
  }
  if (view.valid) at->shape = view.shape;
  return static_cast<std::size_t>(at - known_.begin());
}

/// The steps after the last one that counts are looked at, too, until each of the places has come once.
bool Observer::is_to_be_looked_at(std::size_t place) const {
  return places_[place].steps < wanted_ ||
         (!is_first_after_gap_ && not_counted_ + 1 < static_cast<int>(places_.size()));
}

void Observer::begin_step(const check::CodePlace& place, Journal& journal, int rank) {
  if (getpid() != process_ || !check_.sees_all()) return;
  try {
    place_ = place_of(place);
    if (is_to_be_looked_at(place_)) return look(place_);
    is_first_after_gap_ = true;
    if (has_news_) tell(journal, rank);
  } catch (const std::exception&) {  // no memory
    check_.give_up();
  }
}

void Observer::look(std::size_t place) {
  std::vector<check::Subject> subjects;
  select::Effects effects;
  now_.clear();
  watched_.clear();
  for (const auto& spec : regions_.specs()) {
    View view = memory_of(spec);
    const auto elements = view.valid ? region::element_count(view.shape) : 0;
    const std::size_t region = region_of(spec, view);
    const bool is_watched = view.valid && view.run_lengths.empty() && elements > 0;
    if (is_watched) effects.push_back({subjects.size(), {}, all_of(view), all_of(view)});
    now_.push_back(region);
    watched_.push_back(is_watched);
    const auto& fates = known_fates(place, region);
    std::vector<bool> settled;
    if (is_watched && fates.size() == elements)
      for (const Fate fate : fates) settled.push_back(fate > Fate::untouched);
    const bool is_first = settled.empty();
    subjects.push_back({std::move(view), spec.type.size, check::units_of(spec.type, spec.padding), is_watched, is_first,
                        std::move(settled)});
  }
  (void)check_.begin(0, std::move(subjects), effects, check::Closely::all);
}

std::vector<Fate>& Observer::known_fates(std::size_t place, std::size_t region) {
  auto& fates = places_[place].fates;
  fates.resize(std::max(fates.size(), region + 1));
  return fates[region];
}

void Observer::end_step() {
  if (!check_.is_looking() || getpid() != process_) return;
  try {
    check_.open();
    std::vector<RegionInStep> done(now_.size());
    for (std::size_t r = 0; r < now_.size(); ++r)
      if (watched_[r]) done[r] = {check_.fates(r), check_.is_unwritten(r), {}};
    std::vector<View> now;
    const auto& specs = regions_.specs();
    for (std::size_t r = 0; r < specs.size() && r < now_.size() && specs[r].name == known_[now_[r]].name; ++r)
      now.push_back(memory_of(specs[r]));
    std::vector<bool> moved;
    const auto findings = check_.end(now, true, moved);
    note(findings, moved, std::move(done));
  } catch (const std::exception&) {
    check_.give_up();
  }
}

void Observer::note(const std::vector<check::Finding>& findings, const std::vector<bool>& moved,
                    std::vector<RegionInStep> done) {
  for (const auto& finding : findings)
    if (finding.fault != check::Fault::skips)
      done[finding.region].where = check::place_of(finding.code, finding.caller);
  auto& place = places_[place_];
  Step step{place_, place.steps < wanted_, !is_first_after_gap_, {}};
  step.regions.resize(known_.size());
  for (std::size_t r = 0; r < now_.size(); ++r) {
    auto& region = known_[now_[r]];
    if (!watched_[r]) continue;
    if (moved[r]) done[r] = {};
    const auto elements = region::element_count(region.shape);
    if (done[r].fates.empty()) {
      done[r].fates.assign(elements, Fate::unknown);
      region.why = moved[r] ? "another memory in each step" : "values of 1 or 2 bytes, or memory of other arrays";
    }
    auto& so_far = known_fates(place_, now_[r]);
    if (so_far.empty())
      so_far = done[r].fates;
    else
      merge(so_far, done[r].fates);
    // What was settled before was not looked at again.
    for (std::size_t e = 0; e < done[r].fates.size(); ++e)
      if (so_far[e] > Fate::untouched) done[r].fates[e] = so_far[e];
    step.regions[now_[r]] = std::move(done[r]);
  }
  steps_.push_back(std::move(step));
  not_counted_ = place.steps < wanted_ ? 0 : not_counted_ + 1;
  ++place.steps;
  is_first_after_gap_ = false;
  has_news_ = true;
}

void Observer::close(Journal& journal, int rank) {
  if (getpid() != process_) return;
  if (check_.is_looking()) {
    std::vector<bool> moved;
    check_.give_up();
    (void)check_.end({}, false, moved);
  }
  try {
    if (has_news_) tell(journal, rank);
  } catch (const std::exception&) {  // no memory: nothing is told
  }
}

/// All that is known by now: what is told later counts.
void Observer::tell(Journal& journal, int rank) {
  has_news_ = false;
  journal.event_of_rank("observed",
                        {Journal::number("rank", rank), Journal::text("sees", check_.sees_all() ? "all" : "nothing")});
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const auto& place = places_[p];
    journal.event_of_rank(
        "observed_place",
        {Journal::number("rank", rank), Journal::number("place", static_cast<double>(p)),
         Journal::text("program", place.at.program), Journal::number("offset", static_cast<double>(place.at.offset)),
         Journal::number("steps", std::min(place.steps, wanted_))});
    const auto regions = fates_at(p, steps_);
    for (std::size_t r = 0; r < regions.size(); ++r) tell_of(p, r, regions[r], journal, rank);
  }
}

void Observer::tell_of(std::size_t place, std::size_t region, const RegionInStep& done, Journal& journal,
                       int rank) const {
  const auto& known = known_[region];
  std::vector<bool> is_live;
  std::uint64_t overwritten = 0, read = 0, untouched = 0;
  for (const Fate fate : done.fates) {
    is_live.push_back(fate != Fate::overwritten);
    overwritten += fate == Fate::overwritten ? 1 : 0;
    read += fate == Fate::read ? 1 : 0;
    untouched += fate == Fate::untouched ? 1 : 0;
  }
  const auto all = region::element_count(known.shape);
  const std::string part = is_live.size() == all ? describe_part(is_live, known.shape) : "";
  const auto bytes = [&](std::uint64_t elements) { return static_cast<double>(elements * known.element); };
  journal.event_of_rank("observed_region",
                        {Journal::number("rank", rank), Journal::number("place", static_cast<double>(place)),
                         Journal::text("region", known.name), Journal::text("type", known.type),
                         Journal::number("bytes", bytes(all)), Journal::number("overwritten", bytes(overwritten)),
                         Journal::number("read", bytes(read)), Journal::number("untouched", bytes(untouched)),
                         Journal::text("part", part), Journal::text("written", done.is_unwritten ? "never" : ""),
                         Journal::text("why", known.why), Journal::text("program", done.where.program),
                         Journal::number("offset", static_cast<double>(done.where.offset))});
}

}  // namespace backstay::api
