#include "comm/leaving.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "base/flush.h"
#include "comm/patience.h"
#include "comm/ulfm.h"
#include "comm/watch.h"

#if defined(OPEN_MPI)
/// Of Open MPI itself, declared in no header for users.
extern "C" __attribute__((weak)) volatile std::int32_t ompi_mpi_state;
#endif

namespace backstay::comm::leaving {

namespace {
struct Job {
  MPI_Comm all;
  std::chrono::milliseconds bound;
};
std::mutex mutex;
Job job;
MPI_Comm all_ranks = MPI_COMM_NULL;  ///< MPI_COMM_NULL: this is a spare
std::atomic<pid_t> counted_on{0};    ///< this process, not one that it forks; 0: nobody counts on it

/// Guarded by `mutex`; never destroyed: it is for the end of the process.
std::function<void(int)>& tell() {
  static auto* const what = new std::function<void(int)>;
  return *what;
}
/// Guarded by `mutex`; never destroyed, as above.
std::function<void()>& tell_that_all_came() {
  static auto* const what = new std::function<void()>;
  return *what;
}
std::atomic<void (*)()> before_the_end{nullptr};
std::atomic<void (*)()> late_end{nullptr};

/// Guarded by `mutex`; never destroyed, as above.
std::function<void(const std::vector<int>&)>& no_spare() {
  static auto* const what = new std::function<void(const std::vector<int>&)>;
  return *what;
}
bool has_met = false;
std::atomic<bool> alone{false};  ///< the others may not come
std::atomic<bool> is_without_a_rank{false};
std::atomic<bool> lost{false};           ///< the job
std::atomic<bool> waits_no_more{false};  ///< for spares: MPI_Finalize would
std::unique_ptr<Watch> watch;            ///< over MPI_Finalize

#if defined(__GLIBC__)
void at_exit(int status, void*) {
  if (status != 0) end_at_exit(status);
}
// Registered when the library is loaded: what the program registers runs before.
[[maybe_unused]] const int registered = on_exit(at_exit, nullptr);
#endif

bool has_carried_on = false;
struct Left {
  std::shared_ptr<Operation> operation;
  std::chrono::milliseconds bound;
};
/// Guarded by `mutex`; never destroyed: MPI may still write to what it was given.
std::vector<Left>& left_under_way() {
  static auto* const left = new std::vector<Left>;
  return *left;
}

std::atomic<bool> calls_finalize{false};  ///< we do: `counted_on` says how it ended

bool mpi_is_finalized() {
  int finalized = 0;
  return MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0;
}

/// MPI_Finalize has returned, whoever called it. MPI_Finalized() says so much earlier: it may still wait for others.
bool mpi_has_ended() {
#if defined(OPEN_MPI)
  constexpr std::int32_t completed = 5;
  return &ompi_mpi_state != nullptr && ompi_mpi_state >= completed;
#else
  return false;
#endif
}

/// With what status is not told there.
[[maybe_unused]] const int registered_for_quick_exit = std::at_quick_exit([] {
  if (mpi_is_finalized() || !am_counted_on()) return;
  end_noticed("by quick_exit", EXIT_FAILURE);
});

/// In the order in which they were started, which is that of the others.
void carry_on_what_others_may_need() {
  if (mpi_is_finalized()) return;
  std::vector<Left> left;
  {
    const std::lock_guard lock(mutex);
    left = left_under_way();
  }
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [operation, bound] : left) {
    Backoff backoff;
    for (auto done = operation->advance(); done && !*done; done = operation->advance()) {
      if (std::chrono::steady_clock::now() - begin > bound) return;
      backoff.sleep();
    }
  }
}

/// Until all who live are here.
class Meeting {
 public:
  Meeting(MPI_Comm all, int flags) : flags_(flags), held_(std::make_unique<int>(flags)) {
    lost_ = start_agreement(all, held_.get(), &request_) != MPI_SUCCESS;
  }
  ~Meeting() {
    if (!is_over()) (void)held_.release();  // MPI may write there until it is
  }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  bool is_over() {
    if (done_ == 0 && !lost_) lost_ = MPI_Test(&request_, &done_, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    return done_ != 0 || lost_;
  }
  /// Of one that is over: none has died, and all have said the same flags.
  [[nodiscard]] bool all_said_so() const { return !lost_ && *held_ == flags_; }

 private:
  int flags_;
  std::unique_ptr<int> held_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int done_ = 0;
  bool lost_ = false;
};

bool meet(MPI_Comm all, int flags) {
  const OurCall ours;
  Meeting meeting(all, flags);
  for (Backoff backoff(Backoff::for_days); !meeting.is_over(); backoff.sleep()) continue;
  return meeting.all_said_so();
}

constexpr int end_tag = 6;

/// Numbers in `all`.
std::vector<int> numbers_of(MPI_Comm ranks, MPI_Comm all) {
  int size = 0;
  MPI_Comm_size(ranks, &size);
  std::vector<int> own(static_cast<std::size_t>(size)), numbers(own.size());
  std::iota(own.begin(), own.end(), 0);
  MPI_Group of_ranks = MPI_GROUP_NULL, of_all = MPI_GROUP_NULL;
  MPI_Comm_group(ranks, &of_ranks);
  MPI_Comm_group(all, &of_all);
  MPI_Group_translate_ranks(of_ranks, size, own.data(), of_all, numbers.data());
  MPI_Group_free(&of_ranks);
  MPI_Group_free(&of_all);
  return numbers;
}

/// Another spare may be there, which waits with the one that does not come: once ranks have ended it would take them
/// for lost, and end the others. By the lowest rank, which stays until those who look for its message (without bytes,
/// so that it needs no reply) have had the time to find it: it cannot be had of one who is gone.
void tell_spares_of_the_end(MPI_Comm all, MPI_Comm ranks) {
  constexpr std::chrono::milliseconds stay{500};
  const auto numbers = numbers_of(ranks, all);
  int me = 0, size = 0;
  MPI_Comm_rank(all, &me);
  MPI_Comm_size(all, &size);
  if (me != std::ranges::min(numbers)) return;
  std::vector<MPI_Request> sent(static_cast<std::size_t>(size), MPI_REQUEST_NULL);
  for (int other = 0; other < size; ++other)
    if (std::ranges::find(numbers, other) == numbers.end())
      (void)MPI_Isend(nullptr, 0, MPI_BYTE, other, end_tag, all, &sent[static_cast<std::size_t>(other)]);
  int done = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (Backoff backoff; std::chrono::steady_clock::now() - begin < stay; backoff.sleep())
    (void)MPI_Testall(size, sent.data(), &done, MPI_STATUSES_IGNORE);  // one may be to a spare that has died
}

void tell_of_missing_spares(MPI_Comm all, MPI_Comm ranks) {
  std::function<void(const std::vector<int>&)> told;
  {
    const std::lock_guard lock(mutex);
    told = std::move(no_spare());
  }
  if (!told) return;
  auto numbers = numbers_of(all, MPI_COMM_WORLD), of_ranks = numbers_of(ranks, MPI_COMM_WORLD);
  std::ranges::sort(of_ranks);
  std::erase_if(numbers, [&](int number) { return std::ranges::binary_search(of_ranks, number); });
  told(numbers);
}

/// All ranks have come, so it is the spares alone that are waited for. False: they have not come within the bound, and
/// MPI_Finalize would wait for them.
bool meet_spares(const Job& here, MPI_Comm ranks) {
  const OurCall ours;
  Meeting meeting(here.all, 0);
  Patience patience(here.bound);
  for (Backoff backoff(Backoff::for_days); !meeting.is_over(); backoff.sleep()) {
    if (!patience.exhausted()) continue;
    std::fprintf(stderr,
                 "backstay: a spare did not come to the end of MPI, where all ranks are: this process ends without "
                 "MPI_Finalize\n");
    tell_spares_of_the_end(here.all, ranks);
    tell_of_missing_spares(here.all, ranks);
    return false;
  }
  return true;
}

void tell_of_an_end(int status) {
  std::function<void(int)> told;
  {
    const std::lock_guard lock(mutex);
    told = std::move(tell());
  }
  if (told) call_in_time([told, status] { told(status); });
}

/// The lowest of the ranks that are left says what it means.
void note_who_is_there(MPI_Comm ranks, bool all_are_there) {
  auto missing = all_are_there ? std::vector<int>{} : known_losses(ranks);
  std::ranges::sort(missing);
  is_without_a_rank = !missing.empty();
  int me = 0, lowest = 0;
  std::string numbers;
  for (const int rank : missing) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(rank);
    if (rank == lowest) ++lowest;
  }
  MPI_Comm_rank(ranks, &me);
  if (me != lowest) return;
  std::function<void()> told;
  {
    const std::lock_guard lock(mutex);
    told = tell_that_all_came();
  }
  if (all_are_there && told) call_in_time(told);
  if (missing.empty()) return;
  std::fprintf(stderr,
               "backstay: rank %s was lost before it came to the end of MPI: what it still had to do is not done\n",
               numbers.c_str());
  tell_of_an_end(EXIT_FAILURE);
}

/// As the launcher tells the others of an end by a signal.
void end_as_lost(const std::string& sentence, int status) {
  call_in_time([sentence] { std::fprintf(stderr, "backstay: %s\n", sentence.c_str()); });
  tell_of_an_end(status);
  flush_all_files();
  (void)raise(SIGKILL);
}

/// Others that are in loop() take part in no such meeting, or say something else in it.
void meet_to_close(const Job& here) {
  constexpr const char* left_alone =
      "this rank left its session by an error, and not all others came to the end of MPI within the option timeout: "
      "this process ends; to the others it is lost";
  const Watch until_all_come(here.bound, left_alone, [] { tell_of_an_end(EXIT_FAILURE); });
  if (meet(here.all, all_are_closing)) return;
  end_as_lost("this rank left its session by an error, and the others go on or have lost a process: this process ends",
              EXIT_FAILURE);
}
/// For programs that call MPI_Finalize past ours, as those of mpi4py. That of MPI would wait for ever, or for a spare.
int meet_in_mpi_finalize(MPI_Comm /*self*/, int /*key*/, void* /*value*/, void* /*state*/) {
  if (const auto what = before_the_end.load()) what();
  meet_before_the_end();
  if (!lost) return MPI_SUCCESS;
  tell_of_an_end(EXIT_FAILURE);  // the program may have more to do behind it
  std::exit(EXIT_FAILURE);
}
}  // namespace

