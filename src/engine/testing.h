// What the tests of the engine share: several ranks as threads, real directories.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/fake_comm.h"
#include "engine/engine.h"
#include "store/faulty_store.h"

namespace backstay::engine {

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

inline std::function<std::shared_ptr<store::Store>(std::shared_ptr<store::Store>)> with_faults(
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

inline LevelConfig with_parity(LevelKind kind, int k, int p) {
  LevelConfig out;
  out.kind = kind;
  out.parity = {k, p, {}};
  return out;
}

/// Ranks on nodes, a file each at level local with parity.
struct Parity {
  int ranks, nodes, k, p;
};
/// Two lines of values 1 and 2.
inline void write_with_parity(const fs::path& dir, const Parity& how) {
  fs::remove_all(dir);
  comm::run_ranks(how.ranks, [&](comm::Comm& comm) {
    Rank rank(comm, dir, {with_parity(LevelKind::local, how.k, how.p)}, how.nodes);
    rank.write(1);
    rank.write(2);
    EXPECT_EQ(rank.trouble, "");
  });
}
/// What a new job finds: 0 for nothing that can be had.
inline double found_with_parity(const fs::path& dir, const Parity& how) {
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
inline void flip(const fs::path& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file.good()) << path;
  file.seekg(at);
  const char byte = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 0x10));
}

}  // namespace backstay::engine
