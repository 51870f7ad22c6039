#include "api/observer.h"

#include <algorithm>
#include <cstdlib>
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

namespace {
View view_of(const FoundArrays::Array& array) {
  View out;
  out.data = array.data;
  out.shape = {static_cast<std::int64_t>((array.bytes + 7) / 8)};
  out.strides = {8};
  return out;
}

/// What the user has named besides the program itself.
std::string libraries_of_the_program() {
  const char* const given = std::getenv("BACKSTAY_ALLOCATIONS_OF");
  return given != nullptr ? given : "";
}
}  // namespace

Observer::Observer(const region::RegionSet& regions, const region::RegionSet& statics, int steps)
    : regions_(regions), statics_(statics), found_(libraries_of_the_program()), wanted_(steps) {}

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

std::size_t Observer::region_of(std::size_t array) {
  const auto at = std::ranges::find(known_, std::optional(array), &Region::array);
  if (at != known_.end()) return static_cast<std::size_t>(at - known_.begin());
  // No region has a name with an end of a line.
  known_.push_back({cat("\n", array), "", 8, view_of(found_.arrays()[array]).shape, "", array});
  return known_.size() - 1;
}

check::Ranges Observer::memory_of_regions() const {
  check::Ranges out;
  for (const auto* set : {&regions_, &statics_})
    for (const auto& spec : set->specs()) {
      const View view = memory_of(spec);
      if (!view.valid || view.data == nullptr) continue;
      std::size_t bytes = spec.type.size;
      for (std::size_t d = 0; d < view.shape.size() && d < view.strides.size(); ++d)
        if (view.shape[d] > 1 && view.strides[d] > 0)
          bytes += static_cast<std::size_t>((view.shape[d] - 1) * view.strides[d]);
      out.emplace_back(view.data, view.data + bytes);
    }
  return check::joined(std::move(out));
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
    if (!has_news_) return;
    found_.look(check_.found(), memory_of_regions());
    tell(journal, rank);
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
    const std::size_t region = region_of(spec, view);
    add_subject(place, region, {std::move(view), spec.type.size, check::units_of(spec.type, spec.padding)}, subjects,
                effects);
  }
  found_.look(check_.found(), memory_of_regions());
  for (std::size_t i = 0; i < found_.arrays().size(); ++i) {
    const auto& array = found_.arrays()[i];
    const std::size_t region = region_of(i);
    if (!array.why.empty()) continue;
    check::Subject subject{view_of(array), 8, {{{0, 8}}, false}};
    subject.allocation = array.number;
    add_subject(place, region, std::move(subject), subjects, effects);
  }
  (void)check_.begin(0, std::move(subjects), effects, check::Closely::all);
}

void Observer::add_subject(std::size_t place, std::size_t region, check::Subject subject,
                           std::vector<check::Subject>& subjects, select::Effects& effects) {
  const View& view = subject.view;
  const auto elements = view.valid ? region::element_count(view.shape) : 0;
  subject.is_watched = view.valid && view.run_lengths.empty() && elements > 0;
  if (subject.is_watched) effects.push_back({subjects.size(), {}, all_of(view), all_of(view)});
  now_.push_back(region);
  watched_.push_back(subject.is_watched);
  const auto& fates = known_fates(place, region);
  if (subject.is_watched && fates.size() == elements)
    for (const Fate fate : fates) subject.settled.push_back(fate > Fate::untouched);
  subject.is_traced = subject.settled.empty();
  subjects.push_back(std::move(subject));
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
    View nothing;
    nothing.valid = false;
    std::vector<View> now(now_.size(), nothing);
    const auto& specs = regions_.specs();
    for (std::size_t r = 0; r < specs.size() && r < now.size() && specs[r].name == known_[now_[r]].name; ++r)
      now[r] = memory_of(specs[r]);
    for (std::size_t r = 0; r < now.size(); ++r)
      if (const auto array = known_[now_[r]].array) now[r] = view_of(found_.arrays()[*array]);
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
    if (moved[r] && region.array) found_.drop(*region.array, "it was freed, or moved, in a step");
    // Of an array that is only traced nothing later tells what became of these.
    if (region.array) std::ranges::replace(done[r].fates, Fate::unseen, Fate::unknown);
    const auto elements = region::element_count(region.shape);
    if (done[r].fates.empty()) {
      done[r].fates.assign(elements, Fate::unknown);
      region.why = moved[r]       ? "another memory in each step"
                   : region.array ? "pages with other data, or given up"
                                  : "values of 1 or 2 bytes, or memory of other arrays";
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
  tell_of_others(journal, rank);
}

void Observer::tell_of_others(Journal& journal, int rank) const {
  const auto tell = [&](const char* event, const char* by, const std::map<std::string, FoundArrays::Sum>& sums) {
    for (const auto& [name, sum] : sums)
      journal.event_of_rank(event, {Journal::number("rank", rank), Journal::text(by, name),
                                    Journal::number("arrays", static_cast<double>(sum.arrays)),
                                    Journal::number("bytes", static_cast<double>(sum.bytes))});
  };
  tell("observed_others", "maker", found_.left_out());
  tell("observed_late", "callers", found_.late());
}

void Observer::tell_of(std::size_t place, std::size_t region, const RegionInStep& done, Journal& journal,
                       int rank) const {
  const auto& known = known_[region];
  const auto* const array = known.array ? &found_.arrays()[*known.array] : nullptr;
  const bool is_dropped = array != nullptr && !array->why.empty();
  const bool is_seen_often = array != nullptr && places_[place].steps >= 2;
  std::vector<bool> is_live;
  std::uint64_t overwritten = 0, read = 0, untouched = 0;
  for (const Fate fate : done.fates) {
    if (is_dropped) break;
    const bool is_dead = fate == Fate::overwritten || (is_seen_often && fate == Fate::seems_overwritten);
    is_live.push_back(!is_dead);
    overwritten += is_dead ? 1 : 0;
    read += fate == Fate::read ? 1 : 0;
    untouched += fate == Fate::untouched ? 1 : 0;
  }
  const auto all = region::element_count(known.shape);
  const std::string part = is_live.size() == all ? describe_part(is_live, known.shape) : "";
  const auto bytes = [&](std::uint64_t elements) { return static_cast<double>(elements * known.element); };
  std::vector<Journal::Field> fields{Journal::number("rank", rank),
                                     Journal::number("place", static_cast<double>(place)),
                                     Journal::number("bytes", bytes(all)),
                                     Journal::number("overwritten", bytes(overwritten)),
                                     Journal::number("read", bytes(read)),
                                     Journal::number("untouched", bytes(untouched)),
                                     Journal::text("part", part),
                                     Journal::text("written", done.is_unwritten ? "never" : ""),
                                     Journal::text("why", is_dropped ? array->why : known.why),
                                     Journal::text("program", done.where.program),
                                     Journal::number("offset", static_cast<double>(done.where.offset))};
  if (array != nullptr) {
    fields.push_back(Journal::number("number", static_cast<double>(array->number)));
    fields.push_back(Journal::text("callers", array->callers));
    return journal.event_of_rank("observed_array", fields);
  }
  fields.push_back(Journal::text("region", known.name));
  fields.push_back(Journal::text("type", known.type));
  journal.event_of_rank("observed_region", fields);
}

}  // namespace backstay::api
