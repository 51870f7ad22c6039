#include "api/signals.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>

#include "backstay/config.hpp"
#if BACKSTAY_HAVE_MPI
#include <mpi.h>
#endif

namespace backstay::api {

namespace {
using Handler = void (*)(int);
volatile std::sig_atomic_t signal_seen = 0;
std::mutex listeners_mutex;
volatile pid_t process = 0;  ///< that of the listeners: one that it forks has their handlers, and nobody listens there
int listeners = 0;
int listeners_served = 0;

/// A signal that is listened to, and what was done at it before: the default, or what the MPI library does.
struct Listened {
  int signal;
  Handler before;
};
Listened listened[] = {{SIGTERM, SIG_DFL}, {SIGUSR1, SIG_DFL}};

void set_handler(int signal, Handler to) {
  struct sigaction next{};
  next.sa_handler = to;
  sigemptyset(&next.sa_mask);
  next.sa_flags = SA_RESTART;  // a read or write of the program's is not to fail for it
  sigaction(signal, &next, nullptr);
}

extern "C" void note_signal(int signal) {
  if (process != getpid()) {
    for (const auto& l : listened)
      if (l.signal == signal) set_handler(signal, l.before);
    std::raise(signal);  // it comes when this returns
    return;
  }
  signal_seen = signal;
  for (const auto& l : listened)
    if (l.signal == signal && l.before != SIG_DFL) l.before(signal);
}

/// MPICH has a handler of its own for SIGUSR1, which is not the program's wish.
bool is_of_the_mpi_library([[maybe_unused]] Handler handler) {
#if BACKSTAY_HAVE_MPI
  Dl_info of_handler{}, of_mpi{};
  return handler != SIG_DFL && handler != SIG_IGN && dladdr(reinterpret_cast<void*>(handler), &of_handler) != 0 &&
         dladdr(reinterpret_cast<void*>(&PMPI_Init), &of_mpi) != 0 && of_handler.dli_fbase == of_mpi.dli_fbase;
#else
  return false;
#endif
}

/// The handler of now; none where it is one that takes more arguments, which is then the program's.
std::optional<Handler> handler_of(int signal) {
  struct sigaction current{};
  if (sigaction(signal, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0) return {};
  return current.sa_handler;
}

/// A program's own handler stays.
void listen() {
  for (auto& l : listened) {
    const auto now = handler_of(l.signal);
    if (now && *now == note_signal) continue;  // of the process that has forked this one
    if (!now || (*now != SIG_DFL && !is_of_the_mpi_library(*now))) continue;
    l.before = *now;
    set_handler(l.signal, note_signal);
  }
}

void listen_no_more() {
  for (const auto& l : listened)
    if (handler_of(l.signal) == note_signal) set_handler(l.signal, l.before);
}

/// A signal that would have ended the process came, and no session made its last checkpoint for it.
bool is_unserved() {
  const auto is_it = [](const Listened& l) { return l.signal == signal_seen && l.before == SIG_DFL; };
  return listeners_served == 0 && std::any_of(std::begin(listened), std::end(listened), is_it);
}
}  // namespace

SignalListener::SignalListener() {
  const std::lock_guard lock(listeners_mutex);
  if (process != getpid()) listeners = 0;
  process = getpid();
  if (listeners++ > 0) return;
  signal_seen = 0;
  listeners_served = 0;
  listen();
}

SignalListener::~SignalListener() {
  {
    const std::lock_guard lock(listeners_mutex);
    if (--listeners > 0) return;
    listen_no_more();
    if (!is_unserved() || std::uncaught_exceptions() > 0) return;
  }
  std::raise(signal_seen);
}

int SignalListener::ends_the_process() {
  const std::lock_guard lock(listeners_mutex);
  return listeners == 1 && is_unserved() ? signal_seen : 0;
}

void SignalListener::served() {
  const std::lock_guard lock(listeners_mutex);
  if (++listeners_served < listeners) return;
  listen_no_more();
}

bool SignalListener::asked() { return signal_seen != 0; }

}  // namespace backstay::api
