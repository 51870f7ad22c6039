// The exchange between the members of a group: parity out of data, and what was lost out of what is left.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/scratch.h"
#include "comm/comm.h"
#include "redundancy/erasure_code.h"
#include "redundancy/parity_groups.h"

namespace backstay::redundancy {

/// The making of some shards of one stripe. Members are numbers within the group.
struct StripeWork {
  int stripe = 0;
  int worker = 0;            ///< gathers the inputs and does the arithmetic
  std::vector<int> inputs;   ///< k members, the same for all of a stripe
  std::vector<int> outputs;  ///< members whose shards are made
  int turn = 0;              ///< of the pieces of the chunk: this one, and from there on one in `turns`
};
/// Works that go on at the same time: no member is the worker of two. Those of one stripe stand in order of their
/// turns, so that the bytes of each shard are read, and written, in order.
struct Wave {
  std::vector<StripeWork> works;
  int turns = 1;  ///< works that share each stripe
};

/// All parity: each member works on one stripe, whose first parity it keeps.
std::vector<Wave> plan_encoding(const Stripes& stripes);
/// All shards of the members in `lost` (at most p), by the others in turn. Stripes that are too few to keep all of them
/// at work are shared.
std::vector<Wave> plan_rebuild(const Stripes& stripes, const std::vector<int>& lost);

/// Bytes of a member's shard: `size` from `offset` on, which counts from the start of the chunk.
struct ShardPart {
  int member = 0;
  int shard = 0;
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

/// The shards of the members for which a rank acts, as the exchange reads and writes them.
struct ShardAccess {
  /// The bytes: where they lie, or in `room`, into which they were read. What lies beyond the end of the member's data
  /// is 0. A failure is kept for the end; other members are given what is in `room`.
  std::function<Result<ByteView>(const ShardPart& part, Scratch& room)> read;
  std::function<Result<void>(const ShardPart& part, ByteView bytes)> write;
  comm::Keep keep;  ///< owns what read() returns besides `room`
};

/// Collective among the ranks of the group's members, which may be fewer than the members: after a failure a rank acts
/// for others as well. Memory: two pieces of every shard that a rank's members take part in, 8 MiB together or 64 KiB a
/// piece, of which a rank that acts for several members takes a part for each (a page at least). The gathering of a
/// piece overlaps the arithmetic and the writing of the one before. A failure to read or write does not end the
/// exchange: the others go on, and it is returned at the end.
Result<void> exchange_shards(comm::Comm& comm, const ParityGroup& group, int parities, std::uint64_t chunk,
                             const std::vector<Wave>& waves, const ShardAccess& access);

}  // namespace backstay::redundancy
