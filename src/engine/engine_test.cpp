// Several ranks as threads, real directories: the protocol among ranks.
#include "engine/engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>

#include "base/text.h"
#include "comm/fake_comm.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"

namespace backstay::engine {
namespace {

namespace fs = std::filesystem;

/// One rank of a job on a directory: a number of its own and a part of a global array.
class Rank {
 public:
  using Adjust = std::function<void(EngineConfig&)>;

  Rank(comm::Comm& comm, const fs::path& dir, std::vector<LevelConfig> levels, int nodes = 2, const Adjust& adjust = {},
       std::vector<std::string>* said_of_others = nullptr)
      : rank_(comm.rank()) {
    EngineConfig config;
    config.levels = std::move(levels);
    for (int r = 0; r < comm.size(); ++r) config.topology.node_of.push_back(r * nodes / comm.size());
    config.shared_dir = (dir / "shared").string();
    config.local_dir = (dir / ("node-" + std::to_string(config.topology.node(rank_)))).string();
    config.policy = Policy::wait;
    config.timeout = std::chrono::seconds(20);
    config.program = "engine_test";
    if (adjust) adjust(config);
    EngineHooks hooks;
    hooks.say = [this](const std::string& sentence) {
      const std::lock_guard lock(mutex);
      sentences.push_back(sentence);
    };
    if (said_of_others != nullptr)
      hooks.say_of_others = [said_of_others](const std::string& sentence) { said_of_others->push_back(sentence); };
    hooks.settled = [this](const Settled& s, const std::string&) {
      if (!s.bytes) trouble = s.bytes.failure().what;
    };
    auto app = comm.duplicate();
    engine = std::make_unique<Engine>(std::move(config), std::move(hooks), std::move(*app));
    const auto opened = engine->open();
    if (!opened) throw Error(opened.failure().code, opened.failure().what);
    const std::int64_t lower = 24 * rank_ / comm.size(), upper = 24 * (rank_ + 1) / comm.size();
    u.assign(static_cast<std::size_t>(upper - lower), 0);
    add("u", u, block({24}, {lower}, {upper}));
  }

  void add(const std::string& name, std::vector<double>& x, Placement placement = {}) {
    RegionSpec spec;
    spec.name = name;
    spec.type = type_of<double>();
    spec.placement = std::move(placement);
    spec.view = [&x] { return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, 8); };
    spec.reshape = [&x](const Extents& shape) {
      x.resize(static_cast<std::size_t>(shape[0]));
      return detail::dense_view(x.data(), shape, 8);
    };
    ASSERT_TRUE(engine->regions().add(spec).ok());
  }

  void write(double value) {
    for (auto& x : u) x = value;
    ASSERT_TRUE(engine->checkpoint(true, false).ok());
    ASSERT_TRUE(engine->wait().ok());
  }

  std::vector<double> u;
  std::string trouble;
  std::vector<std::string> sentences;
  std::mutex mutex;                // the background speaks, too
  std::unique_ptr<Engine> engine;  // ends first: its thread writes to these

 private:
  int rank_;
};

std::function<std::shared_ptr<store::Store>(std::shared_ptr<store::Store>)> with_faults(
    std::shared_ptr<store::FaultPlan> plan) {
  return [plan = std::move(plan)](std::shared_ptr<store::Store> inner) {
    return store::make_faulty_store(std::move(inner), plan);
  };
}

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() : dir_(fs::temp_directory_path() / ("backstay-engine-" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
  }
  ~EngineTest() override { fs::remove_all(dir_); }
  static LevelConfig level(LevelKind kind, Layout layout = Layout::file_per_rank) {
    LevelConfig out;
    out.kind = kind;
    out.layout = layout;
    return out;
  }
  void write(int ranks, const std::vector<LevelConfig>& levels, std::initializer_list<double> values) {
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, levels);
      for (double value : values) rank.write(value);
      EXPECT_EQ(rank.trouble, "");
    });
  }
  /// The value found by a new job; what resume() said otherwise.
  void expect_found(int ranks, const std::vector<LevelConfig>& levels, double value) {
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, levels);
      const auto found = rank.engine->resume();
      ASSERT_TRUE(found.ok()) << found.failure().what;
      EXPECT_TRUE(found->resumed);
      for (double x : rank.u) EXPECT_EQ(x, value);
    });
  }
  fs::path dir_;
};

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

TEST_F(EngineTest, every_level_and_layout_comes_back_on_any_number_of_ranks) {
  for (const auto& config :
       {level(LevelKind::shared), level(LevelKind::shared, Layout::file_per_node),
        level(LevelKind::shared, Layout::one_file), level(LevelKind::local), level(LevelKind::partner)}) {
    fs::remove_all(dir_);
    write(4, {config}, {1, 2, 3});
    for (int ranks : {4, 2, 3, 6}) expect_found(ranks, {config}, 3);
  }
}

TEST_F(EngineTest, a_lost_node_comes_back_from_its_partner) {
  write(4, {level(LevelKind::partner)}, {1, 2});
  fs::remove_all(dir_ / "node-1");
  expect_found(4, {level(LevelKind::partner)}, 2);
  fs::remove_all(dir_ / "node-0");  // resume alone wrote nothing new: now nothing is left
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::partner)});
    const auto found = rank.engine->resume();
    EXPECT_TRUE(found.ok() && !found->resumed);
  });
}

LevelConfig with_parity(LevelKind kind, int k, int p) {
  LevelConfig out;
  out.kind = kind;
  out.parity = {k, p, {}};
  return out;
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

/// Ranks on nodes, a file each at level local with parity.
struct Parity {
  int ranks, nodes, k, p;
};
/// Two lines of values 1 and 2.
void write_with_parity(const fs::path& dir, const Parity& how) {
  fs::remove_all(dir);
  comm::run_ranks(how.ranks, [&](comm::Comm& comm) {
    Rank rank(comm, dir, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes);
    rank.write(1);
    rank.write(2);
    EXPECT_EQ(rank.trouble, "");
  });
}
/// What a new job finds: 0 for nothing that can be had.
double found_with_parity(const fs::path& dir, const Parity& how) {
  std::vector<double> found(static_cast<std::size_t>(how.ranks), -1);
  comm::run_ranks(how.ranks, [&](comm::Comm& comm) {
    Rank rank(comm, dir, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes);
    const auto resumed = rank.engine->resume();
    double& mine = found[static_cast<std::size_t>(comm.rank())];
    mine = resumed && resumed->resumed && !rank.u.empty() ? rank.u.front() : 0;
    for (const double x : rank.u) EXPECT_EQ(x, mine);
  });
  for (const double mine : found) EXPECT_EQ(mine, found.front());
  return found.front();
}
void flip(const fs::path& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good()) << path;
  file.seekg(at);
  const char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 0x10));
}

TEST_F(EngineTest, groups_of_any_shape_give_lost_nodes_back) {
  for (const auto& how : {Parity{3, 3, 2, 1}, {7, 3, 2, 1}, {5, 5, 3, 2}, {6, 2, 1, 1}, {8, 8, 7, 1}, {7, 4, 2, 2}})
    for (int lost = 0; lost < how.nodes; ++lost) {
      write_with_parity(dir_, how);
      for (int i = 0; i < how.p; ++i) fs::remove_all(dir_ / cat("node-", (lost + i) % how.nodes));
      EXPECT_EQ(found_with_parity(dir_, how), 2) << how.ranks << " ranks on " << how.nodes << " nodes, lost " << lost;
    }
}

