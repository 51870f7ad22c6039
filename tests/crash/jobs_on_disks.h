// Jobs of four ranks, threads of one process, on file systems in memory that can forget what was not synced, or be
// damaged; and in the memory of processes, of which some are lost.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>

#include "comm/fake_comm.h"
#include "engine/engine.h"
#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/testing.h"

namespace backstay::engine::on_disks {

// ---- a store that forgets ------------------------------------------------------------------------------------------

/// A file or directory as it is, and as it would be after a power cut.
struct Node {
  bool is_dir = false;
  Bytes now, durable;
  std::map<std::string, std::shared_ptr<Node>> entries, durable_entries;
};
using NodePtr = std::shared_ptr<Node>;

inline std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const auto end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// What a crash does to what was not synced: some is kept of it, of each 512 bytes and of each name on its own.
enum class Crash { keeps_all, keeps_nothing, keeps_some };

/// The tree of one file system, shared by the stores of all ranks that see it.
class Disk {
 public:
  Disk() { root_->is_dir = true; }

  std::mutex mutex;
  [[nodiscard]] NodePtr find(const std::string& path) const {
    NodePtr node = root_;
    for (const auto& part : parts_of(path)) {
      const auto it = node->entries.find(part);
      if (it == node->entries.end()) return nullptr;
      node = it->second;
    }
    return node;
  }
  /// The bytes of all files, by path.
  [[nodiscard]] std::map<std::string, Bytes*> files() {
    std::map<std::string, Bytes*> out;
    list(*root_, "", out);
    return out;
  }
  void crash(Crash kind, unsigned seed) {
    std::mt19937 random(seed);
    settle(*root_, kind, random);
  }
  [[nodiscard]] std::shared_ptr<Disk> copy() const {
    auto out = std::make_shared<Disk>();
    std::map<const Node*, NodePtr> done;
    out->root_ = copy_of(root_, done);
    return out;
  }

 private:
  static void list(Node& dir, const std::string& path, std::map<std::string, Bytes*>& out) {
    for (auto& [name, child] : dir.entries) {
      const std::string below = path + (path.empty() ? "" : "/") + name;
      if (child->is_dir)
        list(*child, below, out);
      else
        out[below] = &child->now;
    }
  }
  static void settle(Node& node, Crash kind, std::mt19937& random) {
    if (kind == Crash::keeps_nothing) {
      node.now = node.durable;
      node.entries = node.durable_entries;
    } else if (kind == Crash::keeps_some) {
      node.now = torn(node.durable, node.now, random);
      node.entries = some_of(node.durable_entries, node.entries, random);
    }
    node.durable = node.now;
    node.durable_entries = node.entries;
    for (auto& [name, child] : node.entries) settle(*child, kind, random);
  }
  /// Either size, and of each sector the old bytes or the new ones.
  static Bytes torn(const Bytes& old, const Bytes& now, std::mt19937& random) {
    constexpr std::size_t sector = 512;
    Bytes out = random() % 2 == 0 ? now : old;
    for (std::size_t at = 0; at < out.size(); at += sector) {
      const Bytes& from = random() % 2 == 0 ? now : old;
      for (std::size_t i = at; i < std::min(at + sector, out.size()); ++i)
        out[i] = i < from.size() ? from[i] : std::byte{0};
    }
    return out;
  }
  /// Of each name what it was or what it is.
  static std::map<std::string, NodePtr> some_of(const std::map<std::string, NodePtr>& old,
                                                const std::map<std::string, NodePtr>& now, std::mt19937& random) {
    std::map<std::string, NodePtr> all = old;
    all.insert(now.begin(), now.end());
    std::map<std::string, NodePtr> out;
    for (const auto& [name, node] : all) {
      const auto& from = random() % 2 == 0 ? now : old;
      if (const auto it = from.find(name); it != from.end()) out.insert(*it);
    }
    return out;
  }
  static NodePtr copy_of(const NodePtr& node, std::map<const Node*, NodePtr>& done) {
    auto& out = done[node.get()];
    if (out) return out;
    const NodePtr made = std::make_shared<Node>(*node);
    out = made;
    for (auto* entries : {&made->entries, &made->durable_entries})
      for (auto& [name, child] : *entries) child = copy_of(child, done);
    return made;
  }

