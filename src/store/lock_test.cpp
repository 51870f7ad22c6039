#include "store/lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "store/testing.h"

namespace backstay::store {
namespace {

std::string take_and_release(const std::string& directory) { return say(DirLock::take(directory)); }

/// Another process that has taken the lock and holds it until it is killed.
class Holder {
 public:
  explicit Holder(const std::string& directory) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    process = ::fork();
    if (process == 0) {
      const auto lock = DirLock::take(directory, "solver");
      const char taken = lock ? 'y' : 'n';
      if (::write(ends[1], &taken, 1) == 1) ::pause();
      ::_exit(1);
    }
    char taken = 'n';
    holds = ::read(ends[0], &taken, 1) == 1 && taken == 'y';
    for (const int end : ends) ::close(end);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { kill(); }

  void kill() {
    if (process > 0) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
    process = -1;
  }

  pid_t process = -1;
  bool holds = false;
};

TEST(dir_lock, two_in_one_process_conflict) {
  const TemporaryDirectory dir;
  std::optional<DirLock> first = DirLock::take(dir.path()).value();
  EXPECT_EQ(DirLock::take(dir.path()).failure().code, Code::locked);
  EXPECT_EQ(DirLock::take(dir.path()).failure().code, Code::locked) << "a refused try must not break the lock";
  first.reset();
  EXPECT_EQ(take_and_release(dir.path()), "ok");
}

TEST(dir_lock, another_process_conflicts_and_is_named) {
  const TemporaryDirectory dir;
  const Holder holder(dir.path());
  ASSERT_TRUE(holder.holds);
  const std::string said = take_and_release(dir.path());
  EXPECT_TRUE(
      said.starts_with(starting_with(Code::locked) + dir.path() + " is in use by another job: program solver, "))
      << said;
  EXPECT_NE(said.find(cat("process ", static_cast<long>(holder.process), " on host ")), std::string::npos) << said;
  EXPECT_NE(said.find(" UTC; wait until it ends, stop it, or choose another directory"), std::string::npos) << said;
}

TEST(dir_lock, the_run_of_its_holder_stands_below_what_others_are_told) {
  const TemporaryDirectory dir;
  const auto lock = DirLock::take(dir.path(), "solver", "3f2a");
  ASSERT_TRUE(lock);
  std::ifstream file(dir.path() + "/lock");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(text.ends_with(" UTC\nrun 3f2a\n")) << text;
  EXPECT_EQ(DirLock::take(dir.path()).failure().what.find("3f2a"), std::string::npos);
}

TEST(dir_lock, a_killed_holder_loses_it_at_once) {
  const TemporaryDirectory dir;
  Holder holder(dir.path());
  ASSERT_TRUE(holder.holds);
  holder.kill();
  EXPECT_EQ(take_and_release(dir.path()), "ok");
  EXPECT_EQ(take_and_release(dir.path()), "ok");
}

TEST(dir_lock, what_the_file_says_locks_nothing) {
  const TemporaryDirectory dir;
  std::ofstream(dir.path() + "/lock") << "program gone, process 1\n";
  EXPECT_EQ(take_and_release(dir.path()), "ok");
}

TEST(dir_lock, strange_bytes_in_the_file_do_not_reach_the_sentence) {
  const TemporaryDirectory dir;
  const auto lock = DirLock::take(dir.path());
  ASSERT_TRUE(lock.ok());
  std::ofstream(dir.path() + "/lock") << "\x1b[31m\x07red" << std::string(100000, 'x');
  const std::string what = DirLock::take(dir.path()).failure().what;
  EXPECT_EQ(what.find('\x1b'), std::string::npos);
  EXPECT_LT(what.size(), 1000U);
}

TEST(dir_lock, notices_that_its_file_or_directory_was_removed_or_replaced) {
  const TemporaryDirectory dir;
  const std::string place = dir.path() + "/place";
  const auto with_lock = [&](const auto& change) {
    std::filesystem::create_directory(place);
    const auto lock = DirLock::take(place);
    EXPECT_TRUE(lock.ok() && lock->check().ok());
    change();
    const auto found = lock->check();
    std::filesystem::remove_all(place);
    return found ? Code::ok : found.failure().code;
  };
  EXPECT_EQ(with_lock([] {}), Code::ok);
  EXPECT_EQ(with_lock([&] { std::filesystem::remove(place + "/lock"); }), Code::locked);
  EXPECT_EQ(with_lock([&] {
              std::filesystem::remove(place + "/lock");
              std::ofstream(place + "/lock") << "another\n";
            }),
            Code::locked);
  EXPECT_EQ(with_lock([&] { std::filesystem::remove_all(place); }), Code::not_found);
  EXPECT_EQ(with_lock([&] {
              std::filesystem::remove_all(place);
              std::filesystem::create_directory(place);
            }),
            Code::locked);
}

TEST(dir_lock, moving_it_keeps_it) {
  const TemporaryDirectory dir;
  std::vector<DirLock> locks;
  locks.push_back(DirLock::take(dir.path()).value());
  locks.reserve(100);
  EXPECT_EQ(DirLock::take(dir.path()).failure().code, Code::locked);
  locks.clear();
  EXPECT_EQ(take_and_release(dir.path()), "ok");
}

TEST(dir_lock, two_directories_do_not_conflict) {
  const TemporaryDirectory one;
  const TemporaryDirectory two;
  const auto first = DirLock::take(one.path());
  EXPECT_EQ(take_and_release(two.path()), "ok");
}

TEST(dir_lock, a_forked_child_that_ends_does_not_release_it) {
  const TemporaryDirectory dir;
  std::optional<DirLock> lock = DirLock::take(dir.path()).value();
  EXPECT_EQ(said_by_child([&] {
              lock.reset();
              return std::string("dropped its copy");
            }),
            "dropped its copy");
  EXPECT_EQ(DirLock::take(dir.path()).failure().code, Code::locked);
}

/// Starts a program that runs on, and returns when it has taken the place of the forked child.
pid_t start_sleeper() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sleep", "sleep", "60", static_cast<char*>(nullptr));
    ::_exit(1);
  }
  ::close(ends[1]);
  char nothing = 0;
  const bool ended = ::read(ends[0], &nothing, 1) == 0;  // the start of the program closes the other end
  ::close(ends[0]);
  return ended ? child : -1;
}

