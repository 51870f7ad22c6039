#include "comm/crew.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "base/flush.h"
#include "comm/leaving.h"
#include "comm/message_log.h"
#include "comm/mpi_operation.h"
#include "comm/open_requests.h"
#include "comm/patience.h"
#include "comm/ulfm.h"
#include "comm/unready_communicators.h"
#include "comm/unwinding.h"
#include "comm/watch.h"

namespace backstay::comm {

namespace {
/// An MPI error handler gets nothing but the communicator. Spares belong to a whole job, so a process has one crew.
std::atomic<Crew*> crew_of_this_process{nullptr};
std::atomic<bool> was_mustered{false};

constexpr int nobody_failed = 1;

int flags_of(Word word) {
  if (word == Word::closing || word == Word::waiting) return leaving::all_are_closing;
  return word == Word::failed ? 0 : nobody_failed;
}
static_assert((leaving::all_are_closing & nobody_failed) != 0);

Failure cannot_go_on(const char* what, const Failure& why) {
  return fail(Code::rank_lost, "after the loss of a rank, ", what,
              " failed, so the job cannot go on by itself: ", why.what,
              "; start it again: it goes on from the newest line that is left, or from its beginning");
}
}  // namespace

Result<std::unique_ptr<Crew>> Crew::muster(MPI_Comm all, const CrewOptions& options) {
  int size = 0;
  MPI_Comm_size(all, &size);
  if (options.spares >= size)
    return fail(Code::invalid_argument, "the option spares is ", options.spares, " and the job has ", size,
                " processes: at least one must work");
  const OurCall ours;
  MPI_Comm own = MPI_COMM_NULL;
  {
    const ErrorsReturn errors_return(all);
    BACKSTAY_TRY(check(MPI_Comm_dup(all, &own)));
  }
  std::unique_ptr<Crew> crew(new Crew(options, own));
  Crew* none = nullptr;
  if (!crew_of_this_process.compare_exchange_strong(none, crew.get()))
    return fail(Code::invalid_argument, "there is a session with spares already: one in a program may have them");
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &crew->usual_handler_);
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  MPI_Comm_rank(own, &crew->number_);
  crew->repairs_ = survives_losses();
  crew->worker_count_ = size - options.spares;
  BACKSTAY_TRY(crew->choose_rank());
  crew->began_as_spare_ = crew->rank_ < 0;
  BACKSTAY_TRY(check(MPI_Comm_create_errhandler(on_error, &crew->handler_)));
  BACKSTAY_TRY(check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_freed, &crew->freed_key_, nullptr)));
  if (crew->repairs_) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, crew->handler_);
    OpenRequests::note_from_now_on();
  }
  leaving::others_count_on_me(own, options.timeout, crew->repairs_);
  MPI_Comm workers = MPI_COMM_NULL;
  BACKSTAY_TRY(crew->split_workers(own, crew->rank_, workers));
  crew->adopt(workers);
  was_mustered = true;
  return crew;
}

Crew::~Crew() {
  Crew* self = this;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (crew_of_this_process.compare_exchange_strong(self, nullptr) && finalized == 0)
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, usual_handler_);
}

