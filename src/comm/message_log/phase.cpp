#include "comm/message_log/phase.h"

#include <memory>
#include <thread>
#include <unordered_set>

#include "comm/message_log.h"
#include "comm/mpi_operation.h"
#include "comm/ulfm.h"

namespace backstay::comm::message_log {

std::atomic<bool> calls_are_watched{false};

namespace {
/// At most one in a process, guarded by phase_mutex(); the thread that began it reads it without.
std::unique_ptr<Phase>& present_phase() {
  static auto* const phase = new std::unique_ptr<Phase>;
  return *phase;
}

/// Communicators of replays that have ended, guarded by phase_mutex().
std::unordered_set<MPI_Comm>& left_over() {
  static auto* const comms = new std::unordered_set<MPI_Comm>;
  return *comms;
}

thread_local Phase* phase_of_thread = nullptr;
thread_local int unseen_depth = 0;

constexpr const char* same_calls =
    ": a phase that is replayed must make the MPI calls of its recording, so what it does may depend on its arguments "
    "and on what MPI gave it, not on times, files that have changed, or what other ranks did since";

std::string name_of(std::int64_t comm) {
  if (comm == workers_number) return "the communicator of the workers";
  if (comm == self_number) return "MPI_COMM_SELF";
  if (comm == other_number) return "a communicator that is not of the phase";
  return cat("communicator ", comm - self_number, " of those that the phase made");
}

std::string sentence_of(std::string_view name, std::int64_t comm, std::string_view words, const Facts& facts) {
  std::string out(name);
  std::size_t next = 0;
  if (!words.empty()) out += ' ';
  for (const char c : words) {
    if (c == '%' && next < facts.size())
      out += std::to_string(facts[next++]);
    else
      out += c;
  }
  return cat(out, " in ", name_of(comm));
}

/// Recording: what an exception, or an error, leaves is of no use.
class Recorded {
 public:
  Recorded(Phase& phase, const char* name) : phase_(phase), name_(name) {}
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() {
    if (!ended_) phase_.give_up(cat(name_, " was left by an exception while its phase was recorded"));
  }
  /// There is something to record.
  bool returned(int code) {
    if (code != MPI_SUCCESS)
      phase_.give_up(cat(name_, " failed while its phase was recorded: ", check(code).failure().what));
    ended_ = code != MPI_SUCCESS || phase_.in_vain;
    return !ended_;
  }
  void ended() { ended_ = true; }

