// A parity file: what one member of a parity group holds of the group's parity. Pure.
//
// One page of header, then p chunks: the member's parity shards in the order of their number. The header has the CRC of
// every shard that the member holds, data and parity, so that each is checked wherever it is used, and a rebuilt member
// is known to be right when its header comes out with the CRC that the manifest has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "format/data_file.h"

namespace backstay::format {

struct ParityHeader {
  std::string job;
  std::uint64_t line = 0;
  int group = 0;
  int rank = 0;                     ///< the member
  std::vector<std::uint32_t> sums;  ///< CRC32C of each shard of the member, k of data and then p of parity
  bool operator==(const ParityHeader&) const = default;
};

/// One page: at most 255 sums.
Bytes encode_parity_header(const ParityHeader& header);
/// Code::corrupt or Code::version.
Result<ParityHeader> decode_parity_header(ByteView first_page);

/// "parity-00003-of-rank-00012"
std::string parity_file_name(int group, int rank);

/// Where the parity shard number `index` (0 to p-1) begins in the file.
inline std::uint64_t parity_offset(std::uint64_t chunk, int index) {
  return page + chunk * static_cast<std::uint64_t>(index);
}
inline std::uint64_t parity_file_size(const GroupOfParity& group) { return parity_offset(group.chunk, group.parities); }

}  // namespace backstay::format
