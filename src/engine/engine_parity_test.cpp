// Lost nodes come back from parity, and so do the logs of ranks.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comm/fake_comm.h"
#include "engine/engine.h"
#include "engine/testing.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/posix_store.h"

namespace backstay::engine {
namespace {

/// What ranks received while they set themselves up, after `lost` have died.
void expect_logs_after_loss_of(const fs::path& dir, const std::vector<LevelConfig>& levels, int nodes,
                               const std::vector<std::size_t>& lost, bool found) {
  constexpr int ranks = 4;
  std::array<std::shared_ptr<store::Store>, ranks> memory;
  for (auto& store : memory) store = store::make_memory_store();
  const auto run = [&](const std::function<void(Engine&, int)>& act) {
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      Rank job(comm, dir, levels, nodes, [&](EngineConfig& config) { config.memory = memory[rank]; });
      act(*job.engine, comm.rank());
    });
  };
  const auto log_of = [](int rank) { return std::string(static_cast<std::size_t>(5000 * rank), 'a'); };
  run([&](Engine& engine, int rank) {
    const auto none = engine.find_log(0);
    ASSERT_TRUE(none.ok()) << none.failure().what;
    EXPECT_EQ(none->log, "");
    EXPECT_TRUE(engine.keep_log(std::string("the first phase")).ok());
    EXPECT_TRUE(engine.keep_log(log_of(rank)).ok());
  });
  for (const auto rank : lost) memory[rank] = store::make_memory_store();
  for (int turn = 0; turn < 2; ++turn) {  // the second time nothing has to be rebuilt any more
    run([&](Engine& engine, int rank) {
      const auto log = engine.find_log(rank == 1 ? 0 : 2);
      ASSERT_EQ(log.ok(), found);
      if (!found) {
        EXPECT_EQ(log.failure().code, Code::rank_lost);
        return;
      }
      EXPECT_EQ(log->phases, 2);
      EXPECT_EQ(log->log, log_of(rank)) << rank;
    });
  }
}

TEST_F(EngineTest, the_log_of_a_rank_is_there_after_its_loss) {
  const auto shared = level(LevelKind::shared);
  for (std::size_t lost = 0; lost < 4; ++lost) expect_logs_after_loss_of(dir_, {shared}, 4, {lost}, true);
  expect_logs_after_loss_of(dir_, {shared}, 1, {2}, true);
  expect_logs_after_loss_of(dir_, {shared}, 2, {2, 3}, true);
  expect_logs_after_loss_of(dir_, {shared}, 4, {0, 1, 2}, false);
}

TEST_F(EngineTest, logs_have_the_strongest_parity_of_the_levels) {
  auto memory = level(LevelKind::memory);
  memory.parity = {2, 2, {}};
  expect_logs_after_loss_of(dir_, {memory, level(LevelKind::shared)}, 4, {1, 3}, true);
  expect_logs_after_loss_of(dir_, {memory}, 4, {0, 1}, true);
}

/// Ranks 0 and 2 keep each other's log; then rank 0 is replaced by a process on the node of rank 2, and that node is
/// lost.
TEST_F(EngineTest, logs_are_kept_anew_where_a_replacement_lies_beside_who_has_its_parity) {
  constexpr int ranks = 4;
  std::array<std::shared_ptr<store::Store>, ranks> memory;
  for (auto& store : memory) store = store::make_memory_store();
  const auto run = [&](std::vector<int> nodes, const std::function<void(Engine&, int)>& act) {
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      Rank job(comm, dir_, {level(LevelKind::shared)}, ranks, [&](EngineConfig& config) {
        config.memory = memory[static_cast<std::size_t>(comm.rank())];
        config.topology.node_of = nodes;
      });
      act(*job.engine, comm.rank());
    });
  };
  const auto log_of = [](int rank) { return std::string(static_cast<std::size_t>(5000 * rank), 'a'); };
  const auto find = [&](Engine& engine, int rank) {
    const auto log = engine.find_log(1);
    ASSERT_TRUE(log.ok()) << log.failure().what;
    EXPECT_EQ(log->log, log_of(rank)) << rank;
  };
  run({0, 1, 2, 3}, [&](Engine& engine, int rank) { EXPECT_TRUE(engine.keep_log(log_of(rank)).ok()); });
  memory[0] = store::make_memory_store();
  run({2, 1, 2, 3}, find);
  memory[0] = store::make_memory_store();
  memory[2] = store::make_memory_store();
  run({4, 1, 5, 3}, find);
}