/// Ranks 0 and 2 are a group, and 1 and 3.
TEST_F(EngineTest, only_the_group_that_has_lost_a_member_works_for_it) {
  write_with_parity(dir_, {4, 4, 1, 1});
  fs::remove_all(dir_ / "node-1");
  std::array<std::atomic<int>, 4> works{};  // writes, and reads of parity, by rank
  comm::run_ranks(4, [&](comm::Comm& comm) {
    auto& mine = works[static_cast<std::size_t>(comm.rank())];
    auto plan = std::make_shared<store::FaultPlan>();
    plan->before_each([&mine](const store::FaultPlan::Step& step) {
      const bool of_parity = step.path.find("/parity-") != std::string::npos;
      mine += step.operation == store::Operation::write || (step.operation == store::Operation::read && of_parity);
    });
    Rank rank(comm, dir_, {with_parity(LevelKind::local, 1, 1)}, 4,
              [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
    mine = 0;
    const auto resumed = rank.engine->resume();
    ASSERT_TRUE(resumed.ok()) << resumed.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, 2);
  });
  EXPECT_EQ(works[0], 0);
  EXPECT_EQ(works[2], 0);
  EXPECT_GT(works[1], 0) << "its data and parity are written";
  EXPECT_GT(works[3], 0) << "its parity is read";
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

/// Of the lines of this level: it is expected to be the slower one.
std::function<std::shared_ptr<store::Store>(std::shared_ptr<store::Store>)> with_slow_reads(
    const std::string& level, std::chrono::milliseconds each = std::chrono::milliseconds(200)) {
  auto plan = std::make_shared<store::FaultPlan>();
  plan->before_each([level, each](const store::FaultPlan::Step& step) {
    if (step.operation == store::Operation::read && step.path.starts_with(level + "/line-"))
      std::this_thread::sleep_for(each);
  });
  return with_faults(plan);
}

TEST_F(EngineTest, what_one_level_with_parity_cannot_bear_a_second_one_does) {
  auto few = with_parity(LevelKind::local, 2, 1), more = with_parity(LevelKind::local, 4, 2);
  more.name = "local2";
  const std::vector<LevelConfig> levels{few, more};
  comm::run_ranks(6, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 6);
    rank.write(1);
    rank.write(2);
    EXPECT_EQ(rank.trouble, "");
  });
  for (const auto& [lost, level] : {std::pair{std::vector{1}, "local"}, {std::vector{1, 3}, "local2"}}) {
    for (int node : lost) fs::remove_all(dir_ / cat("node-", node));
    comm::run_ranks(6, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, levels, 6, [&](EngineConfig& config) { config.wrap_store = with_slow_reads("local2"); });
      const auto found = rank.engine->resume();
      ASSERT_TRUE(found.ok()) << found.failure().what;
      EXPECT_EQ(found->level, level) << lost.size() << " nodes lost";
      for (double x : rank.u) EXPECT_EQ(x, 2);
    });
  }
}

/// Of one line at two levels, with reads of one of them slowed down on one rank.
TEST_F(EngineTest, a_line_at_several_levels_is_put_back_from_the_one_expected_to_be_faster) {
  write(4, {level(LevelKind::local), level(LevelKind::shared)}, {1, 2});
  for (const std::string slow : {"local", "shared"}) {
    const std::string fast = slow == "local" ? "shared" : "local";
    comm::run_ranks(4, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::local), level(LevelKind::shared)}, 2, [&](EngineConfig& config) {
        if (comm.rank() == 2) config.wrap_store = with_slow_reads(slow);
      });
      const auto found = rank.engine->resume();
      ASSERT_TRUE(found.ok()) << found.failure().what;
      EXPECT_EQ(found->level, fast);
      EXPECT_TRUE(std::ranges::any_of(rank.sentences,
                                      [&](const std::string& sentence) {
                                        return sentence.starts_with(cat("line 2 is taken from level ", fast, " (")) &&
                                               sentence.find(cat(" expected), not from ", slow, " (")) !=
                                                   std::string::npos;
                                      }))
          << "which, and why: " << (rank.sentences.empty() ? "nothing was said" : rank.sentences.back());
      for (double x : rank.u) EXPECT_EQ(x, 2);
    });
  }
}

namespace {
bool says(const Rank& rank, const std::string& sentence) {
  return std::ranges::any_of(rank.sentences, [&](const auto& said) { return said.starts_with(sentence); });
}
}  // namespace

/// The directory of one node has become a file: a job is refused, and one that goes on behind a loss does without.
TEST_F(EngineTest, who_goes_on_behind_a_loss_does_without_the_stores_that_are_gone) {
  const std::vector<LevelConfig> levels{level(LevelKind::local), level(LevelKind::shared)};
  write(4, levels, {1, 2, 3});
  fs::remove_all(dir_ / "shared" / "shared" / "line-00000003");
  fs::remove_all(dir_ / "node-1");
  std::ofstream(dir_ / "node-1") << "no directory";
  comm::run_ranks(4, [&](comm::Comm& comm) {
    EXPECT_THROW(Rank(comm, dir_, levels), Error);
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      config.goes_on = true;
      if (comm.rank() == 2) config.next_line = 8;
    });
    EXPECT_TRUE(says(rank, "level local: rank 2: ")) << rank.sentences.size();
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "shared");
    for (double x : rank.u) EXPECT_EQ(x, 2);
    rank.write(4);
    EXPECT_NE(rank.trouble.find("node-1"), std::string::npos) << rank.trouble;
    EXPECT_EQ(rank.engine->next_line(), 9) << "none of a line that cannot be seen now";
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared" / "shared" / "line-00000008" / "manifest"));
  EXPECT_TRUE(fs::exists(dir_ / "node-0" / "local" / "line-00000003" / "manifest")) << "it may be whole again";
}

/// Someone removed the lock of a job that stood still, and started another one, which gives the same numbers.
TEST_F(EngineTest, who_has_lost_the_lock_removes_no_line_of_who_has_it) {
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    rank.write(1);
    if (comm.rank() == 0) fs::remove(dir_ / "shared" / "lock");
    (void)comm.barrier();
    comm::run_ranks(1, [&](comm::Comm& alone) {
      if (comm.rank() != 0) return;
      Rank other(alone, dir_, {level(LevelKind::shared)});
      other.write(2);
    });
    (void)comm.barrier();
    ASSERT_TRUE(rank.engine->checkpoint(true, false).ok());
    ASSERT_TRUE(rank.engine->wait().ok());
    EXPECT_NE(rank.trouble.find("lock"), std::string::npos) << rank.trouble;
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared" / "shared" / "line-00000002" / "manifest"));
  expect_found(1, {level(LevelKind::shared)}, 2);
}

/// One that fails while the job is at work is passed over by resume(), and stands in the way of what looks at all.
TEST_F(EngineTest, a_store_that_cannot_be_looked_at_is_passed_over) {
  const std::vector<LevelConfig> levels{level(LevelKind::local), level(LevelKind::shared)};
  write(4, levels, {1, 2});
  comm::run_ranks(4, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      if (comm.rank() == 2) config.wrap_store = with_faults(plan);
    });
    plan->fail_from(store::Operation::list, 1, {Code::io, "cannot list node-1/local: Input/output error"});
    const auto verified = rank.engine->verify();
    ASSERT_FALSE(verified.ok());
    EXPECT_EQ(verified.failure().what, "rank 2: cannot list node-1/local: Input/output error");
    EXPECT_EQ(rank.engine->prune(1).ok(), false);
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_TRUE(
        says(rank, "level local: rank 2: cannot list node-1/local: Input/output error; the job goes on without"));
    EXPECT_EQ(found->level, "shared");
    for (double x : rank.u) EXPECT_EQ(x, 2);
  });
  expect_found(4, levels, 2);
}

