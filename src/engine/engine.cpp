#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "base/text.h"
#include "base/wire.h"
#include "engine/agree.h"
#include "store/memory_store.h"
#include "store/posix_store.h"

namespace backstay::engine {

namespace {
double monotonic() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string new_job_id() {
  std::random_device random;
  return hex16((std::uint64_t{random()} << 32) | random());
}

std::vector<plan::Cadence> cadences(const std::vector<LevelConfig>& levels) {
  std::vector<plan::Cadence> out;
  for (const auto& level : levels) out.push_back(level.cadence);
  return out;
}

bool any(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), true) != flags.end(); }
bool is_on_nodes(LevelKind kind) { return kind == LevelKind::local || kind == LevelKind::partner; }

/// What a directory holds at a level; nothing where it cannot be read, as it is not there to write.
std::vector<catalog::Holding> holdings_in(const std::string& dir, LevelKind kind) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(dir + "/" + level_name(kind), ignored)) return {};
  const auto store = store::make_posix_store(dir, {store::Direct::off});
  if (!store) return {};
  auto holdings = catalog::scan(**store, level_name(kind));
  return holdings ? std::move(*holdings) : std::vector<catalog::Holding>{};
}
}  // namespace

std::uint64_t newest_line_on_node(const std::string& local_dir) {
  std::uint64_t newest = 0;
  for (const auto kind : {LevelKind::local, LevelKind::partner})
    for (const auto& held : holdings_in(local_dir, kind))
      if (!held.manifest.empty()) newest = std::max(newest, held.line);
  return newest;
}

Engine::Engine(EngineConfig config, EngineHooks hooks, std::unique_ptr<comm::Comm> ranks)
    : config_(std::move(config)),
      hooks_(std::move(hooks)),
      groups_(std::move(ranks)),
      regions_(config_.regions != nullptr ? *config_.regions : own_regions_),
      decider_(cadences(config_.levels), config_.agreement_period),
      forced_(config_.levels.size(), false),
      owed_(config_.levels.size(), false) {}

Engine::~Engine() = default;

// ---- open ------------------------------------------------------------------------------------------------------

Result<void> Engine::open() {
  job_.program = config_.program;
  BACKSTAY_TRY(groups_.open());
  const std::string id = new_job_id();
  const auto agreed_id = groups_.app().broadcast(0, as_bytes(id));
  if (!agreed_id) return agreed_id.failure();
  job_.id = as_text(*agreed_id);
  BACKSTAY_TRY(agree(groups_.app(), make_levels()));
  BACKSTAY_TRY(agree(groups_.app(), lock_directories()));
  BACKSTAY_TRY(agree(groups_.app(), make_names_durable()));
  const auto inventory = take_inventory(levels_, {}, groups_.app());
  if (!inventory) return inventory.failure();
  BACKSTAY_TRY(look_at_other_levels());
  note_lines(*inventory);
  start_background();
  return {};
}

/// Lines that an earlier run left at levels that this one has not: new lines get higher numbers, so that the newest one
/// has the highest number whatever the levels are, and resume() says what it passes over.
Result<void> Engine::look_at_other_levels() {
  constexpr std::array kinds{LevelKind::local, LevelKind::partner, LevelKind::shared};
  std::vector<std::int64_t> newest(2 * kinds.size(), 0);  // of each kind: any line, a committed line
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool used =
        std::any_of(levels_.begin(), levels_.end(), [&](const Level& level) { return level.config.kind == kinds[i]; });
    const int leader = is_on_nodes(kinds[i]) ? config_.topology.leader(config_.topology.node(groups_.app().rank())) : 0;
    const std::string& dir = is_on_nodes(kinds[i]) ? config_.local_dir : config_.shared_dir;
    if (used || groups_.app().rank() != leader) continue;
    for (const auto& held : holdings_in(dir, kinds[i])) {
      const auto line = static_cast<std::int64_t>(held.line);
      newest[2 * i] = std::max(newest[2 * i], line);
      if (!held.manifest.empty()) newest[2 * i + 1] = std::max(newest[2 * i + 1], line);
    }
  }
  const auto all = groups_.app().all_max(std::move(newest));
  if (!all) return all.failure();
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    next_line_ = std::max(next_line_, static_cast<std::uint64_t>((*all)[2 * i]) + 1);
    const auto line = static_cast<std::uint64_t>((*all)[2 * i + 1]);
    if (line > 0) other_lines_.emplace_back(level_name(kinds[i]), line);
  }
  return {};
}