TEST_F(EngineTest, a_rank_without_a_log_is_the_failure_of_all) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    const auto kept =
        rank.engine->keep_log(comm.rank() == 1 ? Result<std::string>(fail(Code::invalid_argument, "no log"))
                                               : Result<std::string>(std::string("a log")));
    ASSERT_FALSE(kept.ok());
    EXPECT_EQ(kept.failure().what, "rank 1: no log");
  });
}

TEST_F(EngineTest, lost_nodes_come_back_from_parity_and_are_protected_again) {
  constexpr int nodes = 4;
  const auto open = [&](comm::Comm& comm) {
    return std::make_unique<Rank>(comm, dir_, std::vector{with_parity(LevelKind::local, 2, 2)}, nodes);
  };
  comm::run_ranks(8, [&](comm::Comm& comm) {
    const auto rank = open(comm);
    rank->write(1);
    rank->write(2);
    EXPECT_EQ(rank->trouble, "");
  });
  for (const auto& [a, b] : {std::pair(0, 1), {2, 3}, {0, 3}, {1, 2}}) {
    fs::remove_all(dir_ / cat("node-", a));
    fs::remove_all(dir_ / cat("node-", b));
    comm::run_ranks(8, [&](comm::Comm& comm) {
      const auto rank = open(comm);
      const auto found = rank->engine->resume();
      ASSERT_TRUE(found.ok()) << found.failure().what;
      EXPECT_EQ(found->line, 2U);
      for (double x : rank->u) EXPECT_EQ(x, 2);
      const auto verified = rank->engine->verify();
      ASSERT_TRUE(verified.ok()) << verified.failure().what;
      EXPECT_LE(verified->damage.size(), a == 0 && b == 1 ? 1U : 0U) << "only the older line may lack anything";
    });
  }
}

struct Held {
  double data = 0, parity = 0;  ///< bytes of files
};

void add_what_is_under(store::Store& store, const std::string& path, Held& held) {
  const auto entries = store.list(path);
  ASSERT_TRUE(entries.ok()) << entries.failure().what;
  for (const auto& entry : *entries) {
    const std::string inner = path.empty() ? entry.name : path + "/" + entry.name;
    if (entry.is_dir) add_what_is_under(store, inner, held);
    if (entry.name.ends_with(".h5")) held.data += static_cast<double>(entry.size);
    if (entry.name.starts_with("parity-")) held.parity += static_cast<double>(entry.size);
  }
}

TEST_F(EngineTest, parity_takes_p_parts_of_what_a_group_of_p_and_n_minus_p_has) {
  constexpr std::size_t cells = 300'000;
  for (const LevelKind kind : {LevelKind::local, LevelKind::memory})
    for (const auto& how : {Parity{4, 4, 3, 1}, {4, 4, 2, 2}, {8, 8, 7, 1}, {8, 8, 6, 2}}) {
      fs::remove_all(dir_);
      fs::create_directories(dir_);
      std::vector<std::shared_ptr<store::Store>> memory;
      for (int rank = 0; rank < how.ranks; ++rank) memory.push_back(store::make_memory_store());
      comm::run_ranks(how.ranks, [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {with_parity(kind, how.k, how.p)}, how.nodes,
                  [&](EngineConfig& config) { config.memory = memory[static_cast<std::size_t>(comm.rank())]; });
        std::vector<double> more(cells, comm.rank());
        rank.add("more", more, rank_private());
        rank.write(1);
        EXPECT_EQ(rank.trouble, "");
      });
      std::vector<std::shared_ptr<store::Store>> stores = memory;
      if (kind == LevelKind::local) stores = {*store::make_posix_store(dir_.string())};
      Held held;
      for (const auto& store : stores) add_what_is_under(*store, "", held);
      EXPECT_GT(held.data, 8.0 * cells * how.ranks);
      const double share = static_cast<double>(how.p) / how.k;  // of n = k + p members
      EXPECT_NEAR(held.parity / held.data, share, 0.03 * share) << how.k << " and " << how.p;
    }
}