TEST(dir_lock, a_program_that_the_dead_job_had_started_does_not_keep_it) {
  const TemporaryDirectory dir;
  const std::string sleeper = said_by_child([&] {
    auto* never_released = new Result<DirLock>(DirLock::take(dir.path()));
    return std::to_string(never_released->ok() ? start_sleeper() : -1);
  });
  ASSERT_GT(std::stoi(sleeper), 0) << sleeper;
  EXPECT_EQ(take_and_release(dir.path()), "ok");
  EXPECT_EQ(::kill(std::stoi(sleeper), SIGKILL), 0);
}

TEST(dir_lock, a_forked_child_that_outlives_the_dead_job_does_not_keep_it) {
  const TemporaryDirectory dir;
  const std::string said = said_by_child([&] {
    auto* never_released = new Result<DirLock>(DirLock::take(dir.path()));
    const pid_t child = never_released->ok() ? ::fork() : -1;
    if (child == 0) {
      ::close(STDOUT_FILENO);
      for (int file = 3; file < 64; ++file)  // the pipe to the test; not the lock, which is not there any more
        if (std::error_code none;
            std::filesystem::read_symlink(cat("/proc/self/fd/", file), none).string().starts_with("pipe:"))
          ::close(file);
      ::sleep(60);
      ::_exit(0);
    }
    return std::to_string(child);
  });
  ASSERT_GT(std::stoi(said), 0) << said;
  EXPECT_EQ(take_and_release(dir.path()), "ok");
  EXPECT_EQ(::kill(std::stoi(said), SIGKILL), 0);
}

TEST(dir_lock, a_missing_or_closed_directory_is_a_sentence) {
  const TemporaryDirectory dir;
  EXPECT_EQ(take_and_release(dir.path() + "/gone"),
            starting_with(Code::not_found) + "cannot open " + dir.path() + "/gone/lock: No such file or directory");
  ASSERT_EQ(::chmod(dir.path().c_str(), 0555), 0);
  const std::string said = said_by_child([&] {
    return ::geteuid() == 0 && ::seteuid(65534) != 0 ? std::string("cannot become nobody")
                                                     : take_and_release(dir.path());
  });
  EXPECT_TRUE(said.starts_with(starting_with(Code::permission))) << said;
}

TEST(dir_lock, one_of_many_that_race_for_it_gets_it) {
  const TemporaryDirectory dir;
  std::vector<std::thread> threads;
  std::vector<std::optional<Result<DirLock>>> results(8);
  for (auto& result : results) threads.emplace_back([&] { result.emplace(DirLock::take(dir.path())); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(std::count_if(results.begin(), results.end(), [](const auto& r) { return r->ok(); }), 1);
}

}  // namespace
}  // namespace backstay::store