Result<void> Engine::make_levels() {
  for (const auto& config : config_.levels) {
    Level level;
    level.config = config;
    level.name = level_name(config.kind);
    BACKSTAY_TRY(make_level(level));
    levels_.push_back(std::move(level));
  }
  return {};
}

Result<void> Engine::make_level(Level& level) {
  const int me = groups_.app().rank();
  const auto posix = [&](const std::string& dir) -> Result<void> {
    auto made = store::make_posix_store(dir, {config_.direct_io ? store::Direct::automatic : store::Direct::off});
    if (!made) return made.failure();
    level.store = std::move(*made);
    return {};
  };
  if (level.config.kind == LevelKind::memory) {
    level.store = config_.memory ? config_.memory : store::make_memory_store();
    level.leader = true;
  } else if (level.config.kind == LevelKind::shared) {
    BACKSTAY_TRY(posix(config_.shared_dir));
    level.leader = me == 0;
  } else {
    BACKSTAY_TRY(posix(config_.local_dir));
    level.leader = me == config_.topology.leader(config_.topology.node(me));
  }
  if (config_.wrap_store) level.store = config_.wrap_store(std::move(level.store));
  level.groups = file_groups(level.config, config_.topology);
  for (std::size_t g = 0; g < level.groups.size(); ++g)
    if (std::find(level.groups[g].ranks.begin(), level.groups[g].ranks.end(), me) != level.groups[g].ranks.end())
      level.my_group = g;
  if (level.config.kind == LevelKind::partner && config_.topology.nodes() == 1) {
    hooks_.say(
        "level partner: this job has one node, so its lines stay there without a copy (`backstay run --nodes K` tries "
        "several on one machine)");
  } else if (level.config.kind == LevelKind::partner) {
    auto plan = redundancy::plan_partners(config_.topology.node_of, level.config.distance);
    if (!plan) return plan.failure();
    level.partners = std::move(*plan);
  }
  if (const auto& parity = level.config.parity; parity.p > 0) {
    auto groups =
        redundancy::plan_groups(parity.units.empty() ? config_.topology.node_of : parity.units, parity.k, parity.p);
    if (!groups) return fail(groups.failure().code, "level ", level.name, ": ", groups.failure().what);
    level.parity_groups = std::move(*groups);
  }
  return {};
}

Result<void> Engine::lock_directories() {
  std::set<std::string> wanted;
  for (const auto& level : levels_)
    if (level.leader && level.config.kind != LevelKind::memory)
      wanted.insert(is_on_nodes(level.config.kind) ? config_.local_dir : config_.shared_dir);
  // Two jobs in one directory meet at this lock whatever their levels are. Where none of them writes here, a directory
  // that cannot have a lock is no reason to refuse.
  const bool files = std::any_of(levels_.begin(), levels_.end(),
                                 [](const Level& level) { return level.config.kind != LevelKind::memory; });
  const bool writes_here = wanted.contains(config_.shared_dir);
  if (files && groups_.app().rank() == 0) {
    std::error_code ignored;
    std::filesystem::create_directories(config_.shared_dir, ignored);
    wanted.insert(config_.shared_dir);
  }
  for (const auto& dir : wanted) {
    auto lock = store::DirLock::take(dir, config_.program);
    if (!lock && dir == config_.shared_dir && !writes_here && lock.failure().code != Code::locked) continue;
    if (!lock) return lock.failure();
    locks_[dir] = std::make_shared<const store::DirLock>(std::move(*lock));
  }
  for (auto& level : levels_)
    if (level.leader && level.config.kind != LevelKind::memory)
      level.lock = locks_.at(is_on_nodes(level.config.kind) ? config_.local_dir : config_.shared_dir);
  return {};
}

