#include "api/session_impl.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <numeric>
#include <ranges>
#include <set>
#include <thread>
#include <utility>

#include "api/exit_status.h"
#include "base/text.h"
#include "base/wire.h"
#include "comm/self_comm.h"
#include "engine/agree.h"
#include "store/memory_store.h"
#include "store/posix_store.h"

extern char** environ;

namespace backstay {

namespace detail {
void raise(const Failure& failure) { throw Error(failure.code, failure.what); }

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}
}  // namespace detail

namespace {
using detail::milliseconds;
using detail::value_or_throw;

bool is_in_memory(const engine::LevelConfig& level) { return level.kind == engine::LevelKind::memory; }

std::string program_name() {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return path.empty() ? "program" : path.filename().string();
}

/// What `backstay run` knows its sessions by; empty: it did not launch them.
std::string run_id() {
  const char* const id = std::getenv("_BACKSTAY_RUN_ID");
  return id == nullptr ? "" : id;
}

Result<api::Settings> settings_of(const Options& options) {
  const auto environment = api::options_from_environment(environ);
  if (!environment) return environment.failure();
  return api::read_options(options, *environment);
}

/// A path that stays the same when the program changes its directory. A `..` stays: behind a link to a directory it
/// leads elsewhere than to what stands before it.
std::string absolute(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  if (error)
    throw Error(Code::io, cat("the directory '", path, "' cannot be found, because the directory that this program ",
                              "runs in is gone or not readable: ", error.message(),
                              "; start it elsewhere, or name a directory that begins with /"));
  return full.string();
}

}  // namespace

// ---- open ------------------------------------------------------------------------------------------------------

Session::Impl::Impl(Alone, const Options& options) {
  try {
    auto alone_comm = comm::make_self_comm();
    settle(settings_of(options), *alone_comm);
    start(std::move(alone_comm));
    say_idle_options();
  } catch (const Error& e) {
    api::tell_launcher(e.code());
    throw;
  }
}

#if BACKSTAY_HAVE_MPI
namespace {
void require_running_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    throw Error(
        Code::invalid_argument,
        "MPI is finalised already, and cannot be started again: open the session before MPI_Finalize (a session "
        "that began MPI ends it; initialise MPI yourself where several follow each other)");
}
}  // namespace

Session::Impl::Impl(int argc, char** argv, const Options& options) {
  const auto settings = settings_of(options);
  start_mpi(&argc, &argv, settings);
  try {
    open_mpi(MPI_COMM_WORLD, settings);
  } catch (const Error& e) {
    // All ranks fail alike, so that they can end MPI together; not where they could not even talk.
    engine_.reset();
    const bool together = e.code() != Code::comm && e.code() != Code::timeout && e.code() != Code::rank_lost;
    if (finalize_ && together) {
      comm::leaving::tell_that_all_have_come_by({});  // what the program was started for has not begun
      comm::leaving::finalize();
    }
    throw;
  }
}

Session::Impl::Impl(MPI_Comm comm, const Options& options) {
  require_running_mpi();
  int started = 0;
  MPI_Initialized(&started);
  if (started == 0)
    throw Error(Code::invalid_argument,
                "MPI is not initialised: call MPI_Init_thread first, or use Session(argc, argv)");
  open_mpi(comm, settings_of(options));
}

void Session::Impl::start_mpi(int* argc, char*** argv, const Result<api::Settings>& settings) {
  require_running_mpi();
  int started = 0;
  MPI_Initialized(&started);
  if (started != 0) return;
  // Open MPI's MPI_Finalize waits for all processes, the dead ones too, unless it is told otherwise (5.0.x), and its
  // agreements may not end where one dies that is no leaf of a tree: in a star only its middle is none (decision 11).
  if (settings && settings->spares > 0) {
    setenv("OMPI_MCA_async_mpi_finalize", "1", 0);
    setenv("OMPI_MCA_coll_ftagree_era_topology", "3", 0);
  }
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  finalize_ = true;
}

Session::Impl::Open& Session::Impl::open_ones() {
  static auto* const open = new Open;  // for the end of the process, too
  return *open;
}

/// MPI_Finalize is called: from here on no session may use MPI.
void Session::Impl::leave_mpi() {
  auto& open = open_ones();
  const std::lock_guard lock(open.mutex);
  for (Impl* session : open.sessions) {
    session->journal_->say_of_others(
        "MPI_Finalize is called while this session is open: what it still has to write is not written, and earlier "
        "lines are as they were; close it before");
    if (!session->engine_) continue;
    session->engine_->announce_close(true);
    if (session->crew_ && !session->crew_is_gone_) comm::leaving::others_may_not_come();
  }
  open.sessions.clear();
}

void Session::Impl::open_mpi(MPI_Comm comm, const Result<api::Settings>& settings) {
  try {
    open_among(comm, settings);
  } catch (const Error& e) {
    int rank_there = 0;
    if (comm != MPI_COMM_NULL) MPI_Comm_rank(comm, &rank_there);
    if (rank_there == 0) api::tell_launcher(e.code());
    if (e.code() == Code::comm && comm != MPI_COMM_NULL && !comm::known_losses(comm).empty())
      throw Error(Code::rank_lost,
                  cat("a process was lost while the session was opened, before losses can be repaired: start the job "
                      "again (",
                      e.what(), ")"));
    throw;
  }
}

