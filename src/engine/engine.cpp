#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/text.h"
#include "engine/agree.h"
#include "store/memory_store.h"

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

/// What a directory holds at a level; nothing where it cannot be read.
std::vector<catalog::Holding> holdings_in(const std::string& dir, const std::string& level) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(dir + "/" + level, ignored)) return {};
  const auto store = store::look_at_posix_store(dir, {store::Direct::off});
  if (!store) return {};
  auto holdings = catalog::scan(**store, level);
  return holdings ? std::move(*holdings) : std::vector<catalog::Holding>{};
}
}  // namespace

std::uint64_t newest_line_on_node(const std::string& local_dir) {
  std::uint64_t newest = 0;
  for (const auto& level : named_levels) {
    if (!is_on_nodes(level.kind)) continue;
    for (const auto& held : holdings_in(local_dir, level.name))
      if (!held.manifest.empty()) newest = std::max(newest, held.line);
  }
  return newest;
}

Engine::Engine(EngineConfig config, EngineHooks hooks, std::unique_ptr<comm::Comm> ranks)
    : config_(std::move(config)),
      hooks_(std::move(hooks)),
      groups_(std::move(ranks)),
      regions_(config_.regions != nullptr ? *config_.regions : own_regions_),
      static_regions_(config_.statics != nullptr ? *config_.statics : own_statics_),
      decider_(cadences(config_.levels), config_.agreement_period),
      forced_(config_.levels.size(), false),
      owed_(config_.levels.size(), false),
      open_line_({regions_, static_regions_, config_.declared, config_.running},
                 {[this](std::unique_ptr<Checkpoint> line) { background_->put(std::move(line)); }, hooks_.line_began}) {
}

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
  const auto inventory = take_inventory(levels_, companions_, {}, groups_.app());
  if (!inventory) return inventory.failure();
  if (!config_.goes_on) BACKSTAY_TRY(require_all_stores(*inventory, groups_.app()));
  say_what_is_missing(*inventory, levels_, hooks_.say, missing_said_);
  BACKSTAY_TRY(look_at_other_levels());
  note_what_is_shared(inventory->lines);
  note_lines(*inventory);
  groups_.app().wait_for_all([this] { tell_who_is_late(); });
  groups_.background().wait_for_all({});
  call_began_ = monotonic();
  all_have_come_ = true;
  start_background();
  return {};
}

/// Lines that an earlier run left at levels that this one has not: new lines get higher numbers, so that the newest one
/// has the highest number whatever the levels are, and resume() says what it passes over. Behind a loss the same holds
/// for what is at levels of ours and cannot be looked at now.
Result<void> Engine::look_at_other_levels() {
  std::vector<std::int64_t> newest(2 * named_levels.size(), 0);  // of each: any line, a committed line
  for (std::size_t i = 0; i < named_levels.size(); ++i) {
    const auto& [name, kind] = named_levels[i];
    const bool used = std::any_of(levels_.begin(), levels_.end(),
                                  [&](const Level& level) { return level.name == named_levels[i].name; });
    const int leader = is_on_nodes(kind) ? config_.topology.leader(config_.topology.node(groups_.app().rank())) : 0;
    const std::string& dir = is_on_nodes(kind) ? config_.local_dir : config_.shared_dir;
    if (kind == LevelKind::memory || used || groups_.app().rank() != leader) continue;
    for (const auto& held : holdings_in(dir, name)) {
      const auto line = static_cast<std::int64_t>(held.line);
      newest[2 * i] = std::max(newest[2 * i], line);
      if (!held.manifest.empty()) newest[2 * i + 1] = std::max(newest[2 * i + 1], line);
    }
  }
  newest.push_back(static_cast<std::int64_t>(config_.next_line));
  const auto all = groups_.app().all_max(std::move(newest));
  if (!all) return all.failure();
  next_line_ = std::max(next_line_, static_cast<std::uint64_t>(all->back()));
  for (std::size_t i = 0; i < named_levels.size(); ++i) {
    next_line_ = std::max(next_line_, static_cast<std::uint64_t>((*all)[2 * i]) + 1);
    const auto line = static_cast<std::uint64_t>((*all)[2 * i + 1]);
    if (line > 0) other_lines_.emplace_back(named_levels[i].name, line);
  }
  return {};
}

