// What is left in memory when a job ends for want of ranks.
#pragma once

#include "engine/line_reader.h"

namespace backstay::engine {

struct Rescued {
  std::uint64_t line = 0, call = 0, bytes = 0;
};

/// Collective, of those who are left: where the newest line that can be had is at a level in memory, its files are
/// copied to level shared, its static regions first, and committed there, so that the next launch resumes from it.
/// Every byte is read before; what is lost or damaged is rebuilt from parity. One of which a resume could not take all
/// is passed over for the next older one. Line 0: there is nothing to save. Without a level shared: 0.
///
/// Invariant: the steps of a commit as of any line (docs/format.md); what a resume would take at level shared it can
/// take at every moment. So static regions that are there, and damaged, are replaced in their place, after all of them
/// lie beside as copies. Nothing is written where level shared could not be looked at: its failure.
Result<Rescued> rescue(Inventories& found, std::vector<Level>& levels, std::vector<Level>& companions,
                       const Topology& topology, comm::Comm& comm, const Say& say);

}  // namespace backstay::engine