 private:
  Phase& phase_;
  const char* name_;
  bool ended_ = false;
};

int record(Phase& phase, const Call& call, const Real& real, const Exchange& exchange) {
  const Member* const known = phase.find(call.comm);
  const std::int64_t number = known == nullptr ? other_number : known->number;
  const Unseen unseen;
  Recorded recorded(phase, call.name);
  const int code = real();
  if (!recorded.returned(code)) return code;
  Flow flow(&phase, Flow::Way::in);
  phase.writer.begin(call.name, number, call.facts);
  exchange(flow);
  phase.writer.end(flow.is_idle());
  recorded.ended();
  ++phase.calls;
  return code;
}

void check_log(Phase& phase) {
  if (phase.reader.complete() || phase.in_vain) return;
  phase.damaged = true;
  phase.give_up("a message log is damaged: an entry ends too early; it cannot be replayed");
}

/// The next entry is of this call.
bool agrees(Phase& phase, const Call& call) {
  const Member* const known = phase.find(call.comm);
  const std::int64_t number = known == nullptr ? other_number : known->number;
  const auto here = [&] { return sentence_of(call.name, number, call.words, call.facts); };
  if (phase.reader.at_end()) {
    phase.give_up(cat("the phase makes more MPI calls than the ", phase.calls, " of its recording; the first one is ",
                      here(), same_calls));
    return false;
  }
  const auto head = phase.reader.begin();
  check_log(phase);
  if (phase.in_vain) return false;
  if (head.name == call.name && head.comm == number && head.facts == call.facts) return true;
  const bool same_words = head.name == call.name && head.facts.size() == call.facts.size();
  const auto there = sentence_of(head.name, head.comm, same_words ? call.words : "", head.facts);
  phase.give_up(cat("MPI call ", phase.calls + 1, " of the phase is ", here(), ", and in its recording it was ", there,
                    same_calls));
  return false;
}

int replay(Phase& phase, const Call& call, const Exchange& exchange) {
  const Unseen unseen;
  if (agrees(phase, call)) {
    Flow flow(&phase, Flow::Way::out);
    exchange(flow);
    if (!flow.failed()) phase.reader.end(flow.is_idle());
    check_log(phase);
    ++phase.calls;
    if (!phase.in_vain) return MPI_SUCCESS;
  }
  Flow nothing(nullptr, Flow::Way::failed);
  exchange(nothing);
  return fail_call(call.comm);
}

/// Of a communicator that is not of the phase; null handles are left to MPI.
bool has_others(MPI_Comm comm) {
  int size = 0, inter = 0;
  const Unseen unseen;
  return comm != MPI_COMM_NULL && PMPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS &&
         PMPI_Comm_size(comm, &size) == MPI_SUCCESS && (size > 1 || inter != 0);
}

/// Of `all`, which is freed.
bool has_strangers(const Phase& phase, MPI_Group all) {
  MPI_Group strangers = MPI_GROUP_NULL;
  int size = 0;
  if (PMPI_Group_difference(all, phase.group, &strangers) == MPI_SUCCESS) {
    PMPI_Group_size(strangers, &size);
    if (strangers != MPI_GROUP_EMPTY) PMPI_Group_free(&strangers);
  }
  PMPI_Group_free(&all);
  return size > 0;
}

/// Processes that are not of the phase, and may never make this call: spares.
bool reaches_beyond(const Phase& phase, MPI_Comm comm) {
  const Unseen unseen;
  int inter = 0;
  MPI_Group all = MPI_GROUP_NULL;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || PMPI_Comm_group(comm, &all) != MPI_SUCCESS) return false;
  if (has_strangers(phase, all)) return true;
  return inter != 0 && PMPI_Comm_remote_group(comm, &all) == MPI_SUCCESS && has_strangers(phase, all);
}

/// A thread that is not of the phase, or after one.
Way way_of_stranger(MPI_Comm comm, Use use, const char* name) {
  const std::lock_guard lock(phase_mutex());
  if (left_over().contains(comm)) return use == Use::asks ? Way::pass : Way::refuse;
  Phase* const phase = present_phase().get();
  const Member* const known = phase == nullptr ? nullptr : phase->find(comm);
  if (known == nullptr || known->number == self_number) return Way::pass;
  phase->give_up_unlocked(cat("another thread called ", name, " in ", name_of(known->number),
                              "; only the thread that began the phase may use it"));
  return phase->replays ? Way::refuse : Way::pass;
}

/// Communication in what is not of the phase.
Way way_outside(Phase& phase, MPI_Comm comm, Use use, const char* name) {
  if (use == Use::asks) return Way::pass;
  if (use == Use::asks_size) {
    if (phase.in_vain) return Way::pass;
    return phase.replays ? Way::replay : Way::record;
  }
  if (comm == MPI_COMM_NULL || (use == Use::communicates && !has_others(comm))) return Way::pass;
  const bool hangs = !phase.replays && reaches_beyond(phase, comm);
  if (hangs && !phase.in_vain && phase.say)
    phase.say(cat(name, " was called inside init() in a communicator that has more processes than the ranks",
                  comm == MPI_COMM_WORLD ? " (MPI_COMM_WORLD)" : "",
                  ": spares never make that call, so it is not made; use comm(), or what is made from it"));
  phase.give_up(
      cat("the phase called ", name, " in a communicator that was neither given to it nor made from that one",
          comm == MPI_COMM_WORLD ? " (MPI_COMM_WORLD)" : "",
          ": a log holds only what comes through those; give the phase that one, or make what it needs in it"));
  return phase.replays || hangs ? Way::refuse : Way::pass;
}
}  // namespace

std::mutex& phase_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

Phase* present_phase_unlocked() { return present_phase().get(); }
Phase* own_phase() { return phase_of_thread; }
bool is_unseen() { return unseen_depth > 0 || OurCall::is_under_way(); }

Unseen::Unseen() { ++unseen_depth; }
Unseen::~Unseen() { --unseen_depth; }

void Phase::give_up_unlocked(std::string reason) {
  if (in_vain) return;
  why = std::move(reason);
  in_vain = true;
}

void Phase::give_up(std::string reason) {
  const std::lock_guard lock(phase_mutex());
  give_up_unlocked(std::move(reason));
}

void Phase::add(MPI_Comm comm, Member member) {
  const std::lock_guard lock(phase_mutex());
  comms[comm] = std::move(member);
}

