// A level: a place and a promise. Its configuration, and what one rank knows of it while a session runs.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "plan/decider.h"
#include "redundancy/parity_groups.h"
#include "redundancy/partner.h"
#include "store/lock.h"
#include "store/store.h"

namespace backstay::engine {

enum class LevelKind { memory, local, partner, shared };  // cheapest first
enum class Layout { file_per_rank, file_per_node, one_file };

/// Reed-Solomon groups: rs(k, p).
struct ParityConfig {
  int k = 0;               ///< members that a group should have beside its parities
  int p = 0;               ///< members that it may lose; 0: no parity
  std::vector<int> units;  ///< what dies together, a number for each rank; empty: the nodes
};

struct LevelConfig {
  LevelKind kind = LevelKind::shared;
  plan::Cadence cadence;
  std::size_t keep = 2;  ///< whole lines that stay
  Layout layout = Layout::file_per_rank;
  int files = 0;             ///< shared, file_per_node: number of files; 0: one for each node
  int distance = 1;          ///< partner: nodes between a rank and its copy
  ParityConfig parity = {};  ///< memory, local
  std::string name = {};     ///< empty: the first of this kind
};

/// Those that there are, cheapest first. Of memory and local there may be a second one, with groups of another kind:
/// few parities over nodes often, more over racks seldom.
struct NamedLevel {
  const char* name;
  LevelKind kind;
};
inline constexpr std::array named_levels{
    NamedLevel{"memory", LevelKind::memory},   NamedLevel{"memory2", LevelKind::memory},
    NamedLevel{"local", LevelKind::local},     NamedLevel{"local2", LevelKind::local},
    NamedLevel{"partner", LevelKind::partner}, NamedLevel{"shared", LevelKind::shared}};
std::string level_name(const LevelConfig& config);
/// Its lines can be put back where one rank is lost.
bool outlives_a_rank(const LevelConfig& config);
/// Its files are in the directories of nodes.
inline bool is_on_nodes(LevelKind kind) { return kind == LevelKind::local || kind == LevelKind::partner; }

/// The level that has the static regions of a level's lines: "shared-static" (engine/statics.h).
std::string companion_of(const std::string& level);
inline constexpr const char* level_of_message_logs = "message-log";  // engine/kept_log.h

/// Which rank is on which node.
struct Topology {
  std::vector<int> node_of;  ///< one for each rank
  [[nodiscard]] int node(int rank) const { return node_of[static_cast<std::size_t>(rank)]; }
  /// The lowest rank of a node: it does the directory work there.
  [[nodiscard]] int leader(int node) const;
  [[nodiscard]] int ranks_on(int node) const;
  [[nodiscard]] int nodes() const;
};

/// `rank` itself can read what lies in the store of a level that the rank `server` serves.
bool reaches(LevelKind kind, const Topology& topology, int rank, int server);

/// Which ranks write into which file.
struct FileGroup {
  std::string name;
  std::vector<int> ranks;  ///< ascending; the first writes header, table and metadata
};
/// The files of a level, in order of their first rank. Pure: every rank computes the same.
std::vector<FileGroup> file_groups(const LevelConfig& config, const Topology& topology);

struct Level {
  LevelConfig config;
  std::string name;                            ///< "shared"
  std::shared_ptr<store::Store> store;         ///< where this rank writes
  Result<void> state;                          ///< of `store`: a failure where nothing can be written any more
  bool leader = false;                         ///< this rank does the directory work in `store`
  std::shared_ptr<const store::DirLock> lock;  ///< of the leader: nothing is written or removed without it
  std::vector<FileGroup> groups;               ///< of the whole level
  std::size_t my_group = 0;
  std::optional<redundancy::PartnerPlan> partners;
  std::vector<redundancy::ParityGroup> parity_groups;  ///< of the whole level; empty: no parity
  std::vector<std::uint64_t> whole;                    ///< committed lines, oldest first; the same on every rank
  std::vector<std::uint64_t> damaged;    ///< lines that resume had to pass over: retired after the next commit
  std::vector<std::uint64_t> partial;    ///< lines that lack something: retired when they would be surplus if whole
  std::vector<std::uint64_t> unretired;  ///< of the leader: lines whose manifests could not be removed so far
  /// By line of `whole` and `partial`, where its manifest could be read: the line of the companion that it names; 0:
  /// none.
  std::map<std::uint64_t, std::uint64_t> names;
  bool seen = true;  ///< all its stores could be looked at: `whole` and `partial` lack no line that is there
  /// Of a companion, by line: when it was saved, where that is known.
  std::map<std::uint64_t, double> times;
  /// Of a companion: lines of which a resume found something damaged. No new line names them.
  std::set<std::uint64_t> distrusted;
  /// Of a companion, by line: the file that begins with this rank's part, if it was there once.
  std::map<std::uint64_t, std::string> own_files;
  std::size_t spare = 1;  ///< retired directories that stay, so that the pages of their files are used again
};

/// Nothing is written or removed where another job may be at work.
inline Result<void> check_lock(const Level& level) { return level.lock ? level.lock->check() : Result<void>{}; }

}  // namespace backstay::engine