/// What is not seen may have the lines: a program is not to begin anew for that.
TEST_F(EngineTest, where_no_line_is_seen_and_a_store_cannot_be_looked_at_nothing_is_resumed) {
  write(2, {level(LevelKind::shared)}, {1, 2});
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, [&](EngineConfig& config) {
      config.goes_on = true;
      config.wrap_store = with_faults(plan);
    });
    plan->fail_from(store::Operation::list, 1, {Code::io, "cannot list shared: Input/output error"});
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.failure().what, "rank 0: cannot list shared: Input/output error");
    plan->heal();
    ASSERT_TRUE(rank.engine->resume().ok());
    for (double x : rank.u) EXPECT_EQ(x, 2);
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

/// The cheapest level has lost too much.
TEST_F(EngineTest, of_the_other_levels_that_have_the_line_the_fastest_is_looked_for_too) {
  auto second = level(LevelKind::local);
  second.name = "local2";
  const std::vector<LevelConfig> levels{level(LevelKind::local), second, level(LevelKind::shared)};
  write(4, levels, {1, 2});
  fs::remove_all(dir_ / "node-1" / "local");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) { config.wrap_store = with_slow_reads("local2"); });
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "shared");
    EXPECT_TRUE(std::ranges::any_of(rank.sentences, [](const std::string& sentence) {
      return sentence.starts_with("line 2 is taken from level shared (") &&
             sentence.find(", not from local2 (") != std::string::npos;
    }));
    for (double x : rank.u) EXPECT_EQ(x, 2);
  });
}

TEST_F(EngineTest, for_a_small_gain_no_dearer_level_is_read) {
  const std::vector<LevelConfig> levels{level(LevelKind::local), level(LevelKind::shared)};
  write(4, levels, {1});
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      config.wrap_store = with_slow_reads("local", std::chrono::milliseconds(30));
    });
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "local");
    EXPECT_TRUE(std::ranges::any_of(rank.sentences,
                                    [](const std::string& sentence) {
                                      return sentence.starts_with("line 1 is taken from level local (") &&
                                             sentence.ends_with(
                                                 ": for less than a quarter and 0.1 s no dearer level is read");
                                    }))
        << "which, and why: " << (rank.sentences.empty() ? "nothing was said" : rank.sentences.back());
  });
}

/// Of three ranks, for several jobs.
using InMemory = std::array<std::shared_ptr<store::Store>, 3>;
InMemory make_memory() {
  InMemory memory;
  for (auto& store : memory) store = store::make_memory_store();
  return memory;
}

LevelConfig shared_level() {
  LevelConfig out;
  out.kind = LevelKind::shared;
  return out;
}

/// A static region of 50 times a value.
struct Mesh {
  explicit Mesh(double value) : x(50, value) {}
  RegionSpec spec() {
    RegionSpec spec;
    spec.name = "mesh";
    spec.type = type_of<double>();
    spec.view = [this] { return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, 8); };
    spec.reshape = [this](const Extents& shape) {
      x.assign(static_cast<std::size_t>(shape[0]), -1);
      return detail::dense_view(x.data(), {static_cast<std::int64_t>(x.size())}, 8);
    };
    return spec;
  }
  std::vector<double> x;
};

/// A job of three ranks, each of which has a static region of 50 times its number, which must be that in the end.
void run_with_a_mesh(const fs::path& dir, const InMemory& memory, const std::vector<LevelConfig>& levels,
                     const std::function<void(Rank&, std::size_t)>& act, const Rank::Adjust& adjust = {}) {
  constexpr int ranks = 3;
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    const auto me = static_cast<std::size_t>(comm.rank());
    Rank rank(comm, dir, levels, ranks, [&](EngineConfig& config) {
      config.memory = memory[me];
      if (adjust) adjust(config);
    });
    Mesh mesh(static_cast<double>(me));
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    act(rank, me);
    for (const double x : mesh.x) EXPECT_EQ(x, static_cast<double>(me));
    rank.engine.reset();
  });
}

/// By a job of three ranks whose static regions are not in memory.
void expect_a_mesh_and(double value, const fs::path& dir, const std::vector<LevelConfig>& levels) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir, levels, 3);
    Mesh mesh(-1);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, value);
    for (const double x : mesh.x) EXPECT_EQ(x, comm.rank());
    rank.engine.reset();
  });
}

/// It names older static regions than the line before it does, which were saved for level shared later than for memory.
TEST_F(EngineTest, a_line_that_was_saved_from_memory_keeps_its_static_regions_while_it_is_kept) {
  const InMemory memory = make_memory();
  const auto in_memory = with_parity(LevelKind::memory, 2, 1);
  const auto shared = level(LevelKind::shared);
  const auto go_on = [&](const std::vector<LevelConfig>& levels, std::initializer_list<double> values) {
    run_with_a_mesh(dir_, memory, levels, [&](Rank& rank, std::size_t) {
      ASSERT_TRUE(rank.engine->resume().ok());
      for (const double value : values) rank.write(value);
      EXPECT_EQ(rank.trouble, "");
    });
  };
  go_on({in_memory}, {1, 2});
  go_on({in_memory, shared}, {3});
  go_on({in_memory}, {4, 5});
  run_with_a_mesh(dir_, memory, {in_memory, shared}, [](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, 5U);
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared/shared-static/line-00000001/manifest"));
  go_on({shared}, {6});
  fs::remove(dir_ / "shared/shared/line-00000006/manifest");
  run_with_a_mesh(dir_, memory, {shared}, [](Rank& rank, std::size_t) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 5U);
    for (const double x : rank.u) EXPECT_EQ(x, 5);
  });
}

/// Both lines are damaged, so the older one's static regions are what memory holds behind the refusal.
TEST_F(EngineTest, behind_a_resume_that_failed_a_line_has_the_static_regions_that_memory_holds) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    Mesh mesh(1);
    auto& statics = rank.engine->static_regions();
    ASSERT_TRUE(statics.add(mesh.spec()).ok());
    rank.write(1);
    ASSERT_TRUE(statics.remove("mesh").ok());
    mesh.x.assign(50, 2);
    ASSERT_TRUE(statics.add(mesh.spec()).ok());
    rank.write(2);
    ASSERT_EQ(rank.trouble, "");
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "shared/shared"))
      if (entry.path().extension() == ".h5") files.push_back(entry.path());
    ASSERT_EQ(files.size(), 4U);
    if (comm.rank() == 0)
      for (const auto& file : files) {
        std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
        out.seekp(8192).write("spoilt by a disk", 16);
      }
    ASSERT_TRUE(rank.engine->agree_on({}).ok());
    ASSERT_FALSE(rank.engine->resume().ok());
    EXPECT_EQ(mesh.x.front(), 1);
    rank.write(3);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    Mesh mesh(0);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, 3);
    for (const double x : mesh.x) EXPECT_EQ(x, 1);
    rank.engine.reset();
  });
}

/// Of the third line of what rank 2 of `memory` has there; then what the end saves of it.
void expect_saved_at_the_end(const fs::path& dir, const InMemory& memory, const LevelConfig& in_memory,
                             std::uint64_t spoilt_at, const std::string& spoilt, std::uint64_t line) {
  const auto file = memory[2]->open_to_write("memory/line-00000003/rank-00002.h5");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->write_at(spoilt_at, as_bytes(spoilt)).ok());
  run_with_a_mesh(dir, memory, {in_memory, shared_level()}, [&](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, line);
  });
  run_with_a_mesh(dir, memory, {shared_level()}, [&](Rank& rank, std::size_t) {
    const auto verified = rank.engine->verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_TRUE(verified->damage.empty()) << verified->damage.front();
  });
  expect_a_mesh_and(static_cast<double>(line), dir, {shared_level()});
}