  NodePtr root_ = std::make_shared<Node>();
};

inline Failure not_there(const std::string& path) { return fail(Code::not_found, path, " is not there"); }

class ForgetfulFile final : public store::File {
 public:
  ForgetfulFile(std::shared_ptr<Disk> disk, NodePtr node) : disk_(std::move(disk)), node_(std::move(node)) {}
  Result<void> write_at(std::uint64_t offset, ByteView bytes) override {
    const std::lock_guard lock(disk_->mutex);
    if (node_->now.size() < offset + bytes.size()) node_->now.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), node_->now.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  Result<void> read_at(std::uint64_t offset, MutableByteView bytes) override {
    const std::lock_guard lock(disk_->mutex);
    if (node_->now.size() < offset + bytes.size()) return fail(Code::corrupt, "the file ends before");
    std::copy_n(node_->now.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(), bytes.begin());
    return {};
  }
  Result<std::uint64_t> size() override {
    const std::lock_guard lock(disk_->mutex);
    return node_->now.size();
  }
  Result<void> resize(std::uint64_t size) override {
    const std::lock_guard lock(disk_->mutex);
    node_->now.resize(size);
    return {};
  }
  Result<void> sync() override {
    const std::lock_guard lock(disk_->mutex);
    node_->durable = node_->now;
    return {};
  }

 private:
  std::shared_ptr<Disk> disk_;
  NodePtr node_;
};

class ForgetfulStore final : public store::Store {
 public:
  explicit ForgetfulStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}
  [[nodiscard]] std::string where() const override { return "forgetful"; }
  Result<std::unique_ptr<store::File>> open_to_write(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    const auto [dir, name] = place(path);
    if (!dir) return not_there(path);
    auto& node = dir->entries[name];
    if (!node) node = std::make_shared<Node>();
    return file(node);
  }
  Result<std::unique_ptr<store::File>> open_to_write_along(const std::string& path) override {
    return open_to_read(path);
  }
  Result<std::unique_ptr<store::File>> open_to_read(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    const auto node = disk_->find(path);
    if (!node || node->is_dir) return not_there(path);
    return file(node);
  }
  Result<void> make_dir(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    NodePtr node = disk_->find("");
    for (const auto& part : parts_of(path)) {
      auto& child = node->entries[part];
      if (!child) child = std::make_shared<Node>();
      child->is_dir = true;
      node = child;
    }
    return {};
  }
  Result<std::vector<store::Entry>> list(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    const auto node = disk_->find(path);
    if (!node) return not_there(path);
    std::vector<store::Entry> out;
    for (const auto& [name, child] : node->entries) out.push_back({name, child->is_dir, child->now.size()});
    return out;
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(disk_->mutex);
    const auto [source, old_name] = place(from);
    const auto [target, new_name] = place(to);
    if (!source || !target || !source->entries.contains(old_name)) return not_there(from);
    target->entries[new_name] = source->entries[old_name];
    source->entries.erase(old_name);
    return {};
  }
  Result<void> remove(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    const auto [dir, name] = place(path);
    if (dir) dir->entries.erase(name);
    return {};
  }
  Result<void> sync_dir(const std::string& path) override {
    const std::lock_guard lock(disk_->mutex);
    const auto node = disk_->find(path);
    if (!node) return not_there(path);
    node->durable_entries = node->entries;
    return {};
  }

 private:
  std::unique_ptr<store::File> file(const NodePtr& node) { return std::make_unique<ForgetfulFile>(disk_, node); }
  [[nodiscard]] std::pair<NodePtr, std::string> place(const std::string& path) const {
    const auto slash = path.rfind('/');
    return {disk_->find(slash == path.npos ? "" : path.substr(0, slash)),
            path.substr(slash == path.npos ? 0 : slash + 1)};
  }

  std::shared_ptr<Disk> disk_;
};

// ---- jobs on it ----------------------------------------------------------------------------------------------------

inline constexpr int ranks = 4;

/// The file systems of two nodes and the shared one, by the directory that they stand for; copying is cheap.
using Disks = std::map<std::string, std::shared_ptr<Disk>>;