void Session::Impl::open_among(MPI_Comm comm, const Result<api::Settings>& settings) {
  int between_groups = 0;
  if (comm != MPI_COMM_NULL) MPI_Comm_test_inter(comm, &between_groups);
  if (between_groups != 0)
    throw Error(Code::invalid_argument,
                "a session needs an intracommunicator: merge this one with MPI_Intercomm_merge");
  if (comm::Crew::was_there() && comm::is_of_all_processes(comm))
    throw Error(
        Code::invalid_argument,
        "MPI_COMM_WORLD has the spares of an earlier session in it, and these take part in nothing else and end "
        "with that session: do all the work of a job with spares in one session");
  user_comm = comm;
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE || (settings && settings->progress_in_calls))
    courier_ = std::make_unique<comm::Courier>();
  if (settings) settings_.timeout = settings->timeout;
  auto all = value_or_throw(comm::make_mpi_comm(comm, mpi_options()));
  settle(settings, *all);
  if (settings_.spares > 0)
    open_with_spares(comm);
  else
    start(std::move(all));
  say_idle_options();
  if (settings_.shrink && settings_.spares == 0)
    journal_->say(
        "the option shrink is on and spares is 0: only a job with spares goes on after a loss; give it at least one");
  if (settings_.spares > 0 && std::ranges::none_of(settings_.levels, engine::outlives_a_rank))
    journal_->say(
        "no level keeps what a lost rank held in memory, so that after a loss all begin anew: give the level "
        "redundancy, as memory.redundancy=rs(4,1), or add partner, local or shared to the levels");
  if (courier_ && !settings_.progress_in_calls)
    journal_->say(
        "MPI was initialised without MPI_THREAD_MULTIPLE: checkpoints make progress inside calls of backstay only");
  comm::leaving::before_mpi_ends(leave_mpi);
  const std::lock_guard lock(open_ones().mutex);
  open_ones().sessions.insert(this);
}

comm::MpiOptions Session::Impl::mpi_options() {
  comm::MpiOptions mpi;
  mpi.timeout = milliseconds(settings_.timeout);
  mpi.background_courier = courier_.get();
  if (crew_) mpi.alarm = crew_->alarm();
  return mpi;
}
#endif

/// Collective over all processes of the session, spares included.
void Session::Impl::settle(const Result<api::Settings>& settings, comm::Comm& all) {
  value_or_throw(engine::agree(all, settings ? Result<void>{} : Result<void>{settings.failure()}));
  settings_ = *settings;
  processes_ = all.size();
  api::watch_the_exit();
  require_same_options(all);
  node_ = find_node(all);
  value_or_throw(engine::agree(all, settle_directories()));
  if (all.rank() == 0) api::tell_launcher("directory " + settings_.dir);  // the program's own options may have named it
  if (settings_.spares > 0) {
    const auto writable = engine::agree(all, can_write_on_its_node());
    if (!writable)
      throw Error(writable.failure().code, cat(writable.failure().what, " (of all processes, spares among them)"));
  }
  value_or_throw(engine::agree(all, require_own_units()));
  memory_ = store::make_memory_store();
}

/// Collective over the ranks that work. Begins with an agreement, so that nobody looks at a directory before every rank
/// has come: an engine that it had before has ended.
/// `speaker`: whose rank it is.
void Session::Impl::make_journal(int speaker) {
  const bool files = !std::ranges::all_of(settings_.levels, is_in_memory);
  // `backstay run` reads in its directory how the session ended, also where that holds no files.
  const bool is_read = files || !run_id().empty();
  journal_ = std::make_unique<api::Journal>(speaker, settings_.log, is_read ? settings_.dir : "", settings_.name);
}

void Session::Impl::start(std::unique_ptr<comm::Comm> app) {
  rank = app->rank();
  size = app->size();
  make_journal(rank);
  const auto topology = find_topology(*app);
  comm::Comm& app_comm = *app;

  engine::EngineHooks hooks;
  hooks.say = [this](const std::string& sentence) { journal_->say(sentence); };
  hooks.insist = [this](const std::string& sentence) { journal_->insist(sentence); };
  hooks.say_of_others = [this](const std::string& sentence) { say_of_others(sentence); };
#if BACKSTAY_HAVE_MPI
  hooks.why_late = [this] {
    if (places_itself())
      return "; with place=best that is a declared computation, too: all ranks must compute the same in the same order";
    if (!crew_) return "";
    return crew_->keeps_communicators_of_before()
               ? "; this rank has kept communicators that it made before a repair, and made none since: if it needs "
                 "them, "
                 "the rank that was replaced waits for it to make them anew, inside the body of loop()"
               : "; one that is in a collective call on MPI_COMM_WORLD waits for the spares there, which do not come: "
                 "use the communicator of the session";
  };
#endif
  hooks.line_began = [this] {
    if (way_) way_->mark();
  };
  hooks.settled = [this](const engine::Settled& s, const std::string& level) { settled(s, level); };
#if BACKSTAY_HAVE_MPI
  hooks.cannot_write_rebuilt = [this](const Failure& why) {
    // Not after its first resume: it has then computed, and another one would not get further for it.
    if (crew_ && !knows_what_was_whole_ && crew_->spares_left() > 0) leave_to_another_spare(why.what);
  };
  if (courier_) hooks.pump = [this] { courier_->pump(); };
#endif
  auto config = make_config(topology);
  for (auto& level : config.levels) {
    if (level.parity.p > 0) level.parity.units = find_units(settings_.units.at(level.name), topology, *app);
    fit_to_those_left(level, topology.nodes());
  }
  if (settings_.advises) watcher_.emplace();
  engine_ = std::make_unique<engine::Engine>(std::move(config), std::move(hooks), std::move(app));
  engine_->save_only(only_);
  value_or_throw(engine_->open());
  if (settings_.check_access && !checker_) checker_.emplace(api::Checked{declared_, regions_, statics_});
  if (settings_.observed_steps > 0 && !observer_) observer_.emplace(regions_, statics_, settings_.observed_steps);
  if (settings_.signals && !signals_) signals_ = std::make_unique<api::SignalListener>();
  describe_job(topology, app_comm);
}

