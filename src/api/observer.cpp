#include "api/observer.h"

#include <algorithm>
#include <exception>

#include "api/checker.h"
#include "check/fences.h"
#include "check/place.h"

namespace backstay::api {

namespace {
select::BoxSet all_of(const View& view) {
  return select::BoxSet(select::box_of(std::vector<std::int64_t>(view.shape.begin(), view.shape.end())));
}
}  // namespace

Observer::Seen& Observer::seen_of(const RegionSpec& spec, const View& view) {
  auto at = std::ranges::find(seen_, spec.name, &Seen::name);
  if (at == seen_.end()) {
    at = seen_.emplace(seen_.end());
    at->name = spec.name;
    at->type = region::describe_type(spec.type);
  }
  at->elements = view.valid ? region::element_count(view.shape) : 0;
  at->bytes = at->elements * spec.type.size;
  return *at;
}

void Observer::begin_step() {
  if (done_ >= steps_ || getpid() != process_ || !check_.sees_all()) return;
  try {
    std::vector<check::Subject> subjects;
    select::Effects effects;
    now_.clear();
    watched_.clear();
    for (const auto& spec : regions_.specs()) {
      View view = memory_of(spec);
      const Seen& seen = seen_of(spec, view);
      const bool is_watched = view.valid && view.run_lengths.empty() && seen.elements > 0 && seen.is_open();
      if (is_watched) effects.push_back({subjects.size(), {}, all_of(view), all_of(view)});
      now_.push_back(static_cast<std::size_t>(&seen - seen_.data()));
      watched_.push_back(is_watched);
      subjects.push_back({std::move(view), spec.type.size, check::units_of(spec.type, spec.padding), is_watched});
    }
    (void)check_.begin(0, std::move(subjects), effects, done_ == 0 ? check::Closely::by_page : check::Closely::all);
  } catch (const std::exception&) {  // no memory
    check_.give_up();
  }
}

void Observer::end_step(Journal& journal, int rank) {
  if (!check_.is_looking() || getpid() != process_) return;
  try {
    check_.open();
    std::vector<bool> moved;
    std::vector<check::Overwritten> overwritten(now_.size());
    for (std::size_t r = 0; r < now_.size(); ++r)
      if (watched_[r]) overwritten[r] = check_.overwritten(r);
    std::vector<View> now;
    const auto& specs = regions_.specs();
    for (std::size_t r = 0; r < specs.size() && r < now_.size() && specs[r].name == seen_[now_[r]].name; ++r)
      now.push_back(memory_of(specs[r]));
    const auto findings = check_.end(now, true, moved);
    note(findings, moved, overwritten);
  } catch (const std::exception&) {
    check_.give_up();
  }
  if (++done_ == steps_) tell(journal, rank);
}

void Observer::note(const std::vector<check::Finding>& findings, const std::vector<bool>& moved,
                    const std::vector<check::Overwritten>& overwritten) {
  for (std::size_t r = 0; r < now_.size(); ++r) {
    Seen& seen = seen_[now_[r]];
    if (!watched_[r]) continue;
    // A step that is looked at by pages proves nothing of a page that is written first.
    ++seen.steps;
    if (done_ == 0) continue;
    const auto pages = moved[r] ? 0 : overwritten[r].pages;
    seen.overwritten = seen.by_values++ == 0 ? pages : std::min(seen.overwritten, pages);
    seen.pages = std::max(seen.pages, overwritten[r].all);
  }
  for (const auto& finding : findings) {
    Seen& seen = seen_[now_[finding.region]];
    if (finding.fault == check::Fault::skips) {
      seen.kept = std::max(seen.kept, finding.elements);
      seen.unwritten += finding.elements >= seen.elements ? 1 : 0;
      continue;
    }
    if (seen.read++ > 0) continue;
    const auto place = check::place_of(finding.code, finding.caller);
    seen.program = place.program;
    seen.offset = place.offset;
  }
}

void Observer::close(Journal& journal, int rank) {
  if (getpid() != process_) return;
  if (check_.is_looking()) {
    std::vector<bool> moved;
    check_.give_up();
    (void)check_.end({}, false, moved);
  }
  tell(journal, rank);
}

void Observer::tell(Journal& journal, int rank) {
  if (told_) return;
  told_ = true;
  journal.event_of_rank("observed", {Journal::number("rank", rank), Journal::number("steps", done_),
                                     Journal::text("sees", check_.sees_all() ? "all" : "nothing")});
  for (const auto& seen : seen_) {
    const bool is_dead = seen.is_open() && seen.overwritten > 0;
    const char* const what = is_dead && seen.overwritten == seen.pages ? "overwritten first"
                             : is_dead                                 ? "overwritten where seen"
                             : seen.read > 0 && seen.unwritten > 0     ? "never written"
                             : seen.read > 0                           ? "read first"
                             : seen.unwritten > 0                      ? "not touched"
                             : seen.kept > 0                           ? "overwritten in part"
                                                                       : "not known";
    journal.event_of_rank(
        "observed_region",
        {Journal::number("rank", rank), Journal::text("region", seen.name), Journal::text("type", seen.type),
         Journal::number("bytes", static_cast<double>(seen.bytes)), Journal::text("what", what),
         Journal::number("steps", seen.steps), Journal::number("pages", static_cast<double>(seen.pages)),
         Journal::number("overwritten", static_cast<double>(seen.overwritten)), Journal::text("program", seen.program),
         Journal::number("offset", static_cast<double>(seen.offset))});
  }
}

}  // namespace backstay::api