void others_count_on_me(MPI_Comm all, std::chrono::milliseconds bound, bool noticed) {
  const std::lock_guard lock(mutex);
  job = {all, bound};
  if (!noticed) return;
  counted_on = getpid();
  // What MPI_COMM_SELF has is deleted first of all in MPI_Finalize, which need not be ours.
  static int key = MPI_KEYVAL_INVALID;
  if (key != MPI_KEYVAL_INVALID) return;
  if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, meet_in_mpi_finalize, &key, nullptr) == MPI_SUCCESS)
    (void)MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

void is_one_of(MPI_Comm ranks) {
  const std::lock_guard lock(mutex);
  all_ranks = ranks;
}

void others_may_not_come() { alone = true; }

bool a_rank_did_not_come() { return is_without_a_rank; }

void nobody_counts_on_me() {
  counted_on = 0;
  lost = true;
}

bool job_is_lost() { return lost; }

bool ends_without_spares() { return waits_no_more; }

bool ranks_have_ended(MPI_Comm all, int lowest) {
  int told = 0;
  return MPI_Iprobe(lowest, end_tag, all, &told, MPI_STATUS_IGNORE) == MPI_SUCCESS && told != 0;
}

bool am_counted_on() { return counted_on == getpid(); }

void tell_of_it_by(std::function<void(int)> what) {
  const std::lock_guard lock(mutex);
  tell() = std::move(what);
}