namespace {
template <class Function>
void guard_one(bool& in_call, std::thread::id& caller, std::function<Function>& function) {
  if (!function) return;
  function = [&in_call, &caller, inner = std::move(function)]<class... Arguments>(Arguments&&... arguments) {
    const detail::Within within(in_call);
    caller = std::this_thread::get_id();
    return inner(std::forward<Arguments>(arguments)...);
  };
}
}  // namespace

void Session::Impl::guard(RegionSpec& spec) {
  guard_one(in_call_, caller_, spec.view);
  guard_one(in_call_, caller_, spec.reshape);
  guard_one(in_call_, caller_, spec.save);
  guard_one(in_call_, caller_, spec.load);
  guard_one(in_call_, caller_, spec.redistribute);
  guard_one(in_call_, caller_, spec.delivered);
}

/// Ranks that differ in `every` or `levels` would wait for each other in different calls.
void Session::Impl::require_same_options(comm::Comm& app) {
  const auto all = value_or_throw(app.all_gather(as_bytes(settings_.shared_values)));
  const auto first = split(as_text(all[0]), '\n');
  for (std::size_t rank_of_other = 1; rank_of_other < all.size(); ++rank_of_other) {
    const auto other = split(as_text(all[rank_of_other]), '\n');
    for (std::size_t i = 0; i < std::min(first.size(), other.size()); ++i)
      if (first[i] != other[i])
        throw Error(Code::mismatch, cat("the ranks have different options: rank 0 has ", first[i], " and rank ",
                                        rank_of_other, " has ", other[i], "; give all ranks the same"));
  }
}

Result<void> Session::Impl::settle_directories() {
  try {
    settings_.dir = absolute(settings_.dir);
    std::string local = settings_.local_dir;
    if (settings_.node_at) local.insert(*settings_.node_at, std::to_string(node_));
    local_dir_ = absolute(local);
    return {};
  } catch (const Error& e) {
    return Failure{e.code(), e.what()};
  }
}

/// Also of a spare, which may need it in days.
Result<void> Session::Impl::can_write_on_its_node() const {
  if (!has_files_on_nodes()) return {};
  const auto made = store::make_posix_store(local_dir_);
  return made ? Result<void>{} : made.failure();
}

bool Session::Impl::has_files_on_nodes() const {
  return std::ranges::any_of(settings_.levels, [](const auto& level) { return engine::is_on_nodes(level.kind); });
}

/// Collective over all processes: the node of this one. It keeps the number for as long as it lives, as the directory
/// of the node is named by it.
int Session::Impl::find_node(comm::Comm& all) {
  if (settings_.nodes > 0) {
    if (settings_.nodes > all.size())
      throw Error(Code::invalid_argument, cat("the option nodes is ", settings_.nodes, " and there are ", all.size(),
                                              " ranks: a node needs a rank"));
    return static_cast<int>(static_cast<std::int64_t>(all.rank()) * settings_.nodes / all.size());
  }
#if BACKSTAY_HAVE_MPI
  if (user_comm != MPI_COMM_NULL) return value_or_throw(comm::shared_memory_node(all));
#endif
  return 0;
}

engine::Topology Session::Impl::find_topology(comm::Comm& app) {
  const auto all = value_or_throw(app.all_gather(std::as_bytes(std::span(&node_, 1))));
  engine::Topology topology;
  for (const auto& bytes : all) topology.node_of.push_back(WireReader(bytes).number<int>());
  return topology;
}

/// A spare has one, too: it may become a rank in days.
Result<void> Session::Impl::require_own_units() const {
  for (const auto& [level, choice] : settings_.units) {
    if (choice.kind == api::UnitChoice::Kind::sets && !choice.set_of(node_))
      return fail(Code::invalid_argument, "the option ", level, ".unit has node ", node_,
                  " in no set, or in several: ", "each node belongs to one, those of spares too");
    if (choice.kind == api::UnitChoice::Kind::variable && std::getenv(choice.variable.c_str()) == nullptr)
      return fail(Code::invalid_argument, "the variable ", choice.variable, " that the option ", level,
                  ".unit names is not set, here or for a spare");
  }
  return {};
}