Result<void> Crew::choose_rank() {
  std::vector<std::uint64_t> claims(static_cast<std::size_t>(worker_count_ + options_.spares));
  BACKSTAY_TRY(check(MPI_Allgather(&options_.claim, 1, MPI_UINT64_T, claims.data(), 1, MPI_UINT64_T, all_)));
  std::vector<int> numbers(claims.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::stable_sort(numbers.begin(), numbers.end(), [&](int a, int b) {
    return claims[static_cast<std::size_t>(a)] > claims[static_cast<std::size_t>(b)];
  });
  const auto last = numbers.begin() + worker_count_;
  works_.assign(claims.size(), false);
  for (auto number = numbers.begin(); number != last; ++number) works_[static_cast<std::size_t>(*number)] = true;
  if (std::find(numbers.begin(), last, number_) != last)
    rank_ = static_cast<int>(std::count_if(numbers.begin(), last, [&](int number) { return number < number_; }));
  return {};
}

Result<void> Crew::split_workers(MPI_Comm among, int rank, MPI_Comm& out) const {
  const OurCall ours;
  return check(MPI_Comm_split(among, rank < 0 ? MPI_UNDEFINED : 0, std::max(rank, 0), &out));
}

/// From now on `workers` is the communicator of the ranks.
void Crew::adopt(MPI_Comm workers) {
  workers_ = workers;
  leaving::is_one_of(workers);
  {
    const std::lock_guard lock(alarm_mutex_);
    alarm_ = std::make_shared<Alarm>();
  }
  if (workers_ == MPI_COMM_NULL) return;
  MPI_Comm_set_errhandler(workers_, repairs_ ? handler_ : MPI_ERRORS_ARE_FATAL);
  alarm()->watch(workers_);
}

// ---- what the program sees -------------------------------------------------------------------------------------

void Crew::on_error(MPI_Comm* comm, int* code, ...) {
  if (Crew* crew = crew_of_this_process)
    crew->heard(*comm, *code);
  else if (*comm != MPI_COMM_WORLD)
    MPI_Comm_call_errhandler(MPI_COMM_WORLD, *code);
}

bool is_of_all_processes(MPI_Comm comm) {
  int same = MPI_UNEQUAL;
  if (comm != MPI_COMM_NULL) MPI_Comm_compare(comm, MPI_COMM_WORLD, &same);
  return same == MPI_IDENT || same == MPI_CONGRUENT;
}

Crew* Crew::present() { return crew_of_this_process; }

bool Crew::was_there() { return was_mustered; }

int Crew::spares_left() const {
  int all = 0, ranks = 0;
  MPI_Comm_size(all_, &all);
  if (workers_ != MPI_COMM_NULL) MPI_Comm_size(workers_, &ranks);
  return all - ranks;
}

void Crew::note_made(MPI_Comm from, MPI_Comm made) {
  if (!repairs_ || made == MPI_COMM_NULL || OurCall::is_under_way()) return;
  if (!is_ours(from)) return;
  MPI_Comm_set_errhandler(made, handler_);
  note(made);
}

void Crew::include(MPI_Comm made) {
  if (!repairs_ || made == MPI_COMM_NULL || made == workers_) return;
  const OurCall ours;
  MPI_Comm_set_attr(made, freed_key_, nullptr);
  MPI_Comm_set_errhandler(made, handler_);
  note(made);
}

int Crew::on_freed(MPI_Comm comm, int /*key*/, void* /*value*/, void* /*state*/) {
  if (Crew* const crew = crew_of_this_process) crew->note_freed(comm);
  return MPI_SUCCESS;
}

/// The program made it from ours, as far as that was seen.
bool Crew::is_ours(MPI_Comm comm) const {
  const auto alarm = this->alarm();
  return alarm->watches(comm) || (alarm->expects_any() && alarm->may_be_expected(comm));
}

void Crew::note(MPI_Comm made) {
  alarm()->watch(made);
  const std::lock_guard lock(alarm_mutex_);
  made_.emplace_back(made, repairs_done_);
}

void Crew::note_unseen_making(MPI_Comm from) {
  if (repairs_ && !OurCall::is_under_way() && is_ours(from)) alarm()->expect_one_of(from);
}

void Crew::note_made_of(MPI_Group group, MPI_Comm made) {
  if (!repairs_ || made == MPI_COMM_NULL || OurCall::is_under_way()) return;
  MPI_Group workers = MPI_GROUP_NULL, common = MPI_GROUP_NULL;
  int same = MPI_UNEQUAL;
  MPI_Comm_group(workers_, &workers);
  MPI_Group_intersection(group, workers, &common);
  MPI_Group_compare(common, group, &same);
  MPI_Group_free(&workers);
  if (common != MPI_GROUP_EMPTY) MPI_Group_free(&common);
  if (same != MPI_UNEQUAL) note(made);  // with the error handler that the program has named
}

void Crew::note_freed(MPI_Comm made) {
  alarm()->forget(made);
  const std::lock_guard lock(alarm_mutex_);
  std::erase_if(made_, [made](const auto& entry) { return entry.first == made; });
}

std::unique_ptr<Watch> Crew::watch_over_making() const {
  if (!began_as_spare_ || repairs_done_ == 0 || OurCall::is_under_way()) return nullptr;
  return std::make_unique<Watch>(
      2 * options_.timeout,
      "this process took the place of a lost rank, and has waited for others in the making of a communicator for twice "
      "the option timeout: they keep one of before the repair; it ends. Let all ranks make communicators anew inside "
      "the "
      "body of loop()");
}

bool Crew::may_free(MPI_Comm made) const {
  const bool has_rung = alarm()->rung();
  const std::lock_guard lock(alarm_mutex_);
  const auto noted =
      std::find_if(made_.begin(), made_.end(), [made](const auto& entry) { return entry.first == made; });
  return noted == made_.end() || (noted->second == repairs_done_ && !has_rung);
}

bool Crew::keeps_communicators_of_before() const {
  const std::lock_guard lock(alarm_mutex_);
  const auto is_new = [this](const auto& entry) { return entry.second == repairs_done_; };
  return !made_.empty() && std::none_of(made_.begin(), made_.end(), is_new);
}

void Crew::heard(MPI_Comm comm, int code) {
  if (OurCall::is_under_way()) return;
  OpenRequests::met_an_error();
  if (!tells_of_a_loss(code) && !comes_of_a_loss(comm, code)) return pass_on(code);
  alarm()->ring();
  if (comm != MPI_COMM_WORLD) revoke(comm);  // one that the program made from ours
  settle();
  const auto catcher = catcher_.load();
  const auto can_throw = [&] { return std::uncaught_exceptions() == 0 && !ends_at_noexcept(catches_in_); };
  if (catcher == std::this_thread::get_id() && can_throw()) throw RankLost{};
  // Destructors, whether on the way to loop() or not, and other threads see an error and go on.
  if (catcher == std::thread::id() && !options_.errors_return) pass_on(code);
}

/// Others wait for this rank at the repair, for the option timeout from when they have heard of the loss.
void Crew::settle() const {
  if (!repairs_) return;
  const auto time_to_get_there =
      std::max(options_.timeout / 10, std::min(std::chrono::milliseconds(1000), options_.timeout / 2));
  OpenRequests::settle(alarm()->rung_since() + options_.timeout - time_to_get_there, repairs_done_);
}

/// Open MPI 5.0 has collectives that a loss ends with MPI_ERR_OTHER, those among neighbours with MPI_ERR_IN_STATUS, the
/// making of a window with MPI_ERR_WIN, and it may hear of the loss a moment later, where MPI is called: the probe is
/// for that.
bool Crew::comes_of_a_loss(MPI_Comm comm, int code) const {
  const OurCall ours;
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  const bool may_be_one = kind == MPI_ERR_OTHER || kind == MPI_ERR_INTERN || kind == MPI_ERR_UNKNOWN ||
                          kind == MPI_ERR_IN_STATUS || kind == MPI_ERR_PENDING || kind == MPI_ERR_WIN;
  if (!may_be_one) return alarm()->rung();
  Patience patience(std::chrono::milliseconds(500));
  for (Backoff backoff; !patience.exhausted(); backoff.sleep()) {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
    if (alarm()->rung() || has_a_loss(comm) || has_a_loss(all_)) return true;
  }
  return false;
}

/// To what it would be without us.
void Crew::pass_on(int code) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, usual_handler_);
  MPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler_);
}

