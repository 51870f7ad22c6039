#include "select/watcher.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace backstay::select {

void Watcher::computation(std::size_t number) {
  ++computations_;
  if (calls_.size() == 2 * longest) {
    calls_.erase(calls_.begin(), calls_.begin() + longest);
    after_checkpoint_.erase(after_checkpoint_.begin(), after_checkpoint_.begin() + longest);
  }
  calls_.push_back(static_cast<int>(number));
  after_checkpoint_.push_back(std::exchange(checkpoint_came_, false));
}

void Watcher::checkpoint() { checkpoint_came_ = true; }

bool Watcher::is_at(const std::vector<int>& mark) const {
  return mark.size() <= calls_.size() && std::equal(mark.rbegin(), mark.rend(), calls_.rbegin());
}

Result<Seen> Watcher::look(const Declared& declared, std::vector<Region> regions, std::size_t first_static,
                           const std::set<std::string>& as_made) const {
  Seen seen;
  seen.first_static = first_static;
  Trace& trace = seen.trace;
  auto computations = declared.resolve(regions);
  if (!computations) return computations.failure();
  trace.computations = std::move(*computations);
  for (std::size_t r = 0; r < regions.size(); ++r)
    trace.changed.push_back(r < first_static && !as_made.contains(regions[r].name) ? BoxSet(box_of(regions[r].shape))
                                                                                   : BoxSet());
  trace.regions = std::move(regions);
  trace.calls = calls_;
  trace.seconds.resize(calls_.size());  // not measured: the place of least bytes is asked for, and no schedule
  for (std::size_t i = 0; i < calls_.size(); ++i)
    if (after_checkpoint_[i]) seen.checkpoints.push_back(i);
  auto advice = advise(trace, std::nullopt);
  if (!advice) return advice.failure();
  seen.advice = std::move(*advice);
  return seen;
}

namespace {
std::string bytes(std::int64_t n) { return human_bytes(static_cast<double>(n)); }

/// "before 'flux'"
std::string where(const Seen& seen, std::size_t place) {
  const auto call = seen.trace.calls[seen.advice->places[place].call];
  return cat("before '", seen.trace.computations[static_cast<std::size_t>(call)].name, "'");
}

/// The dearest place of the round at which the program calls checkpoint().
std::optional<std::size_t> used_place(const Seen& seen) {
  std::optional<std::size_t> used;
  const auto& places = seen.advice->places;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (std::ranges::find(seen.checkpoints, places[i].call) != seen.checkpoints.end() &&
        (!used || places[i].bytes > places[*used].bytes))
      used = i;
  return used;
}
}  // namespace

std::vector<std::string> table_of(const Seen& seen, const Declared& declared) {
  if (!seen.advice)
    return {cat("no place for checkpoints can be named: of ",
                counted(static_cast<std::int64_t>(seen.trace.calls.size()), "declared computation"),
                " nothing was repeated")};
  const Advice& advice = *seen.advice;
  std::int64_t others = 0, all = 0;
  std::vector<std::string> rows;
  for (std::size_t r = 0; r < seen.trace.regions.size(); ++r) {
    const Region& region = seen.trace.regions[r];
    const std::int64_t size = volume(box_of(region.shape)) * region.element;
    const bool is_static = r >= seen.first_static;
    all += size;
    if (!declared.names(region.name)) {
      others += is_static ? 0 : size;
      rows.push_back(
          cat("  ", region.name, ": ", bytes(size), is_static ? ", saved once: static" : ", saved: in no declaration"));
      continue;
    }
    const Need& need = advice.needs[r];
    rows.push_back(cat("  ", region.name, ": ", bytes(need.bytes > 0 ? need.bytes : size), ", ",
                       is_static        ? "saved once: static"
                       : need.bytes > 0 ? cat("saved: ", text_of(need, seen.trace.computations))
                                        : cat("left out: ", text_of(need, seen.trace.computations))));
  }
  const auto least = advice.places[advice.best].bytes + others;
  std::vector<std::string> out{cat("a round of this program has ",
                                   counted(static_cast<std::int64_t>(advice.places.size()), "computation"),
                                   ", and a checkpoint needs least ", where(seen, advice.best), ": ", bytes(least),
                                   " of ", bytes(all), " on this rank")};
  const auto used = used_place(seen);
  if (used && advice.places[*used].bytes > advice.places[advice.best].bytes)
    out.push_back(cat("checkpoint() is called ", where(seen, *used), ", where it needs ",
                      bytes(advice.places[*used].bytes + others), ": call it ", where(seen, advice.best)));
  else if (used)
    out.emplace_back("checkpoint() is called where it needs least");
  out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

}  // namespace backstay::select