/// Also where the group of that rank has lost nobody, so that nothing had to be rebuilt there. Byte 14 is of the
/// format's version; at 4096 are metadata of HDF5, which no resume reads.
TEST_F(EngineTest, whatever_is_spoilt_in_memory_is_rebuilt_before_the_line_is_saved_at_the_end) {
  struct Case {
    int parities;
    bool one_is_lost;
    std::uint64_t at;
    std::string spoilt;
  };
  for (const auto& [parities, one_is_lost, at, spoilt] :
       {Case{1, true, 8192, "spoilt"}, Case{1, true, 14, "3"}, Case{1, true, 4096, "spoilt"},
        Case{2, false, 8192, "spoilt"}, Case{2, true, 8192, "spoilt"}}) {
    fs::remove_all(dir_);
    InMemory memory = make_memory();
    const auto in_memory = with_parity(LevelKind::memory, 1, parities);
    run_with_a_mesh(dir_, memory, {in_memory}, [](Rank& rank, std::size_t) {
      for (const double value : {1, 2, 3}) rank.write(value);
    });
    if (one_is_lost) memory[1] = store::make_memory_store();
    expect_saved_at_the_end(dir_, memory, in_memory, at, spoilt, 3);
  }
}

/// Line 1 is at both levels, line 2 in memory alone; those that both need are damaged at level shared.
void write_a_line_whose_static_regions_are_spoilt(const fs::path& dir, const InMemory& memory,
                                                  const std::vector<LevelConfig>& both) {
  run_with_a_mesh(dir, memory, both, [](Rank& rank, std::size_t) { rank.write(1); });
  run_with_a_mesh(dir, memory, {both.front()}, [](Rank& rank, std::size_t) {
    ASSERT_TRUE(rank.engine->resume().ok());
    rank.write(2);
  });
  flip(dir / "shared/shared-static/line-00000001/rank-00001.h5", 8192 + 40);
}

TEST_F(EngineTest, static_regions_at_level_shared_are_read_before_a_line_that_is_saved_at_the_end_needs_them) {
  InMemory memory = make_memory();
  const std::vector<LevelConfig> both{with_parity(LevelKind::memory, 1, 1), level(LevelKind::shared)};
  write_a_line_whose_static_regions_are_spoilt(dir_, memory, both);
  run_with_a_mesh(dir_, memory, both, [](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, 2U);
  });
  expect_a_mesh_and(2, dir_, {level(LevelKind::shared)});
}

std::vector<fs::path> below(const fs::path& dir) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

/// Of the damaged file a program needs nothing that makes its static regions itself.
TEST_F(EngineTest, where_no_room_is_left_for_static_regions_at_the_end_those_that_are_there_stay) {
  InMemory memory = make_memory();
  const std::vector<LevelConfig> both{with_parity(LevelKind::memory, 1, 1), level(LevelKind::shared)};
  write_a_line_whose_static_regions_are_spoilt(dir_, memory, both);
  const auto before = below(dir_ / "shared");
  const auto plan = std::make_shared<store::FaultPlan>();
  plan->fail_writes_under("shared-static", {Code::no_space, "full"});
  run_with_a_mesh(
      dir_, memory, both,
      [](Rank& rank, std::size_t) {
        const auto saved = rank.engine->save_what_memory_holds();
        ASSERT_FALSE(saved.ok());
        EXPECT_EQ(saved.failure().code, Code::no_space);
      },
      [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
  EXPECT_EQ(below(dir_ / "shared"), before);
  run_with_a_mesh(dir_, memory, {level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
  });
}

TEST_F(EngineTest, nothing_is_saved_at_the_end_where_nobody_can_see_what_lies_at_level_shared) {
  const InMemory memory = make_memory();
  const std::vector<LevelConfig> both{with_parity(LevelKind::memory, 1, 1), level(LevelKind::shared)};
  run_with_a_mesh(dir_, memory, both, [](Rank& rank, std::size_t) { rank.write(1); });
  const auto before = below(dir_ / "shared");
  std::atomic<bool> fails = false;
  run_with_a_mesh(
      dir_, memory, both,
      [&](Rank& rank, std::size_t) {
        ASSERT_TRUE(rank.engine->agree_on({}).ok());
        fails = true;
        ASSERT_TRUE(rank.engine->agree_on({}).ok());
        const auto saved = rank.engine->save_what_memory_holds();
        ASSERT_FALSE(saved.ok());
        EXPECT_NE(saved.failure().what.find("for a moment"), std::string::npos) << saved.failure().what;
      },
      [&](EngineConfig& config) {
        const auto plan = std::make_shared<store::FaultPlan>();  // of this rank: others list, too, at any moment
        plan->before_each([&fails, plan = plan.get()](const store::FaultPlan::Step& step) {
          if (step.operation == store::Operation::list && step.path == "shared" && fails.exchange(false))
            plan->fail_nth(store::Operation::list, 0, {Code::io, "for a moment"});
        });
        config.wrap_store = with_faults(plan);
      });
  EXPECT_EQ(below(dir_ / "shared"), before);
}

/// Shared's are damaged, and were found to be; those of level local are good, and in memory.
TEST_F(EngineTest, no_new_line_names_static_regions_that_a_resume_found_damaged) {
  const std::vector<LevelConfig> both{level(LevelKind::local), level(LevelKind::shared)};
  const InMemory none = make_memory();
  run_with_a_mesh(dir_, none, both, [](Rank& rank, std::size_t) { rank.write(1); });
  run_with_a_mesh(dir_, none, {level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    ASSERT_TRUE(rank.engine->resume().ok());
    rank.write(2);
  });
  flip(dir_ / "shared/shared-static/line-00000001/rank-00001.h5", 8192 + 40);
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, both, 3);
    Mesh mesh(-1);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "local");
    rank.write(3);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  for (const int node : {0, 1, 2}) fs::remove_all(dir_ / cat("node-", node));
  expect_a_mesh_and(3, dir_, {level(LevelKind::shared)});
}

/// Nodes with line 2 are away, and others save static regions by that number before they die. Then one of each comes.
TEST_F(EngineTest, static_regions_of_another_history_are_not_those_of_a_line) {
  const std::vector<LevelConfig> both{level(LevelKind::partner), level(LevelKind::shared)};
  const auto run = [&](double start, const std::function<void(Rank&, Mesh&, store::FaultPlan&)>& act) {
    comm::run_ranks(2, [&](comm::Comm& comm) {
      Mesh mesh(start);
      auto plan = std::make_shared<store::FaultPlan>();
      Rank rank(comm, dir_, both, 2, [&](EngineConfig& config) { config.wrap_store = with_faults(plan); });
      ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
      act(rank, mesh, *plan);
      rank.engine.reset();
    });
  };
  const Failure full{Code::no_space, "full"};
  run(1, [](Rank& rank, Mesh&, store::FaultPlan&) { rank.write(1); });
  run(1, [&](Rank& rank, Mesh& mesh, store::FaultPlan& plan) {
    ASSERT_TRUE(rank.engine->resume().ok());
    ASSERT_TRUE(rank.engine->static_regions().remove("mesh").ok());
    mesh.x.assign(50, 2);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    plan.fail_writes_under("shared", full);
    rank.write(2);
  });
  for (const int node : {0, 1}) fs::rename(dir_ / cat("node-", node), dir_ / cat("away-", node));
  run(1, [&](Rank& rank, Mesh&, store::FaultPlan& plan) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
    for (const char* level : {"shared", "partner/line"}) plan.fail_writes_under(level, full);
    rank.write(-1);
  });
  ASSERT_TRUE(fs::exists(dir_ / "node-1/partner-static/line-00000002/manifest"));
  fs::remove_all(dir_ / "node-0");
  fs::rename(dir_ / "away-0", dir_ / "node-0");
  run(0, [](Rank& rank, Mesh& mesh, store::FaultPlan&) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
    for (const double x : mesh.x) EXPECT_EQ(x, 1);
  });
}

