#include "comm/open_requests.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "comm/mpi_operation.h"
#include "comm/patience.h"

namespace backstay::comm {
namespace {

struct Noted {
  std::mutex mutex;
  std::unordered_map<MPI_Request, std::thread::id> begun_by;
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
thread_local Given given;

/// Looks at it, which lets MPI go on with it.
bool is_done(MPI_Request request) {
  int done = 0;
  MPI_Status status;
  return PMPI_Request_get_status(request, &done, &status) != MPI_SUCCESS || done != 0;
}

/// MPI takes an operation with a process that has died for done, and may still find what that sent before: an answer to
/// a message, upon which it reads the message. As often as it takes to see all that can be there.
void see_what_the_dead_have_sent() {
  constexpr int looks = 1000;  // Open MPI: at up to 31 pieces of messages each
  int found = 0;
  for (int i = 0; i < looks; ++i) PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
}

}  // namespace

std::atomic<bool> OpenRequests::noting_{false};

void OpenRequests::note(const MPI_Request* requests, int count) {
  if (OurCall::is_under_way()) return;
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  for (int i = 0; i < count; ++i)
    if (requests[i] != MPI_REQUEST_NULL) all.begun_by[requests[i]] = std::this_thread::get_id();
}

OpenRequests::Completion::Completion(int count, const MPI_Request* requests) {
  if (OurCall::is_under_way()) return;
  given.requests = requests;
  given.before.assign(requests, requests + std::max(count, 0));
}

OpenRequests::Completion::~Completion() { forget_completed(); }

/// A persistent one stays what it is, and is done until it is started again.
void OpenRequests::forget_completed() {
  if (given.requests == nullptr) return;
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < given.before.size(); ++i)
    if (given.requests[i] != given.before[i]) all.begun_by.erase(given.before[i]);
  given.requests = nullptr;
}

void OpenRequests::settle(std::chrono::milliseconds bound) {
  if (!noting_) return;
  const OurCall ours;
  forget_completed();
  std::vector<MPI_Request> open;
  {
    Noted& all = noted();
    const std::lock_guard lock(all.mutex);
    for (const auto& [request, thread] : all.begun_by)
      if (thread == std::this_thread::get_id()) open.push_back(request);
    for (MPI_Request request : open) all.begun_by.erase(request);
  }
  const auto deadline = Patience::Clock::now() + bound;
  for (Backoff backoff;; backoff.sleep()) {
    std::erase_if(open, is_done);
    if (open.empty() || Patience::Clock::now() >= deadline) break;
    // Only what has no other side yet, or has lost it, heeds that: of a message under way MPI has to see the end.
    for (MPI_Request request : open) PMPI_Cancel(&request);
  }
  see_what_the_dead_have_sent();
}

}  // namespace backstay::comm