const Member* Phase::find(MPI_Comm comm) const {
  const auto found = comms.find(comm);
  return found == comms.end() ? nullptr : &found->second;
}

Way way_of(MPI_Comm comm, Use use, const char* name) {
  if (is_unseen()) return Way::pass;
  Phase* const phase = own_phase();
  if (phase == nullptr) return way_of_stranger(comm, use, name);
  if (phase->find(comm) == nullptr) return way_outside(*phase, comm, use, name);
  if (!phase->replays && phase->in_vain) return Way::pass;
  if (!phase->replays) return Way::record;
  return phase->in_vain ? Way::refuse : Way::replay;
}

int carry_out(Way way, const Call& call, const Real& real, const Exchange& exchange) {
  if (way == Way::pass) return real();
  if (way == Way::record) return record(*own_phase(), call, real, exchange);
  if (way == Way::replay) return replay(*own_phase(), call, exchange);
  Flow nothing(nullptr, Flow::Way::failed);
  exchange(nothing);
  return fail_call(call.comm);
}

int logged(const Call& call, const Real& real, const Exchange& exchange) {
  return carry_out(way_of(call.comm, call.use, call.name), call, real, exchange);
}

int refused(const char* name, MPI_Comm comm, const Real& real) {
  const Way way = way_of(comm, Use::communicates, name);
  if (way == Way::pass) return real();
  if (way != Way::refuse)
    own_phase()->give_up(
        cat("the phase called ", name, ", which a message log cannot answer; call it before the phase or after it"));
  return way == Way::record ? real() : fail_call(comm);
}