Result<void> Engine::make_names_durable() {
  for (auto& level : levels_)
    if (level.leader) BACKSTAY_TRY(catalog::make_names_durable(*level.store, level.name));
  return {};
}

void Engine::note_lines(const Inventory& inventory) {
  next_line_ = std::max(next_line_, catalog::newest_number(inventory.contents) + 1);
  for (auto& level : levels_) {
    level.whole.clear();
    level.partial.clear();
  }
  for (auto it = inventory.candidates.rbegin(); it != inventory.candidates.rend(); ++it) {
    Level& level = levels_[static_cast<std::size_t>(it->level)];
    if (it->trouble.empty())
      level.whole.push_back(it->line);
    else if (it->code != Code::version)
      level.partial.push_back(it->line);
  }
}

void Engine::start_background() {
  BackgroundOptions options;
  options.nice = config_.nice;
  options.buffers = config_.policy == Policy::degrade ? 2 : 1;
  options.timeout = config_.timeout;
  options.pump = hooks_.pump;
  options.settled = [this](const Settled& settled) {
    if (!settled.bytes) ++failures_;
    hooks_.settled(settled, levels_[settled.level].name);
  };
  background_ = std::make_unique<Background>(levels_, job_, config_.topology, groups_.background(), std::move(options));
}

// ---- checkpoint ------------------------------------------------------------------------------------------------

Result<Outcome> Engine::checkpoint(bool now, bool signal) { return in_words(checkpoint_here(now, signal)); }

Result<Outcome> Engine::checkpoint_here(bool now, bool signal) {
  decider_.begin_call(monotonic());
  pace_.call();
  ++checkpoints_;
  if (position_ < missed_until_) {
    ++position_;
    return Outcome::skipped;
  }
  BACKSTAY_TRY(meet(false));
  if (decider_.background_broken() && decider_.in_flight() == 0) BACKSTAY_TRY(mend_background());
  Result<Outcome> outcome = Outcome::not_due;
  if (decider_.stop()) {
    outcome = stopping_ ? Result<Outcome>(Outcome::stop) : take_last();
  } else if (const auto levels = due_levels(now); any(levels)) {
    outcome = take(levels, now);
  }
  BACKSTAY_TRY(start_agreement(signal));
  return outcome;
}

Result<void> Engine::start_agreement(bool signal) {
  if (decider_.stop() || !decider_.wants_agreement()) return {};
  const plan::Decider::Proposal mine{signal, static_cast<std::int64_t>(in_flight()), failures_,
                                     !groups_.background().works()};
  auto started = groups_.app().start_all_max(decider_.propose(mine, monotonic()));
  if (!started) return started.failure();
  agreement_ = std::move(*started);
  return {};
}

Result<void> Engine::finish_agreement() {
  if (!agreement_) return {};
  const Waiting waiting;
  for (auto pause = std::chrono::microseconds(5);; pause = std::min(2 * pause, std::chrono::microseconds(500))) {
    const auto done = agreement_->test();
    if (!done && done.failure().code == Code::timeout) return others_missing();
    if (!done) return done.failure();
    if (*done) break;
    if (hooks_.pump) hooks_.pump();
    std::this_thread::sleep_for(pause);
  }
  decider_.agreed(agreement_->values());
  agreement_.reset();
  return {};
}

// ---- after a rank was waited for in vain -----------------------------------------------------------------------
//
// The rank may be there again later: it was stopped, or its disk hung. Each rank that has noticed goes on alone and
// looks in its calls for all others to notice, too: they do at their next agreement, which it does not join. Then all
// agree on a call that none has left (Reunion) and start over behind it, from the highest line number. Up to that call
// nobody talks any more: what the others did without a rank it does without them, and a line is one call's on all
// ranks. The background gets a new group as soon as nobody uses the old one. Until then lines cannot mix:
// LineWriter::begin() compares line and call among ranks.

