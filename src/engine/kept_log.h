// What ranks received while they set themselves up, kept so that it outlives them (ExaFLOW D2.4, section 2.5).
#pragma once

#include <string>

#include "engine/line_reader.h"
#include "engine/line_writer.h"

namespace backstay::engine {

/// A level in memory for the logs alone. Its parity is the strongest one of `levels`, or else a copy on another node,
/// or on another rank where there is one node; with one rank it has none.
Result<Level> level_of_logs(const std::vector<LevelConfig>& levels, const Topology& topology,
                            std::shared_ptr<store::Store> memory, int rank);

/// Collective: keeps the log of each rank; what was kept before stays until this is.
Result<void> keep_log(Level& level, const std::string& log, const Job& job, const Topology& topology, comm::Comm& comm);

/// Collective: the log of each rank, those of replaced ranks rebuilt; afterwards all are kept as well as before, anew
/// where members of a group have come to lie where others do. Empty on all ranks where none was kept. Code::rank_lost:
/// too many are lost.
Result<std::string> find_log(Level& level, const Job& job, const Topology& topology, comm::Comm& comm, const Say& say);

}  // namespace backstay::engine
