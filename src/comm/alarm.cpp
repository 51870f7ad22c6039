#include "comm/alarm.h"

#include <algorithm>

#include "comm/ulfm.h"
#include "comm/unready_communicators.h"

namespace backstay::comm {

void Alarm::watch(MPI_Comm comm) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(comm);
  newest_ = std::chrono::steady_clock::now();
  if (!rung_) return;
  wait_until_revocable(newest_);
  revoke(comm);
}

void Alarm::forget(MPI_Comm comm) {
  const std::lock_guard lock(mutex_);
  std::erase(watched_, comm);
}

bool Alarm::watches(MPI_Comm comm) {
  const std::lock_guard lock(mutex_);
  return std::find(watched_.begin(), watched_.end(), comm) != watched_.end();
}

bool Alarm::watches_one_like(MPI_Comm comm) {
  int size = 0;
  if (MPI_Comm_size(comm, &size) != MPI_SUCCESS || size < 2) return false;  // nobody waits for another there
  const std::lock_guard lock(mutex_);
  return std::any_of(watched_.begin(), watched_.end(), [comm](MPI_Comm watched) {
    int same = MPI_UNEQUAL;
    MPI_Comm_compare(watched, comm, &same);
    return same == MPI_IDENT || same == MPI_CONGRUENT;
  });
}

std::chrono::steady_clock::time_point Alarm::rung_since() {
  const std::lock_guard lock(mutex_);
  return rung_ ? rung_since_ : std::chrono::steady_clock::now();
}

void Alarm::ring() {
  const std::lock_guard lock(mutex_);
  if (rung_.exchange(true)) return;
  rung_since_ = std::chrono::steady_clock::now();
  wait_until_revocable(newest_);
  for (MPI_Comm comm : watched_) revoke(comm);
}

}  // namespace backstay::comm
