// What an engine makes of the lines that are there: it notes, puts back, checks and prunes them.
#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "base/text.h"
#include "base/wire.h"
#include "engine/agree.h"
#include "engine/engine.h"
#include "engine/level_choice.h"
#include "store/memory_store.h"

namespace backstay::engine {

namespace {
/// A store of theirs could not be looked at.
std::set<int> levels_not_seen(const Inventory& inventory) {
  std::set<int> out;
  for (const auto& store : inventory.contents)
    if (!store.state && !store.seen) out.insert(store.level);
  return out;
}

/// What is known of a level that could not be looked at stays, beside what is seen in other stores: it may be looked at
/// again, and has no less than it seems.
void note_lines_of(const Inventory& inventory, std::vector<Level>& levels) {
  const auto not_seen = levels_not_seen(inventory);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    levels[i].seen = !not_seen.contains(static_cast<int>(i));
    if (!levels[i].seen) continue;
    levels[i].whole.clear();
    levels[i].partial.clear();
    levels[i].unretired.clear();  // as they are found again
    levels[i].names.clear();
    levels[i].times.clear();
  }
  for (auto it = inventory.candidates.rbegin(); it != inventory.candidates.rend(); ++it) {
    Level& level = levels[static_cast<std::size_t>(it->level)];
    const auto is_known = [&](const auto& some) { return std::ranges::find(some, it->line) != some.end(); };
    if (is_known(level.whole) || is_known(level.partial)) continue;
    if (it->manifest.line == it->line) {
      level.names[it->line] = it->manifest.statics;
      level.times[it->line] = it->manifest.time;
    }
    if (it->trouble.empty())
      level.whole.insert(std::ranges::upper_bound(level.whole, it->line), it->line);
    else if (it->code != Code::version)
      level.partial.push_back(it->line);
  }
}
}  // namespace

void Engine::note_what_is_shared(const Inventory& found) {
  const auto shared =
      std::ranges::find(levels_, LevelKind::shared, [](const Level& level) { return level.config.kind; });
  const int level = static_cast<int>(shared - levels_.begin());
  if (shared == levels_.end() || levels_not_seen(found).contains(level)) return;
  shared_there_.emplace();
  for (const auto& line : found.candidates)
    if (line.level == level) shared_there_->insert(line.line);
}

void Engine::note_lines(const Inventories& found) {
  for (const auto* inventory : {&found.lines, &found.statics})
    next_line_ = std::max(next_line_, catalog::newest_number(inventory->contents) + 1);
  note_lines_of(found.lines, levels_);
  note_lines_of(found.statics, companions_);
}

void Engine::note_statics(const Inventory& found) { note_lines_of(found, companions_); }

std::optional<std::uint64_t> Engine::newest_shared() const {
  if (!shared_there_) return std::nullopt;
  const auto shared =
      std::ranges::find(levels_, LevelKind::shared, [](const Level& level) { return level.config.kind; });
  return shared->whole.empty() ? 0 : shared->whole.back();
}

Result<Resumed> Engine::resume(Aside* later) {
  return together(groups_.app(), "a resume", [&] { return put_back_newest_line(later); });
}