/// Where level shared cannot be listed for a moment, as a session is opened behind a loss, and its companion can.
TEST_F(EngineTest, static_regions_stay_as_long_as_nobody_has_seen_which_lines_need_them) {
  const std::vector<LevelConfig> both{level(LevelKind::local), level(LevelKind::shared)};
  run_with_a_mesh(dir_, make_memory(), both, [](Rank& rank, std::size_t) {
    for (const double value : {1, 2}) rank.write(value);
  });
  comm::run_ranks(3, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    int looks = 0;
    Rank rank(comm, dir_, both, 3, [&](EngineConfig& config) {
      config.goes_on = true;
      if (comm.rank() == 0) config.wrap_store = with_faults(plan);
      // The first look is that of who makes names durable.
      plan->before_each([&plan = *plan, &looks](const store::FaultPlan::Step& step) {
        if (step.operation == store::Operation::list && step.path == "shared" && ++looks > 1)
          plan.fail_nth(store::Operation::list, 0, {Code::io, "for a moment"});
      });
    });
    Mesh mesh(comm.rank());
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->level, "local");
    ASSERT_TRUE(rank.engine->agree_on({}).ok());
    EXPECT_TRUE(comm.rank() != 0 || looks > 1);
    plan->heal();
    ASSERT_TRUE(rank.engine->static_regions().remove("mesh").ok());
    mesh.x.assign(50, 9);
    ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    rank.write(3);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  for (const char* name : {"shared/line-00000002", "shared-static/line-00000001"})
    EXPECT_TRUE(fs::exists(dir_ / "shared" / name / "manifest")) << name;
}

TEST_F(EngineTest, lines_that_came_back_after_they_were_passed_over_are_kept_behind_a_newer_one) {
  auto three = level(LevelKind::shared);
  three.keep = 3;
  write(2, {three}, {1, 2, 3});
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, {three}, 2, [&](EngineConfig& config) {
      if (comm.rank() == 1) config.wrap_store = with_faults(plan);
    });
    for (const std::uint64_t nth : {1, 2, 3, 4})
      plan->fail_nth(store::Operation::read, nth, {Code::io, "for a moment"});
    const auto oldest = rank.engine->resume();
    ASSERT_TRUE(oldest.ok()) << oldest.failure().what;
    EXPECT_EQ(oldest->line, 1U);
    plan->heal();
    const auto newest = rank.engine->resume();
    ASSERT_TRUE(newest.ok()) << newest.failure().what;
    EXPECT_EQ(newest->line, 3U);
    rank.write(4);
  });
  for (const int line : {2, 3, 4})
    EXPECT_TRUE(fs::exists(dir_ / cat("shared/shared/line-0000000", line, "/manifest"))) << line;
}

TEST_F(EngineTest, a_line_that_comes_back_after_it_was_passed_over_is_kept) {
  write(2, {level(LevelKind::shared)}, {1, 2});
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, [&](EngineConfig& config) {
      if (comm.rank() == 1) config.wrap_store = with_faults(plan);
    });
    for (const std::uint64_t nth : {1, 2}) plan->fail_nth(store::Operation::read, nth, {Code::io, "for a moment"});
    const auto older = rank.engine->resume();
    ASSERT_TRUE(older.ok()) << older.failure().what;
    EXPECT_EQ(older->line, 1U);
    plan->heal();
    const auto newest = rank.engine->resume();
    ASSERT_TRUE(newest.ok()) << newest.failure().what;
    EXPECT_EQ(newest->line, 2U);
    rank.write(3);
  });
  EXPECT_TRUE(fs::exists(dir_ / "shared/shared/line-00000002/manifest"));
}

/// A rank is lost, and another one's memory of the newest line is spoilt: its one parity does not bear both.
TEST_F(EngineTest, where_the_newest_line_in_memory_proves_damaged_an_older_one_is_saved_at_the_end) {
  InMemory memory = make_memory();
  const auto in_memory = with_parity(LevelKind::memory, 2, 1);
  const auto run = [&](const std::vector<LevelConfig>& levels, const std::function<void(Rank&, std::size_t)>& act) {
    run_with_a_mesh(dir_, memory, levels, act);
  };
  run({in_memory}, [](Rank& rank, std::size_t) {
    for (const double value : {1, 2, 3}) rank.write(value);
  });
  memory[2] = store::make_memory_store();
  const auto file = memory[0]->open_to_write("memory/line-00000003/rank-00000.h5");
  ASSERT_TRUE(file.ok());
  const std::vector<std::byte> spoilt(64, std::byte{0x5a});
  ASSERT_TRUE((*file)->write_at(4096, spoilt).ok());
  run({in_memory, level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    const auto saved = rank.engine->save_what_memory_holds();
    ASSERT_TRUE(saved.ok()) << saved.failure().what;
    EXPECT_EQ(saved->line, 2U);
    EXPECT_EQ(saved->call, 2U);
    EXPECT_GT(saved->bytes, 24 * sizeof(double));
  });
  run({level(LevelKind::shared)}, [](Rank& rank, std::size_t) {
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok() && found->resumed) << (found.ok() ? "nothing was found" : found.failure().what);
    for (const double x : rank.u) EXPECT_EQ(x, 2);
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

TEST_F(EngineTest, the_first_call_after_a_loss_writes_the_copies_again) {
  write(4, {level(LevelKind::partner)}, {1, 2});
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(4, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::partner)});
    ASSERT_TRUE(rank.engine->resume().ok());
    EXPECT_EQ(*rank.engine->checkpoint(false, false), Outcome::taken);
    ASSERT_TRUE(rank.engine->wait().ok());
  });
  fs::remove_all(dir_ / "node-0");
  expect_found(4, {level(LevelKind::partner)}, 2);
}

TEST_F(EngineTest, a_damaged_line_falls_back_to_the_older_one) {
  write(3, {level(LevelKind::shared)}, {1, 2});
  std::fstream file(dir_ / "shared/shared/line-00000002/rank-00001.h5",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8192);
  file.put(1);
  file.close();
  expect_found(3, {level(LevelKind::shared)}, 1);
}

TEST_F(EngineTest, a_damaged_copy_falls_back_to_the_other) {
  write(4, {level(LevelKind::partner)}, {1, 2});
  fs::resize_file(dir_ / "node-0/partner/line-00000002/rank-00001.h5", 8200);
  std::fstream file(dir_ / "node-1/partner/line-00000002/rank-00002.h5",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8192);
  file.put(1);
  file.close();
  expect_found(4, {level(LevelKind::partner)}, 2);
}

TEST_F(EngineTest, when_nothing_can_be_had_the_refusal_is_the_same_everywhere) {
  write(2, {level(LevelKind::shared)}, {1});
  fs::remove(dir_ / "shared/shared/line-00000001/rank-00001.h5");
  std::vector<std::string> said(2);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    said[static_cast<std::size_t>(comm.rank())] = found.failure().what;
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[0].find("rank-00001.h5"), std::string::npos);
}

/// The rank whose node is lost needs others for each of its regions, and is alone in having two.
TEST_F(EngineTest, a_rank_that_asks_for_more_regions_than_others_is_served_if_the_program_is_lenient) {
  std::vector<LevelConfig> levels{level(LevelKind::partner)};
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 3);
    std::vector<double> more(5, comm.rank() + 0.5);
    rank.add("more", more);
    rank.write(7);
    EXPECT_EQ(rank.trouble, "");
    rank.engine.reset();
  });
  fs::remove_all(dir_ / "node-1");
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 3, [](EngineConfig& config) { config.lenient = true; });
    std::vector<double> more(5);
    if (comm.rank() == 1) rank.add("more", more);
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    for (const double x : rank.u) EXPECT_EQ(x, 7);
    for (const double x : more) EXPECT_EQ(x, comm.rank() == 1 ? 1.5 : 0);
    rank.engine.reset();
  });
}