TEST_F(EngineTest, groups_of_any_shape_give_lost_nodes_back) {
  for (const auto& how : {Parity{3, 3, 2, 1}, {7, 3, 2, 1}, {5, 5, 3, 2}, {6, 2, 1, 1}, {8, 8, 7, 1}, {7, 4, 2, 2}})
    for (int lost = 0; lost < how.nodes; ++lost) {
      write_with_parity(dir_, how);
      for (int i = 0; i < how.p; ++i) fs::remove_all(dir_ / cat("node-", (lost + i) % how.nodes));
      EXPECT_EQ(found_with_parity(dir_, how), 2) << how.ranks << " ranks on " << how.nodes << " nodes, lost " << lost;
    }
}

/// How often a rank writes, or reads parity, while the one on node 1, which is lost, is put back: by rank.
std::vector<int> works_for_node_1(const fs::path& dir, const Parity& how) {
  write_with_parity(dir, how);
  fs::remove_all(dir / "node-1");
  std::vector<std::atomic<int>> works(static_cast<std::size_t>(how.ranks));
  comm::run_ranks(how.ranks, [&](comm::Comm& comm) {
    auto& mine = works[static_cast<std::size_t>(comm.rank())];
    auto plan = std::make_shared<store::FaultPlan>();
    plan->before_each([&mine](const store::FaultPlan::Step& step) {
      const bool of_parity = step.path.find("/parity-") != std::string::npos;
      mine += step.operation == store::Operation::write || (step.operation == store::Operation::read && of_parity);
    });
    Rank rank(comm, dir, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes,
              [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
    mine = 0;
    const auto resumed = rank.engine->resume();
    ASSERT_TRUE(resumed.ok()) << resumed.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, 2);
  });
  return {works.begin(), works.end()};
}

/// Ranks with even numbers are a group, and those with odd ones.
TEST_F(EngineTest, only_the_group_that_has_lost_a_member_works_for_it) {
  for (const auto& how : {Parity{4, 4, 1, 1}, {6, 6, 2, 1}, {6, 6, 1, 2}, {8, 8, 2, 2}}) {
    const auto works = works_for_node_1(dir_, how);
    for (std::size_t rank = 0; rank < works.size(); rank += 2) EXPECT_EQ(works[rank], 0) << rank << " of " << how.ranks;
    EXPECT_GT(works[1], 0) << "its data and parity are written";
    int of_others = 0;
    for (std::size_t rank = 3; rank < works.size(); rank += 2) of_others += works[rank];
    EXPECT_GT(of_others, 0) << "their parity is read";
  }
}

TEST_F(EngineTest, parity_gives_a_lost_node_back_on_another_number_of_ranks_and_nodes) {
  for (const auto& now : {Parity{6, 3, 3, 1}, {4, 4, 3, 1}, {9, 3, 3, 1}, {3, 3, 3, 1}}) {
    write_with_parity(dir_, {8, 4, 3, 1});
    fs::remove_all(dir_ / "node-3");
    EXPECT_EQ(found_with_parity(dir_, now), 2) << now.ranks;
  }
}

TEST_F(EngineTest, one_node_after_the_other_may_be_lost_with_a_resume_between_on_any_number_of_ranks) {
  struct Case {
    Parity wrote, now;
  };
  for (const auto& [wrote, now] :
       {Case{{8, 4, 3, 1}, {4, 4, 3, 1}}, Case{{4, 4, 3, 1}, {8, 4, 3, 1}}, Case{{3, 2, 1, 1}, {3, 2, 1, 1}},
        Case{{7, 7, 1, 1}, {7, 7, 1, 1}}, Case{{9, 3, 1, 2}, {5, 3, 1, 2}}, Case{{7, 4, 2, 2}, {6, 4, 2, 2}}}) {
    write_with_parity(dir_, wrote);
    for (int round = 0; round < 3; ++round)
      for (int lost = wrote.nodes - 1; lost >= 0; --lost) {
        fs::remove_all(dir_ / cat("node-", lost));
        ASSERT_EQ(found_with_parity(dir_, now), 2)
            << wrote.ranks << " ranks wrote, " << now.ranks << " read, lost " << lost << " in round " << round;
      }
  }
}

TEST_F(EngineTest, a_lost_manifest_is_written_again_and_one_of_another_job_stays) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  const auto manifest = dir_ / "node-2/local/line-00000002/manifest";
  fs::remove(manifest);
  EXPECT_EQ(found_with_parity(dir_, how), 2);
  EXPECT_TRUE(fs::exists(manifest));
  flip(manifest, 100);
  EXPECT_EQ(found_with_parity(dir_, how), 2);
  EXPECT_EQ(fs::file_size(manifest), fs::file_size(dir_ / "node-1/local/line-00000002/manifest"));
  const auto older = dir_ / "node-2/local/line-00000001/manifest";
  fs::copy_file(older, manifest, fs::copy_options::overwrite_existing);
  EXPECT_EQ(found_with_parity(dir_, how), 2);
  EXPECT_EQ(fs::file_size(manifest), fs::file_size(older)) << "a manifest that can be read is not replaced";
}