void tell_that_all_have_come_by(std::function<void()> what) {
  const std::lock_guard lock(mutex);
  tell_that_all_came() = std::move(what);
}

void end_noticed(const std::string& how, int status) {
  if (!am_counted_on()) return;
  const int of_eight_bits = status & 0xff;
  end_as_lost("this process ends " + how + " before MPI_Finalize: to the others it is lost",
              of_eight_bits != 0 ? of_eight_bits : EXIT_FAILURE);
}

void end_at_exit(int status) {
  // mpi4py has called MPI_Finalize past us. If it failed, who waits there for this process does so for the bound at
  // most.
  if (!calls_finalize && mpi_is_finalized()) return;
  end_noticed("with status " + std::to_string(status), status);
}

void others_may_need([[maybe_unused]] std::shared_ptr<Operation> operation,
                     [[maybe_unused]] std::chrono::milliseconds bound) {
#if !defined(OPEN_MPI)
  const std::lock_guard lock(mutex);
  left_under_way().push_back({std::move(operation), bound});
#endif
}

void meet_before_the_end() {
  if (!std::exchange(has_carried_on, true)) carry_on_what_others_may_need();
  if ((!am_counted_on() && !alone) || std::exchange(has_met, true) || mpi_is_finalized()) return;
  Job here;
  MPI_Comm ranks = MPI_COMM_NULL;
  {
    const std::lock_guard lock(mutex);
    here = job;
    ranks = all_ranks;
  }
  if (alone) meet_to_close(here);
  if (!am_counted_on()) return;
  // Ranks may come in days, and spares wait for them.
  if (ranks != MPI_COMM_NULL) MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN);
  const bool all_are_there = meet(ranks != MPI_COMM_NULL ? ranks : here.all, 0);
  if (ranks != MPI_COMM_NULL) note_who_is_there(ranks, all_are_there);
  if (ranks != MPI_COMM_NULL && !meet_spares(here, ranks)) {
    waits_no_more = all_are_there;
    return nobody_counts_on_me();
  }
  watch = std::make_unique<Watch>(
      here.bound,
      "MPI_Finalize did not end within the option timeout, as a process has died in it or "
      "does not come to it: this process ends",
      [is_a_spare = ranks == MPI_COMM_NULL] {
        if (const auto what = late_end.load()) what();
        if (!is_a_spare) tell_of_an_end(EXIT_FAILURE);  // what comes behind is not done
      },
      mpi_has_ended);
}