// ---- meeting ---------------------------------------------------------------------------------------------------

/// False: a process of `comm` has died, and all who live know that.
Result<bool> Crew::agree(MPI_Comm comm, int& flags, bool bounded) const {
  const OurCall ours;
  auto held = std::make_unique<int>(flags);  // MPI writes there until the request is done
  MPI_Request request = MPI_REQUEST_NULL;
  BACKSTAY_TRY(check(start_agreement(comm, held.get(), &request)));
  Patience patience(options_.timeout);
  const auto lowest = static_cast<int>(std::ranges::find(works_, true) - works_.begin());
  Patience since_a_loss(2 * options_.timeout);  // later than those who know of it lose theirs
  for (Backoff backoff(bounded ? Backoff::usual : Backoff::for_days);; backoff.sleep()) {
    int done = 0;
    const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && done == 0 && !bounded && leaving::ranks_have_ended(comm, lowest)) {
      (void)held.release();
      leaving::nobody_counts_on_me();
      flags = leaving::all_are_closing;
      return true;
    }
    if (code == MPI_SUCCESS && done == 0 && !bounded && knows_of_a_lost_worker() && since_a_loss.exhausted()) {
      (void)held.release();
      return fail(Code::timeout, "a rank was lost, and twice the option timeout (", options_.timeout.count(),
                  " ms) later not all others had come to the repair: they are in an MPI call that does not end, or "
                  "compute without any; the job ends, to be started again");
    }
    if (code == MPI_SUCCESS && done == 0 && bounded && patience.exhausted()) {
      (void)held.release();
      return fail(Code::timeout,
                  "a rank or a spare did not come to the end of loop() or of the session, or to the repair after a "
                  "loss, within ",
                  options_.timeout.count(), " ms (option timeout)");
    }
    if (code == MPI_SUCCESS && done == 0) continue;
    flags = *held;
    if (tells_of_a_loss(code)) return false;
    BACKSTAY_TRY(check(code));
    return true;
  }
}