Result<Resumed> Engine::put_back_newest_line(Aside* later) {
  was_refused_ = true;  // so far
  BACKSTAY_TRY(meet(Meeting::resume));
  agreed_at_ = 0;  // a line's call may be counted again
  const auto start = std::chrono::steady_clock::now();
  auto there = take_inventory(levels_, companions_, settled_here(), groups_.app());
  if (!there) return there.failure();
  say_what_is_missing(*there, levels_, hooks_.say, missing_said_);
  note_lines(*there);
  BACKSTAY_TRY(choose_level(there->lines, levels_, config_.topology, groups_.app(), hooks_.say));
  ReadOptions read;
  read.lenient = config_.lenient;
  read.cannot_write = hooks_.cannot_write_rebuilt;
  read.statics_are_damaged = [this](int level, std::uint64_t line) {
    companions_[static_cast<std::size_t>(level)].distrusted.insert(line);
  };
  read.had_statics = config_.saved_statics > 0 && config_.saved_statics == static_regions_.changes();
  std::optional<Aside> first;  // an older line may need what the beginning made, which a damaged one would overwrite
  if (there->lines.candidates.size() > 1) {
    const bool overwrites = later == nullptr && !open_line_.as_made().empty();
    BACKSTAY_TRY(agree(groups_.app(), overwrites ? make_aside(first) : Result<void>{}));
  }
  Aside* const aside = first ? &*first : later;
  static_lines_.clear();  // memory may hold those of any line now: their bytes tell, before the next line
  auto found = put_back_newest(there->lines, levels_, {there->statics, companions_, static_regions_}, config_.topology,
                               aside != nullptr ? aside->regions() : regions_, read, groups_.app(), hooks_.say);
  if (!found) return found.failure();
  if (found->line == 0)
    BACKSTAY_TRY(require_all_stores(*there, groups_.app(), true));  // no line is seen, and may be there
  if (aside != nullptr) {
    std::erase_if(found->filled, [&](const auto* spec) { return static_regions_.find(spec->name) != spec; });
    aside->keep_only(found->regions);
    aside->left_out = found->left_out;
  }
  BACKSTAY_TRY(agree(groups_.app(), take(*found, first ? &*first : nullptr, later != nullptr)));
  if (later == nullptr && found->line > 0) open_line_.others_are_changed(found->left_out);
  for (const auto& [level, line] : other_lines_)
    if (line > found->line)
      hooks_.say(cat("line ", line, " lies at level ", level, ", which is not among the levels of this run, and was ",
                     "passed over: name it in the option levels to go on from there"));
  looked_back_ = true;
  was_refused_ = false;
  if (found->line == 0) return Resumed{};
  job_.id = found->manifest.job;
  if (found->manifest.statics > 0) config_.saved_statics = static_regions_.changes();
  // What an earlier resume() of this session had to pass over was tried again, or need not be: it may be whole.
  for (auto& level : levels_) level.damaged.clear();
  for (const auto& [level, line] : found->rejected) {
    std::erase(levels_[static_cast<std::size_t>(level)].whole, line);
    levels_[static_cast<std::size_t>(level)].damaged.push_back(line);
  }
  std::erase(levels_[static_cast<std::size_t>(found->level)].unretired, found->line);
  resumed_call_ = found->manifest.call;
  decider_.set_call(resumed_call_ == 0 ? 0 : resumed_call_ - 1);
  note_what_is_owed(there->lines, *found);
  if (!found->complete) forced_[static_cast<std::size_t>(found->level)] = true;
  // No rank comes here before all have their data.
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return Resumed{true, found->line, levels_[static_cast<std::size_t>(found->level)].name, seconds.count(),
                 found->manifest.ranks};
}

/// A run that goes on from a line has the cadence of the one that saved it: what dearer levels have not of it they are
/// owed, and their intervals go on. But where copies or parity of the newest are missing, the next loss may cost it.
void Engine::note_what_is_owed(const Inventory& lines, const PutBack& found) {
  const auto clock = std::chrono::steady_clock::now().time_since_epoch();
  const double now = std::chrono::duration<double>(clock).count();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const auto& damaged = levels_[i].damaged;
    const auto newest = std::ranges::find_if(lines.candidates, [&](const catalog::Candidate& line) {
      return line.level == static_cast<int>(i) && line.line <= found.line && line.trouble.empty() &&
             line.manifest.job == found.manifest.job && line.manifest.call <= found.manifest.call &&
             std::ranges::find(damaged, line.line) == damaged.end();
    });
    const bool has_one = newest != lines.candidates.end();
    if (has_one && !newest->complete) forced_[i] = true;
    owed_[i] = decider_.last_due_by_count(i, found.manifest.call) > (has_one ? newest->manifest.call : 0);
    const double age = has_one ? found.manifest.time - newest->manifest.time : decider_.interval(i);
    decider_.goes_on(i, std::clamp(age, 0.0, decider_.interval(i)), now);
  }
}

Result<void> Engine::make_aside(std::optional<Aside>& aside) const {
  try {
    aside.emplace(regions_);
  } catch (const std::exception& e) {  // no memory, or a program's own function
    return fail(Code::user, "the regions could not be read aside: ", e.what());
  }
  return {};
}

/// The line is the one: its regions are the program's now, but for those that come `later`.
Result<void> Engine::take(const PutBack& found, const Aside* aside, bool later) {
  for (const auto* spec : found.filled) BACKSTAY_TRY(region::hand_over(*spec));
  if (aside != nullptr) BACKSTAY_TRY(aside->put_back(regions_));
  return later ? Result<void>{} : open_line_.came_back_without(found.left_out);
}

Result<void> Engine::put_back(const Aside& aside) {
  BACKSTAY_TRY(meet(Meeting::resume));
  auto there = aside.put_back(regions_);
  if (there) there = open_line_.came_back_without(aside.left_out);
  if (there) open_line_.others_are_changed(aside.left_out);
  return agree(groups_.app(), there);
}

Result<Rescued> Engine::save_what_memory_holds() {
  auto found = take_inventory(levels_, companions_, {}, groups_.app());
  if (!found) return found.failure();
  note_lines(*found);
  return together(groups_.app(), "saving what memory holds",
                  [&] { return rescue(*found, levels_, companions_, config_.topology, groups_.app(), hooks_.say); });
}