inline Disks copy_of(const Disks& disks) {
  Disks out;
  for (const auto& [where, disk] : disks) out[where] = disk->copy();
  return out;
}
/// How many ways of losing some of it are tried where the job dies, and from which seed: CRASHPOINT_SUBSETS (1),
/// CRASHPOINT_SEED (1), for `./dev campaign crashpoints`.
inline unsigned number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 1U : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}
inline void crash(const Disks& disks, Crash kind, unsigned seed) {
  seed += 1000003 * number_from("CRASHPOINT_SEED");
  for (const auto& [where, disk] : disks) disk->crash(kind, seed++);
}
/// What else may be left of `disks`; the first way is crash(..., seed) itself.
inline std::vector<unsigned> other_seeds(Crash kind, unsigned seed) {
  std::vector<unsigned> out;
  const unsigned subsets = kind == Crash::keeps_some ? number_from("CRASHPOINT_SUBSETS") : 1;
  for (unsigned i = 1; i < subsets; ++i) out.push_back(seed + 7919 * i);
  return out;
}

/// All the ways, the first one among them.
inline std::vector<unsigned> all_seeds(Crash kind, unsigned seed) {
  std::vector<unsigned> out{seed};
  for (const unsigned other : other_seeds(kind, seed)) out.push_back(other);
  return out;
}

/// What level memory has: a store for each rank, which outlives a job as processes do that live through a repair.
using Memories = std::vector<std::shared_ptr<store::Store>>;

inline Memories new_memories() {
  Memories out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(store::make_memory_store());
  return out;
}
/// All that is below `path`. Nothing may fail here.
inline void copy_below(const std::string& path, store::Store& from, store::Store& to) {
  const auto entries = from.list(path).value();
  for (const auto& entry : entries) {
    const std::string below = path + (path.empty() ? "" : "/") + entry.name;
    if (entry.is_dir) {
      ASSERT_TRUE(to.make_dir(below).ok());
      copy_below(below, from, to);
    } else {
      ASSERT_TRUE(store::write_file(to, below, store::read_file(from, below, entry.size).value()).ok());
    }
  }
}
inline Memories copy_of(const Memories& memories) {
  Memories out;
  for (const auto& memory : memories) {
    out.push_back(store::make_memory_store());
    copy_below("", *memory, *out.back());
  }
  return out;
}

/// Static regions of a job: none, always the same, or others with every state.
enum class StaticRegions { none, fixed, changing };

struct Trial {
  std::vector<LevelConfig> levels;  ///< cheapest first
  std::string dir;                  ///< real, for the locks; and for the files where `disks` is empty
  Disks disks;
  StaticRegions statics = StaticRegions::none;
  int nodes = 2;
  Memories memories = {};     ///< empty: no job has any for another one
  bool mesh_is_made = false;  ///< by the program, before it resumes; as the fixed static regions

  [[nodiscard]] int node_of(int rank) const { return rank * nodes / ranks; }
  /// The level that bears the most: lines there are for the losses that the others do not bear.
  [[nodiscard]] const LevelConfig& strongest() const { return levels.back(); }
  /// A node goes for good, with its disk and with the memory of its processes. Another one is in its place.
  void lose(int node) {
    disks["node-" + std::to_string(node)] = std::make_shared<Disk>();
    for (int rank = 0; rank < ranks && !memories.empty(); ++rank)
      if (node_of(rank) == node) memories[static_cast<std::size_t>(rank)] = store::make_memory_store();
  }
};

inline Trial copy_of(const Trial& trial) {
  Trial out = trial;
  out.disks = copy_of(trial.disks);
  out.memories = copy_of(trial.memories);
  return out;
}

/// Empty ones for the nodes of a job, and what they share.
inline Disks new_disks(int nodes) {
  Disks out{{"shared", std::make_shared<Disk>()}};
  for (int node = 0; node < nodes; ++node) out["node-" + std::to_string(node)] = std::make_shared<Disk>();
  return out;
}

