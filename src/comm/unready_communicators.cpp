// Keeps Open MPI from using a communicator that is being made.
//
// A rank that has heard of a loss revokes the communicators in which others may wait. Open MPI 5.0 then looks one up by
// its number on each of them, and calls what it has for point-to-point and for collectives: a rank that has given the
// number, and is still making the rest, calls through null pointers (ompi_comm_revoke_local). Their functions are
// wrapped here, under their names: what is revoked too early is revoked when it is ready.
#include "comm/unready_communicators.h"

#include <mpi.h>

#include <thread>

#if defined(OPEN_MPI) && defined(__GNUC__)
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

namespace {
/// What lies behind an MPI_Comm; declared in no header for users.
using Communicator = ompi_communicator_t;

struct Readiness {
  std::mutex mutex;
  std::set<const Communicator*> ready;
  std::map<const Communicator*, bool> revoked_early;  ///< collectives only?
  bool came_late = false;                             ///< there may be communicators that were ready before
};

/// Used until the end of MPI, which may come after that of static objects.
Readiness& readiness() {
  static auto* const known = new Readiness;
  return *known;
}

template <class Function>
Function* theirs(const char* name) {
  if (auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name))) return found;
  std::abort();  // called by whom, then?
}

/// The first communicators are made in MPI_Init, unless this library is loaded after it.
void note_ready(Readiness& known, const Communicator* comm) {
  int initialized = 0;
  if (known.ready.empty()) MPI_Initialized(&initialized);
  known.came_late = known.came_late || initialized != 0;
  known.ready.insert(comm);
}

bool are_left_alone() {
  auto& known = readiness();
  const std::lock_guard lock(known.mutex);
  return !known.ready.empty() && !known.came_late;
}
}  // namespace

extern "C" {
#pragma GCC visibility push(default)

bool ompi_comm_revoke_local(Communicator* comm, bool collectives_only);
int mca_coll_base_comm_select(Communicator* comm);
int mca_coll_base_comm_unselect(Communicator* comm);

/// True: it was not revoked before.
bool ompi_comm_revoke_local(Communicator* comm, bool collectives_only) {
  {
    auto& known = readiness();
    const std::lock_guard lock(known.mutex);
    if (!known.came_late && !known.ready.contains(comm)) {
      const auto [early, is_new] = known.revoked_early.try_emplace(comm, collectives_only);
      if (is_new || collectives_only || !early->second) return is_new;
      early->second = false;
      return true;
    }
  }
  static auto* const revoke = theirs<decltype(ompi_comm_revoke_local)>("ompi_comm_revoke_local");
  return revoke(comm, collectives_only);
}

/// The last thing in the making of a communicator before it is used.
int mca_coll_base_comm_select(Communicator* comm) {
  static auto* const select = theirs<decltype(mca_coll_base_comm_select)>("mca_coll_base_comm_select");
  const int code = select(comm);
  if (code != MPI_SUCCESS) return code;
  auto& known = readiness();
  std::map<const Communicator*, bool>::node_type early;
  {
    const std::lock_guard lock(known.mutex);
    note_ready(known, comm);
    early = known.revoked_early.extract(comm);
  }
  if (!early.empty()) (void)ompi_comm_revoke_local(comm, early.mapped());
  return code;
}

/// The first thing in its end.
int mca_coll_base_comm_unselect(Communicator* comm) {
  {
    auto& known = readiness();
    const std::lock_guard lock(known.mutex);
    known.ready.erase(comm);
    known.revoked_early.erase(comm);
  }
  static auto* const unselect = theirs<decltype(mca_coll_base_comm_unselect)>("mca_coll_base_comm_unselect");
  return unselect(comm);
}

#pragma GCC visibility pop
}
#else
namespace {
bool are_left_alone() { return false; }
}  // namespace
#endif

void backstay::comm::wait_until_revocable(std::chrono::steady_clock::time_point made) {
  constexpr std::chrono::milliseconds for_others{250};  // as far as one can tell
  if (!are_left_alone()) std::this_thread::sleep_until(made + for_others);
}