/// A number for each rank: those with the same die together.
std::vector<int> Session::Impl::find_units(const api::UnitChoice& choice, const engine::Topology& topology,
                                           comm::Comm& app) {
  std::vector<int> units = topology.node_of;
  if (choice.kind == api::UnitChoice::Kind::rank) std::iota(units.begin(), units.end(), 0);
  if (choice.kind == api::UnitChoice::Kind::sets)
    for (auto& unit : units) unit = static_cast<int>(choice.set_of(unit).value());
  if (choice.kind != api::UnitChoice::Kind::variable) return units;
  const char* const value = std::getenv(choice.variable.c_str());
  const auto all = value_or_throw(app.all_gather(as_bytes(value != nullptr ? value : "")));
  std::set<std::string_view> different;
  for (const auto& label : all) different.insert(as_text(label));
  for (std::size_t r = 0; r < units.size(); ++r)
    units[r] = static_cast<int>(std::distance(different.begin(), different.find(as_text(all[r]))));
  return units;
}

engine::EngineConfig Session::Impl::make_config(const engine::Topology& topology) {
  engine::EngineConfig config;
  config.levels = settings_.levels;
  config.topology = topology;
  config.shared_dir = settings_.dir;
  config.local_dir = local_dir_;
  config.policy = settings_.policy;
  config.timeout = milliseconds(settings_.timeout);
  config.goes_on = repairs_begun() > 0;
  config.next_line = next_line_;
  if (config.goes_on)  // the others wait here for as long as that option says
    config.lock_patience = std::min<std::chrono::milliseconds>(config.timeout / 2, std::chrono::minutes(2));
  config.staging_limit = settings_.staging_limit;
  config.nice = settings_.nice;
  config.direct_io = settings_.direct_io;
  config.lenient = settings_.lenient;
  config.program = program_name();
  config.run = run_id();
  config.memory = memory_;
  config.regions = &regions_;
  config.statics = &statics_;
  config.declared = &declared_;
  config.running = &running_;
  config.saved_statics = saved_statics_;
  config.distrusted = distrusted_;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  config.capture_threads =
      settings_.threads > 0 ? settings_.threads : std::clamp(cores / topology.ranks_on(node_), 1, 4);
  return config;
}

void Session::Impl::describe_job(const engine::Topology& topology, comm::Comm& app) {
  const auto dirs = value_or_throw(app.all_gather(as_bytes(local_dir_)));
  api::Journal::About about{program_name(), size, {}, {}};
  for (const auto& level : engine_->levels()) about.levels.push_back(level.name);
  const std::set<int> nodes(topology.node_of.begin(), topology.node_of.end());
  for (int node : nodes)
    about.local_dirs.emplace_back(node, std::string(as_text(dirs[static_cast<std::size_t>(topology.leader(node))])));
  std::error_code ignored;
  if (rank == 0 && !std::ranges::all_of(settings_.levels, is_in_memory))
    std::filesystem::create_directories(settings_.dir, ignored);
  journal_->describe(about);
  journal_->event("start", {api::Journal::text("program", about.program), api::Journal::number("ranks", size),
                            api::Journal::number("repairs", static_cast<double>(repairs_begun())),
                            api::Journal::text("run", run_id())});
}

// ---- calls -----------------------------------------------------------------------------------------------------

/// Where messages move in calls only, a line takes many of them. While one is in flight a call gives it up to a
/// fiftieth of the time that the program has computed since the last one.
void Session::Impl::pump() {
#if BACKSTAY_HAVE_MPI
  if (!courier_) return;
  constexpr std::chrono::microseconds longest{5000}, pause{20};
  const auto start = std::chrono::steady_clock::now();
  const auto budget = std::min<std::chrono::steady_clock::duration>((start - pumped_) / 50, longest);
  courier_->pump();
  while (engine_->in_flight() > 0 && std::chrono::steady_clock::now() - start < budget) {
    std::this_thread::sleep_for(pause);
    courier_->pump();
  }
  pumped_ = std::chrono::steady_clock::now();
#endif
}

/// `call`: of checkpoint(), or another moment that Kill names.
void Session::Impl::kill_if_asked(std::uint64_t call) {
#if BACKSTAY_HAVE_MPI
  if (crew_ && crew_->began_as_spare()) return;  // the call comes again, and this is not who was meant
#endif
  for (const auto& kill : settings_.kills) {
    if (kill.call != call || kill.number != (kill.node ? node_ : rank)) continue;
    journal_->event_of_rank("killed", {api::Journal::text("what", kill.node ? "node" : "rank"),
                                       api::Journal::number("number", kill.number)});
    raise(SIGKILL);
  }
}

namespace {
select::NamedAccess internal(const Access& access) {
  select::NamedAccess out{access.region, {0, static_cast<select::Mode>(access.mode), {}, {}}};
  if (!access.range.empty()) out.how.range.emplace();
  for (const auto& range : access.range) out.how.range->push_back({range.begin, range.end});
  for (const auto& reach : access.stencil) {
    constexpr std::int64_t far = std::int64_t{1} << 60;
    if (reach.first < -far || reach.last > far)
      throw Error(Code::invalid_argument, cat("region '", access.region, "': no stencil reaches that far"));
    out.how.stencil.push_back({reach.first, reach.last + 1});
  }
  return out;
}
}  // namespace

