// Finds the newest whole line, checks it, and puts it back; checks all lines.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "catalog/candidates.h"
#include "engine/level.h"
#include "region/pack.h"
#include "region/region_set.h"

namespace backstay::engine {

/// What the caller hears on the way, the same on every rank: "line 42 at partner: ...; trying ...".
using Say = std::function<void(const std::string&)>;

/// What every rank knows of the lines at all levels.
struct Inventory {
  std::vector<catalog::StoreContents> contents;
  std::vector<catalog::Candidate> candidates;  ///< newest first
};

struct Inventories {
  Inventory lines;
  Inventory statics;  ///< of the levels' companions (engine/statics.h)
};

/// Collective: every store is looked at by its leader, and all ranks get the same answer. A rank that is not `ready` to
/// look is the failure of all.
Result<Inventories> take_inventory(const std::vector<Level>& levels, const std::vector<Level>& companions,
                                   const Result<void>& ready, comm::Comm& comm);

/// All stores could be looked at, and (but with `only_seen`) be written when they were opened; otherwise why not.
Result<void> require_all_stores(const Inventories& found, const comm::Comm& comm, bool only_seen = false);
/// A sentence for each store of which that does not hold, but for those that were `said` (level, server).
void say_what_is_missing(const Inventories& found, const std::vector<Level>& levels, const Say& say,
                         std::set<std::pair<int, int>>& said);

/// What belongs to the lines of the levels beside them.
struct Statics {
  const Inventory& inventory;
  const std::vector<Level>& companions;
  const region::RegionSet& regions;
};

/// A region of which a line has nothing for this rank, or not all. It may be protected later.
struct NotThere {
  std::string region;
  bool as_made = false;                   ///< the beginning of the program makes it, and nothing had changed it
  std::optional<std::uint32_t> crc = {};  ///< of that, on this rank; none: the ranks were others
  std::vector<region::Box> there = {};    ///< what it has of it, in the shape of this rank's memory
  std::vector<region::Box> made = {};     ///< what the beginning of the program makes of it, if that is not all
};

struct PutBack {
  std::uint64_t line = 0;
  int level = 0;
  bool complete = true;  ///< all copies were in place; otherwise the next checkpoint should not wait
  format::Manifest manifest;
  std::vector<std::pair<int, std::uint64_t>> rejected;  ///< (level, line): newer, and found damaged
  std::vector<std::string> regions;                     ///< of which the line held something for this rank
  std::vector<NotThere> left_out;                       ///< of which it says that it has not all
  std::vector<const RegionSpec*> filled;                ///< whose memory was filled, static ones too: to be handed over
};

struct ReadOptions {
  bool lenient = false;     ///< regions that only the program, or only the line has, are left alone instead of refused
  bool keep_equal = false;  ///< memory that has the CRC of what it should hold is not read again
  bool of_statics = false;  ///< what is read are static regions
  const region::RegionSet* others = nullptr;  ///< what the program protects in the other way
  bool had_statics = false;  ///< as this process has saved or put back the static regions, they should be
  std::function<void(const Failure&)> cannot_write = {};  ///< see rebuild()
  /// Called alike on every rank where a file of static regions (level, line) is damaged and was not rebuilt.
  std::function<void(int, std::uint64_t)> statics_are_damaged = {};
};

/// Collective. Puts back the newest line that can be had: a file that is missing, truncated or altered is read from
/// its copy; where no copy is good, the next candidate is tried. Static regions come first, and are left alone where
/// memory still has them: survivors of a loss read none. Returns line 0 if there is no line at all.
/// Failures: Code::mismatch, Code::version (nothing else is tried; types, placements
/// and shapes are compared before any memory is written); Code::corrupt if there are lines
/// and none can be put back (memory may be partly overwritten).
Result<PutBack> put_back_newest(const Inventory& inventory, const std::vector<Level>& levels, const Statics& statics,
                                const Topology& topology, const region::RegionSet& regions, const ReadOptions& options,
                                comm::Comm& comm, const Say& say);

enum class Through { all, what_a_resume_reads };  ///< or also the HDF5 metadata and the padding

/// Collective: reads every byte of every file of a line of `levels` that is without trouble. What is lost or damaged is
/// looked for in a copy, or rebuilt from parity; returned is the line with the files that are good. Code::corrupt, on
/// every rank the same: they are not all to be had; nothing has changed.
Result<catalog::Candidate> read_through(const catalog::Candidate& line, Through what, const Inventory& inventory,
                                        const std::vector<Level>& levels, const Topology& topology, comm::Comm& comm,
                                        const Say& say);

struct Damage {
  std::uint64_t lines = 0;
  std::uint64_t segments = 0;
  std::vector<std::string> sentences;
};
/// Collective: reads every byte of every file of every candidate, originals and copies, and checks it.
Result<Damage> check_all(const Inventory& inventory, const std::vector<Level>& levels, comm::Comm& comm);

}  // namespace backstay::engine