/// One rank of a job: an engine and the memory that it protects, which is a plain function of a number.
class JobRank {
 public:
  JobRank(comm::Comm& comm, const Trial& trial, const std::shared_ptr<store::FaultPlan>& plan)
      : rank_(comm.rank()), statics_(trial.statics) {
    EngineConfig config;
    config.levels = trial.levels;
    if (!trial.memories.empty()) config.memory = trial.memories[static_cast<std::size_t>(rank_)];
    config.goes_on = !trial.memories.empty();  // no other job has the memory of the one before
    for (int rank = 0; rank < comm.size(); ++rank) config.topology.node_of.push_back(trial.node_of(rank));
    config.shared_dir = trial.dir + "/shared";
    config.local_dir = trial.dir + "/node-" + std::to_string(trial.node_of(rank_));
    config.policy = Policy::wait;
    config.timeout = std::chrono::seconds(60);
    config.nice = 0;
    config.program = "crashpoints";
    config.wrap_store = [&disks = trial.disks,
                         plan](const std::shared_ptr<store::Store>& real) -> std::shared_ptr<store::Store> {
      const std::string where = real->where();
      const auto it = disks.find(where.substr(where.rfind('/') + 1));
      auto inner = it == disks.end() ? real : std::make_shared<ForgetfulStore>(it->second);
      return store::make_faulty_store(std::move(inner), plan);
    };
    auto app = comm.duplicate();
    const EngineHooks hooks{[](const std::string&) {},
                            [this, last = trial.levels.size() - 1](const Settled& settled, const std::string&) {
                              if (!settled.bytes || settled.of_statics) return;
                              committed_ = true;
                              if (settled.level == last) committed_at_strongest_ = true;
                            },
                            {}};
    engine_ = std::make_unique<Engine>(std::move(config), hooks, std::move(*app));
    must(engine_->open());
    RegionSpec spec;
    spec.name = "values";
    spec.type = type_of<double>();
    spec.view = [this] { return detail::dense_view(values_.data(), {static_cast<std::int64_t>(values_.size())}, 8); };
    spec.reshape = [this](const Extents& shape) {
      values_.assign(static_cast<std::size_t>(shape[0]), -1.0);
      return spec_view();
    };
    must(engine_->regions().add(std::move(spec)));
    if (trial.mesh_is_made) mesh_ = mesh_of(0);
    if (statics_ != StaticRegions::none) protect_mesh();
  }

  /// State `n` of this rank: a size and bytes of its own.
  void become(int n) {
    values_.assign(static_cast<std::size_t>(700 + 100 * (n % 3) + rank_), 0.25);
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += n * 1000.0 + rank_ * 100 + static_cast<double>(i);
  }
  /// The state that resume() puts back, all bytes checked; 0: none, -1: not a state that ever was.
  int resumed() {
    const auto found = look();
    if (!found) ADD_FAILURE() << found.failure().what;
    return found ? *found : -1;
  }
  /// The same, or the refusal.
  Result<int> look() {
    const auto found = engine_->resume();
    if (!found) return found.failure();
    if (!found->resumed) return 0;
    const auto was = values_;
    if (was.empty()) return -1;
    const int n = static_cast<int>(was[0] / 1000);
    become(n);
    return was == values_ && (statics_ == StaticRegions::none || mesh_ == mesh_of(n)) ? n : -1;
  }
  /// This rank has said that a line is committed, at any level.
  [[nodiscard]] bool committed() const { return committed_; }
  [[nodiscard]] bool committed_at_strongest() const { return committed_at_strongest_; }
  /// What it has handed over is written, or given up.
  [[nodiscard]] bool is_idle() const { return engine_->in_flight() == 0; }
  /// The background of this rank is not heard any more.
  void fall_silent() { engine_->leave(); }
  Result<Verified> verify() { return engine_->verify(); }
  void prune() { must(engine_->prune(1)); }
  void try_to_resume() { (void)engine_->resume().ok(); }
  Result<Rescued> rescue() { return engine_->save_what_memory_holds(); }
  void checkpoint(int n) {
    begin_checkpoint(n);
    wait();
  }
  void begin_checkpoint(int n) {
    become(n);
    if (statics_ != StaticRegions::none && mesh_ != mesh_of(n)) {
      must(engine_->static_regions().remove("mesh"));
      mesh_ = mesh_of(n);
      protect_mesh();
    }
    must(engine_->checkpoint(true, false));
  }
  void wait() { must(engine_->wait()); }