bool Crew::knows_of_a_loss() const {
  const OurCall ours;
  return is_revoked(workers_) || !known_losses(workers_).empty();
}

/// Nobody but the spares misses a spare: the others go on, and may come to the next meeting in days.
bool Crew::knows_of_a_lost_worker() const {
  const auto lost = known_losses(all_);
  return std::any_of(lost.begin(), lost.end(), [&](int number) { return works_[static_cast<std::size_t>(number)]; });
}

/// Before this process ends: who stands still does not, and may have to be ended.
void Crew::tell_of_standing_still() const {
  if (options_.stuck) call_in_time(options_.stuck);
}

Result<Verdict> Crew::meet(Word word) {
  const auto start = Patience::Clock::now();
  if (word == Word::failed) alarm()->ring();
  if (alarm()->rung()) revoke_duplicates();
  int flags = flags_of(word);
  const auto nobody_died = agree(all_, flags, word != Word::waiting);
  if (!nobody_died) {
    // At the last meeting it may be a spare, which is waited for elsewhere.
    const bool ends_the_work = word == Word::failed || word == Word::finished || knows_of_a_lost_worker();
    if (word != Word::waiting && nobody_died.failure().code == Code::timeout && ends_the_work) tell_of_standing_still();
    return nobody_died.failure();
  }
  Verdict meeting;
  if (*nobody_died && (flags & nobody_failed) != 0) {
    meeting.fate = flags == leaving::all_are_closing ? Fate::closed : Fate::finished;
    return meeting;
  }
  if (!repairs_) return fail(Code::rank_lost, "a rank failed, and this MPI cannot go on without it");
  return repair(word, word == Word::waiting ? Patience::Clock::now() : start);
}

/// Of the communicators that the alarm watches. Those that are made while nobody looks have them: mpi4py reduces Python
/// objects in a hidden one. Who waits there for this rank would wait for ever, as no process of it has died.
void Crew::revoke_duplicates() {
  if (message_log::can_record() && !alarm()->expects_any()) return;  // all makings are seen
  const OurCall ours;
  std::vector<MPI_Comm> hidden;
  for (MPI_Comm comm : all_communicators())
    if (comm != all_ && !is_revoked(comm) && alarm()->watches_one_like(comm)) hidden.push_back(comm);
  if (!hidden.empty()) wait_until_revocable(std::chrono::steady_clock::now());
  for (MPI_Comm comm : hidden) revoke(comm);
}

