#include "comm/alarm.h"

#include <algorithm>

#include "comm/ulfm.h"
#include "comm/unready_communicators.h"

namespace backstay::comm {

namespace {
bool are_same(MPI_Group a, MPI_Group b) {
  int result = MPI_UNEQUAL;
  MPI_Group_compare(a, b, &result);
  return result == MPI_IDENT;
}
}  // namespace

Alarm::~Alarm() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  for (MPI_Group group : expected_) MPI_Group_free(&group);
}

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

void Alarm::expect_one_of(MPI_Comm comm) {
  const std::lock_guard lock(mutex_);
  newest_ = std::chrono::steady_clock::now();
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &group);
  if (std::none_of(expected_.begin(), expected_.end(), [group](MPI_Group other) { return are_same(group, other); }))
    expected_.push_back(group);
  else
    MPI_Group_free(&group);
}

bool Alarm::expects_any() {
  const std::lock_guard lock(mutex_);
  return !expected_.empty();
}

bool Alarm::may_be_expected(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &group);
  const std::lock_guard lock(mutex_);
  const bool is_expected =
      std::any_of(expected_.begin(), expected_.end(), [group](MPI_Group other) { return are_same(group, other); });
  MPI_Group_free(&group);
  return is_expected;
}

bool Alarm::watches_one_like(MPI_Comm comm) {
  int size = 0;
  if (MPI_Comm_size(comm, &size) != MPI_SUCCESS || size < 2) return false;  // nobody waits for another there
  if (may_be_expected(comm)) return true;
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