Failure Engine::others_missing() const {
  return fail(Code::timeout, "a rank did not come to checkpoint() within the option timeout (",
              human_seconds(std::chrono::duration<double>(config_.timeout).count()),
              "): every rank must call it equally often; nothing is saved until all ranks come again");
}

/// What this rank brings to the others, to come together.
Reunion::Here Engine::here(bool stays) const {
  Reunion::Here here{position_, stays, {}};
  // The number of a call is how many this rank has made, and by how much a resume set it off.
  const std::int64_t offset = static_cast<std::int64_t>(decider_.call()) - checkpoints_;
  here.state = {static_cast<std::int64_t>(next_line_),
                decider_.stop() ? 1 : 0,
                stopping_ ? 1 : 0,
                offset,
                resumes_,
                -resumes_,
                half_resumed_ ? 1 : 0};
  for (const bool forced : forced_) here.state.push_back(forced ? 1 : 0);
  return here;
}

/// The state of all ranks together becomes that of this rank.
void Engine::start_over() {
  missed_until_ = reunion_->last_alone();
  const auto& all = reunion_->state();
  next_line_ = static_cast<std::uint64_t>(all[0]);
  decider_.start_over(all[1] != 0);
  stopping_ = all[2] != 0;
  decider_.set_call(static_cast<std::uint64_t>(checkpoints_ + all[3]));
  half_resumed_ = all[4] != -all[5] || all[6] != 0;
  resumes_ = all[4];
  for (std::size_t i = 0; i < forced_.size(); ++i) forced_[i] = all[all.size() - forced_.size() + i] != 0;
  last_levels_.clear();
  owed_.assign(owed_.size(), false);
  groups_.use_app(reunion_->take());
  reunion_.reset();
}

/// Collective, with nothing in flight on any rank. Which lines are whole is looked up: a commit may have been seen by
/// some ranks only.
Result<void> Engine::mend_background() {
  if (const auto renewed = groups_.renew_background(); !renewed)
    return renewed.failure().code == Code::timeout ? others_missing() : renewed.failure();
  background_->use(groups_.background());
  const auto inventory = take_inventory(levels_, {}, groups_.app());
  if (!inventory) return inventory.failure();
  note_lines(*inventory);
  decider_.background_mended();
  hooks_.say("all ranks answer again: checkpoints go on");
  return {};
}

Failure Engine::missed() const {
  return fail(Code::timeout,
              "a rank came too late to this call, so it was not made by all ranks together; later ones are");
}

/// What a group says of a wait in vain, for people.
template <class T>
Result<T> Engine::in_words(Result<T> result) const {
  if (result || result.failure().code != Code::timeout || groups_.app().works()) return result;
  return others_missing();
}

/// At the beginning of a call that all ranks make: what is under way among them is finished. Where that cannot be, they
/// come together for the calls after this one. Bounded.
Result<void> Engine::meet(bool wait_long) {
  if (position_++ < missed_until_) return missed();
  if (groups_.app().works()) {
    if (const auto agreed = finish_agreement(); agreed || agreed.failure().code != Code::timeout) return agreed;
    wait_long = false;  // it has waited
  }
  agreement_.reset();
  return come_together(wait_long);
}

