// The option check_access on programs that do what is hard on closed pages: they go on as they would without, and are
// accused of nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backstay/backstay.hpp"

namespace backstay {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t n = 40000;
volatile double sink = 0;

class CheckSafetyTest : public ::testing::Test {
 protected:
  CheckSafetyTest() : dir_(fs::temp_directory_path() / ("backstay-safety-" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
    mallopt(M_MMAP_THRESHOLD, 65536);  // large arrays have pages of their own
    for (auto* x : {&u, &f, &g}) {
      x->resize(n);
      std::iota(x->begin(), x->end(), 1);
    }
  }
  ~CheckSafetyTest() override { fs::remove_all(dir_); }

  /// A session with `u`, `f`, and `g`; `what` runs it.
  void session(const std::function<void(Session&)>& what) {
    fs::create_directories(dir_);
    {
      Session run(
          alone, {{"dir", dir_.string()}, {"log", "quiet"}, {"every", "1"}, {"policy", "wait"}, {"check_access", "1"}});
      run.protect("u", u);
      run.protect("f", f);
      run.protect("g", g);
      run.declare("all", {updates("u"), updates("f"), updates("g")});
      what(run);
    }
    std::ifstream events(dir_ / "events.jsonl");
    for (std::string line; std::getline(events, line);)
      if (line.find("\"false_declaration\"") != std::string::npos) found.push_back(line);
  }
  /// One in which `body` runs as a computation that reads u and overwrites f.
  void compute(const std::function<void()>& body, int times = 1) {
    session([&](Session& run) {
      const auto it = run.declare("it", {reads("u"), writes("f")});
      for (; times > 0; --times) run.compute(it, body);
    });
  }
  ::testing::AssertionResult nothing() const {
    if (found.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << found.size() << ": " << found.front();
  }
  bool has(const std::string& sentence) const {
    return std::ranges::any_of(found, [&](const auto& line) { return line.find(sentence) != line.npos; });
  }
  /// A file with the values of `u`.
  fs::path file() {
    fs::create_directories(dir_);
    std::ofstream out(dir_ / "values", std::ios::binary);
    out.write(reinterpret_cast<const char*>(u.data()), n * sizeof(double));
    return dir_ / "values";
  }

  fs::path dir_;
  std::vector<double> u, f, g;
  std::vector<std::string> found;
};

// ---- memory that moves -------------------------------------------------------------------------------------------

TEST_F(CheckSafetyTest, a_vector_may_grow_in_its_computation) {
  compute([&] {
    f.resize(3 * n);
    std::fill(f.begin(), f.end(), 2);
    std::vector<double> other(n, 7);  // perhaps where f lay
    sink = other[n / 2];
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(std::accumulate(f.begin(), f.end(), 0.0), 6.0 * n);
}

TEST_F(CheckSafetyTest, a_vector_may_shrink_in_its_computation) {
  compute([&] {
    f.resize(n / 2);
    f.shrink_to_fit();
    std::fill(f.begin(), f.end(), 2);
  });
  EXPECT_TRUE(nothing());
  found.clear();
  compute([&] {
    std::fill(f.begin(), f.begin() + 10, 2);
    f.resize(10);
  });
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, vectors_may_be_swapped_in_their_computation) {
  std::vector<double> expected = u;
  session([&](Session& run) {
    const auto it = run.declare("it", {updates("u"), updates("f")});
    const auto other = run.declare("other", {reads("g")});
    for (int i = 0; i < 3; ++i) {
      run.compute(it, [&] {
        for (double& x : u) x += 1;
        std::swap(u, f);
      });
      run.compute(other, [&] { sink = g[0]; });
    }
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(f[7], expected[7] + 2);
}

TEST_F(CheckSafetyTest, memory_that_is_given_back_may_be_anybodys) {
  compute([&] {
    std::vector<double>().swap(g);
    std::vector<std::unique_ptr<char[]>> others;
    for (int i = 0; i < 100; ++i) {
      others.push_back(std::make_unique<char[]>(n));
      std::memset(others.back().get(), i, n);
    }
    std::fill(f.begin(), f.end(), 1);
    g.assign(n, 3);
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(g[n - 1], 3);
}

TEST_F(CheckSafetyTest, realloc_and_mremap_move_closed_pages) {
  auto* x = static_cast<double*>(std::calloc(n, sizeof(double)));
  std::size_t count = n;
  x[n - 1] = 4;
  session([&](Session& run) {
    RegionSpec spec;
    spec.name = "x";
    spec.type = {Type::Kind::floating, 8, {}};
    spec.view = [&] {
      View view;
      view.data = reinterpret_cast<std::byte*>(x);
      view.shape = {static_cast<std::int64_t>(count)};
      view.strides = {8};
      return view;
    };
    run.protect(std::move(spec));
    const auto it = run.declare("it", {writes("x")});
    run.compute(it, [&] {
      x = static_cast<double*>(std::realloc(x, 100 * n * sizeof(double)));
      count = 100 * n;
      sink = x[n - 1];
    });
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(sink, 4);
  std::free(x);
}

// ---- the kernel --------------------------------------------------------------------------------------------------

TEST_F(CheckSafetyTest, files_are_read_into_what_is_overwritten) {
  const auto path = file();
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  const std::vector<std::function<bool()>> ways{
      [&] { return ::read(descriptor, f.data(), n * 8) == static_cast<ssize_t>(n * 8); },
      [&] { return ::pread(descriptor, f.data(), n * 8, 0) == static_cast<ssize_t>(n * 8); },
      [&] {
        iovec parts[2] = {{f.data(), n * 4}, {f.data() + n / 2, n * 4}};
        return ::preadv(descriptor, parts, 2, 0) == static_cast<ssize_t>(n * 8);
      },
      [&] {  // as Python does it
        iovec parts[2] = {{f.data(), n * 4}, {f.data() + n / 2, n * 4}};
        return ::preadv2(descriptor, parts, 2, 0, 0) == static_cast<ssize_t>(n * 8);
      },
      [&] {
        FILE* const in = std::fopen(path.c_str(), "rb");
        const bool all = std::fread(f.data(), 8, n, in) == n;
        std::fclose(in);
        return all;
      },
      [&] {
        std::ifstream in(path, std::ios::binary);
        return static_cast<bool>(in.read(reinterpret_cast<char*>(f.data()), n * 8));
      },
      [&] { return ::syscall(SYS_pread64, descriptor, f.data(), n * 8, 0) == static_cast<long>(n * 8); }};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    std::fill(f.begin(), f.end(), -1);
    bool all = false;
    compute([&] { all = ways[way](); });
    EXPECT_TRUE(all) << way << ": " << std::strerror(errno);
    EXPECT_EQ(f, u) << way;
    EXPECT_TRUE(nothing()) << way;
  }
  ::close(descriptor);
}

TEST_F(CheckSafetyTest, a_file_that_is_read_in_part_leaves_the_rest_as_it_was) {
  const int descriptor = ::open(file().c_str(), O_RDONLY);
  const auto before = f;
  compute([&] { EXPECT_EQ(::pread(descriptor, f.data() + 5, n * 8, (n - 100) * 8), 800); });
  EXPECT_TRUE(std::equal(f.begin() + 5, f.begin() + 105, u.end() - 100));
  EXPECT_TRUE(std::equal(f.begin() + 105, f.end(), before.begin() + 105));
  EXPECT_TRUE(std::equal(f.begin(), f.begin() + 5, before.begin()));
  ::close(descriptor);
}

TEST_F(CheckSafetyTest, sockets_and_pipes_take_and_give_regions) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  compute([&] {
    std::thread sender([&] {
      for (std::size_t sent = 0; sent < n * 8;) {
        const auto bytes = ::send(ends[0], reinterpret_cast<char*>(u.data()) + sent, n * 8 - sent, 0);
        ASSERT_GT(bytes, 0) << std::strerror(errno);
        sent += static_cast<std::size_t>(bytes);
      }
    });
    for (std::size_t received = 0; received < n * 8;) {
      const auto bytes = ::recv(ends[1], reinterpret_cast<char*>(f.data()) + received, n * 8 - received, 0);
      ASSERT_GT(bytes, 0) << std::strerror(errno);
      received += static_cast<std::size_t>(bytes);
    }
    sender.join();
  });
  EXPECT_EQ(f, u);
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, false_uses_by_the_kernel_are_found_and_succeed) {
  const auto path = file();
  compute([&] {
    std::fill(f.begin(), f.end(), 1);
    const int out = ::open((dir_ / "out").c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::write(out, g.data(), n * 8), static_cast<ssize_t>(n * 8));
    ::close(out);
    const int in = ::open(path.c_str(), O_RDONLY);
    EXPECT_EQ(::read(in, u.data() + 3, 80), 80);
    ::close(in);
  });
  EXPECT_TRUE(has("reads region 'g', which it does not declare: element [0]"));
  EXPECT_TRUE(has("writes region 'u', which it does not declare: element [3]"));
  EXPECT_EQ(found.size(), 2U);
  std::ifstream in(dir_ / "out", std::ios::binary);
  std::vector<double> written(n);
  in.read(reinterpret_cast<char*>(written.data()), n * 8);
  EXPECT_EQ(written, g);
}

TEST_F(CheckSafetyTest, what_is_sent_before_it_is_overwritten_is_sent_as_it_was) {
  const auto before = f;
  compute([&] {
    const int out = ::open((dir_ / "out").c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(::write(out, f.data(), n * 8), static_cast<ssize_t>(n * 8));
    ::close(out);
    std::fill(f.begin(), f.end(), 1);
  });
  EXPECT_TRUE(has("is declared to overwrite, and reads before that, region 'f'"));
  std::ifstream in(dir_ / "out", std::ios::binary);
  std::vector<double> written(n);
  in.read(reinterpret_cast<char*>(written.data()), n * 8);
  EXPECT_EQ(written, before);
}

// ---- signals -----------------------------------------------------------------------------------------------------

sigjmp_buf back;
std::atomic<int> caught{0};
void catch_fault(int) {
  ++caught;
  siglongjmp(back, 1);
}
void catch_fault_with_address(int, siginfo_t* info, void*) {
  caught += info->si_addr == reinterpret_cast<void*>(16) ? 1 : 100;
  siglongjmp(back, 1);
}
void touch_nothing() {
  if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(16) = 1;
}

TEST_F(CheckSafetyTest, handlers_of_the_program_get_its_own_faults) {
  struct sigaction own{}, before{}, now{};
  own.sa_handler = catch_fault;
  sigaction(SIGSEGV, &own, &before);
  compute([&] {
    touch_nothing();
    std::fill(f.begin(), f.end(), 1);
    touch_nothing();
    own.sa_sigaction = catch_fault_with_address;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &own, &now);  // in the midst of it
    EXPECT_EQ(now.sa_handler, catch_fault);
    touch_nothing();
    sink = g[5];
    std::signal(SIGSEGV, catch_fault);
    touch_nothing();
    for (std::size_t i = 0; i < n; ++i) f[i] = u[i];
  });
  touch_nothing();
  EXPECT_EQ(caught, 5);
  EXPECT_EQ(found.size(), 1U);
  EXPECT_TRUE(has("reads region 'g'"));
  EXPECT_EQ(f, u);
  sigaction(SIGSEGV, &before, nullptr);
}

TEST_F(CheckSafetyTest, threads_that_block_all_signals_may_use_closed_pages) {
  compute([&] {
    std::thread other([&] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
      std::fill(f.begin(), f.end(), 5);
    });
    other.join();
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(f[n - 1], 5);
}

std::vector<double>* of_the_handler = nullptr;
std::atomic<int> alarms{0};
void on_alarm(int) { (*of_the_handler)[static_cast<std::size_t>(alarms++) % 64 * 512] += 1; }

TEST_F(CheckSafetyTest, other_handlers_may_use_closed_pages) {
  of_the_handler = &f;
  struct sigaction own{}, before{};
  own.sa_handler = on_alarm;
  sigfillset(&own.sa_mask);
  sigaction(SIGALRM, &own, &before);
  session([&](Session& run) {
    const auto it = run.declare("it", {reads("u"), updates("f")});
    const auto other = run.declare("other", {writes("g")});
    for (int i = 0; i < 3; ++i) {
      ualarm(500, 500);
      run.compute(it, [&] {
        for (std::size_t k = 1; k < n; ++k)
          if (k % 512 != 0) f[k] = u[k];
      });
      ualarm(0, 0);
      run.compute(other, [&] { std::fill(g.begin(), g.end(), i); });
    }
  });
  EXPECT_TRUE(nothing());
  sigaction(SIGALRM, &before, nullptr);
}

TEST_F(CheckSafetyTest, a_real_crash_ends_the_program_as_without) {
  EXPECT_EXIT(compute([&] {
                f[0] = 1;
                *reinterpret_cast<volatile int*>(16) = 1;
              }),
              ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(compute([&] { *const_cast<volatile char*>("constant") = 1; }), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(compute([&] { raise(SIGSEGV); }), ::testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(compute([&] { __asm__("int3"); }), ::testing::KilledBySignal(SIGTRAP), "");
}

// ---- threads and processes ---------------------------------------------------------------------------------------

TEST_F(CheckSafetyTest, many_threads_on_the_same_pages_compute_what_they_would) {
  for (int round = 0; round < 5; ++round) {
    std::fill(f.begin(), f.end(), -1);
    compute([&] {
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
          for (std::size_t i = t; i < n; i += 4) f[i] = 2 * u[i];
        });
      for (auto& thread : threads) thread.join();
    });
    EXPECT_TRUE(nothing());
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(f[i], 2 * u[i]) << i;
  }
}

/// Pages are closed and opened under them all the time. They are accused, as nobody knows whose they are.
TEST_F(CheckSafetyTest, threads_that_outlive_computations_lose_nothing) {
  std::atomic<bool> stop{false};
  std::array<std::uint64_t, 3> counted{};
  std::fill(f.begin(), f.end(), 0);
  std::fill(g.begin(), g.end(), 0);
  session([&](Session& run) {
    const auto it = run.declare("it", {reads("u"), writes("f").in({{0, n / 2}})});
    const auto other = run.declare("other", {writes("g").in({{1, 2}}), reads("f")});
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < counted.size(); ++t)
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; !stop; ++i, ++counted[t])
          for (auto* x : {&f, &g}) (*x)[n / 2 + 3 * (i * 37 % 4000) + t] += 1;
      });
    for (int i = 0; i < 150; ++i) {
      run.compute(it, [&] { std::fill(f.begin(), f.begin() + n / 2, i); });
      run.compute(other, [&] { g[1] = f[3]; });
      if (i % 20 == 0) run.checkpoint();
    }
    stop = true;
    for (auto& thread : threads) thread.join();
  });
  for (std::size_t t = 0; t < counted.size(); ++t)
    for (auto* x : {&f, &g}) {
      double sum = 0;
      for (std::size_t k = 0; k < 4000; ++k) sum += (*x)[n / 2 + 3 * k + t];
      EXPECT_EQ(sum, static_cast<double>(counted[t])) << t;
    }
  EXPECT_EQ(g[1], 149);
}

TEST_F(CheckSafetyTest, a_child_that_is_forked_in_a_computation_has_all_memory) {
  compute([&] {
    for (std::size_t i = 0; i < 100; ++i) f[i] = 1;
    const pid_t child = fork();
    if (child == 0) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += f[i] + g[i];
      const int out = ::open((dir_ / "child").c_str(), O_RDWR | O_CREAT, 0600);
      const bool all = ::write(out, g.data(), n * 8) == static_cast<ssize_t>(n * 8);
      _exit(all && f[n - 1] == static_cast<double>(n) && sum > 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(std::system("true"), 0);
    std::fill(f.begin(), f.end(), 1);
  });
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, waiting_threads_are_woken_beside_closed_pages) {
  struct Together {
    std::mutex mutex;
    std::condition_variable changed;
    bool ready = false;
    double x[200];
  };
  const auto together = std::make_unique<Together>();
  session([&](Session& run) {
    run.protect("x", together->x);
    const auto it = run.declare("it", {reads("u"), writes("f")});
    run.declare("x", {updates("x")});
    run.compute(it, [&] {
      std::thread other([&] {
        std::unique_lock lock(together->mutex);
        together->changed.wait(lock, [&] { return together->ready; });
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      {
        const std::lock_guard lock(together->mutex);
        together->ready = true;
      }
      together->changed.notify_all();
      other.join();
      std::fill(f.begin(), f.end(), 1);
    });
  });
  EXPECT_TRUE(nothing());
}

// ---- bodies that do not end as usual -----------------------------------------------------------------------------

TEST_F(CheckSafetyTest, a_body_that_throws_leaves_all_as_it_would) {
  auto expected = f;
  std::fill(expected.begin(), expected.begin() + 1000, 3);
  EXPECT_THROW(compute([&] {
                 std::fill(f.begin(), f.begin() + 1000, 3);
                 throw std::runtime_error("no");
               }),
               std::runtime_error);
  EXPECT_EQ(f, expected);
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, calls_of_the_session_inside_of_a_body_see_all_memory) {
  const auto before = f;
  session([&](Session& run) {
    const auto it = run.declare("it", {reads("u"), writes("f")});
    run.compute(it, [&] {
      f[0] = 1;
      run.checkpoint(now);
      run.wait();
      EXPECT_TRUE(std::equal(f.begin() + 1, f.end(), before.begin() + 1));
      std::fill(f.begin(), f.end(), 2);
    });
    g[7] = -1;
    EXPECT_TRUE(run.resume());
    EXPECT_EQ(f[0], 1);
    EXPECT_EQ(f[n - 1], before[n - 1]);
    EXPECT_EQ(g[7], 8);
  });
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, computations_inside_of_each_other_are_not_accused) {
  session([&](Session& run) {
    const auto outer = run.declare("outer", {reads("u"), writes("f"), updates("g")});
    const auto inner = run.declare("inner", {updates("g")});
    for (int i = 0; i < 3; ++i)
      run.compute(outer, [&] {
        std::fill(f.begin(), f.begin() + n / 2, 1);
        run.compute(inner, [&] {
          for (double& x : g) x += 1;
        });
        std::fill(f.begin() + n / 2, f.end(), u[3]);
        g[0] += 1;
      });
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(f[n - 1], u[3]);
  EXPECT_EQ(g[1], 5);
}

TEST_F(CheckSafetyTest, two_sessions_may_ask_for_it) {
  session([&](Session& run) {
    Session other(alone,
                  {{"dir", (dir_ / "other").string()}, {"log", "quiet"}, {"every", "1"}, {"check_access", "on"}});
    std::vector<double> w(n, 1);
    other.protect("w", w);
    const auto it = run.declare("it", {reads("u"), writes("f")});
    const auto its = other.declare("its", {updates("w")});
    run.compute(it, [&] {
      other.compute(its, [&] {
        for (double& x : w) x += 1;
      });
      other.checkpoint(now);
      std::fill(f.begin(), f.end(), 1);
    });
  });
  EXPECT_TRUE(nothing());
}

/// The arrays die first, as they do in a program that makes them after its session; large ones are gone from memory.
TEST_F(CheckSafetyTest, arrays_may_be_gone_when_the_session_ends_the_last_computation) {
  session([&](Session& run) {
    auto fields = std::make_unique<std::vector<std::vector<double>>>(3, std::vector<double>(n, 1));
    run.protect("x", (*fields)[0]);
    run.protect("y", (*fields)[1]);
    run.protect("z", (*fields)[2]);
    run.begin(run.declare("last", {writes("x"), reads("y"), reads("z")}));
    (*fields)[0][5] = 1;
    sink = g[3];  // as a program does that prints its result
    fields.reset();
  });
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, a_child_may_end_the_computation_and_return_through_the_session) {
  session([&](Session& run) {
    const auto it = run.declare("it", {reads("u"), writes("f")});
    pid_t child = 0;
    run.compute(it, [&] {
      f[0] = 1;
      child = fork();
      if (child == 0) sink = g[0];
      std::fill(f.begin(), f.end(), 1);
    });
    if (child == 0) {
      run.compute(it, [&] { sink = g[1]; });
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
  EXPECT_TRUE(nothing());
}

// ---- how regions lie ---------------------------------------------------------------------------------------------

struct Particle {
  double x, y;
  std::int32_t id;
  float mass;
};

TEST_F(CheckSafetyTest, members_of_an_array_of_structs_are_told_apart) {
  std::vector<Particle> particles(n, {1, 2, 3, 4});
  const auto member = [&](const char* name, std::size_t offset, Type type) {
    RegionSpec spec;
    spec.name = name;
    spec.type = std::move(type);
    spec.view = [&particles, offset] {
      View view;
      view.data = reinterpret_cast<std::byte*>(particles.data()) + offset;
      view.shape = {static_cast<std::int64_t>(particles.size())};
      view.strides = {sizeof(Particle)};
      return view;
    };
    return spec;
  };
  const auto move = [&](std::size_t from) {
    for (std::size_t i = from; i < n; ++i) particles[i].x = particles[i].y + particles[i].mass;
  };
  session([&](Session& run) {
    run.protect(member("x", offsetof(Particle, x), {Type::Kind::floating, 8, {}}));
    run.protect(member("y", offsetof(Particle, y), {Type::Kind::floating, 8, {}}));
    run.protect(member("id", offsetof(Particle, id), {Type::Kind::integer, 4, {}}));
    run.protect(member("mass", offsetof(Particle, mass), {Type::Kind::floating, 4, {}}));
    run.declare("ids", {updates("id")});
    const auto right = run.declare("right", {writes("x"), reads("y"), reads("mass")});
    const auto skips = run.declare("skips", {writes("x"), reads("y"), reads("mass")});
    const auto touches = run.declare("touches", {reads("x"), reads("y"), reads("mass")});
    for (int i = 0; i < 3; ++i) run.compute(right, [&] { move(0); });
    EXPECT_TRUE(nothing());
    run.compute(skips, [&] { move(3); });
    run.compute(touches, [&] {
      sink = particles[700].x;
      particles[700].id = 8;
    });
  });
  EXPECT_FALSE(has("'right'")) << found.front();
  EXPECT_TRUE(has("'skips' is declared to overwrite, and does not, region 'x': element [0] of rank 0 and 2 more"));
  EXPECT_TRUE(has("'touches' writes region 'id', which it does not declare: element [700]"));
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(particles[700].id, 8);
  EXPECT_EQ(particles[0].x, 6);
}

TEST_F(CheckSafetyTest, one_array_under_two_names_is_what_either_declares) {
  session([&](Session& run) {
    run.protect("also f", array(f.data(), {static_cast<std::int64_t>(n)}));
    const auto it = run.declare("it", {reads("u"), updates("also f"), writes("f")});
    const auto half = run.declare("half", {updates("also f")});
    for (int i = 0; i < 3; ++i) {
      run.compute(it, [&] {
        for (std::size_t k = 0; k < n; ++k) f[k] = f[k] + u[k];
      });
      run.compute(half, [&] { f[5] = 0; });
    }
  });
  EXPECT_TRUE(nothing());
}

TEST_F(CheckSafetyTest, gaps_in_structs_need_not_be_overwritten) {
  struct Padded {
    char kind;
    double value;
    long double wide;
  };
  std::vector<Padded> x(n, {1, 2, 3});
  session([&](Session& run) {
    run.protect("x", x);
    const auto it = run.declare("it", {writes("x")});
    for (int i = 0; i < 4; ++i)
      run.compute(it, [&] {
        for (auto& p : x) {
          p.kind = 2;
          p.value = i;
          p.wide = i;
        }
      });
  });
  EXPECT_TRUE(nothing());
  EXPECT_EQ(x[n - 1].value, 3);
}

// ---- all together ------------------------------------------------------------------------------------------------

/// Bytes of regions of all kinds of elements, and computations that overwrite or change a range of one by those of
/// another, in many ways; the same on plain memory is what is expected.
class RandomPrograms : public CheckSafetyTest {
 protected:
  struct Region {
    std::string name;
    std::size_t element;
    std::vector<std::uint8_t> bytes;
  };
  struct Step {
    std::size_t to, from;
    std::int64_t begin, end;  ///< elements of both
    bool changes;
  };
  using Memory = std::vector<Region>;

  static Memory make() {
    Memory out{{"double", 8, {}}, {"float", 4, {}}, {"int", 4, {}}, {"short", 2, {}}, {"char", 1, {}}, {"long", 8, {}}};
    for (auto& region : out) region.bytes.resize(20000 * region.element);
    for (std::size_t r = 0; r < out.size(); ++r)
      for (std::size_t i = 0; i < out[r].bytes.size(); ++i)
        out[r].bytes[i] = static_cast<std::uint8_t>(i * 31 + r * 7 + i / 255);
    return out;
  }
  /// `bytes` overwritten by as many of `from`, each plus one; in this way or another.
  static void put(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes, unsigned way) {
    if (way % 6 == 0) {
      for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(from[i] + 1);
      return;
    }
    std::vector<std::uint8_t> values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::uint8_t>(from[i] + 1);
    if (way % 6 == 1) std::memcpy(to, values.data(), bytes);
    if (way % 6 == 2)
      for (std::size_t i = bytes; i-- > 0;) to[i] = values[i];
    if (way % 6 == 3)
      for (std::size_t i = 0, length = 1; i < bytes; i += length, length = length * 3 % 101 + 1)
        std::memcpy(to + i, values.data() + i, std::min(length, bytes - i));
    if (way % 6 == 4)
      for (const std::size_t first : {1, 0})
        for (std::size_t i = first * 8; i < bytes; i += 16)
          std::memcpy(to + i, &values[i], std::min<std::size_t>(8, bytes - i));
    if (way % 6 == 5) {
      std::memset(to, 0, bytes);
      std::thread other([&] { std::memcpy(to, values.data(), bytes / 2); });
      std::copy(values.begin() + static_cast<std::ptrdiff_t>(bytes / 2), values.end(), to + bytes / 2);
      other.join();
    }
  }
  static void run_step(Memory& memory, const Step& step, unsigned way) {
    Region &to = memory[step.to], &from = memory[step.from];
    const auto first = static_cast<std::size_t>(step.begin) * to.element;
    const auto bytes = static_cast<std::size_t>(step.end - step.begin) * to.element;
    if (step.changes)
      for (std::size_t i = first; i < first + bytes; ++i)
        to.bytes[i] = static_cast<std::uint8_t>(to.bytes[i] * 3 + way);
    else
      put(&to.bytes[first], &from.bytes[static_cast<std::size_t>(step.begin) * from.element],
          std::min(bytes, static_cast<std::size_t>(step.end - step.begin) * from.element), way);
  }
};

TEST_F(RandomPrograms, compute_what_they_would_and_are_not_accused) {
  std::mt19937 random(4711);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  for (int program = 0; program < 6; ++program) {
    Memory checked = make(), plain = make();
    session([&](Session& run) {
      for (auto& region : checked) {
        RegionSpec spec;
        spec.name = region.name;
        const auto kind = region.element == 8 || region.name == "float" ? Type::Kind::floating : Type::Kind::integer;
        spec.type = {kind, region.element, {}};
        spec.view = [&region] {
          View view;
          view.data = reinterpret_cast<std::byte*>(region.bytes.data());
          view.shape = {20000};
          view.strides = {static_cast<std::int64_t>(region.element)};
          return view;
        };
        run.protect(std::move(spec));
      }
      std::vector<std::pair<Computation, Step>> steps;
      for (int c = 0; c < 8; ++c) {
        Step step{below(6), below(6), 0, 20000, below(4) == 0};
        while (step.from == step.to || checked[step.from].element < checked[step.to].element) {
          step.from = below(6);
          step.to = below(6);
        }
        if (below(2) == 0) {
          step.begin = static_cast<std::int64_t>(below(9000));
          step.end = step.begin + 10 + static_cast<std::int64_t>(below(10000));
        }
        const auto range = [&](Access access) { return access.in({{step.begin, step.end}}); };
        std::vector<Access> accesses{range(reads(checked[step.from].name))};
        accesses.push_back(step.changes ? range(updates(checked[step.to].name)) : range(writes(checked[step.to].name)));
        steps.emplace_back(run.declare("step " + std::to_string(c), accesses), step);
      }
      for (unsigned i = 0; i < 60; ++i) {
        const auto& [computation, step] = steps[below(steps.size())];
        if (i % 7 == 0) run.checkpoint();
        run.compute(computation, [&, &s = step] { run_step(checked, s, i); });
        run_step(plain, step, i);
      }
    });
    for (std::size_t r = 0; r < plain.size(); ++r) ASSERT_EQ(checked[r].bytes, plain[r].bytes) << program << " " << r;
    ASSERT_TRUE(nothing()) << program;
  }
}

}  // namespace
}  // namespace backstay