 private:
  void protect_mesh() {
    RegionSpec spec;
    spec.name = "mesh";
    spec.type = type_of<double>();
    spec.view = [this] { return detail::dense_view(mesh_.data(), {static_cast<std::int64_t>(mesh_.size())}, 8); };
    spec.reshape = [this](const Extents& shape) {
      mesh_.assign(static_cast<std::size_t>(shape[0]), -1.0);
      return detail::dense_view(mesh_.data(), {static_cast<std::int64_t>(mesh_.size())}, 8);
    };
    must(engine_->static_regions().add(std::move(spec)));
  }
  [[nodiscard]] std::vector<double> mesh_of(int n) const {
    const int version = statics_ == StaticRegions::changing ? n % 3 : 0;
    return std::vector<double>(static_cast<std::size_t>(900 + 50 * version + rank_), version + 0.5 + rank_);
  }
  View spec_view() { return detail::dense_view(values_.data(), {static_cast<std::int64_t>(values_.size())}, 8); }
  template <class T>
  static void must(const Result<T>& result) {
    if (!result) throw std::runtime_error(result.failure().what);
  }
  int rank_;
  StaticRegions statics_;
  std::atomic<bool> committed_{false}, committed_at_strongest_{false};
  std::vector<double> values_, mesh_;
  std::unique_ptr<Engine> engine_;
};

/// From its `operation`th operation from now the job is dead for its stores: nothing reaches them any more.
inline void die_at(store::FaultPlan& plan, std::uint64_t operation) {
  const std::uint64_t last = plan.count() + operation;
  plan.before_each([&plan, last](const store::FaultPlan::Step& step) {
    if (step.number != last) return;
    for (std::size_t kind = 0; kind < store::operation_kinds; ++kind)
      plan.fail_from(static_cast<store::Operation>(kind), 0, fail(Code::io, "the process has died"));
  });
}

/// A job that resumes, then takes checkpoint `n + 1` and dies at `operation` of it (0: not at all). Gives the state
/// that it had resumed, and how many operations the checkpoint took.
inline int stopped = 0, looked_at = 0;  // jobs, and what they left, for the campaign
struct Ran {
  int resumed = -1;
  std::uint64_t operations = 0;
  bool committed = false;  ///< a rank has said that the line of that checkpoint is, at any level
  bool committed_at_strongest = false;
};
inline Ran run_job(const Trial& trial, std::uint64_t operation) {
  auto plan = std::make_shared<store::FaultPlan>();
  Ran ran;
  std::atomic<int> lowest = INT32_MAX, highest = INT32_MIN;
  std::atomic<bool> committed = false, committed_at_strongest = false;
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    JobRank job(comm, trial, plan);
    const int n = job.resumed();
    for (int seen = lowest; n < seen && !lowest.compare_exchange_weak(seen, n);) {
    }
    for (int seen = highest; n > seen && !highest.compare_exchange_weak(seen, n);) {
    }
    (void)comm.barrier().ok();
    if (comm.rank() == 0) {
      ran.operations = plan->count();
      if (operation > 0) die_at(*plan, operation);
    }
    (void)comm.barrier().ok();
    job.checkpoint(n + 1);
    if (job.committed()) committed = true;
    if (job.committed_at_strongest()) committed_at_strongest = true;
    (void)comm.barrier().ok();
    if (comm.rank() == 0) ran.operations = plan->count() - ran.operations;
  });
  EXPECT_EQ(lowest, highest) << "the ranks came back from different lines";
  ran.resumed = lowest;
  ran.committed = committed;
  ran.committed_at_strongest = committed_at_strongest;
  ++stopped;
  return ran;
}

/// What a job that only resumes finds.
inline int found_in(const Trial& trial) {
  ++looked_at;
  std::atomic<int> found = -1;
  auto plan = std::make_shared<store::FaultPlan>();
  comm::run_ranks(ranks, [&](comm::Comm& comm) {
    JobRank job(comm, trial, plan);
    const int n = job.resumed();
    if (comm.rank() == 0) found = n;
    EXPECT_NE(n, -1) << "rank " << comm.rank();
  });
  return found;
}

}  // namespace backstay::engine::on_disks