/// A rank that is late notices at its next agreement. If the program computes several steps between two of them, that
/// rank meets the others in the program's own communication before: they must not wait for it here, for a whole
/// time-out at each of these steps. So checkpoint() waits no longer than a few times what the program computes between
/// two calls. Ranks that do not talk to each other fall apart by less than they catch up again, so all meet. Once every
/// rank has come, it waits a little longer, some times, so that few calls are made before all agree.
Result<void> Engine::come_together(bool wait_long) {
  using Duration = std::chrono::steady_clock::duration;
  constexpr Duration a_moment = std::chrono::milliseconds(50);
  constexpr int moments = 5;
  const auto start = std::chrono::steady_clock::now();
  const Waiting waiting;
  const Duration longest = config_.timeout;
  const Duration shorter = wait_long ? longest : as_long_as_it_computes();
  if (!reunion_) {
    reunion_.emplace();
    moments_left_ = moments;
  }
  while (true) {
    const auto together = reunion_->advance(groups_.origin(), here(wait_long));
    if (!together) return together.failure();
    if (*together) break;
    const Duration waited = std::chrono::steady_clock::now() - start;
    const bool must_stay = reunion_->must_stay(position_);
    const bool stay_a_moment = reunion_->all_have_come() && moments_left_ > 0;
    const Duration bound = stay_a_moment ? std::min(std::max(shorter, a_moment), longest) : shorter;
    if (waited >= (must_stay ? longest : bound)) {
      if (stay_a_moment) --moments_left_;
      return others_missing();
    }
    if (hooks_.pump) hooks_.pump();
    std::this_thread::sleep_for(
        std::clamp<Duration>(waited / 8, std::chrono::microseconds(20), std::chrono::milliseconds(1)));
  }
  start_over();
  return position_ > missed_until_ ? Result<void>{} : missed();
}

/// How long a call of checkpoint() waits for those who were missed.
std::chrono::steady_clock::duration Engine::as_long_as_it_computes() const {
  using Duration = std::chrono::steady_clock::duration;
  constexpr int times_computed = 4;
  const Duration longest = config_.timeout;
  return std::clamp(times_computed * pace_.computes(), std::min<Duration>(std::chrono::microseconds(100), longest),
                    longest);
}

// ---- what is due -----------------------------------------------------------------------------------------------

std::vector<bool> Engine::due_levels(bool now) {
  const std::size_t count = levels_.size();
  if (now) return std::vector<bool>(count, true);
  auto due = decider_.due();
  if (decider_.call() == resumed_call_) due.assign(count, false);  // this very state is what was put back
  for (std::size_t i = 0; i < count; ++i) due[i] = due[i] || forced_[i];
  return due;
}

/// The cheapest level that outlives the process, or the cheapest of all.
std::vector<bool> Engine::cheapest() const {
  std::vector<bool> out(levels_.size(), false);
  const auto it =
      std::find_if(levels_.begin(), levels_.end(), [](const Level& l) { return l.config.kind != LevelKind::memory; });
  out[it == levels_.end() ? 0 : static_cast<std::size_t>(it - levels_.begin())] = true;
  return out;
}

Result<Outcome> Engine::take(std::vector<bool> levels, bool must_wait) {
  // A level that is passed over goes with the next checkpoint that is taken: one that falls due seldom would otherwise
  // never meet a free moment beside one that falls due often.
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = owed_[i] = owed_[i] || levels[i];
  if (decider_.background_broken()) {
    decider_.passed_over();
    return Outcome::skipped;
  }
  if (!must_wait && config_.policy != Policy::wait && decider_.in_flight() > 0) {
    const auto cheap = cheapest();
    // While a cheap one is in flight, a dearer one that is owed waits for a free moment, not for the next cheap one.
    if (config_.policy == Policy::skip || decider_.in_flight() > 1 || (last_levels_ == cheap && owed_ != cheap)) {
      decider_.passed_over();
      return Outcome::skipped;
    }
    levels = cheap;
  }
  return capture(levels);
}