Computation Session::Impl::declare(const std::string& name, const std::vector<Access>& accesses) {
  require_may_call("declare()");
  decide();  // with what was declared so far
  std::vector<select::NamedAccess> all;
  for (const auto& access : accesses) {
    if (access.mode < Access::Mode::read || access.mode > Access::Mode::write_some)
      throw Error(Code::invalid_argument, cat("computation '", name, "', region '", access.region,
                                              "': ", static_cast<int>(access.mode), " is no mode of access"));
    all.push_back(internal(access));
  }
  select::Declared tried = declared_;
  const auto number = value_or_throw(tried.declare(name, std::move(all)));
  const auto known = value_or_throw(engine::regions_for_select(regions_, statics_));
  for (const auto& effect : value_or_throw(tried.effects_on(number, known)))
    if (effect.region >= regions_.specs().size() && !effect.changes.empty())
      throw Error(Code::invalid_argument, cat("computation '", name, "' changes region '", known[effect.region].name,
                                              "', which is static: protect what changes with protect()"));
  declared_ = std::move(tried);
  return {static_cast<int>(number)};
}

Session::Impl::Blocking::Blocking(Impl& impl) : impl_(impl) {
  if (impl.engine_->waits()) began_ = std::chrono::steady_clock::now();
}

Session::Impl::Blocking::~Blocking() {
  if (!began_) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - *began_;
  const std::lock_guard lock(impl_.mutex_);
  impl_.counters_.blocked_seconds += took.count();
}

bool Session::Impl::begin(Computation computation, bool scoped) {
  if (ahead.skip(computation.number) || (looks_ahead() && ahead.skip(computation.number))) {
    ahead.pause();
    running_.push_back(static_cast<std::size_t>(computation.number));
    scopes_.push_back({scoped, false});
    return false;
  }
  if (computation.number < 0 || static_cast<std::size_t>(computation.number) >= declared_.size())
    throw Error(Code::invalid_argument,
                "compute() was called with a computation that this session has not declared: call declare() before");
  const auto number = static_cast<std::size_t>(computation.number);
  has_begun_ = true;
  if (watcher_ && running_.empty()) watch(number);
  engine_->note(number);
  // Of those inside of each other the outermost counts.
  const bool skips =
      way_ && running_.empty() && on_the_way(way_->computation(number, declared_)) == select::Way::Turn::skip;
  const auto ready = skips ? Result<void>{} : [&] {
    const Blocking counted(*this);
    return engine_->before(number);
  }();
  if (!ready) {
    if (way_) way_->lose("a computation was refused, so that the way of this program cannot be gone again");
    refused_ = true;
    detail::raise(ready.failure());
  }
  running_.push_back(number);
  scopes_.push_back({scoped, !skips});
  if (checker_ && !skips) checker_->begin(number, *journal_, rank);
  return !skips;
}

void Session::Impl::end_last(bool completed) {
  const auto computation = running_.back();
  running_.pop_back();
  const bool ran = scopes_.back().runs;
  scopes_.pop_back();
  if (running_.empty()) ahead.go_on();
  if (!completed && running_.empty() && way_ && !way_->is_gone_again())
    way_->lose(cat(declared_.signature_of(computation),
                   ", ended by an exception, which a replay cannot repeat: catch it inside of the computation"));
  if (checker_ && ran) checker_->end(computation, completed, *journal_, rank);
  if (!engine_ || !ran) return;
  const Blocking counted(*this);
  engine_->after(computation, completed);
}

void Session::Impl::say_idle_options() {
  for (const auto& name : settings_.idle)
    journal_->say(
        cat("the option ", name, " is given, and the option levels does not name that level: it does nothing"));
}

Outcome Session::Impl::checkpoint(bool forced) {
  require_may_call("checkpoint()");
  require_no_init("checkpoint()");
  if (places_itself() && !forced) {
    const InCall in_call(*this, "checkpoint()");
    return stopping() ? Outcome::stop : Outcome::not_due;
  }
  if (watcher_ && !is_on_its_way()) watcher_->checkpoint();
  if (!observer_) return take(forced);
  observer_->end_step();
  const Outcome outcome = take(forced);
  observer_->begin_step(check::place_of_caller(), *journal_, rank);
  return outcome;
}

