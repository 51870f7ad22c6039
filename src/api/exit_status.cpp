#include "api/exit_status.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>

/// Of Fortran's library, where the program has it.
extern "C" __attribute__((weak)) void _gfortran_flush_i4(int* unit);

namespace backstay::api {

namespace {
std::atomic<bool> has_failed{false};

void at_exit(int status, void*) {
  if (!has_failed || status != 0) return;
  std::cout.flush();
  int* const all_units = nullptr;
  if (_gfortran_flush_i4 != nullptr) _gfortran_flush_i4(all_units);
  std::fflush(nullptr);
  _exit(EXIT_FAILURE);
}
}  // namespace

void watch_the_exit() { [[maybe_unused]] static const int registered = on_exit(at_exit, nullptr); }

void fail_at_exit() { has_failed = true; }

bool take_back_failure() { return has_failed.exchange(false); }

}  // namespace backstay::api
