#include "api/exit_status.h"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "api/journal.h"
#include "base/flush.h"
#if BACKSTAY_HAVE_MPI
#include "comm/crew.h"
#include "comm/leaving.h"
#endif

/// Of Fortran's library, where the program has it.
extern "C" __attribute__((weak)) void _gfortran_flush_i4(int* unit);

namespace backstay::api {

namespace {
std::atomic<pid_t> failed{0};   ///< a process; 0: none
std::atomic<pid_t> watched{0};  ///< the same

void flush_all() {
  call_in_time([] {
    std::cout.flush();
    int* const all_units = nullptr;
    if (_gfortran_flush_i4 != nullptr) _gfortran_flush_i4(all_units);
  });
  flush_all_files();
}

/// Of a rank, not of what it has started.
void tell_status(int status) {
#if BACKSTAY_HAVE_MPI
  if (watched == getpid() && comm::Crew::was_there()) tell_launcher("status " + std::to_string(status));
#else
  (void)status;
#endif
}

bool has_failed() {
#if BACKSTAY_HAVE_MPI
  if (watched == getpid() && comm::leaving::a_rank_did_not_come()) return true;
#endif
  return failed == getpid();
}

void at_exit(int status, void*) {
  const bool fails = has_failed() && (status & 0xff) == 0;
  if (const int told = fails ? EXIT_FAILURE : status & 0xff; told != 0) tell_status(told);
  // In glibc, which alone has on_exit, the rest of the exit goes on with the new status: what was registered before, as
  // the ends of the program's own files, and leaving::end_at_exit().
  if (fails) std::exit(EXIT_FAILURE);
}

/// Open MPI's launcher with ULFM has the status 0 where signals end all.
[[maybe_unused]] void at_late_end() {
  if (!has_failed()) return;
  call_in_time([] { tell_status(EXIT_FAILURE); });
  flush_all();
  _exit(EXIT_FAILURE);
}
}  // namespace

void watch_the_exit() {
  [[maybe_unused]] static const int registered = on_exit(at_exit, nullptr);
  watched = getpid();
#if BACKSTAY_HAVE_MPI
  comm::leaving::before_the_late_end(at_late_end);
#endif
}

void fail_at_exit() {
  failed = getpid();
  on_exit(at_exit, nullptr);  // a session that is closed by an older handler of the exit comes behind the first one
}

bool take_back_failure() { return failed.exchange(0) == getpid(); }

}  // namespace backstay::api