Result<Level*> Engine::level_of_logs() {
  if (logs_) return &*logs_;
  if (!config_.memory) config_.memory = store::make_memory_store();
  auto level = engine::level_of_logs(config_.levels, config_.topology, config_.memory, groups_.app().rank());
  if (!level) return level.failure();
  return &logs_.emplace(std::move(*level));
}

Result<void> Engine::keep_log(const Result<std::string>& log) {
  BACKSTAY_TRY(meet(Meeting::init));
  BACKSTAY_TRY(agree(groups_.app(), log ? Result<void>{} : log.failure()));
  const auto level = level_of_logs();
  if (!level) return level.failure();
  return engine::keep_log(**level, *log, job_, config_.topology, groups_.app());
}

Result<void> Engine::agree_on(const Result<void>& mine) { return agree(groups_.app(), mine); }

Result<std::vector<std::int64_t>> Engine::add_up(const std::vector<std::int64_t>& mine) {
  BACKSTAY_TRY(meet(Meeting::place));
  const auto all = groups_.app().all_gather(std::as_bytes(std::span(mine)));
  if (!all) return all.failure();
  std::vector<std::int64_t> sums(mine.size(), 0);
  for (const auto& bytes : *all) {
    if (bytes.size() != all->front().size()) return std::vector<std::int64_t>();
    WireReader in(bytes);
    for (auto& sum : sums) sum += in.number<std::int64_t>();
  }
  return sums;
}

Result<Engine::FoundLog> Engine::find_log(std::int64_t phases) {
  const auto level = level_of_logs();
  if (!level) return level.failure();
  auto log = together(groups_.app(), "looking for the log of init()",
                      [&] { return engine::find_log(**level, job_, config_.topology, groups_.app(), hooks_.say); });
  if (!log) return log.failure();
  const auto most = groups_.app().all_max({phases});
  if (!most) return most.failure();
  return FoundLog{std::move(*log), most->front()};
}

Result<Verified> Engine::verify() {
  BACKSTAY_TRY(meet(Meeting::verify));
  const auto found = take_inventory(levels_, companions_, settled_here(), groups_.app());
  if (!found) return found.failure();
  BACKSTAY_TRY(require_all_stores(*found, groups_.app(), true));
  auto damage = check_all(found->lines, levels_, groups_.app());
  if (!damage) return damage.failure();
  auto of_statics = check_all(found->statics, companions_, groups_.app());
  if (!of_statics) return of_statics.failure();
  std::move(of_statics->sentences.begin(), of_statics->sentences.end(), std::back_inserter(damage->sentences));
  return Verified{damage->lines, damage->segments + of_statics->segments, std::move(damage->sentences)};
}

namespace {
/// What is left of `found`: the `keep` newest whole lines of each level, and the static lines that these need. A
/// missing copy is no reason to distrust one: bytes are.
void keep_newest(Inventories& found, const std::vector<Level>& levels, std::size_t keep) {
  std::set<std::pair<int, std::uint64_t>> statics;
  std::erase_if(found.lines.candidates, [&](auto& line) {
    line.complete = true;
    const auto& whole = levels[static_cast<std::size_t>(line.level)].whole;
    const auto at = std::ranges::find(whole, line.line);
    if (at == whole.end() || static_cast<std::size_t>(whole.end() - at) > keep) return true;
    statics.emplace(line.level, line.manifest.statics);
    return false;
  });
  std::erase_if(found.statics.candidates, [&](auto& line) {
    line.complete = true;
    return !statics.contains({line.level, line.line});
  });
}
}  // namespace

Result<void> Engine::prune(std::size_t keep) {
  if (keep == 0) return fail(Code::invalid_argument, "prune(0) would remove every line: keep 1 or more");
  BACKSTAY_TRY(meet(Meeting::prune));
  auto found = take_inventory(levels_, companions_, settled_here(), groups_.app());
  if (!found) return found.failure();
  BACKSTAY_TRY(require_all_stores(*found, groups_.app()));
  note_lines(*found);  // files may be gone of those that were written
  for (auto& level : levels_)
    std::erase_if(level.whole,
                  [&](auto line) { return std::ranges::find(level.damaged, line) != level.damaged.end(); });
  keep_newest(*found, levels_, keep);
  for (const bool of_statics : {false, true}) {
    const auto damage =
        check_all(of_statics ? found->statics : found->lines, of_statics ? companions_ : levels_, groups_.app());
    if (!damage) return damage.failure();
    if (!damage->sentences.empty())
      return fail(Code::corrupt,
                  "prune() removed nothing, because a line that would be left is not good: ", damage->sentences.front(),
                  "; `backstay prune` counts good lines only");
  }
  Result<void> pruned;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (auto retired = retire_surplus(levels_[i], keep); !retired) pruned = retired;
    if (auto retired = retire_statics(companions_[i], levels_[i]); !retired) pruned = retired;
  }
  return agree(groups_.app(), pruned);
}

}  // namespace backstay::engine