Result<Outcome> Engine::capture(const std::vector<bool>& levels) {
  if (half_resumed_)
    return fail(Code::mismatch,
                "resume() ended on some ranks only, so what the ranks hold is not of one moment: nothing ",
                "is saved until all ranks have called it again");
  if (const auto left = what_is_left_behind(); !left.empty()) hooks_.say(left);
  const std::uint64_t line = next_line_++;  // also where this rank alone fails: the others have used it
  // Also that it was taken: what is owed must be the same everywhere.
  decider_.taken(levels, monotonic());
  last_levels_ = levels;
  forced_.assign(forced_.size(), false);
  for (std::size_t i = 0; i < levels.size(); ++i) owed_[i] = owed_[i] && !levels[i];
  auto checkpoint = background_->take();
  if (!checkpoint) return checkpoint.failure();
  Checkpoint& c = **checkpoint;
  c.line = line;
  c.call = decider_.call();
  c.time = wall_clock();
  c.levels = levels;
  c.signature = regions_.signature();
  c.captured =
      regions_.specs().empty()
          ? Result<void>(fail(Code::invalid_argument, "nothing is protected: call protect() before checkpoint()"))
          : capture_regions(regions_, {groups_.app().rank(), config_.capture_threads, config_.staging_limit},
                            c.capture);
  background_->put(std::move(*checkpoint));
  ++captured_;
  return Outcome::taken;
}

/// A program that forgot resume() would lose its history to retention, line by line.
std::string Engine::what_is_left_behind() const {
  if (captured_ > 0 || looked_back_) return {};  // from the first capture on, `whole` is the background's
  std::uint64_t newest = 0;
  for (const auto& level : levels_)
    if (!level.whole.empty()) newest = std::max(newest, level.whole.back());
  if (newest == 0) return {};
  return cat("the lines of an earlier run, up to line ", newest,
             ", were not resumed from, and are removed as new ones ",
             "come: call resume() before the first checkpoint(), or start in another directory");
}

/// All ranks stop at this call, whatever becomes of the line. A rank that was late finds an agreement that the others
/// have given up: it must not stop alone, so all hear first that all are here.
Result<Outcome> Engine::take_last() {
  const auto here = groups_.app().all_max({1});
  if (!here) return here.failure().code == Code::timeout ? others_missing() : here.failure();
  stopping_ = true;
  const auto written = write_last();
  last_settled_ = written.ok();
  if (!written) hooks_.say(cat("the last checkpoint was not made: ", written.failure().what));
  return Outcome::stop;
}

Result<void> Engine::write_last() {
  std::vector<bool> durable;
  for (const auto& level : levels_) durable.push_back(level.config.kind != LevelKind::memory);
  if (!any(durable)) durable.assign(levels_.size(), true);
  BACKSTAY_TRY(settle());
  const auto broken = groups_.app().all_max({groups_.background().works() ? 0 : 1});
  if (!broken) return broken.failure();
  if (broken->front() != 0) BACKSTAY_TRY(mend_background());
  const auto taken = capture(durable);
  if (!taken) return taken.failure();
  return background_->wait_idle();
}

bool Engine::has_lines() const {
  return std::any_of(levels_.begin(), levels_.end(), [](const Level& level) { return !level.whole.empty(); });
}

bool Engine::last_line_is_whole() const {
  if (stopping_ && !last_settled_) return false;  // it has no line, or one that the background still writes
  return std::any_of(levels_.begin(), levels_.end(),
                     [&](const Level& level) { return !level.whole.empty() && level.whole.back() == next_line_ - 1; });
}

/// Collective: until the backgrounds of all ranks are done. In short turns, so that a rank whose storage hangs and
/// those who wait for it do not lose patience with each other at the same moment.
Result<void> Engine::settle() {
  const auto end = std::chrono::steady_clock::now() + config_.timeout;
  while (true) {
    const auto idle = background_->wait_idle(0.25);
    const auto all = groups_.app().all_max({idle ? 0 : 1, std::chrono::steady_clock::now() < end ? 0 : 1});
    if (!all) return all.failure();
    if (all->front() == 0) return {};
    if (all->back() == 0) continue;
    const Result<void> late = fail(
        Code::timeout, "writing the last checkpoint was not done within the option timeout (",
        human_seconds(std::chrono::duration<double>(config_.timeout).count()), "): the storage is stuck, or a rank");
    return agree(groups_.app(), idle ? Result<void>{} : late);
  }
}

