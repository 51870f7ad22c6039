// Which saved segments make up a region on this rank. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "format/manifest.h"
#include "region/pack.h"
#include "region/region_set.h"

namespace backstay::engine {

/// A saved segment: file and place in that file's table.
struct SegmentRef {
  std::size_t file = 0;
  std::size_t segment = 0;
  const format::Segment* about = nullptr;
};

/// All segments of a line, by region.
class SavedRegions {
 public:
  /// `tables[i]` is the table of file i; they must stay where they are.
  explicit SavedRegions(const std::vector<format::Table>& tables);
  [[nodiscard]] std::vector<std::string> names() const;
  /// Of regions that some rank left out wholly, and whose values computations make; not what the beginning of the
  /// program makes.
  [[nodiscard]] std::vector<std::string> names_left_out() const;
  /// In order of rank; empty if the line has no such region. A rank that saved it in parts has one for each.
  [[nodiscard]] const std::vector<SegmentRef>& of(const std::string& region) const;
  /// Those of one rank.
  [[nodiscard]] std::vector<SegmentRef> of(const std::string& region, int rank) const;
  /// The entry of a rank that left all of the region out; null: it did not.
  [[nodiscard]] const format::LeftOut* left_out(const std::string& region, int rank) const;
  /// By rank; empty: none did.
  [[nodiscard]] const std::map<int, const format::LeftOut*>& left_out(const std::string& region) const;

 private:
  std::map<std::string, std::vector<SegmentRef>> regions_;
  std::map<std::string, std::map<int, const format::LeftOut*>> left_out_;
};

struct Piece {
  SegmentRef from;
  region::Box source;  ///< where the segment lies in the global array or list
  region::Box part;    ///< what of it this rank takes
};

/// How to fill one region on this rank. What was left out of it has no pieces: its memory gets the shape alone.
struct RegionPlan {
  Extents shape;       ///< of the memory
  region::Box target;  ///< where that memory lies in the global array or list
  std::vector<Piece> pieces;
  bool whole = false;                        ///< one piece that is exactly the memory
  bool left_out = false;                     ///< the pieces are not all of it, as the rest was left out of the line
  bool is_own = false;                       ///< left out by this rank, where its block is now
  const format::LeftOut* as_made = nullptr;  ///< as the beginning of the program makes it: the entry that says so
  std::vector<region::Box> made;             ///< where only some ranks' blocks are: those parts of the target
};

/// Code::mismatch, with a sentence: missing, another type, placement or global shape, other number of ranks for
/// what is private to a rank.
Result<RegionPlan> plan_region(const RegionSpec& spec, const SavedRegions& saved, int saved_ranks, int rank, int size);

/// The usual restart: what this rank itself saved is exactly what it now wants of the region, so that no other rank's
/// table is needed. Nothing where plan_region() has to be asked.
std::optional<RegionPlan> plan_own(const RegionSpec& spec, const SavedRegions& saved, int rank);

/// What was saved of a region in blocks and lies in none of the blocks `held` by the ranks of this job would be lost
/// with the next line: Code::mismatch. Looks at every `size`th saved block, from the one at `rank` on, so that the
/// ranks look at all of them together.
Result<void> check_all_taken(const std::string& region, const SavedRegions& saved, const std::vector<region::Box>& held,
                             int rank = 0, int size = 1);

/// Regions that only one side has; a sentence if there are any. `statics`: the line has static regions only; `others`:
/// what the program protects in the other way.
Result<void> check_names(const region::RegionSet& regions, const SavedRegions& saved, bool statics = false,
                         const region::RegionSet* others = nullptr);

}  // namespace backstay::engine