Outcome Session::Impl::take(bool forced) {
  const InCall in_call(*this, "checkpoint()");
  const auto start = std::chrono::steady_clock::now();
  has_begun_ = true;
  if (way_ && !goes_on_here()) return Outcome::not_due;
  if (must_resume_)
    throw Error(
        Code::invalid_argument,
        "a rank was replaced, and checkpoint() was called before resume(): call resume() at the beginning of the "
        "body of loop(), so that it begins from the newest line when it is run again");
  kill_if_asked(engine_->next_call());
  pump();
  leave_if_lost();
  if (repairs() && engine_->captured() == 0 && !engine_->has_lines()) engine_->want_a_line();
  if (beginning_ && has_lasting_line()) beginning_.reset();
  auto outcome = engine_->checkpoint(forced, signals_ && api::SignalListener::asked());
  if (!outcome) leave_if_lost();
  {
    const std::lock_guard lock(mutex_);
    ++counters_.calls;
    if (!outcome) {
      counters_.last_error = outcome.failure().what;
      if (failures_.empty() || failures_.back().failure.what != outcome.failure().what)
        failures_.push_back({outcome.failure(), outcome.failure().what});
    } else if (*outcome == Outcome::taken || (*outcome == Outcome::stop && !stop_said_)) {
      if (++counters_.taken == 2) blocked_by_first_ = counters_.blocked_seconds;
    } else if (*outcome == Outcome::skipped) {
      ++counters_.skipped;
    }
    counters_.blocked_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (outcome && *outcome == Outcome::skipped)
    journal_->detail("a checkpoint was skipped: an earlier one is still in flight");
  if (outcome && *outcome == Outcome::stop && !stop_said_) say_stop();
  report_failures();
  // A rank that had no memory in time is alone with that: it is thrown by all when all know that the line is given up.
  if (!outcome && settings_.throw_errors && outcome.failure().code != Code::timeout) detail::raise(outcome.failure());
  return outcome ? *outcome : Outcome::failed;
}

/// A program that goes on after this can be ended by the next signal.
void Session::Impl::say_stop() {
  stop_said_ = true;
  const bool in_memory_alone = std::ranges::all_of(settings_.levels, is_in_memory);
  const std::string_view so = places_itself() ? "stopping() says so; nothing more is saved" : "checkpoint() says stop";
  journal_->say(!engine_->last_line_is_whole()
                    ? "asked to end by a signal, but the last checkpoint could not be written: the one before counts"
                : in_memory_alone ? cat("asked to end by a signal, and ", so,
                                        "; all checkpoints are in memory and end with the job: another one begins anew")
                                  : cat("asked to end by a signal: the last checkpoint is written, and ", so));
  if (signals_) api::SignalListener::served();
  if (engine_->last_line_is_whole() || !settings_.throw_errors) return;
  raise_newest_failure();
}

void Session::Impl::raise_newest_failure() {
  const std::lock_guard lock(mutex_);
  for (const auto& trouble : std::views::reverse(failures_))
    if (!trouble.surplus) detail::raise(trouble.failure);
}

/// Failures of the background are said at the next call, and thrown at the first call at which all ranks know of them.
void Session::Impl::report_failures() {
  std::vector<Trouble> fresh;
  {
    const std::lock_guard lock(mutex_);
    for (; reported_ < failures_.size(); ++reported_) fresh.push_back(failures_[reported_]);
  }
  for (const auto& trouble : fresh)
    if (!trouble.said.empty() && trouble.surplus && rank != 0)
      journal_->insist(cat("rank ", rank, ": ", trouble.said));
    else if (!trouble.said.empty())
      journal_->say(trouble.said);
  if (!settings_.throw_errors || engine_->agreed_failures() <= thrown_) return;
  thrown_ = engine_->agreed_failures();
  engine_->decide();            // where a line waits for computations here alone, others drain for ever
  (void)engine_->drain().ok();  // this rank may be the last to hear of it
  raise_newest_failure();
}

Resumed Session::Impl::resume() {
  require_no_init("resume()");
  const InCall in_call(*this, "resume()");
  if (way_)
    throw Error(Code::invalid_argument,
                "resume() was called after replay(), which stands in its place: call one of them");
  if (settings_.places_itself)
    journal_->say(
        "the option place=best is for programs that call replay() instead of resume(): checkpoints are taken where "
        "checkpoint() is called");
  was_resumed_ = true;
  keep_what_the_body_protects();
  return found(engine_->resume());
}

/// What resume() or replay() has found is told.
Resumed Session::Impl::found(const Result<Resumed>& outcome) {
  if (!outcome && rank == 0 && !must_resume_) api::tell_launcher(outcome.failure().code);
  const auto found = value_here(outcome);
  const bool back = !found && must_resume_;
  if (!found && repairs_begun() > 0) begin_after_a_loss(back);
  engine_->make_ready();
  must_resume_ = false;
  knows_what_was_whole_ = true;
  if (back) {
    journal_->say("no line was whole yet: back to where loop() began");
    journal_->event("fresh", {});
    return found;
  }
  if (!found) {
    journal_->say(cat("no checkpoint in ", settings_.dir, ": a fresh start"));
    journal_->event("fresh", {});
    return found;
  }
  journal_->say(cat("resumed from line ", found.line, " at level ", found.level, ", saved by ",
                    counted(found.saved_ranks, "rank"), ", in ", human_seconds(found.seconds)));
  {
    const std::lock_guard lock(mutex_);
    counters_.newest_line = std::max(counters_.newest_line, found.line);
  }
  journal_->event("resume", {api::Journal::number("line", static_cast<double>(found.line)),
                             api::Journal::text("level", found.level),
                             api::Journal::number("call", static_cast<double>(engine_->next_call())),
                             api::Journal::number("seconds", found.seconds)});
  return found;
}

/// No line was found, and ranks have been lost. A rank that took a place has nothing to go back from, and goes on if
/// the others can.
void Session::Impl::begin_after_a_loss(bool back) {
  const auto who = value_here(
      engine_->add_up({knows_what_was_whole_ ? 1 : 0, fewer_are_left() ? 1 : 0, protects_unplaced() ? 1 : 0}));
  if (who.size() == 3 && who[1] > 0 && who[2] > 0)
    throw Error(
        Code::rank_lost,
        "ranks were lost, there is no line to go back to, fewer are left, and not all that is protected is placed: "
        "its lines would be for as many ranks only: start the job again, on as many as before");
  if (who.size() == 3 && who[0] == 0) {
    if (has_files_on_nodes())
      throw Error(
          Code::rank_lost,
          "all ranks were lost, and those that took their places find no line on their nodes: lines may be on the "
          "nodes "
          "of before: start the job again, on these, and it goes on from the newest line that is left, or from its "
          "beginning");
    if (std::ranges::any_of(settings_.levels, is_in_memory))
      journal_->say("all ranks were lost, and with them what level memory held");
  }
  value_here(engine_->agree_on(back ? go_back_to_the_beginning() : Result<void>{}));
}

void Session::Impl::wait() {
  require_may_call("wait()");
  require_no_init("wait()");
  require_own_process("wait()");
  end();
  open_memory();
  value_here(engine_->wait());
  report_failures();
}

Verified Session::Impl::verify() {
  require_may_call("verify()");
  require_no_init("verify()");
  require_own_process("verify()");
  end();
  open_memory();
  return value_here(engine_->verify());
}

void Session::Impl::prune(int keep) {
  require_may_call("prune()");
  require_no_init("prune()");
  require_own_process("prune()");
  end();
  open_memory();
  if (keep < 1) throw Error(Code::invalid_argument, cat("prune(", keep, ") would remove every line: keep 1 or more"));
  value_here(engine_->prune(static_cast<std::size_t>(keep)));
}

bool Session::Impl::has_lasting_line() const {
  const std::lock_guard lock(mutex_);
  return has_lasting_line_;
}

/// Lines of other levels count where there is none that outlives a rank.
bool Session::Impl::lasts(const std::string& level) const {
  const auto has_that_name = [&](const auto& config) { return engine::level_name(config) == level; };
  const auto found = std::ranges::find_if(settings_.levels, has_that_name);
  return (found != settings_.levels.end() && engine::outlives_a_rank(*found)) ||
         std::ranges::none_of(settings_.levels, engine::outlives_a_rank);
}

Status Session::Impl::status() const {
  const std::lock_guard lock(mutex_);
  Status out = counters_;
  // Of one moment with what is counted as committed.
  out.in_flight = captured_before_ + (engine_ ? engine_->captured() : 0) - ended_;
  if (!engine_) return out;  // nothing is in flight any more
  out.staging_bytes = engine_->staging_bytes();
  out.left_out_bytes = engine_->left_out_bytes();
  return out;
}

/// While others are waited for.
void Session::Impl::say_of_others(const std::string& sentence) {
  journal_->event("late", {api::Journal::text("what", sentence)});
  journal_->say_of_others(sentence);
}

namespace {
std::string without_numbers(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}
constexpr std::size_t most_reasons = 32;  // that are known of a level; a job of days may meet many
}  // namespace

/// On the background thread, after each line.
void Session::Impl::settled(const engine::Settled& s, const std::string& level) {
  const auto line = api::Journal::number("line", static_cast<double>(s.line));
  const auto where = api::Journal::text("level", level);
  const auto call = api::Journal::number("call", static_cast<double>(s.call));
  if (s.bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (!s.of_statics) {
        ++counters_.committed;
        has_lasting_line_ = has_lasting_line_ || lasts(level);
        ended_ += s.last ? 1 : 0;
        counters_.newest_line = std::max(counters_.newest_line, s.line);
      }
      reasons_.erase(level);
    }
    journal_->event("commit", {line, where, call, api::Journal::number("seconds", s.seconds),
                               api::Journal::number("bytes", static_cast<double>(*s.bytes))});
    journal_->detail(cat("line ", s.line, " is whole at level ", level, ": ",
                         human_bytes(static_cast<double>(*s.bytes)), " in ", human_seconds(s.seconds)));
    return;
  }
  if (a_rank_is_lost()) {  // the loss is what is said
    const std::lock_guard lock(mutex_);
    ended_ += s.last && !s.surplus && !s.of_statics ? 1 : 0;
    return;
  }
  Failure failure = s.bytes.failure();
  const std::string why = failure.what;
  const std::string_view what = s.surplus ? " is whole, but an older line could not be removed" : " was given up";
  failure.what =
      cat("line ", s.line, " at level ", level, what, ": ", why,
          failure.code == Code::not_found
              ? "; what it was written into was removed, and earlier lines may have gone with it: if the next "
                "ones are given up, too, start the job again"
          : s.surplus && failure.code == Code::permission ? "; it takes room until it is removed"
          : s.surplus                                     ? "; it takes room until that succeeds, at a later line"
                                                          : "; earlier lines are as they were");
  const std::vector fields{line, where, call, api::Journal::text("why", failure.what)};
  if (s.surplus)
    journal_->event_of_rank("leftover", fields);
  else
    journal_->event("failed", fields);
  const std::lock_guard lock(mutex_);
  if (!s.surplus) {
    ++counters_.failed;
    ended_ += s.last && !s.of_statics ? 1 : 0;
  }
  counters_.last_error = failure.what;
  std::string said = failure.what;
  // Of lines, ranks, offsets. Reasons may take turns: a full disk is met by one file and by another.
  auto& reasons = reasons_[s.surplus ? level + ", older lines" : level];
  if (reasons.size() == most_reasons) reasons.clear();
  auto& reason = reasons[without_numbers(why)];
  if (++reason.times == 1) reason.line = s.line;
  if (reason.times > 1)  // the 2nd, 4th, 8th ... time: a job of days must not fill its log with one sentence
    said = std::has_single_bit(reason.times)
               ? cat("line ", s.line, " at level ", level, what, " for the same reason as line ", reason.line, " (",
                     reason.times, " times so far)")
               : std::string();
  failures_.push_back({std::move(failure), std::move(said), s.surplus});
}

