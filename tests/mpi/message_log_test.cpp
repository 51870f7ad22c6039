// A phase is recorded, and run again with the answers of the log.
#include "comm/message_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>

#include "logged_phase.h"
#include "support.h"

namespace backstay::mpi_test {
namespace {
namespace log = comm::message_log;

using Body = std::function<void(MPI_Comm)>;

/// A communicator of all ranks, in which errors are returned.
class OwnComm {
 public:
  OwnComm() {
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~OwnComm() { PMPI_Comm_free(&comm_); }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  operator MPI_Comm() const { return comm_; }  // NOLINT: as in MPI

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

Result<Bytes> record(MPI_Comm comm, const Body& body) {
  BACKSTAY_TRY(log::start_recording(comm));
  body(comm);
  return log::stop_recording();
}

Result<void> replay(ByteView bytes, const Body& body) {
  auto comm = log::start_replay(bytes);
  if (!comm) return comm.failure();
  body(*comm);
  return log::stop_replay();
}

/// Runs `act` on one rank after the other, while all others sleep outside of MPI, so that nobody can answer.
class Turns {
 public:
  Turns() {
    const std::string file = directory_.path() + "/turn";
    if (rank_of() == 0) std::ofstream(file) << std::string(64, '\0');
    MPI_Barrier(MPI_COMM_WORLD);
    const int opened = open(file.c_str(), O_RDWR);
    turn_ = static_cast<std::atomic<int>*>(mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0));
    close(opened);
  }
  ~Turns() { munmap(turn_, 64); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  void in_turn(const std::function<void()>& act) {
    const int rank = log_free_rank(), size = log_free_size();
    while (*turn_ % size != rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    act();
    const int rounds = ++*turn_;
    const int all = (rounds + size - 1) / size * size;
    while (*turn_ < all) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  static int log_free_rank() {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  static int log_free_size() {
    int size = 1;
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }
  SharedDirectory directory_;
  std::atomic<int>* turn_ = nullptr;
};

/// The log of the rank before this one, and what it summed up to.
std::pair<Bytes, std::uint64_t> of_neighbour(const Bytes& mine, std::uint64_t sum) {
  const int size = size_of(), to = (rank_of() + 1) % size, from = (rank_of() + size - 1) % size;
  std::uint64_t out[2] = {mine.size(), sum}, in[2] = {0, 0};
  MPI_Sendrecv(out, 2, MPI_UINT64_T, to, 0, in, 2, MPI_UINT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  Bytes theirs(in[0]);
  MPI_Sendrecv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, to, 1, theirs.data(),
               static_cast<int>(theirs.size()), MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return {std::move(theirs), in[1]};
}

std::string why(const Result<void>& result) { return result ? "" : result.failure().what; }
std::string why(const Result<Bytes>& result) { return result ? "" : result.failure().what; }

#define EXPECT_SAYS(result, code_of, words)                                            \
  do {                                                                                 \
    const auto& said = (result);                                                       \
    ASSERT_FALSE(said.ok()) << words;                                                  \
    EXPECT_EQ(said.failure().code, code_of) << why(said);                              \
    EXPECT_NE(why(said).find(words), std::string::npos) << why(said) << "\n" << words; \
  } while (false)

template <class Call>
double nanoseconds(const Call& call) {
  double best = 1e9;
  constexpr int calls = 1000000;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
  }
  return best / calls;
}

/// Printed, not judged: a machine may be busy. First of all tests: without ULFM, calls are watched while a communicator
/// of a replay is left.
TEST(MessageLog, a_call_outside_a_phase_costs_little_more_than_mpi_s) {
  int rank = 0, flag = 0;
  const double ours = nanoseconds([&] { MPI_Comm_rank(MPI_COMM_SELF, &rank); });
  const double theirs = nanoseconds([&] { PMPI_Comm_rank(MPI_COMM_SELF, &rank); });
  MPI_Request none = MPI_REQUEST_NULL;
  const double our_test = nanoseconds([&] { MPI_Test(&none, &flag, MPI_STATUS_IGNORE); });
  const double their_test = nanoseconds([&] { PMPI_Test(&none, &flag, MPI_STATUS_IGNORE); });
  if (rank_of() == 0)
    std::cout << "MPI_Comm_rank " << ours << " ns, PMPI_Comm_rank " << theirs << " ns; MPI_Test " << our_test
              << " ns, PMPI_Test " << their_test << " ns\n";
}

TEST(MessageLog, every_rank_runs_the_phase_again_alone_and_one_rank_runs_that_of_another) {
  ASSERT_TRUE(log::can_record());
  const OwnComm comm;
  std::uint64_t sum = 0;
  const auto run = [](std::uint64_t& into) {
    return [&into](MPI_Comm in) {
      LoggedPhase phase(in, true);
      phase.run();
      into = phase.sum();
    };
  };
  for (int recording = 0; recording < 2; ++recording) {
    const auto recorded = record(comm, run(sum));
    ASSERT_TRUE(recorded.ok()) << why(recorded);
    const auto [theirs, their_sum] = of_neighbour(*recorded, sum);
    Turns turns;
    std::uint64_t mine_again = 0, theirs_again = 0;
    std::string trouble;
    turns.in_turn([&] { trouble = why(replay(*recorded, run(mine_again))); });
    EXPECT_EQ(trouble, "");
    EXPECT_EQ(mine_again, sum);
    turns.in_turn([&] { trouble = why(replay(theirs, run(theirs_again))); });
    EXPECT_EQ(trouble, "");
    EXPECT_EQ(theirs_again, their_sum);
    if (rank_of() == 0 && recording == 0) std::cout << "log of rank 0: " << recorded->size() << " bytes\n";
  }
}

TEST(MessageLog, polls_that_find_nothing_take_no_room) {
  constexpr int polls = 200000;
  const OwnComm comm;
  const auto body = [](MPI_Comm in) {
    int found = 0;
    for (int i = 0; i < polls; ++i) MPI_Iprobe(MPI_ANY_SOURCE, 7, in, &found, MPI_STATUS_IGNORE);
    EXPECT_EQ(found, 0);
  };
  const auto recorded = record(comm, body);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  EXPECT_LT(recorded->size(), 400U);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(why(replay(*recorded, body)), "");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (rank_of() == 0) std::cout << "a poll from the log: " << seconds / polls * 1e9 << " ns\n";
}

TEST(MessageLog, a_large_receive_is_kept_whole) {
  const OwnComm comm;
  const int count = 3 << 20, right = (rank_of() + 1) % size_of(), left = (rank_of() + size_of() - 1) % size_of();
  std::vector<int> out(count), in(count), again(count);
  for (int i = 0; i < count; ++i) out[i] = static_cast<int>(static_cast<unsigned>(i) * 2654435761U) + rank_of();
  const auto body = [&](std::vector<int>& into) {
    return [&](MPI_Comm at) {
      MPI_Request requests[2];
      MPI_Irecv(into.data(), count, MPI_INT, left, 0, at, &requests[0]);
      MPI_Isend(out.data(), count, MPI_INT, right, 0, at, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    };
  };
  const auto recorded = record(comm, body(in));
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  ASSERT_EQ(why(replay(*recorded, body(again))), "");
  EXPECT_EQ(in, again);
}

TEST(MessageLog, what_a_log_cannot_answer_is_said_at_the_end_of_the_recording) {
  const OwnComm comm;
  const auto refused = [&](const Body& body, const char* words) {
    EXPECT_SAYS(record(comm, body), Code::invalid_argument, words);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  refused(
      [](MPI_Comm in) {
        MPI_Win window = MPI_WIN_NULL;
        int one = 0;
        MPI_Win_create(&one, sizeof one, 1, MPI_INFO_NULL, in, &window);
        if (window != MPI_WIN_NULL) MPI_Win_free(&window);
      },
      "MPI_Win_create");
  refused(
      [](MPI_Comm in) {
        MPI_Request request;
        int one = 0;
        MPI_Irecv(&one, 1, MPI_INT, 0, 99, in, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      },
      "MPI_Cancel");
  refused(
      [](MPI_Comm in) {
        MPI_Info info = MPI_INFO_NULL;
        MPI_Comm_get_info(in, &info);
        MPI_Info_free(&info);
      },
      "MPI_Comm_get_info");
  refused([](MPI_Comm in) { std::thread([&] { MPI_Send(nullptr, 0, MPI_INT, MPI_PROC_NULL, 0, in); }).join(); },
          "another thread called MPI_Send");
  // Its answer in a replay would be that of another communicator.
  refused([](MPI_Comm in) { std::thread([&] { (void)rank_of(in); }).join(); }, "another thread called MPI_Comm_rank");
  MPI_Comm kept = MPI_COMM_NULL;
  refused([&](MPI_Comm in) { MPI_Comm_dup(in, &kept); }, "leaves a communicator behind");
  MPI_Comm_free(&kept);
  MPI_Request request;
  int one = 0, sent = 0;
  refused([&](MPI_Comm in) { MPI_Irecv(&one, 1, MPI_INT, rank_of(in), 5, in, &request); }, "still under way");
  refused(
      [&](MPI_Comm in) {
        MPI_Send(&sent, 1, MPI_INT, rank_of(in), 5, in);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      },
      "was started before it");
  if (size_of() == 1) return;
  refused([](MPI_Comm) { MPI_Barrier(MPI_COMM_WORLD); }, "MPI_COMM_WORLD");
  refused(
      [](MPI_Comm in) {
        MPI_Comm half, across;
        MPI_Comm_split(in, rank_of(in) % 2, 0, &half);
        MPI_Intercomm_create(half, 0, in, 1 - rank_of(in) % 2, 3, &across);
        MPI_Comm_free(&across);
        MPI_Comm_free(&half);
      },
      "MPI_Intercomm_create");
}

TEST(MessageLog, a_call_that_spares_would_have_to_make_is_refused_and_not_waited_for) {
  if (size_of() == 1) GTEST_SKIP() << "there is nobody who could be a spare";
  MPI_Comm workers = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of() + 1 == size_of() ? MPI_UNDEFINED : 0, 0, &workers);
  if (workers != MPI_COMM_NULL) {
    std::vector<std::string> heard;
    ASSERT_TRUE(log::start_recording(workers, [&](const std::string& sentence) { heard.push_back(sentence); }).ok());
    EXPECT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_OTHER);
    MPI_Comm made = MPI_COMM_WORLD;
    EXPECT_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &made), MPI_ERR_OTHER);
    EXPECT_EQ(made, MPI_COMM_NULL);
    MPI_Request request = MPI_REQUEST_NULL;
    int one = 7;
    EXPECT_EQ(MPI_Irecv(&one, 1, MPI_INT, size_of() - 1, 4, MPI_COMM_WORLD, &request), MPI_ERR_OTHER);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    MPI_Barrier(workers);
    EXPECT_SAYS(log::stop_recording(), Code::invalid_argument, "MPI_COMM_WORLD");
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_EQ(heard[0].find("MPI_Barrier was called inside init()"), 0U) << heard[0];
    MPI_Comm_free(&workers);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MessageLog, another_thread_may_communicate_elsewhere_meanwhile) {
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) GTEST_SKIP() << "MPI without threads";
  const OwnComm comm, other;
  const auto body = [&](MPI_Comm in) {
    std::thread beside([&] { MPI_Barrier(other); });
    MPI_Barrier(in);
    beside.join();
  };
  const auto recorded = record(comm, body);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  EXPECT_EQ(why(replay(*recorded, body)), "");
}

struct Interruption {};
void interrupt(MPI_Comm*, int*, ...) { throw Interruption{}; }
int heard = MPI_SUCCESS;
void note(MPI_Comm*, int* code, ...) { heard = *code; }
#ifdef OPEN_MPI
constexpr bool handlers_may_throw = true;
#else
constexpr bool handlers_may_throw = false;
#endif

TEST(MessageLog, a_recording_that_an_exception_ends_is_of_no_use) {
  if (!handlers_may_throw) GTEST_SKIP() << "this MPI holds a lock of its own while it calls an error handler";
  const OwnComm comm;
  ASSERT_TRUE(log::start_recording(comm).ok());
  MPI_Barrier(comm);
  try {
    throw Interruption{};  // between two calls: whoever catches it decides whether the recording goes on
  } catch (const Interruption&) {
  }
  MPI_Errhandler thrower;
  MPI_Comm_create_errhandler(interrupt, &thrower);
  MPI_Comm_set_errhandler(comm, thrower);
  EXPECT_THROW(MPI_Send(nullptr, 0, MPI_INT, size_of() + 5, 0, comm), Interruption);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&thrower);
  MPI_Barrier(comm);
  EXPECT_SAYS(log::stop_recording(), Code::invalid_argument, "MPI_Send was left by an exception");
  EXPECT_TRUE(record(comm, [](MPI_Comm in) { MPI_Barrier(in); }).ok());
}

TEST(MessageLog, a_recording_that_an_error_ends_is_of_no_use_and_the_next_one_is) {
  const OwnComm comm;
  EXPECT_SAYS(record(comm, [](MPI_Comm in) { MPI_Send(nullptr, 0, MPI_INT, size_of(in) + 5, 0, in); }),
              Code::invalid_argument, "MPI_Send failed");
  EXPECT_TRUE(record(comm, [](MPI_Comm in) { MPI_Barrier(in); }).ok());
}

/// What the phase of these tests does when it is recorded.
void usual(MPI_Comm in) {
  int numbers[4] = {0, 0, 0, 0}, out = 1;
  MPI_Comm twin;
  MPI_Comm_dup(in, &twin);
  const int right = (rank_of(in) + 1) % size_of(in), left = (rank_of(in) + size_of(in) - 1) % size_of(in);
  MPI_Sendrecv(&out, 1, MPI_INT, right, 3, numbers, 4, MPI_INT, left, 3, in, MPI_STATUS_IGNORE);
  MPI_Allreduce(&out, numbers, 1, MPI_INT, MPI_SUM, in);
  MPI_Comm_free(&twin);
}

TEST(MessageLog, a_phase_that_makes_other_calls_in_its_replay_is_told_which) {
  const OwnComm comm;
  const auto recorded = record(comm, usual);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  const auto differs = [&](const Body& body, const char* words) {
    EXPECT_SAYS(replay(*recorded, body), Code::mismatch, words);
  };
  int numbers[8] = {}, out = 1;
  const int right = (rank_of() + 1) % size_of(), left = (rank_of() + size_of() - 1) % size_of();
  differs([](MPI_Comm in) { EXPECT_EQ(MPI_Barrier(in), MPI_ERR_OTHER); }, "is MPI_Barrier with root -1");
  differs([](MPI_Comm) {}, "after 0 of them comes MPI_Comm_dup");
  differs(
      [](MPI_Comm in) {
        usual(in);
        EXPECT_EQ(MPI_Barrier(in), MPI_ERR_OTHER);
      },
      "more MPI calls than the 4");
  const auto with_sendrecv = [&](int count, int tag, bool in_twin) {
    return [&, count, tag, in_twin](MPI_Comm in) {
      MPI_Comm twin;
      MPI_Comm_dup(in, &twin);
      EXPECT_EQ(MPI_Sendrecv(&out, 1, MPI_INT, right, tag, numbers, count, MPI_INT, left, 3, in_twin ? twin : in,
                             MPI_STATUS_IGNORE),
                MPI_ERR_OTHER);
    };
  };
  differs(with_sendrecv(5, 3, false), "room for 20 bytes, in the communicator of the workers, and in its recording it");
  differs(with_sendrecv(4, 4, false), "tag 4");
  differs(with_sendrecv(4, 3, true), "in communicator 1 of those that the phase made");
  if (size_of() > 1) differs([](MPI_Comm) { EXPECT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_OTHER); }, "MPI_COMM_WORLD");
  differs(
      [](MPI_Comm in) {
        MPI_Win window;
        int one = 0;
        EXPECT_EQ(MPI_Win_create(&one, 4, 1, MPI_INFO_NULL, in, &window), MPI_ERR_OTHER);
      },
      "MPI_Win_create");
  // Loops that wait for something end, and what was called goes on failing.
  differs(
      [&](MPI_Comm in) {
        MPI_Request request;
        EXPECT_EQ(MPI_Irecv(&out, 1, MPI_INT, 0, 0, in, &request), MPI_ERR_OTHER);
        for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        for (int found = 0; found == 0;) MPI_Iprobe(0, 0, in, &found, MPI_STATUS_IGNORE);
        MPI_Comm made;
        EXPECT_EQ(MPI_Comm_dup(in, &made), MPI_ERR_OTHER);
        EXPECT_EQ(made, MPI_COMM_NULL);
        EXPECT_EQ(size_of(in), size_of());
      },
      "is MPI_Irecv");
  EXPECT_EQ(why(replay(*recorded, usual)), "");
}

TEST(MessageLog, the_communicator_whose_place_is_taken_is_answered_from_the_log_too) {
  const OwnComm comm;
  const MPI_Comm handle = comm;  // taken before, as by programs that keep it in an object
  int key = MPI_KEYVAL_INVALID, mark = 3;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
  MPI_Comm_set_attr(handle, key, &mark);
  int sums[2] = {0, 0}, turn = 0;
  const auto body = [&](MPI_Comm) {
    int one = rank_of(handle) + 1, found = 0;
    int* value = nullptr;
    MPI_Comm_get_attr(handle, key, &value, &found);
    EXPECT_TRUE(found != 0 && value == &mark);
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_dup(handle, &made);
    MPI_Allreduce(&one, &sums[turn], 1, MPI_INT, MPI_SUM, handle);
    MPI_Comm_free(&made);
  };
  const auto recorded = record(comm, body);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  turn = 1;
  EXPECT_TRUE(log::start_replay(*recorded, handle).ok());
  body(handle);
  const auto replayed = log::stop_replay();
  EXPECT_EQ(why(replayed), "");
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(MPI_Barrier(handle), MPI_SUCCESS) << "it is as it was";
  MPI_Comm_delete_attr(handle, key);
  MPI_Comm_free_keyval(&key);
}

TEST(MessageLog, the_name_of_the_processor_is_that_of_the_recording) {
  const OwnComm comm;
  char names[2][MPI_MAX_PROCESSOR_NAME] = {"", ""};
  int turn = 0;
  const auto body = [&](MPI_Comm) {
    int length = 0;
    MPI_Get_processor_name(names[turn], &length);
    EXPECT_EQ(std::string(names[turn]).size(), static_cast<std::size_t>(length));
  };
  const auto recorded = record(comm, body);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  turn = 1;
  EXPECT_EQ(why(replay(*recorded, body)), "");
  EXPECT_STREQ(names[1], names[0]);
  EXPECT_SAYS(replay(*recorded, [](MPI_Comm) {}), Code::mismatch, "MPI_Get_processor_name");
}

TEST(MessageLog, an_error_handler_of_the_stand_in_hears_of_a_difference) {
  if (!handlers_may_throw) GTEST_SKIP() << "this MPI holds a lock of its own while it calls an error handler";
  const OwnComm comm;
  const auto recorded = record(comm, usual);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  auto stand_in = log::start_replay(*recorded);
  ASSERT_TRUE(stand_in.ok());
  MPI_Errhandler thrower;
  MPI_Comm_create_errhandler(interrupt, &thrower);
  MPI_Comm_set_errhandler(*stand_in, thrower);
  MPI_Errhandler_free(&thrower);
  EXPECT_THROW(MPI_Barrier(*stand_in), Interruption);
  EXPECT_SAYS(log::stop_replay(), Code::mismatch, "MPI_Barrier");
}

TEST(MessageLog, behind_an_error_handler_that_returns_the_call_tells_the_difference) {
  heard = MPI_SUCCESS;
  const OwnComm comm;
  const auto recorded = record(comm, usual);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  auto stand_in = log::start_replay(*recorded);
  ASSERT_TRUE(stand_in.ok());
  MPI_Errhandler noting;
  MPI_Comm_create_errhandler(note, &noting);
  MPI_Comm_set_errhandler(*stand_in, noting);
  MPI_Errhandler_free(&noting);
  const int told = MPI_Barrier(*stand_in);
  EXPECT_NE(told, MPI_SUCCESS);
  EXPECT_EQ(heard, told);
  EXPECT_SAYS(log::stop_replay(), Code::mismatch, "MPI_Barrier");
}

TEST(MessageLog, what_a_replay_leaves_behind_stands_for_nothing_any_more) {
  const OwnComm comm;
  MPI_Comm kept = MPI_COMM_NULL;
  const auto recorded = record(comm, [&](MPI_Comm in) {
    MPI_Comm_dup(in, &kept);
    MPI_Comm_free(&kept);
  });
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  EXPECT_SAYS(replay(*recorded, [&](MPI_Comm in) { MPI_Comm_dup(in, &kept); }), Code::mismatch, "MPI_Comm_free");
  EXPECT_NE(MPI_Barrier(kept), MPI_SUCCESS);
  EXPECT_EQ(MPI_Comm_free(&kept), MPI_SUCCESS);
  EXPECT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
}

TEST(MessageLog, a_log_with_any_byte_changed_or_cut_off_is_refused) {
  const OwnComm comm;
  auto recorded = record(comm, usual);
  ASSERT_TRUE(recorded.ok()) << why(recorded);
  const auto body = [](MPI_Comm) {};
  for (std::size_t i = 0; i < recorded->size(); ++i) {
    auto damaged = *recorded;
    damaged[i] ^= std::byte{0x10};
    EXPECT_SAYS(replay(damaged, body), Code::corrupt, "damaged");
    damaged = *recorded;
    damaged.resize(i);
    EXPECT_SAYS(replay(damaged, body), Code::corrupt, "damaged");
  }
}

TEST(MessageLog, one_phase_at_a_time) {
  const OwnComm comm;
  ASSERT_TRUE(log::start_recording(comm).ok());
  EXPECT_SAYS(log::start_recording(comm), Code::invalid_argument, "already");
  EXPECT_SAYS(log::stop_replay(), Code::invalid_argument, "has not begun");
  EXPECT_TRUE(log::stop_recording().ok());
  EXPECT_SAYS(log::stop_recording(), Code::invalid_argument, "has not begun");
}

}  // namespace
}  // namespace backstay::mpi_test
