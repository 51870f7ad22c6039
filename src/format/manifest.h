// The manifest of a line and the table of a data file: values, and their text (docs/format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backstay/types.hpp"
#include "base/bytes.h"
#include "base/result.h"

namespace backstay::format {

inline constexpr int format_version = 1;

struct DataFile {
  std::string name;
  std::vector<int> ranks;
  int node = -1;
  int copy_node = -1;
  std::uint64_t size = 0;
  std::uint32_t table_crc = 0;
  bool operator==(const DataFile&) const = default;
};

/// Ranks that share parity (docs/decisions/0009). The files of the first `owners` of them are covered: each file is cut
/// into members - parities chunks, filled up with zeros; every member has a parity file (format/parity_file.h).
struct GroupOfParity {
  std::vector<int> members;  ///< ranks
  std::size_t owners = 0;
  int parities = 0;
  std::uint64_t chunk = 0;             ///< bytes of a shard
  std::vector<std::uint32_t> headers;  ///< for each member: CRC32C of the first page of its parity file
  bool operator==(const GroupOfParity&) const = default;
};

struct Manifest {
  std::string job;
  std::uint64_t line = 0;
  std::string level;
  int ranks = 0;
  std::uint64_t call = 0;
  double time = 0;
  std::string program;
  std::vector<DataFile> files;
  std::vector<GroupOfParity> groups;  ///< empty: no parity
  std::uint64_t statics = 0;          ///< line of the level's companion that has the static regions; 0: there are none
  double statics_time = 0;            ///< `time` of that line; 0: not known
  bool operator==(const Manifest&) const = default;
};

Bytes encode_manifest(const Manifest& manifest);
/// Code::corrupt, or Code::version for a manifest of another format version. Never trusts a number it has not checked.
Result<Manifest> decode_manifest(ByteView bytes);

/// A segment that is a box of a region: the rest of that was left out, or is in other parts.
struct Part {
  Extents of;  ///< shape of the region on its rank
  Extents at;  ///< where the segment begins in it
  bool operator==(const Part&) const = default;
};

struct Segment {
  int rank = 0;
  std::string region;
  std::string dataset;
  Type type;
  Extents shape;
  std::string units;
  Placement placement;       ///< of the whole region
  std::uint64_t offset = 0;  ///< in a fragment: from the start of the area; in a table: from the start of the file
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  std::optional<Part> part = {};  ///< none: the segment is the whole region
  bool operator==(const Segment&) const = default;
};

/// A region of which a rank saved nothing: because it overwrote all of it before it read any (docs/decisions/0016),
/// because the beginning of the program makes it (0018), or because the program lists what it saves.
struct LeftOut {
  int rank = 0;
  std::string region;
  Extents shape;
  std::optional<std::uint32_t> made = {};  ///< CRC-32C of what the beginning makes; none: of the other two
  bool unlisted = false;                   ///< it is not on the list of the program
  std::optional<Extents> lower = {};       ///< of a block: where it begins in the global array
  bool operator==(const LeftOut&) const = default;
};

struct Table {
  std::string job;
  std::uint64_t line = 0;
  std::string file;
  std::vector<Segment> segments;
  std::vector<LeftOut> left_out = {};
  bool operator==(const Table&) const = default;
};

Bytes encode_table(const Table& table);
Result<Table> decode_table(ByteView bytes);
/// At least the rows of `rank`, and all that was left out, of a table that encode_table() wrote, without taking the
/// others apart: a table of all ranks is long, and in the usual restart each rank reads it for its own rows.
Result<Table> decode_rows(ByteView bytes, int rank);

}  // namespace backstay::format