TEST_F(EngineTest, a_file_that_is_damaged_anywhere_is_rebuilt_from_parity) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  const auto file = dir_ / "node-2/local/line-00000002/rank-00002.h5";
  for (const std::streamoff at : {3, 8192, 8200}) {
    flip(file, at);
    EXPECT_EQ(found_with_parity(dir_, how), 2) << at;
    flip(file, at);  // it was rebuilt: this damages it again
    EXPECT_EQ(found_with_parity(dir_, how), 2) << at;
  }
  fs::resize_file(file, 5000);
  EXPECT_EQ(found_with_parity(dir_, how), 2);
  EXPECT_FALSE(fs::exists(file.string() + ".part"));
}

TEST_F(EngineTest, what_is_damaged_beside_a_lost_node_counts_as_lost) {
  for (const int p : {1, 2}) {
    const Parity how{5, 5, 5 - p, p};
    for (const char* damaged : {"rank-00003.h5", "parity-00000-of-rank-00003"}) {
      write_with_parity(dir_, how);
      fs::remove_all(dir_ / "node-1");
      flip(dir_ / "node-3/local/line-00000002" / damaged, 8200);
      EXPECT_EQ(found_with_parity(dir_, how), p) << "two are lost of line 2, and one of line 1: " << damaged;
    }
  }
}

TEST_F(EngineTest, a_rebuild_onto_a_full_disk_is_refused_by_all_and_leaves_nothing_behind) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    if (comm.rank() == 1) plan->fail_writes_under("local/", fail(Code::no_space, "no space left on this disk"));
    Rank rank(comm, dir_, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes,
              [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
    const auto resumed = rank.engine->resume();
    ASSERT_FALSE(resumed.ok());
    EXPECT_NE(resumed.failure().what.find("rebuilding from parity: rank 1: no space left"), std::string::npos)
        << resumed.failure().what;
    EXPECT_NE(resumed.failure().what.find("make room where it could not be written"), std::string::npos)
        << resumed.failure().what;
  });
  for (const auto& entry : fs::recursive_directory_iterator(dir_ / "node-1"))
    EXPECT_NE(entry.path().extension(), ".part") << entry.path();
  EXPECT_EQ(found_with_parity(dir_, how), 2) << "once there is room";
}