// ---- close -----------------------------------------------------------------------------------------------------

namespace {
[[maybe_unused]] constexpr const char* left_alone =
    "this rank left loop() by an error, and not all others came to close the session: this process ends; to the others "
    "it is lost";
[[maybe_unused]] constexpr const char* refused_alone =
    "this rank was refused a computation, and not all others came to close the session: this process ends";
}  // namespace

void Session::Impl::say_not_closed() const {
  journal_->insist(
      "the session was to be closed from within checkpoint() or resume(), or another call that calls the program, and "
      "was not: close it behind that call");
}

void Session::Impl::meet_to_close() {
  if (a_rank_is_lost() || is_lost_) return;
  // An exception may leave one rank only. Where it can be replaced, its end is what the others notice.
  if (std::uncaught_exceptions() > 0) {
#if BACKSTAY_HAVE_MPI
    if (crew_) comm::leaving::others_may_not_come();
    if (repairs()) return;
#endif
    return engine_->announce_close(false);
  }
#if BACKSTAY_HAVE_MPI
  // The others come here if all have met the same error. If this rank alone has, they may wait for it in the program's
  // own communication for ever; once it is lost it can be replaced.
  std::optional<comm::Watch> watch;
  const char* const why = left_by_error_ && repairs() ? left_alone : refused_ ? refused_alone : nullptr;
  if (why != nullptr) watch.emplace(milliseconds(settings_.timeout), why);
#endif
  const auto met = engine_->meet_to_close();
  if (met || a_rank_is_lost()) return;
  journal_->say_of_others(met.failure().what);
#if BACKSTAY_HAVE_MPI
  if (why == nullptr) return;
  // They went on in another call, and will wait for it in the program's communication next.
  journal_->insist(why);
  comm::leaving::end_noticed("with status " + std::to_string(EXIT_FAILURE), EXIT_FAILURE);
#endif
}

