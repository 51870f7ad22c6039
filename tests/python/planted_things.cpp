// planted_things: what programs keep in allocations besides numbers, and give to the kernel from there: names of files,
// structs, long texts, a lock, stacks; and a thread that takes and gives back arrays all the time. Nothing of it may
// fail while such arrays are looked at. Prints "sum S", which must be what it is without.
#include <pthread.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace {
struct Things {
  double before[4000];
  char path[64], cwd[4096], link[64];
  struct stat status;
  timespec pause;
  int pipe[2];
  std::mutex mutex;
  std::condition_variable changed;
  int turn;
  double after[4000];
};

std::atomic<long> failures = 0;
void expect(bool is_right, const char* what) {
  if (is_right) return;
  ++failures;
  std::fprintf(stderr, "failed: %s\n", what);
}

void use_the_kernel(Things& things) {
  std::FILE* const file = std::fopen(things.path, "w");
  expect(file != nullptr, "fopen");
  if (file != nullptr) std::fclose(file);
  expect(stat(things.path, &things.status) == 0, "stat");
  expect(getcwd(things.cwd, sizeof things.cwd) != nullptr, "getcwd");
  expect(readlink("/proc/self/exe", things.link, sizeof things.link) > 0, "readlink");
  expect(nanosleep(&things.pause, nullptr) == 0, "nanosleep");
  expect(pipe(things.pipe) == 0, "pipe");
  close(things.pipe[0]);
  close(things.pipe[1]);
  expect(std::rename(things.path, "things.done") == 0, "rename");
}

/// Two threads wait for each other.
void use_the_lock(Things& things) {
  const auto pass = [&](int mine) {
    for (int i = 0; i < 20; ++i) {
      std::unique_lock lock(things.mutex);
      things.changed.wait(lock, [&] { return things.turn % 2 == mine; });
      ++things.turn;
      things.changed.notify_all();
    }
  };
  std::thread other(pass, 1);
  pass(0);
  other.join();
}

ucontext_t main_context, coroutine;
long switches = 0;
void run_coroutine() {
  while (true) {
    ++switches;
    swapcontext(&coroutine, &main_context);
  }
}

/// Takes and gives back arrays all the time, and computes with one that it keeps, also while checkpoint() is called.
void churn(const std::atomic<bool>& goes_on) {
  std::vector<long> kept(5000, 0);
  for (long round = 1; goes_on; ++round) {
    for (auto& value : kept) ++value;
    for (const long value : kept) expect(value == round, "an array that a thread keeps");
    std::vector<std::vector<long>> arrays;
    for (std::size_t i = 0; i < 8; ++i) arrays.emplace_back(2048 + 1000 * i, round);
    for (const auto& array : arrays)
      for (const long value : array) expect(value == round, "an array that a thread gives back");
  }
}

void* on_own_stack(void* given) {
  ++*static_cast<long*>(given);
  return nullptr;
}

void use_stack(void* stack, std::size_t bytes) {
  pthread_attr_t attributes;
  pthread_t thread;
  long calls = 0;
  pthread_attr_init(&attributes);
  expect(pthread_attr_setstack(&attributes, stack, bytes) == 0, "pthread_attr_setstack");
  expect(pthread_create(&thread, &attributes, on_own_stack, &calls) == 0, "pthread_create");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  expect(calls == 1, "a thread on a stack of ours");
}
}  // namespace

int main() {
  backstay::Session run(backstay::alone, {{"every", "100"}});
  const auto things = std::make_unique<Things>();
  std::strcpy(things->path, "things.new");
  things->pause = {0, 1000};
  std::vector<char> text(60000, 'x'), signal_stack(1 << 16), coroutine_stack(1 << 16);
  text.back() = 0;
  constexpr std::size_t stack_bytes = 1 << 18;
  void* const stack = std::aligned_alloc(4096, stack_bytes);
  const stack_t alternate{signal_stack.data(), 0, signal_stack.size()};
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_handler = [](int) { ++switches; };
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  getcontext(&coroutine);
  coroutine.uc_stack = {coroutine_stack.data(), 0, coroutine_stack.size()};
  makecontext(&coroutine, run_coroutine, 0);
  swapcontext(&main_context, &coroutine);
  std::FILE* const file = std::fopen("things.txt", "w");
  run.resume();
  double total = 0;
  std::atomic<bool> goes_on = true;
  std::thread other(churn, std::cref(goes_on));
  for (int step = 0; step < 4; ++step) {
    run.checkpoint();
    use_the_kernel(*things);
    expect(std::fprintf(file, "%s %d\n", text.data(), step) == static_cast<int>(text.size()) + 2, "fprintf");
    expect(std::fputs(text.data(), file) >= 0 && std::fflush(file) == 0, "fputs");
    use_the_lock(*things);
    raise(SIGUSR2);
    swapcontext(&main_context, &coroutine);
    use_stack(stack, stack_bytes);
    for (int i = 0; i < 4000; ++i) things->after[i] = things->before[i] += i + step;
    for (const double value : things->after) total += value;
  }
  goes_on = false;
  other.join();
  std::fclose(file);
  std::printf("sum %.17g, %ld switches, %d turns, %ld failures\n", total, switches, things->turn, failures.load());
  std::free(stack);
  return failures == 0 ? 0 : 1;
}