/// A network that alters the first byte of each message that is started and not waited for, which are those of parity.
class AlteringComm final : public comm::Comm {
 public:
  explicit AlteringComm(std::unique_ptr<comm::Comm> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  [[nodiscard]] bool works() const override { return inner_->works(); }
  void leave() override { inner_->leave(); }
  void wait_for_all(std::function<void()> late) override { inner_->wait_for_all(std::move(late)); }
  Result<std::unique_ptr<Comm>> duplicate() override { return altering(inner_->duplicate()); }
  Result<std::unique_ptr<Comm>> duplicate_for_background() override {
    return altering(inner_->duplicate_for_background());
  }
  Result<void> barrier() override { return inner_->barrier(); }
  Result<std::vector<Bytes>> all_gather(ByteView mine) override { return inner_->all_gather(mine); }
  Result<Bytes> broadcast(int root, ByteView mine) override { return inner_->broadcast(root, mine); }
  Result<std::vector<std::int64_t>> all_max(std::vector<std::int64_t> mine) override {
    return inner_->all_max(std::move(mine));
  }
  Result<std::unique_ptr<comm::PendingMax>> start_all_max(std::vector<std::int64_t> mine) override {
    return inner_->start_all_max(std::move(mine));
  }
  Result<void> send(int to, int tag, ByteView bytes, comm::Keep keep) override {
    return inner_->send(to, tag, bytes, std::move(keep));
  }
  Result<void> receive(int from, int tag, MutableByteView bytes, comm::Keep keep) override {
    return inner_->receive(from, tag, bytes, std::move(keep));
  }
  Result<void> exchange(int to, ByteView out, int from, MutableByteView in, int tag, comm::Keep keep) override {
    return inner_->exchange(to, out, from, in, tag, std::move(keep));
  }
  Result<std::unique_ptr<comm::Pending>> start_exchange(int to, ByteView out, int from, MutableByteView in, int tag,
                                                        comm::Keep keep) override {
    auto started = inner_->start_exchange(to, out, from, in, tag, std::move(keep));
    if (started) *started = std::make_unique<Altered>(std::move(*started), in);
    return started;
  }

 private:
  class Altered final : public comm::Pending {
   public:
    Altered(std::unique_ptr<comm::Pending> inner, MutableByteView in) : inner_(std::move(inner)), in_(in) {}
    Result<bool> test() override {
      auto done = inner_->test();
      if (done && *done && !in_.empty()) std::exchange(in_, {}).front() ^= std::byte{0x10};
      return done;
    }

   private:
    std::unique_ptr<comm::Pending> inner_;
    MutableByteView in_;
  };
  static Result<std::unique_ptr<Comm>> altering(Result<std::unique_ptr<Comm>> made) {
    if (made) *made = std::make_unique<AlteringComm>(std::move(*made));
    return made;
  }

  std::unique_ptr<comm::Comm> inner_;
};

TEST_F(EngineTest, rebuilt_bytes_that_are_not_those_that_were_lost_are_refused_and_not_kept) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    AlteringComm network(std::move(*comm.duplicate()));
    Rank rank(network, dir_, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes);
    const auto resumed = rank.engine->resume();
    ASSERT_FALSE(resumed.ok());
    EXPECT_NE(resumed.failure().what.find("the rebuilt bytes are not those that were lost"), std::string::npos)
        << resumed.failure().what;
  });
  EXPECT_EQ(found_with_parity(dir_, how), 2) << "where the network does not";
}

/// What was rebuilt is read from the disk once more before anything is put back.
TEST_F(EngineTest, a_disk_that_keeps_other_bytes_than_were_rebuilt_costs_the_line) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    plan->before_each([&](const store::FaultPlan::Step& step) {
      if (step.operation == store::Operation::rename &&
          step.path.find("line-00000002/rank-00001.h5") != std::string::npos)
        flip(dir_ / "node-1" / step.path, 8192);  // in u
    });
    Rank rank(comm, dir_, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes,
              [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
    const auto resumed = rank.engine->resume();
    ASSERT_TRUE(resumed.ok()) << resumed.failure().what;
    EXPECT_EQ(resumed->line, 1U);
    for (const double x : rank.u) EXPECT_EQ(x, 1);
  });
}

