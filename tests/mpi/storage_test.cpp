// Storage that fails under several ranks: on all of them, on one, for good or for a while.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "support.h"

namespace backstay::mpi_test {
namespace {

namespace fs = std::filesystem;

/// Bytes of one value on every rank; what a checkpoint writes.
struct Bulk {
  std::vector<char> bytes;
  void protect(Session& session) { session.protect("bytes", bytes); }
  void become(std::size_t size, char value) { bytes.assign(size, value); }
  void expect(std::size_t size, char value) const {
    EXPECT_EQ(bytes.size(), size);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), value), static_cast<std::ptrdiff_t>(size));
  }
};

/// A checkpoint of `size` bytes a rank, until it is settled.
void save(Session& session, Bulk& bulk, std::size_t size, char value) {
  bulk.become(size, value);
  EXPECT_EQ(session.checkpoint(now), Outcome::taken);
  session.wait();
}

/// What all ranks know of the failure of the last checkpoint.
std::string failure_of(const Session& session) {
  const Status status = session.status();
  expect_same_on_all_ranks(std::to_string(status.committed) + " " + std::to_string(status.failed) + " " +
                           status.last_error);
  return status.last_error;
}

std::vector<Options> ways() {
  return {{{"shared.layout", "file-per-rank"}},
          {{"shared.layout", "file-per-node"}, {"nodes", two_nodes()}},
          {{"shared.layout", "one-file"}},
          {{"shared.layout", "one-file"}, {"direct_io", "off"}},
          {{"levels", "local"}, {"nodes", two_nodes()}},
          {{"levels", "partner"}, {"nodes", two_nodes()}}};
}

/// Line 1 fits, line 2 does not (`fill` sees to that, `ease` ends it), line 3 fits again.
void through_a_failure(const Options& options, std::size_t too_much, const std::string& expected,
                       const std::function<void()>& fill, const std::function<void()>& ease) {
  Bulk bulk;
  {
    Session session(MPI_COMM_WORLD, options);
    bulk.protect(session);
    save(session, bulk, 100'000, 'a');
    ASSERT_EQ(failure_of(session), "");
    fill();
    save(session, bulk, too_much, 'b');
    ease();
    const std::string error = failure_of(session);
    EXPECT_EQ(session.status().failed, 1U);
    EXPECT_TRUE(has(error, "line 2") && has(error, expected)) << error;
    EXPECT_TRUE(session.verify().damage.empty()) << "the earlier line has suffered";
    EXPECT_EQ(session.resume().line, 1U);
    bulk.expect(100'000, 'a');
    save(session, bulk, 100'000, 'c');
    EXPECT_EQ(session.status().committed, 2U);
    EXPECT_EQ(session.status().failed, 1U);
  }
  Session session(MPI_COMM_WORLD, options);
  bulk.protect(session);
  bulk.become(0, ' ');
  EXPECT_EQ(session.resume().line, 3U);
  bulk.expect(100'000, 'c');
}

TEST(storage, that_fails_one_rank_costs_every_rank_this_checkpoint_and_no_other) {
  for (const Options& way : ways()) {
    if (size_of() == 1 && way.contains("levels")) continue;
    const SharedDirectory dir;
    SCOPED_TRACE(way.begin()->second);
    rlimit usual_limit{};
    getrlimit(RLIMIT_FSIZE, &usual_limit);
    const auto limit_to = [&](rlim_t most) {
      const rlimit limit{most, usual_limit.rlim_max};
      if (rank_of() == size_of() - 1) setrlimit(RLIMIT_FSIZE, &limit);
    };
    through_a_failure(
        with(usual(dir.path()), way), std::size_t{3} << 20, "File too large", [&] { limit_to(2 << 20); },
        [&] { limit_to(usual_limit.rlim_cur); });
  }
}

/// Run by small_store.sh, which mounts a small file system for it.
TEST(storage, that_is_full_costs_the_checkpoint_and_no_line) {
  const char* small = std::getenv("SMALL_STORE_OF_BACKSTAY");
  if (small == nullptr) GTEST_SKIP() << "no small file system was mounted for this";
  int count = 0;
  for (const Options& way : ways()) {
    if (size_of() == 1 && way.contains("levels")) continue;
    const std::string dir = std::string(small) + "/" + std::to_string(count++);
    SCOPED_TRACE(way.begin()->second);
    through_a_failure(with(usual(dir), way), std::size_t{64} << 20, "No space left", [] {}, [] {});
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_of() == 0) fs::remove_all(dir);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST(storage, that_is_removed_costs_its_level_and_not_the_others) {
  for (const std::string lost : {"/all", "/node-0"}) {
    const SharedDirectory dir;
    const auto options =
        with(usual(dir.path() + "/all"),
             {{"levels", "local,shared"}, {"local_dir", dir.path() + "/node-%n"}, {"nodes", two_nodes()}});
    const std::string level = lost == "/all" ? "shared" : "local";
    Bulk bulk;
    {
      Session session(MPI_COMM_WORLD, options);
      bulk.protect(session);
      save(session, bulk, 1000, 'a');
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank_of() == 0) fs::remove_all(dir.path() + lost);
      MPI_Barrier(MPI_COMM_WORLD);
      save(session, bulk, 1000, 'b');
      const std::string error = failure_of(session);
      EXPECT_TRUE(has(error, "line 2 at level " + level) && has(error, dir.path() + lost)) << error;
      EXPECT_EQ(session.status().failed, 1U) << error;
      EXPECT_EQ(session.status().committed, 3U);
    }
    Session session(MPI_COMM_WORLD, options);
    bulk.protect(session);
    bulk.become(0, ' ');
    EXPECT_EQ(session.resume().line, 2U);
    bulk.expect(1000, 'b');
  }
}

/// Of all threads of this process so far, seconds.
double cpu_seconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
}

TEST(waiting, of_the_background_for_a_late_rank_costs_little_processor_time) {
  const SharedDirectory dir;
  for (const std::string level : {"local", "parity", "partner", "shared"}) {
    if (size_of() == 1 && level == "parity") continue;
    const Options redundancy = level == "parity" ? Options{{"local.redundancy", "rs(2,1)"}} : Options{};
    const Options levels{{"name", level}, {"levels", level == "parity" ? "local" : level}, {"nodes", two_nodes()}};
    Session session(MPI_COMM_WORLD, with(with(usual(dir.path()), levels), redundancy));
    Bulk bulk;
    bulk.protect(session);
    save(session, bulk, 100'000, 'a');
    MPI_Barrier(MPI_COMM_WORLD);
    const auto nap = std::chrono::milliseconds(600);
    if (rank_of() == 0) std::this_thread::sleep_for(nap);  // the others have captured, and their background waits
    session.checkpoint(now);
    const double before = cpu_seconds();
    if (rank_of() != 0) std::this_thread::sleep_for(nap);
    EXPECT_LT(cpu_seconds() - before, 0.15) << "rank " << rank_of() << " at level " << level;
    session.wait();
    EXPECT_EQ(session.status().committed, 2U);
  }
}

}  // namespace
}  // namespace backstay::mpi_test