Result<void> Engine::make_levels() {
  for (const auto& config : config_.levels) {
    Level level;
    level.config = config;
    level.name = level_name(config);
    BACKSTAY_TRY(make_level(level));
    levels_.push_back(std::move(level));
  }
  return {};
}

Result<void> Engine::make_level(Level& level) {
  const int me = groups_.app().rank();
  if (level.config.kind == LevelKind::memory) {
    level.store = config_.memory ? config_.memory : store::make_memory_store();
    level.leader = true;
  } else {
    if (auto made = store::make_posix_store(directory_of(level), posix_options()))
      level.store = std::move(*made);
    else
      BACKSTAY_TRY(only_read(level, made.failure()));
    level.leader =
        me == (level.config.kind == LevelKind::shared ? 0 : config_.topology.leader(config_.topology.node(me)));
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

/// What can be read there may be the newest line, and every new one at this level is given up by all.
Result<void> Engine::only_read(Level& level, const Failure& why) {
  if (!config_.goes_on || why.code == Code::locked) return why;
  auto there = store::look_at_posix_store(directory_of(level), posix_options());
  if (!there) return there.failure();
  level.state = why;
  level.store = store::make_read_only_store(std::move(*there), why);
  return {};
}

Result<store::DirLock> Engine::take_lock(const std::string& dir) {
  const auto end = std::chrono::steady_clock::now() + config_.lock_patience;
  for (bool said = false;; said = true) {
    auto lock = store::DirLock::take(dir, config_.program, config_.run);
    if (lock || lock.failure().code != Code::locked || std::chrono::steady_clock::now() >= end) return lock;
    if (!said && hooks_.insist)
      hooks_.insist(cat("the lock of ", dir, " is still that of who was lost, as file systems keep it for a while: ",
                        "waiting for it for up to ",
                        human_seconds(std::chrono::duration<double>(config_.lock_patience).count())));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<void> Engine::lock_directories() {
  std::set<std::string> wanted;
  for (const auto& level : levels_)
    if (level.leader && level.config.kind != LevelKind::memory) wanted.insert(directory_of(level));
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
    auto lock = take_lock(dir);
    if (!lock && lock.failure().code == Code::locked) return lock.failure();
    if (!lock && dir == config_.shared_dir && !writes_here) continue;
    if (lock) locks_[dir] = std::make_shared<const store::DirLock>(std::move(*lock));
    for (auto& level : levels_) {
      if (!level.leader || level.config.kind == LevelKind::memory || directory_of(level) != dir) continue;
      if (!lock) BACKSTAY_TRY(only_read(level, lock.failure()));
      if (lock) level.lock = locks_[dir];
    }
  }
  companions_ = companions_of(levels_);
  for (auto& companion : companions_)
    if (const auto known = config_.distrusted.find(companion.name); known != config_.distrusted.end())
      companion.distrusted = known->second;
  return {};
}

Result<void> Engine::make_names_durable() {
  for (const auto& [dir, lock] : locks_) store::make_path_durable(dir);
  for (auto* some : {&levels_, &companions_})
    for (auto& level : *some)
      if (level.leader)
        if (const auto durable = catalog::make_names_durable(*level.store, level.name); !durable)
          BACKSTAY_TRY(only_read(level, durable.failure()));
  return {};
}

void Engine::start_background() {
  BackgroundOptions options;
  options.nice = config_.nice;
  options.buffers = config_.policy == Policy::degrade ? 2 : 1;
  options.timeout = config_.timeout;
  options.pump = hooks_.pump;
  options.settled = [this](const Settled& settled) {
    if (!settled.bytes && !settled.surplus) ++failures_;
    hooks_.settled(settled, (settled.of_statics ? companions_ : levels_)[settled.level].name);
  };
  background_ = std::make_unique<Background>(levels_, companions_, job_, config_.topology, groups_.background(),
                                             std::move(options));
}

// ---- checkpoint ------------------------------------------------------------------------------------------------

Result<Outcome> Engine::checkpoint(bool now, bool signal) {
  open_line_.end_beginning();
  decider_.begin_call(monotonic());
  BACKSTAY_TRY(meet());
  tell_what_is_stuck();
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
  const plan::Decider::Proposal mine{signal, static_cast<std::int64_t>(in_flight()), failures_};
  auto started = start_meeting(Meeting::next_call, decider_.propose(mine, monotonic()), handed_over());
  if (!started) return started.failure();
  agreement_ = std::move(*started);
  return {};
}

Result<void> Engine::finish_agreement() {
  if (!agreement_) return {};
  const auto maxima = finish_meeting(*agreement_);
  if (!maxima) return maxima.failure();
  agreement_.reset();
  agreed_at_ = decider_.call();
  decider_.agreed(*maxima);
  may_be_in_flight_ = decider_.in_flight() > 0;
  return {};
}

// ---- meetings ----------------------------------------------------------------------------------------------------
//
// Whatever all ranks do together in calls of the session begins with one and the same operation, which says what a rank
// has come for. So ranks that make different calls find out, and do not wait for each other in different ones.
//
// A rank that is late is waited for, as in any collective call of MPI, and that is said; so all ranks go through the
// same agreements and lines, in the same order, whatever the time between them. One that dies ends the wait: MPI fails,
// or ends the job. The background waits for other ranks and for storage without the application, which goes on.

namespace {
const char* name_of(std::int64_t meeting) {
  static constexpr std::array names{"checkpoint()",
                                    "a checkpoint() that is due or asked for",
                                    "a checkpoint() that saves static regions",
                                    "init()",
                                    "resume()",
                                    "verify()",
                                    "prune()",
                                    "wait()",
                                    "compute() with place=best",
                                    "the end of its session"};
  return names[static_cast<std::size_t>(meeting)];
}
}  // namespace

/// Each rank also says which computation it was refused, if one was, whether it has static regions, and others than
/// before, whether it waits for the others' answer, and how many lines it has handed to its background, which writes
/// them together with the others'.
Result<std::unique_ptr<comm::PendingMax>> Engine::start_meeting(Meeting meeting, std::vector<std::int64_t> numbers,
                                                                std::int64_t handed_over, bool waits) {
  told_changes_ = static_regions_.changes();
  told_refusal_ = open_line_.last_refusal();
  numbers.push_back(told_refusal_);
  numbers.push_back(static_regions_.specs().empty() ? 0 : 1);
  numbers.push_back(static_changes_ == told_changes_ ? 0 : 1);
  numbers.push_back(waits ? 0 : 1);
  for (const auto number : {static_cast<std::int64_t>(meeting), handed_over}) {
    numbers.push_back(number);
    numbers.push_back(-number);
  }
  return groups_.app().start_all_max(std::move(numbers));
}

Result<std::vector<std::int64_t>> Engine::finish_meeting(comm::PendingMax& meeting) {
  for (auto pause = std::chrono::microseconds(5);; pause = std::min(2 * pause, std::chrono::microseconds(500))) {
    const auto done = meeting.test();
    if (!done) return done.failure();
    if (*done) break;
    if (hooks_.pump) hooks_.pump();
    std::this_thread::sleep_for(pause);
  }
  auto maxima = meeting.values();
  const auto take_last_two = [&] {
    const std::pair out{-maxima.back(), *(maxima.end() - 2)};
    maxima.resize(maxima.size() - 2);
    return out;
  };
  const auto [fewest_lines, most_lines] = take_last_two();
  const auto [least, most] = take_last_two();
  const auto take_last = [&] {
    const auto out = maxima.back();
    maxima.pop_back();
    return out;
  };
  all_wait_ = take_last() == 0;
  statics_are_new_ = take_last() != 0;
  there_are_statics_ = take_last() != 0;
  const auto refusal = take_last();
  if (most == least && most_lines == fewest_lines) {
    open_line_.forget_refusal(told_refusal_);
    return maxima;
  }
  const bool closed = most != least && most == static_cast<std::int64_t>(Meeting::close);
  const std::string what = closed          ? "a rank has closed its session while others go on"
                           : most == least ? "a rank has taken checkpoints that another one has not"
                                           : cat("a rank is in ", name_of(least), ", and another in ", name_of(most));
  if (most_lines != fewest_lines) leave();  // the background may wait for ranks that have no such line
  if (refusal != 0) {                       // why they are apart: all hear what the one was told
    apart_ = open_line_.refusal(refusal);
    return *apart_;
  }
  apart_ = fail(Code::comm, what, ": nothing more is saved; all ranks must make the same calls of backstay, and close ",
                "their sessions at the same place");
  return *apart_;
}

/// At the beginning of a call that all ranks make: what is under way among them is finished. With a meeting of its own
/// for calls that wait for storage, which is bounded, while the wait for ranks is not.
Result<void> Engine::meet(std::optional<Meeting> meeting) {
  call_began_ = monotonic();
  all_have_come_ = false;
  if (meeting == Meeting::close)
    give_up_undecided();
  else
    decide();
  if (apart_) return *apart_;
  BACKSTAY_TRY(finish_agreement());
  if (meeting) BACKSTAY_TRY(come_to(*meeting));
  say_that_all_have_come();
  return {};
}

void Engine::say_that_all_have_come() {
  if (std::exchange(late_said_, false) && hooks_.say_of_others)
    hooks_.say_of_others("all ranks have come: the program goes on");
}

/// `in_flight`: here; the most that is on any rank.
Result<std::int64_t> Engine::meet_and_compare(Meeting meeting, std::int64_t in_flight) {
  std::vector<std::int64_t> numbers(decider_.numbers(), 0);
  numbers[0] = in_flight;
  auto started = start_meeting(meeting, std::move(numbers), handed_over());
  if (!started) return started.failure();
  const auto met = finish_meeting(**started);
  if (!met) return met.failure();
  all_have_come_ = true;
  return met->front();
}

Result<void> Engine::come_to(Meeting meeting) {
  const auto met = meet_and_compare(meeting, 0);
  all_wait_to_end_ = met && meeting == Meeting::close && all_wait_;
  return met ? Result<void>{} : met.failure();
}

void Engine::announce_close(bool leaves) {
  call_began_ = monotonic();
  all_have_come_ = false;
  give_up_undecided();
  if (apart_ || !background_) return;
  const auto lines = leaves ? -1 : handed_over();
  if (auto started = start_meeting(Meeting::close, std::vector<std::int64_t>(decider_.numbers(), 0), lines, false);
      started)
    farewell_ = std::move(*started);
  if (!leaves) return;
  leave();
  agreement_.reset();  // carried on before MPI ends (comm/leaving.h)
  farewell_.reset();
}

/// Who has come to the end with all others waits together with them: a rank that stands still there is waited for, and
/// storage that is stuck is told by all alike. Whoever is alone, or was left, waits for what it has to write itself.
Result<void> Engine::drain() {
  if (!background_) return {};
  if (std::exchange(all_wait_to_end_, false)) {
    const auto settled = settle();
    if (settled || settled.failure().code == Code::timeout) return settled;
  }
  const int turns = std::max(2, static_cast<int>(config_.timeout / std::chrono::milliseconds(200)));
  for (int turn = 1; farewell_ && turn < turns; ++turn) {
    if (const auto idle = background_->wait_idle(1.0 / turns); idle) return idle;
    if (const auto met = farewell_->test(); !met || !*met) continue;
    (void)finish_meeting(*farewell_).ok();  // leaves where the others have not the same lines
    farewell_.reset();
  }
  return background_->wait_idle();
}

void Engine::tell_who_is_late() {
  late_said_ = true;
  if (!hooks_.say_of_others) return;
  const std::string time = human_seconds(monotonic() - call_began_);
  hooks_.say_of_others(
      all_have_come_
          ? cat("a rank has been busy for ", time, " in a call of backstay that all have come to, and the others wait ",
                "for it: it reads, writes or rebuilds its part of lines, or its storage is stuck")
          : cat("a rank has not come for ", time,
                ": the others wait for it in a call of backstay, which every rank must make equally often",
                hooks_.why_late ? hooks_.why_late() : ""));
}

void Engine::tell_what_is_stuck() {
  const double seconds = background_->busy_for();
  if (seconds < std::chrono::duration<double>(config_.timeout).count()) {
    if (std::exchange(stuck_said_, false) && hooks_.say_of_others)
      hooks_.say_of_others("the line that was under way for so long is done, or given up: lines are saved again");
  } else if (!std::exchange(stuck_said_, true) && hooks_.say_of_others) {
    hooks_.say_of_others(
        cat("a line has been under way for ", human_seconds(seconds), ": a rank or its storage is stuck",
            hooks_.pump ? ", or calls of backstay, in which all messages move here, are far apart" : "",
            "; nothing more is saved until it goes on or fails, and earlier lines are as they were"));
  }
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

/// The last agreement knows it as of the call before.
Result<void> Engine::look_what_is_in_flight() {
  const auto most = meet_and_compare(Meeting::room, static_cast<std::int64_t>(in_flight()));
  if (!most) return most.failure();
  decider_.set_in_flight(*most);
  say_that_all_have_come();
  return {};
}

Result<Outcome> Engine::take(std::vector<bool> levels, bool must_wait) {
  // A level that is passed over goes with the next checkpoint that is taken: one that falls due seldom would otherwise
  // never meet a free moment beside one that falls due often.
  for (std::size_t i = 0; i < levels.size(); ++i) levels[i] = owed_[i] = owed_[i] || levels[i];
  const bool would_skip = !must_wait && config_.policy != Policy::wait;
  const bool looks = would_skip && decider_.in_flight() > 0 && decider_.steps_are_long();
  if (looks) BACKSTAY_TRY(look_what_is_in_flight());
  if (would_skip && decider_.in_flight() > 0) {
    const auto cheap = cheapest();
    // While a cheap one is in flight, a dearer one that is owed waits for a free moment, not for the next cheap one.
    if (config_.policy == Policy::skip || decider_.in_flight() > 1 || (last_levels_ == cheap && owed_ != cheap)) {
      decider_.passed_over();
      return Outcome::skipped;
    }
    levels = cheap;
  }
  // The wait for a buffer is bounded, as storage may hang. For other ranks it is not: they come here first.
  if (may_be_in_flight_ && !looks) BACKSTAY_TRY(come_to(Meeting::room));
  say_that_all_have_come();
  return capture(levels, must_wait);
}

Result<Outcome> Engine::capture(const std::vector<bool>& levels, bool now) {
  if (const auto left = what_is_left_behind(); !left.empty()) hooks_.say(left);
  BACKSTAY_TRY(look_after_statics(levels, now));
  const std::uint64_t line = next_line_++;  // also where this rank alone fails: the others have used it
  // Also that it was taken: what is owed must be the same everywhere.
  decider_.taken(levels, monotonic());
  last_levels_ = levels;
  forced_.assign(forced_.size(), false);
  for (std::size_t i = 0; i < levels.size(); ++i) owed_[i] = owed_[i] && !levels[i];
  auto taken = background_->take();
  auto checkpoint = taken ? std::move(*taken) : Background::in_vain(taken.failure());
  Checkpoint& c = *checkpoint;
  c.line = line;
  c.call = decider_.call();
  c.time = wall_clock();
  c.levels = levels;
  c.signature = regions_.signature();
  c.statics = static_lines_;
  if (taken) c.captured = require_regions();
  open_line_.take(std::move(checkpoint), capture_options(), now);
  ++captured_;
  may_be_in_flight_ = true;
  return taken ? Result<Outcome>(Outcome::taken) : taken.failure();
}

void Engine::want_a_line() {
  const auto first = std::ranges::find_if(config_.levels, outlives_a_rank);
  forced_[first == config_.levels.end() ? 0 : static_cast<std::size_t>(first - config_.levels.begin())] = true;
}

void Engine::make_ready() {
  const auto bytes = open_line_.bytes_at_once();
  if (background_ && (config_.staging_limit == 0 || bytes <= config_.staging_limit)) background_->make_ready(bytes);
}

Result<void> Engine::require_regions() const {
  if (regions_.specs().empty())
    return fail(Code::invalid_argument,
                static_regions_.specs().empty() ? "nothing is" : "nothing but static regions is",
                " protected: call protect() before checkpoint()");
  if (static_regions_.changes() != told_changes_)
    return fail(Code::invalid_argument,
                "static regions were protected or unprotected right before it, so that not all ",
                "ranks know of it yet: the next checkpoint saves them");
  return {};
}

bool Engine::must_look_after_statics(const std::vector<bool>& levels) const {
  if (!there_are_statics_) return false;
  if (statics_are_new_ || static_failures_ != decider_.failures() || static_lines_.empty()) return true;
  for (std::size_t i = 0; i < levels.size(); ++i)
    if (levels[i] && static_lines_[i] == 0) return true;
  return false;
}

/// Static regions are written where they are not yet, before the line that names theirs; where nothing has changed, and
/// no line was given up since, they are where they were. All ranks decide alike, by what they told each other in the
/// last meeting: nobody waits for another who has not changed anything.
Result<void> Engine::look_after_statics(const std::vector<bool>& levels, bool now) {
  // Right before the first line not even whether there are any is known, unless ranks have just told each other.
  const bool unknown = captured_ == 0 && (now || agreed_at_ != decider_.call());
  if (unknown || (now && there_are_statics_) || must_look_after_statics(levels))
    BACKSTAY_TRY(come_to(Meeting::statics));
  if (!there_are_statics_) static_lines_.clear();
  if (!must_look_after_statics(levels)) return {};
  if (statics_are_new_ || static_failures_ != decider_.failures() || static_lines_.empty())
    static_lines_.assign(levels.size(), 0);
  static_changes_ = static_regions_.changes();
  static_failures_ = decider_.failures();
  statics_are_new_ = false;
  BACKSTAY_TRY(settle());
  return write_statics(levels);
}

/// The background is idle on all ranks. The capture has memory of its own, which it gives back when it is written.
Result<void> Engine::write_statics(const std::vector<bool>& levels) {
  auto found = take_inventory({}, companions_, {}, groups_.app());
  if (!found) return found.failure();
  // Those of a store that cannot be looked at are written anew, if possible.
  note_statics(found->statics);
  auto checkpoint = std::make_unique<Checkpoint>();
  Checkpoint& c = *checkpoint;
  c.captured = capture_regions(static_regions_, capture_options(), c.capture);
  const auto equal =
      find_equal(found->statics, companions_, config_.topology, job_.id, c.captured, c.capture, groups_.app());
  if (!equal) return equal.failure();
  c.levels.assign(levels.size(), false);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (!levels[i] || static_lines_[i] > 0) continue;
    static_lines_[i] = (*equal)[i] > 0 ? (*equal)[i] : next_line_;
    c.levels[i] = (*equal)[i] == 0;
  }
  config_.saved_statics = static_regions_.changes();
  if (!any(c.levels)) return {};
  c.is_single = c.of_statics = true;
  c.line = next_line_;
  c.call = decider_.call();
  c.time = wall_clock();
  c.signature = static_regions_.signature();
  background_->put(std::move(checkpoint));
  return {};
}

/// A program that forgot resume() would lose its history to retention, line by line.
std::string Engine::what_is_left_behind() const {
  if (captured_ > 0 || looked_back_) return {};  // from the first capture on, `whole` is the background's
  std::uint64_t newest = 0;
  for (const auto& level : levels_)
    if (!level.whole.empty()) newest = std::max(newest, level.whole.back());
  if (newest == 0) return {};
  return cat(
      "the lines of an earlier run, up to line ", newest, ", were not resumed from, and are removed as new ones come: ",
      was_refused_ ? "to keep them" : "call resume() before the first checkpoint(), or", " start in another directory");
}

/// All ranks stop at this call, whatever becomes of the line.
Result<Outcome> Engine::take_last() {
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
  const auto taken = capture(durable, true);
  if (!taken) return taken.failure();
  return background_->wait_idle();
}

Distrusted Engine::distrusted() const {
  Distrusted out;
  for (const auto& companion : companions_) out[companion.name] = companion.distrusted;
  return out;
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
  constexpr int turns = 4;
  for (int turn = 1;; ++turn) {
    const auto idle = background_->wait_idle(1.0 / turns);
    const auto all = groups_.app().all_max({idle ? 0 : 1});
    if (!all) return all.failure();
    if (all->front() == 0) return {};
    if (turn < turns) continue;
    const Result<void> late = fail(Code::timeout, "writing the last checkpoint was not done within ",
                                   human_seconds(std::chrono::duration<double>(config_.timeout).count()),
                                   " (option timeout): the storage is stuck, or a rank");
    return agree(groups_.app(), idle ? Result<void>{} : late);
  }
}

/// The background of this rank is done. The others wait for this rank meanwhile, for a whole time-out.
Result<void> Engine::settled_here() { return background_ ? background_->wait_idle(0.5) : Result<void>{}; }

Result<void> Engine::wait() {
  BACKSTAY_TRY(meet(Meeting::wait));
  BACKSTAY_TRY(settle());
  decider_.all_done();
  may_be_in_flight_ = false;
  return {};
}

}  // namespace backstay::engine