/// Through the error handler, unless that ends the job: stop_replay() has something to say first.
int fail_call(MPI_Comm comm) {
  const Unseen unseen;
  const Phase* const phase = own_phase();
  if (phase != nullptr && !phase->replays) return MPI_ERR_OTHER;  // stop_recording() says why
  if (phase != nullptr && phase->find(comm) == nullptr) comm = phase->workers;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (phase != nullptr && comm == phase->alias) comm = phase->workers;
  if (comm == MPI_COMM_NULL || PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return MPI_ERR_OTHER;
  bool calls = handler != MPI_ERRORS_ARE_FATAL && handler != MPI_ERRORS_RETURN && handler != MPI_ERRHANDLER_NULL;
#ifdef MPI_ERRORS_ABORT
  calls = calls && handler != MPI_ERRORS_ABORT;
#endif
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  if (calls) PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

namespace {
Result<Phase*> begin_phase(bool replays) {
  const std::lock_guard lock(phase_mutex());
  if (present_phase() != nullptr)
    return fail(Code::invalid_argument, "a phase is recorded or replayed in this process already: end that one first");
  present_phase() = std::make_unique<Phase>();
  present_phase()->replays = replays;
  phase_of_thread = present_phase().get();
  calls_are_watched = true;
  return phase_of_thread;
}

Result<std::unique_ptr<Phase>> end_phase(bool replays) {
  if (phase_of_thread == nullptr || phase_of_thread->replays != replays)
    return fail(Code::invalid_argument, "this thread has not begun to ", replays ? "replay" : "record", " a phase");
  const std::lock_guard lock(phase_mutex());
  phase_of_thread = nullptr;
  calls_are_watched = !left_over().empty();
  return std::move(present_phase());
}

Member self_member(const Member& workers) {
  Member self;
  self.number = self_number;
  self.size = 1;
  self.ranks = {workers.rank};
  return self;
}

/// What is still under way when a recording ends.
void check_requests(Phase& phase) {
  for (const auto& [request, shared] : phase.requests)
    for (const auto& pending : shared.pending)
      if (pending.active)
        phase.give_up(cat("an operation that ", pending.name,
                          " started in the phase is still under way at its end; complete it in the phase"));
      else if (pending.persistent)
        phase.give_up(
            cat("the phase leaves a request behind that ", pending.name,
                " made: a repair ends its communicator, so free it in the phase, and make those that are used "
                "later inside loop()"));
  for (const auto& [comm, member] : phase.comms)
    if (member.number > self_number)
      phase.give_up(
          "the phase leaves a communicator behind that it made: a repair ends communicators, so free it in the phase, "
          "and make those that are used later inside loop()");
  if (!phase.messages.empty())
    phase.give_up("a message that was probed for in the phase was not received in it; receive it there");
}

/// What is used later must not run in one process as if that were all. MPI refuses what is revoked; without that, calls
/// are watched as long as something is left.
void leave_stand_ins(Phase& phase) {
  for (auto& [request, shared] : phase.requests) PMPI_Grequest_complete(request);
  const bool can_revoke = survives_losses();
  for (const auto& [comm, member] : phase.comms) {
    if (member.number == self_number || comm == phase.alias) continue;
    if (can_revoke) {
      revoke(comm);
    } else if (comm != phase.workers) {
      const std::lock_guard lock(phase_mutex());
      left_over().insert(comm);
    }
  }
  if (!can_revoke && phase.find(phase.workers) != nullptr) PMPI_Comm_free(&phase.workers);
}
}  // namespace

void forget_left_over(MPI_Comm comm) {
  const std::lock_guard lock(phase_mutex());
  if (left_over().erase(comm) > 0) calls_are_watched = present_phase() != nullptr || !left_over().empty();
}

Result<void> start_recording(MPI_Comm workers, std::function<void(const std::string&)> say) {
  const Unseen unseen;
  int inter = 0;
  BACKSTAY_TRY(check(PMPI_Comm_test_inter(workers, &inter)));
  if (inter != 0) return fail(Code::invalid_argument, "a phase cannot be recorded in an intercommunicator");
  auto begun = begin_phase(false);
  if (!begun) return begun.failure();
  Phase& phase = **begun;
  phase.workers = workers;
  phase.say = std::move(say);
  PMPI_Comm_group(workers, &phase.group);
  Member member = describe(phase, workers);
  Flow flow(&phase, Flow::Way::in);
  phase.writer.begin("the beginning", workers_number, {});
  exchange_member(flow, member);
  phase.writer.end(false);
  phase.add(MPI_COMM_SELF, self_member(member));
  phase.add(workers, std::move(member));
  return {};
}

Result<Bytes> stop_recording() {
  const Unseen unseen;
  if (Phase* const phase = own_phase(); phase != nullptr && !phase->replays && !phase->in_vain) check_requests(*phase);
  auto ended = end_phase(false);
  if (!ended) return ended.failure();
  Phase& phase = **ended;
  if (phase.in_vain) return fail(Code::invalid_argument, "the phase cannot be replayed: ", phase.why);
  return seal(phase.writer.take());
}

Result<MPI_Comm> start_replay(ByteView log, MPI_Comm workers) {
  const Unseen unseen;
  auto raw = unseal(log);
  if (!raw) return raw.failure();
  auto begun = begin_phase(true);
  if (!begun) return begun.failure();
  Phase& phase = **begun;
  phase.reader = LogReader(std::move(*raw));
  Member member;
  (void)phase.reader.begin();
  Flow flow(&phase, Flow::Way::out);
  exchange_member(flow, member);
  phase.reader.end(false);
  const bool whole = !flow.failed() && phase.reader.complete();
  const auto made = whole ? check(PMPI_Comm_split(MPI_COMM_SELF, 0, 0, &phase.workers))
                          : fail(Code::corrupt, "a message log is damaged: its beginning is incomplete");
  if (!made) {
    (void)end_phase(true);
    return made.failure();
  }
  PMPI_Comm_set_errhandler(phase.workers, MPI_ERRORS_RETURN);
  phase.add(MPI_COMM_SELF, self_member(member));
  phase.alias = workers;
  if (workers != MPI_COMM_NULL) phase.add(workers, member);
  phase.add(phase.workers, std::move(member));
  return phase.workers;
}

bool all_were_answered() {
  const Phase* const phase = own_phase();
  return phase != nullptr && phase->replays && !phase->in_vain;
}

Result<void> stop_replay() {
  const Unseen unseen;
  if (Phase* const phase = own_phase(); phase != nullptr && phase->replays) {
    if (!phase->in_vain && !phase->reader.at_end()) {
      const auto head = phase->reader.begin();
      phase->give_up(cat("the phase makes fewer MPI calls than in its recording: after ", phase->calls,
                         " of them comes ", sentence_of(head.name, head.comm, "", {}), same_calls));
    }
    leave_stand_ins(*phase);
  }
  auto ended = end_phase(true);
  if (!ended) return ended.failure();
  const Phase& phase = **ended;
  if (!phase.in_vain) return {};
  if (phase.damaged) return fail(Code::corrupt, phase.why);
  return fail(Code::mismatch, "the replay of a phase went wrong: ", phase.why);
}

}  // namespace backstay::comm::message_log
