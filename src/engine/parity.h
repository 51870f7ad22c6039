// Parity of a line: written beside the data, and the way back from it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/candidates.h"
#include "engine/level.h"
#include "redundancy/partner.h"

namespace backstay::engine {

/// A line that is being written, and this rank's file of it.
struct ParityJob {
  std::string job;
  std::uint64_t line = 0;
  std::string dir;             ///< of the line
  redundancy::FileImage file;  ///< keep is given
};

/// Collective over `comm`: makes the parity of all groups of `level` out of the ranks' files, and writes and syncs this
/// rank's parity files. Returns the groups for the manifest with the CRCs of this rank's headers; those of others are
/// 0. A failure to write does not end the exchange: it goes to `written`, if that is a success so far. What is returned
/// is a failure of the communicator.
///
/// Invariant: reads the new line's staging memory, and writes names in the new line's directory only. Parity and data
/// of older lines are as they were.
Result<std::vector<format::GroupOfParity>> write_parity(const Level& level, const ParityJob& job, comm::Comm& comm,
                                                        Result<void>& written);

/// A member of a parity group of a line: indices into manifest.groups and members.
using Member = std::pair<std::size_t, std::size_t>;

struct Rebuilt {
  std::vector<std::pair<Member, std::string>>
      damaged;  ///< members that turned out to be damaged, and how: nothing was rebuilt
};

/// Collective: rebuilds `lost` members of the line (none: only manifests) from the other members of their groups; no
/// group has more of them than parities. Each goes to the node that it was on, where this job has that and no other
/// member of the group is there; otherwise to a node without another member, if there is one: that of its rank before
/// others. `line` then has them among its sources, and stores that lack the manifest have it. Where members turn out to
/// be damaged, they are returned and nothing has changed.
///
/// Invariant: no file that is good is written or removed. A name appears in the line's directory only with all its
/// bytes, parity first, then the manifest, then the data file: where that is, all of the member is. A rebuild that dies
/// anywhere is begun again by the next resume.
///
/// `cannot_write` is called by a rank that cannot write what it is to take, before any other rank hears of it: it may
/// end the process.
Result<Rebuilt> rebuild(catalog::Candidate& line, const std::set<Member>& lost,
                        const std::vector<catalog::StoreContents>& contents, const Level& level,
                        const Topology& topology, comm::Comm& comm,
                        const std::function<void(const Failure&)>& cannot_write = {});

/// A store has files of this line, and lost its manifest.
bool lacks_manifest(const catalog::Candidate& line, const std::vector<catalog::StoreContents>& contents);

/// Reads a parity file through. `expected` is the CRC of its header page.
Result<void> check_parity_file(store::Store& store, const std::string& path, const format::GroupOfParity& group,
                               std::uint32_t expected);

}  // namespace backstay::engine
