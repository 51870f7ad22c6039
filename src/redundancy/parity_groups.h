// Which ranks share parity, and which shard of which stripe each of them holds. Pure.
//
// A group of n members stands in n stripes, one shard of each member in each stripe. Of the n shards of a stripe p are
// parity and k = n - p data; from stripe to stripe the parity moves on by one member, as in RAID 5 and 6, so that every
// member holds k chunks of data (its own bytes) and p of parity, and the parity costs p / (n - p) of the data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace backstay::redundancy {

struct ParityGroup {
  std::vector<int> members;  ///< ranks; they lie in different units
  std::size_t owners = 0;    ///< the first of the members that bring data; the others only hold parity (see below)
};

/// Groups of k + p ranks, as even as can be. `units[rank]` is what dies together with the rank. Each rank brings its
/// data to one group. Where a unit has so many ranks that a group would have too few others, ranks of other units join
/// it as holders of parity without data. Code::invalid_argument with fewer than p + 1 units.
Result<std::vector<ParityGroup>> plan_groups(const std::vector<int>& units, int k, int p);

/// The shard that a member holds of a stripe, both counted from 0 to n-1: 0..k-1 data (and then it is the chunk of that
/// number of the member's bytes), k..n-1 parity (the chunk of that number less k of its parity).
struct Stripes {
  int n = 0;
  int p = 0;
  [[nodiscard]] int k() const { return n - p; }
  [[nodiscard]] int shard(int stripe, int member) const {
    const int place = (member - stripe + n) % n;
    return place < p ? k() + place : place - p;
  }
  [[nodiscard]] int member(int stripe, int shard) const {
    return (stripe + (shard < k() ? shard + p : shard - k())) % n;
  }
  /// Bytes of a chunk for data of at most `largest` bytes a member; a multiple of a page.
  [[nodiscard]] std::uint64_t chunk(std::uint64_t largest) const {
    const auto parts = static_cast<std::uint64_t>(k());
    return ((largest + parts - 1) / parts + 4095) / 4096 * 4096;
  }
};

}  // namespace backstay::redundancy