/// The background of this rank is done. The others wait for this rank meanwhile, for a whole time-out.
Result<void> Engine::settled_here() { return background_->wait_idle(0.5); }

// ---- the rest --------------------------------------------------------------------------------------------------

Result<void> Engine::wait() {
  BACKSTAY_TRY(meet());
  BACKSTAY_TRY(in_words(settle()));
  decider_.all_done();
  return {};
}

Result<Resumed> Engine::resume() {
  looked_back_ = true;
  BACKSTAY_TRY(meet());
  const double start = monotonic();
  const auto inventory = take_inventory(levels_, settled_here(), groups_.app());
  if (!inventory) return in_words(Result<Resumed>(inventory.failure()));
  note_lines(*inventory);
  const auto found =
      put_back_newest(*inventory, levels_, config_.topology, regions_, {config_.lenient}, groups_.app(), hooks_.say);
  if (!found) return in_words(Result<Resumed>(found.failure()));
  for (const auto& [level, line] : other_lines_)
    if (line > found->line)
      hooks_.say(cat("line ", line, " lies at level ", level, ", which is not among the levels of this run, and was ",
                     "passed over: name it in the option levels to go on from there"));
  ++resumes_;
  half_resumed_ = false;
  if (found->line == 0) return Resumed{};
  job_.id = found->manifest.job;
  for (const auto& [level, line] : found->rejected) {
    std::erase(levels_[static_cast<std::size_t>(level)].whole, line);
    levels_[static_cast<std::size_t>(level)].damaged.push_back(line);
  }
  resumed_call_ = found->manifest.call;
  decider_.set_call(resumed_call_ == 0 ? 0 : resumed_call_ - 1);
  owed_.assign(owed_.size(), false);
  if (!found->complete) forced_[static_cast<std::size_t>(found->level)] = true;
  const double seconds = monotonic() - start;  // no rank comes here before all have their data
  return Resumed{true, found->line, levels_[static_cast<std::size_t>(found->level)].name, seconds,
                 found->manifest.ranks};
}

Result<Verified> Engine::verify() {
  BACKSTAY_TRY(meet());
  const auto inventory = take_inventory(levels_, settled_here(), groups_.app());
  if (!inventory) return in_words(Result<Verified>(inventory.failure()));
  auto damage = check_all(*inventory, levels_, groups_.app());
  if (!damage) return in_words(Result<Verified>(damage.failure()));
  return Verified{damage->lines, damage->segments, std::move(damage->sentences)};
}

namespace {
/// The `keep` newest whole lines of each level. A missing copy is no reason to distrust one: bytes are.
std::vector<catalog::Candidate> newest_of_each_level(std::vector<catalog::Candidate> newest_first, std::size_t keep) {
  std::map<int, std::size_t> taken;
  std::erase_if(newest_first, [&](auto& line) {
    line.complete = true;
    return !line.trouble.empty() || ++taken[line.level] > keep;
  });
  return newest_first;
}
}  // namespace

Result<void> Engine::prune(std::size_t keep) {
  if (keep == 0) return fail(Code::invalid_argument, "prune(0) would remove every line: keep 1 or more");
  BACKSTAY_TRY(meet());
  auto kept = take_inventory(levels_, settled_here(), groups_.app());
  if (!kept) return in_words(Result<void>(kept.failure()));
  kept->candidates = newest_of_each_level(std::move(kept->candidates), keep);
  const auto damage = check_all(*kept, levels_, groups_.app());
  if (!damage) return damage.failure();
  if (!damage->sentences.empty())
    return fail(Code::corrupt,
                "prune() removed nothing, because a line that would be left is not good: ", damage->sentences.front(),
                "; `backstay prune` counts good lines only");
  Result<void> pruned;
  for (auto& level : levels_)
    if (auto retired = retire_surplus(level, keep); !retired) pruned = retired;
  return agree(groups_.app(), pruned);
}

}  // namespace backstay::engine
