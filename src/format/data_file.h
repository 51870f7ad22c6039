// The frame of a data file: where areas lie, the header line, the table and the HDF5 metadata around them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "format/manifest.h"

namespace backstay::format {

inline constexpr std::uint64_t page = 4096;
inline constexpr std::uint64_t first_area = 2 * page;  ///< the header page and the superblock page come before

/// Places segments of these sizes in an area: offsets from its start, and its whole size (a multiple of a page).
struct AreaLayout {
  std::vector<std::uint64_t> offsets;
  std::uint64_t size = 0;
};
AreaLayout layout_area(std::span<const std::uint64_t> sizes);

/// What an area of these segments takes in its file, bytes.
std::uint64_t area_size(const std::vector<Segment>& segments);

/// The first line of a data file.
struct Header {
  std::uint64_t table_offset = 0;
  std::uint64_t table_length = 0;
  std::uint32_t table_crc = 0;
  std::uint64_t hdf5_offset = 0;
  std::uint64_t hdf5_length = 0;
  std::uint32_t hdf5_crc = 0;
  std::uint64_t size = 0;
  bool operator==(const Header&) const = default;
};
/// One page.
Bytes encode_header(const Header& header);
/// From the first page. Code::corrupt or Code::version. Offsets and lengths lie inside `size` and in order.
Result<Header> decode_header(ByteView first_page);

/// What one rank puts into a file: its segments, with offsets from the start of its area.
struct Area {
  int rank = 0;
  std::vector<Segment> segments;
  std::vector<LeftOut> left_out = {};
};

/// Everything of a file but its areas.
struct Frame {
  std::vector<std::uint64_t> area_offsets;  ///< one for each area
  Bytes front;                              ///< at 0: header page and superblock page
  std::uint64_t tail_offset = 0;            ///< after the last area
  Bytes tail;                               ///< table and HDF5 metadata; the file ends with it
  std::uint64_t size = 0;
  std::uint32_t table_crc = 0;
  std::uint32_t hdf5_crc = 0;
};

/// What the root group says of a file.
struct Origin {
  std::string job;
  std::uint64_t line = 0;
  std::string level;
  double time = 0;
};

/// The frame of the file `name` with these areas (in order of rank).
Result<Frame> frame_file(const Origin& origin, const std::string& name, const std::vector<Area>& areas);

/// The region in which Session::replay() keeps the way of a program.
inline constexpr const char* replay_region = "backstay.replay";

/// Why `name` cannot be the name of a region, as a sentence; empty if it can.
std::string why_not_a_region_name(std::string_view name);

/// Whether a segment like this can be written so that it is read again, and that HDF5 tools can read it: its type, its
/// shape, its units. Code::invalid_argument with a sentence that names the region.
Result<void> check_storable(const Segment& segment);

/// The file names of docs/format.md.
std::string rank_file_name(int rank);
std::string group_file_name(int group);
std::string copy_name(const std::string& file_name);

}  // namespace backstay::format