/// Of two lost members one is that of a rank that lives, and whose directory has become a file.
TEST_F(EngineTest, what_parity_gives_back_is_written_where_it_can_be) {
  write_with_parity(dir_, {4, 4, 2, 2});
  fs::remove_all(dir_ / "node-2");
  fs::remove_all(dir_ / "node-1");
  std::ofstream(dir_ / "node-1") << "no directory";
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {with_parity(LevelKind::local, 2, 2)}, 4,
              [&](EngineConfig& config) { config.goes_on = true; });
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_TRUE(found->resumed);
    for (double x : rank.u) EXPECT_EQ(x, 2);
  });
}

TEST_F(EngineTest, a_rank_that_has_no_memory_left_where_others_wait_for_it_says_so_and_ends) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  fs::remove_all(dir_ / "node-1");
  EXPECT_EXIT(comm::run_ranks(4,
                              [&](comm::Comm& comm) {
                                auto plan = std::make_shared<store::FaultPlan>();
                                plan->before_each([](const store::FaultPlan::Step& step) {
                                  if (step.operation == store::Operation::write) throw std::bad_alloc();
                                });
                                Rank rank(comm, dir_, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes,
                                          [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
                                (void)rank.engine->resume();
                              }),
              testing::KilledBySignal(SIGABRT), "backstay: a resume has no way on \\(std::bad_alloc\\)");
  EXPECT_EQ(found_with_parity(dir_, how), 2);
}

TEST_F(EngineTest, what_a_line_is_refused_for_is_said_behind_an_earlier_rebuild_of_it) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  fs::remove_all(dir_ / "node-0/local/line-00000001");
  fs::remove_all(dir_ / "node-1/local/line-00000001");
  fs::remove(dir_ / "node-1/local/line-00000002/manifest");  // written again first
  for (const int rank : {2, 3})
    flip(dir_ / cat("node-", rank) / "local/line-00000002" / cat("rank-0000", rank, ".h5"), 8200);
  comm::run_ranks(how.ranks, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes);
    const auto resumed = rank.engine->resume();
    ASSERT_FALSE(resumed.ok());
    std::string said = resumed.failure().what;
    for (const auto& sentence : rank.sentences) said += "\n" + sentence;
    EXPECT_NE(said.find("line 2 at level local cannot be put back: "), std::string::npos) << said;
    EXPECT_EQ(said.find("files were rebuilt"), std::string::npos) << said;
    EXPECT_NE(said.find("more than 1 of the 4 ranks of its parity group are lost"), std::string::npos) << said;
  });
}

TEST_F(EngineTest, more_lost_nodes_than_parities_are_a_clear_end) {
  const Parity how{4, 4, 3, 1};
  write_with_parity(dir_, how);
  fs::remove_all(dir_ / "node-1");
  fs::remove_all(dir_ / "node-2");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {with_parity(LevelKind::local, 3, 1)}, 4);
    const auto resumed = rank.engine->resume();
    ASSERT_FALSE(resumed.ok());
    EXPECT_EQ(resumed.failure().code, Code::corrupt);
    EXPECT_NE(resumed.failure().what.find("2 of the 4 ranks of its parity group are lost, which has 1 parity"),
              std::string::npos)
        << resumed.failure().what;
  });
}

TEST_F(EngineTest, verify_reads_parity_too) {
  const Parity how{4, 4, 2, 2};
  write_with_parity(dir_, how);
  flip(dir_ / "node-1/local/line-00000001/parity-00000-of-rank-00001", 4096 + 4096 + 17);
  flip(dir_ / "node-2/local/line-00000002/parity-00000-of-rank-00002", 30);
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {with_parity(LevelKind::local, 2, 2)}, 4);
    const auto verified = rank.engine->verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_EQ(verified->damage.size(), 2U);
  });
}

}  // namespace
}  // namespace backstay::engine
