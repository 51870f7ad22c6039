#include "api/signals.h"

#include <csignal>
#include <mutex>

namespace backstay::api {

namespace {
volatile std::sig_atomic_t signal_seen = 0;
std::mutex listeners_mutex;
int listeners = 0;
int listeners_served = 0;
constexpr int listened[] = {SIGTERM, SIGUSR1};

extern "C" void note_signal(int) { signal_seen = 1; }

/// Replaces `from` by `to` and nothing else: a program's own handler stays.
void swap_handler(int signal, void (*from)(int), void (*to)(int)) {
  struct sigaction current{};
  if (sigaction(signal, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 || current.sa_handler != from)
    return;
  struct sigaction next{};
  next.sa_handler = to;
  sigemptyset(&next.sa_mask);
  next.sa_flags = SA_RESTART;  // a read or write of the program's is not to fail for it
  sigaction(signal, &next, nullptr);
}
}  // namespace

SignalListener::SignalListener() {
  const std::lock_guard lock(listeners_mutex);
  if (listeners++ > 0) return;
  signal_seen = 0;
  listeners_served = 0;
  for (int signal : listened) swap_handler(signal, SIG_DFL, note_signal);
}

SignalListener::~SignalListener() {
  const std::lock_guard lock(listeners_mutex);
  if (--listeners > 0) return;
  for (int signal : listened) swap_handler(signal, note_signal, SIG_DFL);
}

void SignalListener::served() {
  const std::lock_guard lock(listeners_mutex);
  if (++listeners_served < listeners) return;
  for (int signal : listened) swap_handler(signal, note_signal, SIG_DFL);
}

bool SignalListener::asked() { return signal_seen != 0; }

}  // namespace backstay::api
