#include "api/exit_status.h"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#if BACKSTAY_HAVE_MPI
#include "comm/leaving.h"
#endif

/// Of Fortran's library, where the program has it.
extern "C" __attribute__((weak)) void _gfortran_flush_i4(int* unit);

namespace backstay::api {

namespace {
std::atomic<pid_t> failed{0};  ///< a process; 0: none

void at_exit(int status, void*) {
  if (failed != getpid() || status != 0) return;
  std::cout.flush();
  int* const all_units = nullptr;
  if (_gfortran_flush_i4 != nullptr) _gfortran_flush_i4(all_units);
  std::fflush(nullptr);
#if BACKSTAY_HAVE_MPI
  comm::leaving::end_at_exit(EXIT_FAILURE);  // of this end the launcher may tell nobody
#endif
  _exit(EXIT_FAILURE);
}
}  // namespace

void watch_the_exit() { [[maybe_unused]] static const int registered = on_exit(at_exit, nullptr); }

void fail_at_exit() { failed = getpid(); }

bool take_back_failure() { return failed.exchange(0) == getpid(); }

}  // namespace backstay::api
