#include "api/exit_status.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace backstay::api {

namespace {
std::atomic<bool> has_failed{false};

void at_exit() {
  if (!has_failed) return;
  std::cout.flush();
  std::fflush(nullptr);
  _exit(EXIT_FAILURE);
}
}  // namespace

void watch_the_exit() { [[maybe_unused]] static const int registered = std::atexit(at_exit); }

void fail_at_exit() { has_failed = true; }

bool take_back_failure() { return has_failed.exchange(false); }

}  // namespace backstay::api