TEST_F(EngineTest, static_regions_of_one_rank_that_the_line_has_not_are_the_refusal_of_all) {
  write(2, {level(LevelKind::shared)}, {1});
  std::vector<std::string> said(2);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    Mesh mesh(1);
    if (comm.rank() == 1) {
      ASSERT_TRUE(rank.engine->static_regions().add(mesh.spec()).ok());
    }
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.failure().code, Code::mismatch);
    said[static_cast<std::size_t>(comm.rank())] = found.failure().what;
    rank.engine.reset();
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[1].find("'mesh' is protected as static"), std::string::npos) << said[1];
}

TEST_F(EngineTest, ranks_that_protect_different_regions_are_told_so_and_lose_nothing) {
  write(3, {level(LevelKind::shared)}, {5});
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    std::vector<double> more(2);
    if (comm.rank() == 2) rank.add("extra", more);
    rank.write(6);
    EXPECT_NE(rank.trouble.find("rank 2 has region 'extra'"), std::string::npos) << rank.trouble;
  });
  expect_found(3, {level(LevelKind::shared)}, 5);
}

TEST_F(EngineTest, two_jobs_on_one_directory_are_refused) {
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::local)});
    ASSERT_TRUE(comm.barrier().ok());
    EXPECT_THROW(Rank(comm, dir_, {level(LevelKind::local)}), Error);
    ASSERT_TRUE(comm.barrier().ok());
  });
}

constexpr std::chrono::milliseconds short_timeout{BACKSTAY_TEST_PACE * 1000};  // far more than a call takes
constexpr auto computing = short_timeout / 10;                                 // what a program computes between calls

TEST_F(EngineTest, a_rank_that_is_late_is_waited_for_and_nothing_is_lost) {
  for (const int late : {0, 1, 2}) {
    fs::remove_all(dir_);
    std::array<std::vector<std::string>, 3> said;
    comm::run_ranks(
        3,
        [&](comm::Comm& comm) {
          const auto me = static_cast<std::size_t>(comm.rank());
          Rank rank(
              comm, dir_, {level(LevelKind::shared, Layout::one_file)}, 2,
              [](EngineConfig& config) { config.timeout = short_timeout; }, &said[me]);
          for (int call = 1; call <= 20; ++call) {
            if (comm.rank() == late && call == 5) std::this_thread::sleep_for(4 * short_timeout);
            for (auto& x : rank.u) x = call;
            EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
          }
          EXPECT_TRUE(rank.engine->wait().ok());
          const auto found = rank.engine->verify();
          ASSERT_TRUE(found.ok()) << found.failure().what;
          EXPECT_EQ(found->lines, 2U);
          EXPECT_TRUE(found->damage.empty());
        },
        short_timeout);
    expect_found(3, {level(LevelKind::shared, Layout::one_file)}, 20);
    for (std::size_t me = 0; me < said.size(); ++me) {
      if (static_cast<int>(me) == late) continue;
      ASSERT_GE(said[me].size(), 2U);
      EXPECT_NE(said[me].front().find("a rank has not come for"), std::string::npos) << said[me].front();
      EXPECT_NE(said[me].back().find("all ranks have come"), std::string::npos) << said[me].back();
      EXPECT_LE(said[me].size(), 4U) << "not at each look";
    }
  }
}

TEST_F(EngineTest, a_rank_that_closes_while_others_go_on_keeps_nobody_waiting) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    rank.write(1);
    int refused = 0;
    for (int call = 0; call < 5 && comm.rank() != 1; ++call) {
      const auto outcome = rank.engine->checkpoint(false, false);
      if (!outcome && outcome.failure().what.find("closed its session") != std::string::npos) ++refused;
    }
    EXPECT_TRUE(comm.rank() == 1 || refused >= 3);
    const auto met = rank.engine->meet_to_close();
    ASSERT_FALSE(met.ok());
    EXPECT_NE(met.failure().what.find("closed its session"), std::string::npos) << met.failure().what;
  });
}

TEST_F(EngineTest, a_rank_that_leaves_without_waiting_keeps_nobody_waiting) {
  for (const bool in_close : {false, true}) {
    comm::run_ranks(3, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::shared)});
      rank.write(1);
      if (comm.rank() == 1) return rank.engine->announce_close(false);
      if (in_close) {
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        return;
      }
      int refused = 0;
      for (int call = 0; call < 5; ++call) refused += rank.engine->checkpoint(false, false) ? 0 : 1;
      EXPECT_GE(refused, 3);
    });
  }
}

TEST_F(EngineTest, ranks_that_make_different_calls_hear_so) {
  comm::run_ranks(3, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::shared)});
    rank.write(1);
    const auto told = comm.rank() == 1 ? rank.engine->prune(1) : Result<void>(rank.engine->verify().failure());
    ASSERT_FALSE(told.ok());
    EXPECT_NE(told.failure().what.find("a rank is in verify(), and another in prune()"), std::string::npos)
        << told.failure().what;
    EXPECT_FALSE(rank.engine->resume());
    EXPECT_FALSE(rank.engine->meet_to_close());
  });
}

TEST_F(EngineTest, a_rank_that_takes_a_checkpoint_alone_keeps_nobody_waiting) {
  for (const bool in_close : {false, true}) {
    comm::run_ranks(3, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::shared)});
      rank.write(1);
      const auto start = std::chrono::steady_clock::now();
      if (comm.rank() == 1) {
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
      }
      Result<void> told;
      for (int call = 0; call < 5 && told && !in_close; ++call)
        if (const auto outcome = rank.engine->checkpoint(false, false); !outcome) told = outcome.failure();
      if (in_close) told = rank.engine->meet_to_close();
      ASSERT_FALSE(told.ok());
      EXPECT_NE(told.failure().what.find("nothing more is saved"), std::string::npos) << told.failure().what;
      EXPECT_TRUE(rank.engine->drain().ok());
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "half of the time-out";
    });
  }
}

TEST_F(EngineTest, a_rank_that_is_late_at_the_end_costs_no_line) {
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2,
                  [](EngineConfig& config) { config.timeout = short_timeout; });
        for (auto& x : rank.u) x = 7;
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        if (comm.rank() == 1) std::this_thread::sleep_for(3 * short_timeout);
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        EXPECT_TRUE(rank.engine->drain().ok());
      },
      short_timeout);
  expect_found(3, {level(LevelKind::shared)}, 7);
}

/// Quick steps, of which the program couples every 500th, and a rank that is late before, at or behind a coupling.
class CoupledProgram : public EngineTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(late_at_step, CoupledProgram, ::testing::Values(1, 5, 250, 499));

TEST_P(CoupledProgram, of_which_a_rank_was_late_goes_on_at_once) {
  constexpr int coupled = 500, late = 20 * coupled;
  std::barrier<> coupling(2);
  LevelConfig seldom;
  seldom.cadence.every = 1000000;
  const auto start = std::chrono::steady_clock::now();
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {seldom}, 1, [](EngineConfig& config) { config.timeout = short_timeout; });
        for (int call = 1; call <= 40 * coupled; ++call) {
          if (comm.rank() == 0 && call == late + GetParam()) std::this_thread::sleep_for(5 * short_timeout / 2);
          if (call % 5000 == 0) {
            EXPECT_TRUE(rank.engine->wait().ok());
          }
          EXPECT_TRUE(rank.engine->checkpoint(false, false).ok());
          if (call % coupled == 0) coupling.arrive_and_wait();
        }
        EXPECT_TRUE(rank.engine->wait().ok());
      },
      short_timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10 * short_timeout);
}

/// What a rank does before a call: it sleeps for so many time-outs.
struct Stall {
  int rank;
  int call;
  int timeouts;
};

