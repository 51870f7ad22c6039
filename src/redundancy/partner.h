// Copies of files on the next failure unit: who keeps whose copy (pure), and the transfer between ranks.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "comm/comm.h"
#include "store/store.h"

namespace backstay::redundancy {

/// Who sends where in one round. A round gives each rank at most one sender and one receiver.
struct Round {
  int to = -1;    ///< rank that keeps this rank's copy; -1: nothing to send in this round
  int from = -1;  ///< rank whose copy this rank takes; -1: none in this round
};

/// Where the copy of each rank goes, for ranks on `nodes[rank]` (numbers 0..n-1, each used).
struct PartnerPlan {
  std::vector<int> holder;                 ///< holder[rank]: the rank that keeps its copy, `distance` nodes on
  std::vector<std::vector<Round>> rounds;  ///< rounds[i][rank]
};
/// Code::invalid_argument where a copy would lie on its own node (one node, or a distance that is a multiple of their
/// number).
Result<PartnerPlan> plan_partners(const std::vector<int>& nodes, int distance);

/// A file in memory: pieces at offsets, in order; together they are the whole file.
struct FileImage {
  struct Piece {
    std::uint64_t offset;
    ByteView bytes;
  };
  std::vector<Piece> pieces;
  std::uint64_t size = 0;
  comm::Keep keep;  ///< owns the bytes; empty: they are copied on the way
};

/// Collective: sends this rank's image as planned, and writes the images it takes to `dir`/`copy-<name of the rank's
/// file>` in `store`, synced. Memory: two messages of 4 MiB. A failure to write does not end the transfer: the others
/// go on, and it is returned at the end.
Result<void> exchange_copies(comm::Comm& comm, const PartnerPlan& plan, const FileImage& mine, store::Store& store,
                             const std::string& dir);

}  // namespace backstay::redundancy
