#include "api/checker.h"

#include <unistd.h>

#include <exception>

#include "base/text.h"
#include "check/place.h"
#include "engine/engine.h"

namespace backstay::api {

View memory_of(const RegionSpec& spec) {
  View nothing;
  nothing.valid = false;
  try {
    return spec.save || !spec.view ? nothing : spec.view();
  } catch (...) {
    return nothing;
  }
}

namespace {
const char* what_is_false(check::Fault fault) {
  switch (fault) {
    case check::Fault::reads:
      return "reads";
    case check::Fault::writes:
      return "writes";
    case check::Fault::reads_early:
      return "is declared to overwrite, and reads before that,";
    case check::Fault::skips:
      return "is declared to overwrite, and does not,";
  }
  return "";
}
}  // namespace

std::vector<const RegionSpec*> Checker::specs() const {
  std::vector<const RegionSpec*> out;
  for (const auto* set : {&session_.regions, &session_.statics})
    for (const auto& spec : set->specs()) out.push_back(&spec);
  return out;
}

void Checker::begin(std::size_t computation, Journal& journal, int rank) {
  if (getpid() != process_) return;
  finish(false, journal, rank);  // of those inside each other the inner one is looked at
  if (!check_.is_due(static_cast<int>(computation))) {
    ++passed_over_;
    check_.pass_over(static_cast<int>(computation));
    return;
  }
  check_.end_passed_over();
  if (!said_how_ && !check_.sees_all())
    journal.say(
        "check_access: this program was not started by `backstay run --check`, so only changes of what a computation "
        "does not declare to change are seen, not what it reads and what it leaves as it was");
  said_how_ = true;
  try {
    const auto known = engine::regions_for_select(session_.regions, session_.statics);
    if (!known) return;
    const auto effects = session_.declared.effects_on(computation, *known);
    if (!effects) return;  // that region is gone: the next line says so
    std::set<std::string> declared;
    for (std::size_t c = 0; c < session_.declared.size(); ++c)
      for (auto& name : session_.declared.regions_of(c)) declared.insert(std::move(name));
    std::vector<check::Subject> subjects;
    names_.clear();
    for (const auto* spec : specs()) {
      View view = memory_of(*spec);
      const bool is_watched = view.valid && view.run_lengths.empty() && declared.contains(spec->name);
      subjects.push_back({std::move(view), spec->type.size, check::units_of(spec->type, spec->padding), is_watched});
      names_.push_back(spec->name);
    }
    if (!check_.begin(static_cast<int>(computation), std::move(subjects), *effects)) return;
    running_ = computation;
    ++looked_at_;
  } catch (const std::exception&) {  // no memory
    check_.give_up();
  }
}

void Checker::end(std::size_t computation, bool completed, Journal& journal, int rank) {
  check_.end_passed_over();
  if (running_ == computation) finish(completed, journal, rank);
}

void Checker::finish(bool completed, Journal& journal, int rank) {
  if (!running_) return;
  if (getpid() != process_) return drop();
  try {
    check_.open();
    std::vector<View> now;
    const auto all = specs();
    for (std::size_t r = 0; r < all.size() && r < names_.size() && all[r]->name == names_[r]; ++r)
      now.push_back(memory_of(*all[r]));
    std::vector<bool> moved;
    const auto findings = check_.end(now, completed, moved);
    for (const auto& finding : findings) tell(finding, names_[finding.region], journal, rank);
    for (std::size_t r = 0; r < moved.size(); ++r) {
      const auto& name = session_.declared.name(*running_);
      if (!moved[r] || !told_.insert(cat(name, '\n', names_[r], "\nmoved")).second) continue;
      journal.say(cat("check_access: what the computation '", name, "' does to region '", names_[r],
                      "' cannot be checked: its memory moves, or changes its size, inside of it"));
    }
  } catch (const std::exception&) {
    check_.give_up();
  }
  running_.reset();
}

void Checker::drop() {
  if (!running_) return;
  std::vector<bool> moved;
  (void)check_.end({}, false, moved);
  running_.reset();
}

void Checker::tell(const check::Finding& finding, const std::string& region, Journal& journal, int rank) {
  const auto& name = session_.declared.name(*running_);
  const char* const what = what_is_false(finding.fault);
  if (!told_.insert(cat(name, '\n', region, '\n', what)).second) return;
  ++found_;
  const bool undeclared = finding.fault == check::Fault::reads || finding.fault == check::Fault::writes;
  std::string sentence = cat("the computation '", name, "' ", what, " region '", region, "'",
                             undeclared ? ", which it does not declare" : "", ": element ",
                             region::describe_shape(finding.index), " of rank ", rank);
  if (finding.elements > 1) sentence += cat(" and ", finding.elements - 1, " more");
  const auto place = check::place_of(finding.code, finding.caller);
  if (!place.program.empty()) sentence += cat(", ", check::describe(place));
  const std::string said = session_.declared.said_of(*running_, region);
  sentence += said.empty() ? "; it declares nothing of it" : cat("; it declares: ", said);
  journal.insist(sentence);
  journal.event_of_rank("false_declaration", {Journal::text("what", sentence), Journal::text("computation", name),
                                              Journal::text("region", region), Journal::text("fault", what),
                                              Journal::number("rank", rank), Journal::text("program", place.program),
                                              Journal::number("offset", static_cast<double>(place.offset))});
}

void Checker::sum_up(Journal& journal, int rank) {
  journal.event_of_rank("check_access",
                        {Journal::number("rank", rank), Journal::number("looked_at", static_cast<double>(looked_at_)),
                         Journal::number("passed_over", static_cast<double>(passed_over_)),
                         Journal::number("found", static_cast<double>(found_))});
  journal.say(cat("check_access: ", counted(static_cast<std::int64_t>(looked_at_), "computation"), " looked at",
                  passed_over_ > 0 ? cat(", ", passed_over_, " passed over to save time") : "", ", ",
                  counted(static_cast<std::int64_t>(found_), "false declaration"), " on this rank"));
}

}  // namespace backstay::api
