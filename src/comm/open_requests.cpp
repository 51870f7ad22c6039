#include "comm/open_requests.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/thread_value.h"
#include "comm/mpi_operation.h"
#include "comm/patience.h"

namespace backstay::comm {
namespace {

struct Begun {
  MPI_Request request;
  std::thread::id by;
  std::optional<MPI_Fint> number{};  ///< of a request that MPI has freed, perhaps before it was done: see is_done()
};

/// The newest last. What was begun together is completed together: who looks for the newest first finds it at once.
struct Noted {
  std::mutex mutex;
  std::vector<Begun> begun;

  [[nodiscard]] auto find(MPI_Request request) {
    const auto is_it = [request](const Begun& entry) { return entry.request == request; };
    return std::find_if(begun.rbegin(), begun.rend(), is_it);
  }
  void forget(MPI_Request request) {
    const auto found = find(request);
    if (found == begun.rend()) return;
    *found = begun.back();
    begun.pop_back();
  }
};

/// Never destroyed: the program may call MPI until it ends.
Noted& noted() {
  static auto* const all = new Noted;
  return *all;
}

/// What a call of this thread may complete: the program's array, and what was in it.
struct Given {
  const MPI_Request* requests = nullptr;
  std::vector<MPI_Request> before;
};

/// Looks at it, which lets MPI go on with it.
///
/// Open MPI keeps what a handle stands for, also after it is freed, until it is done. Then it can be given out again;
/// but the number that it had in Fortran no longer leads to it.
bool is_done(const Begun& begun) {
  if (begun.number && PMPI_Request_f2c(*begun.number) != begun.request) return true;
  int done = 0;
  MPI_Status status;
  if (PMPI_Request_get_status(begun.request, &done, &status) != MPI_SUCCESS || done != 0) return true;
  return begun.number && PMPI_Request_f2c(*begun.number) != begun.request;
}

/// MPI takes an operation with a process that has died for done, and may still find what that sent before: an answer to
/// a message, upon which it reads the message. As often, and for as long, as it takes to see all that can be there.
void see_what_the_dead_have_sent() {
  constexpr int looks = 1000;                    // Open MPI: at up to 31 pieces of messages each
  constexpr std::chrono::milliseconds time(20);  // where another thread of this process looks, this one sees nothing
  const auto start = Patience::Clock::now();
  int found = 0;
  for (int i = 0; i < looks || Patience::Clock::now() < start + time; ++i)
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

}  // namespace

std::atomic<bool> OpenRequests::noting_{false};

void OpenRequests::note(MPI_Request request) {
  if (OurCall::is_under_way()) return;
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  all.begun.push_back({request, std::this_thread::get_id(), {}});
}

void OpenRequests::note_again(const MPI_Request* requests, int count) {
  if (OurCall::is_under_way()) return;
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  for (int i = 0; i < count; ++i)
    if (all.find(requests[i]) == all.begun.rend()) all.begun.push_back({requests[i], std::this_thread::get_id(), {}});
}

OpenRequests::Completion::Completion(int count, const MPI_Request* requests) {
  auto* const given = of_this_thread<Given>();
  if (OurCall::is_under_way() || given == nullptr || requests == nullptr)
    return;  // MPI says what is wrong with the latter
  given->requests = requests;
  given->before.assign(requests, requests + std::max(count, 0));
}

OpenRequests::Completion::~Completion() {
  if (auto* const given = of_this_thread<Given>()) given->requests = nullptr;
}

/// A persistent one stays what it is, and is done until it is started again.
int OpenRequests::Completion::ended(int code) const {
  const auto* const given = of_this_thread<Given>();
  if (given == nullptr || given->requests == nullptr) return code;
  if (code != MPI_SUCCESS) {
    met_an_error();
    return code;
  }
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = given->before.size(); i-- > 0;)
    if (given->requests[i] != given->before[i]) all.forget(given->before[i]);
  return code;
}

/// In a call that meets an error in one of several, Open MPI frees all for which it has one: also messages in a revoked
/// communicator that it still works on.
void OpenRequests::met_an_error() {
  const auto* const given = of_this_thread<Given>();
  if (given == nullptr || given->requests == nullptr) return;
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < given->before.size(); ++i) {
    if (given->requests[i] == given->before[i]) continue;
    const auto found = all.find(given->before[i]);
    if (found != all.begun.rend()) found->number = PMPI_Request_c2f(found->request);
  }
}

void OpenRequests::settle(Patience::Clock::time_point deadline, int loss) {
  if (!noting_) return;
  const OurCall ours;
  std::vector<Begun> open;
  {
    Noted& all = noted();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.begun, [&](const Begun& entry) {
      const bool is_own = entry.by == std::this_thread::get_id();
      if (is_own) open.push_back(entry);
      return is_own;
    });
  }
  const bool had_some = !open.empty();
  for (Backoff backoff;; backoff.sleep()) {
    std::erase_if(open, is_done);
    if (open.empty() || Patience::Clock::now() >= deadline) break;
    // Only what has no other side yet, or has lost it, heeds that: of a message under way MPI has to see the end.
    for (Begun& begun : open) PMPI_Cancel(&begun.request);
  }
  // A program in C may go on through calls that all fail, and nothing begins in any of them.
  thread_local int looked_at_loss = -1;
  if (looked_at_loss != loss || had_some) see_what_the_dead_have_sent();
  looked_at_loss = loss;
}

}  // namespace backstay::comm