bool Session::Impl::close() {
  if (getpid() != process_) return false;
#if BACKSTAY_HAVE_MPI
  {
    const std::lock_guard lock(open_ones().mutex);
    open_ones().sessions.erase(this);
  }
#endif
  is_closed_ = true;
  if (engine_) ended_by_ = {Code::invalid_argument, "it was closed"};
  if (checker_) checker_->drop();
  if (observer_) observer_->close(*journal_, rank);
  end();
  if (!engine_) {
#if BACKSTAY_HAVE_MPI
    // A repair has failed, as where a rank stands still: MPI would wait for that one.
    if (crew_ && !crew_is_gone_) comm::leaving::others_may_not_come();
#endif
    return true;
  }
  try {
    if (std::uncaught_exceptions() == 0) require_arrival();
  } catch (const Error& e) {
    journal_->say(e.what());
    if (!went_astray_) api::fail_at_exit();  // else it was told in time that it computes nothing
  }
  say_advice();
  if (checker_) checker_->sum_up(*journal_, rank);
  meet_to_close();
  engine_->give_up_undecided();
  const auto waited = engine_->drain();
  try {
    settings_.throw_errors = false;  // a destructor says it, and does not throw
    report_failures();
  } catch (...) {
  }
  if (!waited) {
    journal_->insist(waited.failure().what);  // whichever leaves first: the launcher then ends the others
    engine_->leave();
    api::fail_at_exit();
  }
  const auto ends_by = [this] {
    return signals_ && std::uncaught_exceptions() == 0 ? api::SignalListener::ends_the_process() : 0;
  };
  if (ends_by() != 0)
    journal_->say("a signal that asked for the end came after the last checkpoint(): it ends the program now");
  if (let_spares_go()) say_that_it_ended();
  if (ends_by() != 0) api::tell_launcher(cat("left ", 128 + ends_by()));
  if (!waited) signals_.reset();  // the rest of this session stays as long as the process
  return waited.ok();
}

void Session::Impl::say_that_it_ended() const {
#if BACKSTAY_HAVE_MPI
  if (crew_ && rank == 0 && !crew_->repairs()) tell_that_all_came(settings_.dir, settings_.name);  // nobody meets later
#endif
  const double by_first = counters_.taken < 2 ? counters_.blocked_seconds : blocked_by_first_;
  journal_->event(stopping() ? "stop" : "end", {api::Journal::number("taken", static_cast<double>(counters_.taken)),
                                                api::Journal::number("blocked_seconds", counters_.blocked_seconds),
                                                api::Journal::number("blocked_by_first_seconds", by_first),
                                                api::Journal::number("processes", processes_)});
}

Session::Impl::~Impl() = default;

void Session::Impl::end_all() {
  engine_.reset();
#if BACKSTAY_HAVE_MPI
  if (!is_inside()) crew_.reset();
  int finalized = 0;
  if (finalize_) MPI_Finalized(&finalized);
  // While an exception leaves one rank only, MPI_Finalize would wait for the others for ever; and where the job is
  // lost, for those who go without it.
  if (finalize_ && finalized == 0 && !is_lost_ && std::uncaught_exceptions() == 0) comm::leaving::finalize();
#endif
}

}  // namespace backstay