TEST_F(EngineTest, stalls_of_several_ranks_one_after_the_other_cost_no_line) {
  const std::vector<Stall> stalls{{1, 6, 3}, {0, 7, 2}, {1, 10, 3}, {0, 21, 2}, {1, 21, 1}};
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {LevelConfig{}}, 2, [](EngineConfig& config) { config.timeout = short_timeout; });
        for (int call = 1; call <= 40; ++call) {
          for (const auto& stall : stalls)
            if (comm.rank() == stall.rank && call == stall.call)
              std::this_thread::sleep_for(stall.timeouts * short_timeout);
          for (auto& x : rank.u) x = call;
          EXPECT_TRUE(rank.engine->checkpoint(call % 2 == 0, false).ok());
          if (call % 5 == 0) (void)rank.engine->wait().ok();  // which is bounded, as another rank may write for long
        }
        EXPECT_TRUE(rank.engine->wait().ok());
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  expect_found(2, {level(LevelKind::shared)}, 40);
}

TEST_F(EngineTest, a_signal_while_a_rank_is_late_stops_all_ranks_at_one_call_with_a_last_line) {
  std::array<int, 3> stopped{};
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2,
                  [](EngineConfig& config) { config.timeout = short_timeout; });
        int& calls = stopped[static_cast<std::size_t>(comm.rank())];
        Result<Outcome> outcome = Outcome::not_due;
        while ((!outcome || *outcome != Outcome::stop) && ++calls < 200) {
          if (comm.rank() == 2 && calls == 5) std::this_thread::sleep_for(4 * short_timeout);
          std::this_thread::sleep_for(computing);
          for (auto& x : rank.u) x = calls;
          outcome = rank.engine->checkpoint(false, comm.rank() == 0 && calls >= 5);
        }
        EXPECT_LT(calls, 200);
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  EXPECT_EQ(stopped[0], stopped[1]);
  EXPECT_EQ(stopped[0], stopped[2]);
  expect_found(3, {level(LevelKind::shared)}, stopped[0]);
}

TEST_F(EngineTest, a_rank_that_is_late_in_resume_is_waited_for) {
  write(3, {level(LevelKind::shared)}, {1, 2, 3});
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2,
                  [](EngineConfig& config) { config.timeout = short_timeout; });
        bool sleeps = comm.rank() == 1;
        RegionSpec spec = rank.engine->regions().specs().front();
        ASSERT_TRUE(rank.engine->regions().remove("u").ok());
        spec.reshape = [&, reshape = spec.reshape](const Extents& shape) {
          if (std::exchange(sleeps, false)) std::this_thread::sleep_for(3 * short_timeout);
          return reshape(shape);
        };
        ASSERT_TRUE(rank.engine->regions().add(spec).ok());
        const auto found = rank.engine->resume();
        ASSERT_TRUE(found.ok()) << found.failure().what;
        for (double x : rank.u) EXPECT_EQ(x, 3);
        rank.write(4);
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  expect_found(3, {level(LevelKind::shared)}, 4);
}

/// A store whose syncs hang for a while, once, on one rank: a disk that is gone for some time.
std::function<void(EngineConfig&)> hangs_once(int rank, int me, std::string name = "") {
  return [=](EngineConfig& config) {
    config.timeout = short_timeout;
    if (me != rank) return;
    auto plan = std::make_shared<store::FaultPlan>();
    plan->before_each([name, hung = std::make_shared<std::atomic<bool>>(false)](const store::FaultPlan::Step& step) {
      if (step.operation == store::Operation::sync && step.path.ends_with(name) && !hung->exchange(true))
        std::this_thread::sleep_for(4 * short_timeout);
    });
    config.wrap_store = with_faults(plan);
  };
}

TEST_F(EngineTest, a_disk_that_hangs_for_longer_than_the_timeout_costs_lines_and_not_the_session) {
  for (const auto& config : {level(LevelKind::shared, Layout::one_file), level(LevelKind::partner)}) {
    for (const int slow : {0, 2}) {
      fs::remove_all(dir_);
      comm::run_ranks(
          4,
          [&](comm::Comm& comm) {
            Rank rank(comm, dir_, {config}, 2, hangs_once(slow, comm.rank()));
            for (auto& x : rank.u) x = 1;
            EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
            std::this_thread::sleep_for(6 * short_timeout);  // as in a step: nobody waits inside a call
            for (auto& x : rank.u) x = 2;
            for (int call = 0; call < 10; ++call) {
              std::this_thread::sleep_for(computing);
              (void)rank.engine->checkpoint(false, false).ok();
            }
            EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
            EXPECT_TRUE(rank.engine->wait().ok());
            EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
          },
          short_timeout);
      expect_found(4, {config}, 2);
    }
  }
}

TEST_F(EngineTest, a_rank_that_stands_still_at_its_very_end_costs_no_line) {
  for (const auto& config : {level(LevelKind::shared, Layout::one_file), level(LevelKind::partner)}) {
    fs::remove_all(dir_);
    comm::run_ranks(
        3,
        [&](comm::Comm& comm) {
          Rank rank(comm, dir_, {config}, 2, hangs_once(1, comm.rank()));  // both of its threads stand still
          for (auto& x : rank.u) x = 7;
          EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
          EXPECT_TRUE(rank.engine->meet_to_close().ok());
          if (comm.rank() == 1) std::this_thread::sleep_for(4 * short_timeout);
          const auto drained = rank.engine->drain();
          EXPECT_TRUE(drained.ok()) << drained.failure().what;
        },
        short_timeout);
    expect_found(3, {config}, 7);
  }
}

TEST_F(EngineTest, a_disk_that_hangs_at_the_very_end_is_told_by_all_ranks_alike) {
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, hangs_once(1, comm.rank()));
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        const auto drained = rank.engine->drain();
        ASSERT_FALSE(drained.ok());
        EXPECT_EQ(drained.failure().code, Code::timeout);
        EXPECT_NE(drained.failure().what.find("rank 0: writing the last checkpoint was not done within"),
                  std::string::npos)
            << drained.failure().what;
        std::this_thread::sleep_for(5 * short_timeout);  // the disk comes back
      },
      short_timeout);
}

TEST_F(EngineTest, a_rank_that_leaves_by_an_error_is_not_waited_for_at_the_end) {
  for (const bool is_first : {false, true}) {
    std::latch others(2);
    comm::run_ranks(3, [&](comm::Comm& comm) {
      Rank rank(comm, dir_, {level(LevelKind::shared)});
      rank.write(1);
      const auto start = std::chrono::steady_clock::now();
      if ((comm.rank() == 1) != is_first) std::this_thread::sleep_for(computing);
      if (comm.rank() == 1) {
        rank.engine->announce_close(false);
        others.wait();
      } else {
        EXPECT_TRUE(rank.engine->meet_to_close().ok());
        EXPECT_TRUE(rank.engine->drain().ok());
        others.count_down();
      }
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "half of the time-out";
    });
  }
}

TEST_F(EngineTest, a_line_that_a_hung_disk_committed_alone_goes_with_the_lines_of_its_time) {
  comm::run_ranks(
      2,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::local)}, 2, hangs_once(1, comm.rank(), "manifest.part"));
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        for (int call = 0; call < 80; ++call) {
          std::this_thread::sleep_for(computing);
          (void)rank.engine->checkpoint(call % 4 == 0, false).ok();
        }
        EXPECT_TRUE(rank.engine->wait().ok());
        const auto found = rank.engine->verify();
        ASSERT_TRUE(found.ok()) << found.failure().what;
        EXPECT_EQ(found->lines, 2U);
        EXPECT_TRUE(found->damage.empty()) << found->damage.front();
      },
      short_timeout);
}

