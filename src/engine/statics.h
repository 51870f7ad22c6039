// Static regions: data that do not change from the first checkpoint on (ExaFLOW D2.4, section 2.5: static and dynamic
// data). They are in lines of their own, written once and never again.
//
// Every level has a companion with the same place and protection, "shared-static" beside "shared". A line of a level
// names the line of its companion that has its static regions. Invariant: a line is committed only after the one that
// it names, and that one is retired only after every line that names it.
#pragma once

#include <map>
#include <vector>

#include "engine/line_reader.h"
#include "engine/staging.h"

namespace backstay::engine {

/// The companions of levels whose stores are made, in the same order.
std::vector<Level> companions_of(const std::vector<Level>& levels);

/// The oldest of the lines `statics` (ascending) that the lines `lines` may still name; without any, the newest number
/// there is. What each names is in `names`; one that is not in there may name any that is not newer than itself.
/// A later line may name an older one: one that was saved from memory brings its own. Pure.
std::uint64_t oldest_static_in_use(const std::vector<std::uint64_t>& statics, const std::vector<std::uint64_t>& lines,
                                   const std::map<std::uint64_t, std::uint64_t>& names);

/// Takes back the lines of the companion that no line of its level names. Local to each rank, as retire_surplus().
Result<void> retire_statics(Level& companion, const Level& level);

/// The members of each of its groups, and each file and its copy, lie in failure units of their own as `topology` and
/// the parity of `level` are now: after a repair some may die together that did not when the line was written.
bool lies_apart(const catalog::Candidate& line, const Inventory& inventory, const Level& level,
                const Topology& topology);

/// Collective: for each companion the number of its newest line if that is of this job, whole with all copies, as well
/// protected by where its parts lie now as a new one would be, and has on every rank just what `memory` has; else 0. A
/// rank whose capture has failed has nothing of that kind. Notes the files of what it finds.
Result<std::vector<std::uint64_t>> find_equal(const Inventory& inventory, std::vector<Level>& companions,
                                              const Topology& topology, const std::string& job,
                                              const Result<void>& captured, const Capture& memory, comm::Comm& comm);

}  // namespace backstay::engine
