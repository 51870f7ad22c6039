#include "select/advice.h"

#include <algorithm>

#include "base/text.h"

namespace backstay::select {

namespace {
Result<void> check(const Trace& trace) {
  const auto wrong = [](const char* how) { return fail(Code::invalid_argument, "a trace of computations ", how); };
  if (trace.seconds.size() != trace.calls.size()) return wrong("has not a time for each of them");
  if (!std::is_sorted(trace.seconds.begin(), trace.seconds.end())) return wrong("goes back in time");
  if (trace.changed.size() != trace.regions.size()) return wrong("does not say of each region what has changed");
  for (const int call : trace.calls)
    if (call < 0 || static_cast<std::size_t>(call) >= trace.computations.size())
      return wrong("has one that was not declared");
  return {};
}

bool only_reads(const Effects& effects) {
  return std::all_of(effects.begin(), effects.end(), [](const Effect& effect) { return effect.changes.empty(); });
}

/// What of the live elements has to be saved.
Elements needed(const Elements& live, const Elements& changed) {
  Elements out;
  for (std::size_t r = 0; r < live.size(); ++r) out.push_back(live[r].in(changed[r]));
  return out;
}

/// A region's fate, from a place of the round on.
class Fate {
 public:
  Fate(const std::vector<int>& round, const std::vector<Effects>& effects) : round_(round), effects_(effects) {}

  Need of(std::size_t region, std::size_t place, const BoxSet& changed, const BoxSet& needed, std::int64_t element) {
    Need need{needed.volume() * element, Need::Why::unchanged, -1};
    if (changed.empty()) return need;
    need.why = Need::Why::untouched;
    for (std::size_t i = 0; i < round_.size(); ++i) {
      const int call = round_[(place + i) % round_.size()];
      for (const auto& effect : effects_[static_cast<std::size_t>(call)]) {
        if (effect.region != region) continue;
        if (!needed.in(effect.reads).empty()) return {need.bytes, Need::Why::read, call};
        if (need.why != Need::Why::untouched || changed.in(effect.overwrites).empty()) continue;
        need.why = Need::Why::overwritten;
        need.computation = call;
      }
    }
    return need;
  }

 private:
  const std::vector<int>& round_;
  const std::vector<Effects>& effects_;
};
}  // namespace

Result<std::optional<Advice>> advise(const Trace& trace, const std::optional<Costs>& costs) {
  BACKSTAY_TRY(check(trace));
  std::vector<Effects> effects;
  std::vector<bool> reading;
  for (const auto& computation : trace.computations) {
    auto made = effects_of(computation, trace.regions);
    if (!made) return made.failure();
    reading.push_back(only_reads(*made));
    effects.push_back(std::move(*made));
  }
  auto period = find_period(trace.calls, reading);
  if (!period) return std::optional<Advice>();
  Advice advice;
  const std::vector<int> round(trace.calls.begin() + static_cast<std::ptrdiff_t>(period->begin),
                               trace.calls.begin() + static_cast<std::ptrdiff_t>(period->end));
  std::vector<Effects> cycle;
  for (const int call : round) cycle.push_back(effects[static_cast<std::size_t>(call)]);
  const auto live = live_in_cycle(cycle, trace.regions.size());
  const double begin = trace.seconds[period->begin];
  advice.seconds = trace.seconds[period->end] - begin;
  std::vector<Place> places;
  for (std::size_t i = 0; i < round.size(); ++i) {
    const std::size_t call = period->begin + i;
    const auto bytes = bytes_of(needed(live[i], trace.changed), trace.regions);
    advice.places.push_back({call, trace.seconds[call] - begin, bytes});
    if (costs)
      places.push_back(
          {advice.places.back().time, costs->seconds + static_cast<double>(bytes) / costs->bytes_per_second});
    if (bytes < advice.places[advice.best].bytes) advice.best = i;
  }
  const Elements need = needed(live[advice.best], trace.changed);
  for (std::size_t r = 0; r < trace.regions.size(); ++r)
    advice.needs.push_back(
        Fate(round, effects).of(r, advice.best, trace.changed[r], need[r], trace.regions[r].element));
  if (costs && advice.seconds > 0) advice.schedule = best_schedule(places, advice.seconds, costs->mtbf);
  advice.period = std::move(*period);
  return std::optional<Advice>(std::move(advice));
}

std::vector<int> mark_of(const Advice& advice, const Trace& trace, std::size_t place) {
  const std::size_t size = advice.places.size();
  const auto call_at = [&](std::size_t at, std::size_t back) {
    return trace.calls[advice.places[(at + size - back % size) % size].call];
  };
  std::vector<std::size_t> alike;  // places that look the same so far and need more
  for (std::size_t i = 0; i < size; ++i)
    if (advice.places[i].bytes > advice.places[place].bytes) alike.push_back(i);
  std::vector<int> mark;
  for (std::size_t back = 0; back < size && (back == 0 || !alike.empty()); ++back) {
    const int call = call_at(place, back);
    mark.insert(mark.begin(), call);
    std::erase_if(alike, [&](std::size_t i) { return call_at(i, back) != call; });
  }
  return mark;
}

std::string text_of(const Need& need, const std::vector<Computation>& computations) {
  const auto name = [&] { return cat("'", computations[static_cast<std::size_t>(need.computation)].name, "'"); };
  switch (need.why) {
    case Need::Why::unchanged:
      return "never changed";
    case Need::Why::untouched:
      return "not touched any more";
    case Need::Why::read:
      return cat("read by ", name());
    case Need::Why::overwritten:
      return cat("overwritten by ", name());
  }
  return {};
}

}  // namespace backstay::select