TEST_F(EngineTest, a_program_that_saves_at_every_call_is_protected_again_after_a_disk_hung) {
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared, Layout::one_file)}, 2, hangs_once(1, comm.rank()));
        for (int call = 1; call <= 60; ++call) {
          std::this_thread::sleep_for(computing);
          for (auto& x : rank.u) x = call;
          (void)rank.engine->checkpoint(true, false).ok();
        }
        EXPECT_TRUE(rank.engine->wait().ok());
        EXPECT_TRUE(rank.engine->last_line_is_whole()) << rank.trouble;
      },
      short_timeout);
  expect_found(3, {level(LevelKind::shared, Layout::one_file)}, 60);
}

TEST_F(EngineTest, all_ranks_stop_at_one_call_also_where_the_last_checkpoint_hangs) {
  std::array<int, 3> stopped{};
  comm::run_ranks(
      3,
      [&](comm::Comm& comm) {
        Rank rank(comm, dir_, {level(LevelKind::shared)}, 2, hangs_once(1, comm.rank()));
        EXPECT_EQ(*rank.engine->checkpoint(true, false), Outcome::taken);
        int& calls = stopped[static_cast<std::size_t>(comm.rank())];
        Result<Outcome> outcome = Outcome::not_due;
        while (outcome && *outcome != Outcome::stop && ++calls < 20) outcome = rank.engine->checkpoint(false, true);
        EXPECT_TRUE(outcome.ok());
        EXPECT_FALSE(rank.engine->last_line_is_whole());
        std::this_thread::sleep_for(5 * short_timeout);  // the disk comes back
      },
      short_timeout);
  EXPECT_EQ(stopped[0], stopped[1]);
  EXPECT_EQ(stopped[0], stopped[2]);
  EXPECT_LT(stopped[0], 20);
}

Rank::Adjust watched_by(std::function<void(const store::FaultPlan::Step&)> watch) {
  auto plan = std::make_shared<store::FaultPlan>();
  plan->before_each(std::move(watch));
  return [plan](EngineConfig& config) { config.wrap_store = with_faults(plan); };
}

TEST_F(EngineTest, where_the_background_has_no_memory_left_the_process_says_so_and_ends) {
  write(1, {level(LevelKind::shared)}, {1});
  EXPECT_EXIT(comm::run_ranks(1,
                              [&](comm::Comm& comm) {
                                Rank rank(comm, dir_, {level(LevelKind::shared)}, 1,
                                          watched_by([](const store::FaultPlan::Step& step) {
                                            if (step.operation == store::Operation::sync) throw std::bad_alloc();
                                          }));
                                rank.write(2);
                              }),
              testing::KilledBySignal(SIGABRT), "backstay: saving a checkpoint has no way on \\(std::bad_alloc\\)");
  expect_found(1, {level(LevelKind::shared)}, 1);
}

/// Whoever archives by hard links does so while a line is written.
TEST_F(EngineTest, a_file_that_gets_another_name_between_its_ranks_is_one_file) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared, Layout::one_file)};
  comm::run_ranks(3, [&](comm::Comm& comm) {
    const auto archive = [&](const store::FaultPlan::Step& step) {
      const auto file = dir_ / "shared" / step.path;
      if (comm.rank() == 1 && step.operation == store::Operation::open && step.path.ends_with(".h5"))
        fs::create_hard_link(file, dir_ / cat("archived-", step.number));
    };
    Rank rank(comm, dir_, levels, 2, watched_by(archive));
    for (const double value : {1, 2, 3, 4, 5}) rank.write(value);
    EXPECT_EQ(rank.trouble, "");
  });
  EXPECT_GE(std::distance(fs::directory_iterator(dir_), {}), 5) << "archived";
  expect_found(3, levels, 5);
}

TEST_F(EngineTest, prune_keeps_what_can_be_put_back_of_what_it_wrote_itself) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared, Layout::one_file)};
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 2, [](EngineConfig& config) { config.levels[0].keep = 3; });
    for (const double value : {1, 2, 3}) rank.write(value);
    if (comm.rank() == 0) fs::remove(dir_ / "shared/shared/line-00000003/all.h5");
    ASSERT_TRUE(comm.barrier().ok());
    const auto pruned = rank.engine->prune(1);
    EXPECT_TRUE(pruned.ok()) << pruned.failure().what;
  });
  expect_found(2, levels, 2);
}

TEST_F(EngineTest, prune_removes_what_resume_had_to_pass_over) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared, Layout::one_file)};
  write(2, levels, {1, 2});
  flip(dir_ / "shared/shared/line-00000002/all.h5", 8193);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    const auto found = rank.engine->resume();
    ASSERT_TRUE(found.ok()) << found.failure().what;
    EXPECT_EQ(found->line, 1U);
    const auto pruned = rank.engine->prune(1);
    EXPECT_TRUE(pruned.ok()) << pruned.failure().what;
    const auto left = rank.engine->verify();
    ASSERT_TRUE(left.ok()) << left.failure().what;
    EXPECT_EQ(left->lines, 1U);
    EXPECT_TRUE(left->damage.empty());
  });
}

/// A retired line's manifest that cannot be removed now, as the storage fails for a moment.
TEST_F(EngineTest, a_line_that_could_not_be_retired_is_retired_later) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  comm::run_ranks(2, [&](comm::Comm& comm) {
    auto plan = std::make_shared<store::FaultPlan>();
    Rank rank(comm, dir_, levels, 2, [&](EngineConfig& config) {
      config.levels[0].keep = 2;
      config.wrap_store = with_faults(plan);
    });
    for (const double value : {1, 2}) rank.write(value);
    if (comm.rank() == 0) plan->fail_nth(store::Operation::remove, 1, {Code::io, "for a moment"});
    rank.write(3);
    EXPECT_NE(rank.trouble.find(comm.rank() == 0 ? "for a moment" : ""), std::string::npos) << rank.trouble;
    const auto manifest = dir_ / "shared/shared/line-00000001/manifest";
    EXPECT_TRUE(fs::exists(manifest));
    plan->heal();
    ASSERT_TRUE(comm.barrier().ok());
    rank.write(4);
    EXPECT_FALSE(comm.rank() == 0 && fs::exists(manifest));
  });
}

TEST_F(EngineTest, memory_that_cannot_be_looked_at_on_one_rank_ends_resume_on_all) {
  const std::vector<LevelConfig> levels{level(LevelKind::shared)};
  RegionSpec spec;
  spec.name = "list";
  spec.type = type_of<double>();
  spec.placement.kind = Placement::Kind::distributed_list;
  std::vector<double> list(6, 1.0);
  const auto look = [&] { return detail::dense_view(list.data(), {static_cast<std::int64_t>(list.size())}, 8); };
  comm::run_ranks(1, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels, 1);
    RegionSpec here = spec;
    here.view = look;
    ASSERT_TRUE(rank.engine->regions().add(here).ok());
    rank.write(1);
  });
  list.resize(3);
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, levels);
    bool fails = false;
    RegionSpec here = spec;
    here.view = [&] {
      if (fails) throw std::runtime_error("it is being moved");
      return look();
    };
    ASSERT_TRUE(rank.engine->regions().add(here).ok());
    fails = comm.rank() == 1;
    const auto found = rank.engine->resume();
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.failure().code, Code::user);
    EXPECT_NE(found.failure().what.find("it is being moved"), std::string::npos) << found.failure().what;
  });
}

TEST_F(EngineTest, flipped_bytes_are_found_by_verify) {
  write(2, {level(LevelKind::partner)}, {1, 2});
  const auto damaged = dir_ / "node-1/partner/line-00000002/copy-rank-00000.h5";
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8193);
  file.put(1);
  file.close();
  comm::run_ranks(2, [&](comm::Comm& comm) {
    Rank rank(comm, dir_, {level(LevelKind::partner)});
    const auto found = rank.engine->verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->lines, 2U);
    ASSERT_EQ(found->damage.size(), 1U);
    EXPECT_NE(found->damage[0].find("copy-rank-00000.h5"), std::string::npos);
  });
}

}  // namespace
}  // namespace backstay::engine