void Crew::part() {
  int flags = 0;
  (void)agree(all_, flags, true).ok();  // who does not come has died, or is late: there is nothing to wait for
}

// ---- repair ----------------------------------------------------------------------------------------------------

/// What one round comes to, if all get to its end.
struct Crew::Round {
  int me = 0;  ///< among the survivors
  std::vector<Survivor> survivors;
  RepairPlan plan;
  MPI_Comm workers = MPI_COMM_NULL;
};

Result<Verdict> Crew::repair(Word word, Patience::Clock::time_point came) {
  const OurCall ours;
  const auto waited = [](Patience::Clock::time_point since) {
    return std::chrono::duration<double>(Patience::Clock::now() - since).count();
  };
  while (true) {
    MPI_Comm left = MPI_COMM_NULL;
    // It waits for ever where a loss ended the making of a communicator from MPI_COMM_WORLD, and for one who stands
    // still, who would be left alone.
    const Watch watch(
        options_.timeout,
        "after the loss of a rank MPI did not make a communicator of those who are left within the "
        "option timeout, or one of them stands still: this process ends, and the job can be started again",
        [this] { tell_of_standing_still(); });
    if (const auto made = check(shrink(all_, &left)); !made) return cannot_go_on("MPIX_Comm_shrink", made.failure());
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    Round round;
    const auto met = Patience::Clock::now();
    const auto tried = try_repair(left, word, waited(came), round);
    if (!tried) {  // others may wait for this process in there
      wait_until_revocable(std::chrono::steady_clock::now());
      revoke(left);
    }
    int flags = tried ? nobody_failed : 0;
    const auto nobody_died = agree(left, flags, true);
    if (!nobody_died) return cannot_go_on("agreeing", nobody_died.failure());
    leaving::others_count_on_me(left, options_.timeout, true);
    all_ = left;  // also if this round did not come to its end: those who are not in it are dead
    if (!*nobody_died || (flags & nobody_failed) == 0) continue;
    const auto& plan = round.plan;
    if (plan.fate == Fate::lost) leaving::nobody_counts_on_me();
    rank_ = plan.ranks[static_cast<std::size_t>(round.me)];
    worker_count_ = plan.workers;
    works_.clear();
    for (const int rank : plan.ranks) works_.push_back(rank >= 0);
    if (!plan.same_ranks) adopt(round.workers);
    repairs_done_ += plan.fate == Fate::again ? 1 : 0;
    const auto lowest = [&] {
      int out = std::numeric_limits<int>::max();
      for (const auto& survivor : round.survivors)
        if (survivor.rank >= 0) out = std::min(out, survivor.rank);
      return out;
    };
    const bool all_are_spares = lowest() == std::numeric_limits<int>::max();
    const bool speaks =
        all_are_spares ? round.me == 0 : round.survivors[static_cast<std::size_t>(round.me)].rank == lowest();
    double longest = 0;
    for (const auto& survivor : round.survivors) longest = std::max(longest, survivor.waited);
    return Verdict{plan.fate, plan.replaced, plan.anybody_closes, speaks, longest + waited(met)};
  }
}

Result<bool> Crew::try_repair(MPI_Comm among, Word word, double waited, Round& round) const {
  int size = 0;
  MPI_Comm_size(among, &size);
  MPI_Comm_rank(among, &round.me);
  const Survivor mine{number_, rank_, options_.node, word, waited, options_.units, may_roll_back_};
  auto& all = round.survivors;
  all.resize(static_cast<std::size_t>(size));
  BACKSTAY_TRY(check(MPI_Allgather(&mine, sizeof(Survivor), MPI_BYTE, all.data(), sizeof(Survivor), MPI_BYTE, among)));
  round.plan = plan_repair(all, worker_count_, options_.may_shrink);
  if (!round.plan.same_ranks)
    BACKSTAY_TRY(split_workers(among, round.plan.ranks[static_cast<std::size_t>(round.me)], round.workers));
  return true;
}

}  // namespace backstay::comm