void before_mpi_ends(void (*what)()) { before_the_end = what; }

void where_no_spare_comes(std::function<void(const std::vector<int>&)> what) {
  const std::lock_guard lock(mutex);
  no_spare() = std::move(what);
}

void before_the_late_end(void (*what)()) { late_end = what; }

int finalize() {
  if (const auto what = before_the_end.load()) what();
  if (!lost) meet_before_the_end();
  if (lost) return MPI_SUCCESS;
  calls_finalize = true;
  const int code = PMPI_Finalize();
  watch.reset();
  if (code == MPI_SUCCESS) counted_on = 0;
  return code;
}

}  // namespace backstay::comm::leaving

extern "C" {
#pragma GCC visibility push(default)

int MPI_Finalize() { return backstay::comm::leaving::finalize(); }

#if defined(OPEN_MPI) && defined(__GNUC__)
// Declared in no header for users.
int ompi_mpi_abort(MPI_Comm comm, int code);
int ompi_rte_abort(int code, char* format, ...);

/// What MPI_Abort and MPI's handler for fatal errors come to in Open MPI, when they have said why.
int ompi_mpi_abort(MPI_Comm comm, int code) {
  backstay::comm::leaving::end_noticed("by MPI_Abort with code " + std::to_string(code), code);
  using Abort = int (*)(MPI_Comm, int);
  if (const auto theirs = reinterpret_cast<Abort>(dlsym(RTLD_NEXT, "ompi_mpi_abort"))) return theirs(comm, code);
  std::abort();
}

/// What Open MPI comes to by itself where it sees no way on, as its messages sometimes do while a communicator is being
/// revoked: the process leaves by _exit, of which nobody hears.
int ompi_rte_abort(int code, char* format, ...) {
  std::array<char, 512> why{};
  if (format != nullptr) {
    std::va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(why.data(), why.size(), format, arguments);
    va_end(arguments);
    std::fputs(why.data(), stderr);
  }
  backstay::comm::leaving::end_noticed("as MPI gave up by itself, with code " + std::to_string(code), code);
  using Abort = int (*)(int, const char*, ...);
  if (const auto theirs = reinterpret_cast<Abort>(dlsym(RTLD_NEXT, "ompi_rte_abort"))) return theirs(code, nullptr);
  std::abort();
}
#endif

#pragma GCC visibility pop
}
