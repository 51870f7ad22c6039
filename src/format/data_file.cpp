#include "format/data_file.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "base/crc32c.h"
#include "base/text.h"
#include "format/hdf5_image.h"

namespace backstay::format {

static_assert(std::endian::native == std::endian::little, "the format of version 1 is little-endian");

namespace {
constexpr std::string_view file_magic = "backstay data ";
constexpr std::uint64_t large_segment = 65536;  // from here on a page of its own is worth its padding
constexpr std::uint64_t small_alignment = 64;
constexpr std::string_view rank_group = "by_rank";
constexpr std::string_view part_group = "by_part";
constexpr std::uint64_t longest_file = std::uint64_t{1} << 62;

Failure header_damaged(std::string_view why) { return fail(Code::corrupt, "the header is damaged: ", why); }

std::string placement_word(Placement::Kind kind) {
  switch (kind) {
    case Placement::Kind::rank_private:
      return "private";
    case Placement::Kind::replicated:
      return "replicated";
    case Placement::Kind::block:
      return "block";
    case Placement::Kind::distributed_list:
      return "list";
  }
  return "private";
}

/// Of the region on its rank.
Attributes attributes_of(const Segment& s) {
  Attributes out;
  if (!s.units.empty()) out.emplace_back("units", s.units);
  out.emplace_back("rank", std::int64_t{s.rank});
  out.emplace_back("placement", placement_word(s.placement.kind));
  if (s.placement.kind == Placement::Kind::block) {
    out.emplace_back("global_shape", s.placement.global);
    out.emplace_back("lower", s.placement.lower);
    out.emplace_back("upper", s.placement.upper);
  }
  return out;
}

Hdf5Dataset dataset_of(const Segment& s) {
  if (!s.part) return {s.dataset, s.type, s.shape, s.offset, attributes_of(s)};
  Attributes attributes{{"rank", std::int64_t{s.rank}}, {"at", s.part->at}};
  if (!s.units.empty()) attributes.emplace_back("units", s.units);
  return {s.dataset, s.type, s.shape, s.offset, std::move(attributes)};
}

double count(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1.0, [](double n, auto s) { return n * static_cast<double>(s); });
}

/// The share of a global array that the blocks of this file hold.
double covered(const std::vector<const Segment*>& parts, const Extents& global) {
  double held = 0;
  for (const Segment* part : parts) held += count(part->shape);
  const double all = count(global);
  return all > 0 ? held / all : 1;
}

/// The segments of one region in all areas of a file, as one dataset: blocks side by side, lists end to end.
Hdf5VirtualDataset joined(const std::vector<const Segment*>& parts) {
  const Segment& first = *parts.front();
  Hdf5VirtualDataset out;
  out.path = "/" + first.region;
  out.type = first.type;
  if (!first.units.empty()) out.attributes.emplace_back("units", first.units);
  out.attributes.emplace_back("placement", placement_word(first.placement.kind));
  const bool is_block = first.placement.kind == Placement::Kind::block;
  out.shape = is_block ? first.placement.global : first.shape;
  if (!is_block) out.shape[0] = 0;
  for (const Segment* part : parts) {
    Extents lower = part->placement.lower;
    if (!is_block) {
      lower.assign(part->shape.size(), 0);
      lower[0] = out.shape[0];
      out.shape[0] += part->shape[0];
    }
    if (part->part)
      for (std::size_t d = 0; d < lower.size(); ++d) lower[d] += part->part->at[d];
    if (part->bytes > 0) out.parts.push_back({part->dataset, part->shape, std::move(lower)});
  }
  if (is_block) out.attributes.emplace_back("covered", covered(parts, out.shape));
  return out;
}

/// Lists whose elements are of several shapes are no list together.
bool have_like_elements(const std::vector<const Segment*>& parts) {
  const Extents& first = parts.front()->shape;
  return std::ranges::all_of(parts, [&](const Segment* part) {
    const Extents& shape = part->shape;
    if (shape.empty() || first.empty()) return shape.empty() == first.empty();
    return std::equal(shape.begin() + 1, shape.end(), first.begin() + 1, first.end());
  });
}

/// Where tools find a region of one rank.
std::string place_of(const std::string& region, int rank, bool alone) {
  return alone ? "/" + region : cat("/", rank_group, "/", padded(rank, 5), "/", region);
}

/// The parts of a region of one rank, each in its place.
Hdf5VirtualDataset put_together(const std::vector<const Segment*>& parts, bool alone) {
  const Segment& first = *parts.front();
  Hdf5VirtualDataset out;
  out.path = place_of(first.region, first.rank, alone);
  out.type = first.type;
  out.shape = first.part->of;
  out.attributes = attributes_of(first);
  double held = 0;
  for (const Segment* part : parts) {
    held += count(part->shape);
    if (part->bytes > 0) out.parts.push_back({part->dataset, part->shape, part->part->at});
  }
  const bool of_global = alone && first.placement.kind == Placement::Kind::block;
  const double all = count(of_global ? first.placement.global : out.shape);
  out.attributes.emplace_back("covered", all > 0 ? held / all : 1);
  return out;
}

void describe_regions_in_parts(const Table& table, bool alone, Hdf5Description& out) {
  std::map<std::pair<int, std::string>, std::vector<const Segment*>> regions;
  for (const auto& s : table.segments)
    if (s.part) regions[{s.rank, s.region}].push_back(&s);
  for (const auto& [which, parts] : regions) out.virtual_datasets.push_back(put_together(parts, alone));
}

/// The datasets at the root of a file with several ranks: one for each region that means something as a whole.
void describe_whole_regions(const Table& table, Hdf5Description& out) {
  std::map<std::string, std::vector<const Segment*>> regions;
  for (const auto& s : table.segments) regions[s.region].push_back(&s);
  for (const auto& [name, parts] : regions) {
    switch (parts.front()->placement.kind) {
      case Placement::Kind::rank_private:
        break;
      case Placement::Kind::replicated:
        out.links.push_back({"/" + name, parts.front()->dataset});
        break;
      case Placement::Kind::block:
        out.virtual_datasets.push_back(joined(parts));
        break;
      case Placement::Kind::distributed_list:
        if (have_like_elements(parts)) out.virtual_datasets.push_back(joined(parts));
        break;
    }
  }
}

Table table_of(const Origin& origin, const std::string& name, const std::vector<Area>& areas,
               const std::vector<std::uint64_t>& area_offsets) {
  Table table{origin.job, origin.line, name, {}};
  for (std::size_t a = 0; a < areas.size(); ++a) {
    table.left_out.insert(table.left_out.end(), areas[a].left_out.begin(), areas[a].left_out.end());
    std::map<std::string, int> parts;  // of each region, so far
    for (Segment s : areas[a].segments) {
      s.offset += area_offsets[a];
      s.dataset = s.part ? cat("/", part_group, "/", padded(s.rank, 5), "/", parts[s.region]++, "/", s.region)
                         : place_of(s.region, s.rank, areas.size() == 1);
      table.segments.push_back(std::move(s));
    }
  }
  return table;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : lead >= 0xe0 && lead < 0xf0 ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    i += length;
  }
  return true;
}
}  // namespace

AreaLayout layout_area(std::span<const std::uint64_t> sizes) {
  AreaLayout out;
  for (auto size : sizes) {
    const auto offset = round_up(out.size, size >= large_segment ? page : small_alignment);
    out.offsets.push_back(offset);
    out.size = offset + size;
  }
  out.size = round_up(out.size, page);
  return out;
}

std::uint64_t area_size(const std::vector<Segment>& segments) {
  std::vector<std::uint64_t> sizes;
  for (const auto& s : segments) sizes.push_back(s.bytes);
  return layout_area(sizes).size;
}

Bytes encode_header(const Header& h) {
  std::string line =
      cat(file_magic, format_version, " table ", h.table_offset, ' ', h.table_length, ' ', hex8(h.table_crc));
  line += cat(" hdf5 ", h.hdf5_offset, ' ', h.hdf5_length, ' ', hex8(h.hdf5_crc), " size ", h.size, " crc ");
  line += hex8(crc32c(as_bytes(line))) + "\n";
  const ByteView view = as_bytes(line);
  Bytes out(view.begin(), view.end());
  out.resize(page);
  return out;
}

Result<Header> decode_header(ByteView first_page) {
  const std::string_view all = as_text(first_page);
  const auto end = all.find('\n');
  if (end == all.npos || !all.starts_with(file_magic)) return header_damaged("this is not a data file of backstay");
  const std::string_view line = all.substr(0, end);
  const auto words = split(line, ' ');
  const auto version = words.size() > 2 ? parse_decimal(words[2]) : std::nullopt;
  if (version && *version != format_version)
    return fail(Code::version, "it is of format version ", *version, ", and this backstay reads version ",
                format_version);
  if (!version || words.size() != 15 || words[3] != "table" || words[7] != "hdf5" || words[11] != "size" ||
      words[13] != "crc")
    return header_damaged("its line has other words");
  if (parse_hex8(words[14]) != crc32c(as_bytes(line.substr(0, line.size() - 8))))
    return header_damaged("its checksum differs");
  const auto table_offset = parse_decimal(words[4]), table_length = parse_decimal(words[5]);
  const auto hdf5_offset = parse_decimal(words[8]), hdf5_length = parse_decimal(words[9]),
             size = parse_decimal(words[12]);
  const auto table_crc = parse_hex8(words[6]), hdf5_crc = parse_hex8(words[10]);
  if (!table_offset || !table_length || !hdf5_offset || !hdf5_length || !size || !table_crc || !hdf5_crc)
    return header_damaged("its numbers are not numbers");
  if (*size > longest_file || *table_offset < first_area || *table_offset > *hdf5_offset ||
      *table_length > *hdf5_offset - *table_offset || *hdf5_offset > *size || *hdf5_length != *size - *hdf5_offset)
    return header_damaged("its numbers do not fit together");
  return Header{*table_offset, *table_length, *table_crc, *hdf5_offset, *hdf5_length, *hdf5_crc, *size};
}

Result<Frame> frame_file(const Origin& origin, const std::string& name, const std::vector<Area>& areas) {
  Frame frame;
  frame.tail_offset = first_area;
  for (const auto& area : areas) {
    frame.area_offsets.push_back(frame.tail_offset);
    frame.tail_offset += area_size(area.segments);
  }
  const Table table = table_of(origin, name, areas, frame.area_offsets);
  frame.tail = encode_table(table);
  Header header;
  header.table_offset = frame.tail_offset;
  header.table_length = frame.tail.size();
  header.table_crc = frame.table_crc = crc32c(frame.tail);
  frame.tail.resize(round_up(frame.tail.size(), page));
  header.hdf5_offset = frame.tail_offset + frame.tail.size();

  Hdf5Description hdf5;
  hdf5.base = page;
  hdf5.metadata_offset = header.hdf5_offset;
  for (const auto& s : table.segments) {
    hdf5.datasets.push_back(dataset_of(s));
    if (areas.size() == 1 && !s.part && s.placement.kind == Placement::Kind::block)
      hdf5.datasets.back().attributes.emplace_back("covered", covered({&s}, s.placement.global));
  }
  describe_regions_in_parts(table, areas.size() == 1, hdf5);
  if (areas.size() > 1) describe_whole_regions(table, hdf5);
  hdf5.attributes = {{"backstay_format", std::int64_t{format_version}},
                     {"job", origin.job},
                     {"line", static_cast<std::int64_t>(origin.line)},
                     {"level", origin.level},
                     {"time", origin.time}};
  auto image = encode_hdf5(hdf5);
  if (!image) return image.failure();

  image->superblock.resize(page);
  header.hdf5_length = image->metadata.size();
  header.hdf5_crc = frame.hdf5_crc = crc32c(image->metadata, crc32c(image->superblock));
  header.size = frame.size = header.hdf5_offset + header.hdf5_length;
  frame.tail.insert(frame.tail.end(), image->metadata.begin(), image->metadata.end());
  frame.front = encode_header(header);
  frame.front.insert(frame.front.end(), image->superblock.begin(), image->superblock.end());
  return frame;
}

std::string why_not_a_region_name(std::string_view name) {
  if (name.empty()) return "a region needs a name";
  if (name.size() > 1024) return "the name of a region may have 1024 bytes at most";
  if (!is_utf8(name)) return "the name of a region must be UTF-8";
  if (name.find('\0') != name.npos) return cat("the name '", name.substr(0, name.find('\0')), "' holds a zero byte");
  const auto parts = split(name, '/');
  for (const auto reserved : {rank_group, part_group})
    if (parts.front() == reserved) return cat("the name '", name, "' begins with the reserved word '", reserved, "'");
  for (const auto& part : parts)
    if (part.empty() || part == "." || part == "..")
      return cat("the name '", name, "' has an empty part, '.' or '..' between its slashes");
  return "";
}

namespace {
Result<void> check_texts(const std::string& region, const Type& type) {
  for (const auto& m : type.members) {
    if (!is_utf8(m.name) || m.name.find('\0') != std::string::npos)
      return fail(Code::invalid_argument, "region '", region, "': the name of member ", &m - type.members.data() + 1,
                  " of its struct is not UTF-8, or holds a zero byte; save the source file as UTF-8, or rename it");
    BACKSTAY_TRY(check_texts(region, m.type));
  }
  return {};
}
}  // namespace

Result<void> check_storable(const Segment& segment) {
  if (!is_utf8(segment.units) || segment.units.find('\0') != std::string::npos)
    return fail(Code::invalid_argument, "region '", segment.region, "': its units are not UTF-8, or hold a zero byte");
  BACKSTAY_TRY(check_texts(segment.region, segment.type));
  const auto cannot = [&](const std::string& why) {
    return fail(Code::invalid_argument, "region '", segment.region, "' cannot be saved: ", why);
  };
  const std::vector<Area> areas{{segment.rank, {segment}}};
  const auto frame = frame_file({"0000000000000000", 1, "shared", 0}, rank_file_name(segment.rank), areas);
  if (!frame) return cannot(frame.failure().what);
  const Table written =
      table_of({"0000000000000000", 1, "shared", 0}, rank_file_name(segment.rank), areas, frame->area_offsets);
  const auto read = decode_table(encode_table(written));
  if (!read) return cannot(read.failure().what);
  if (*read != written) return cannot("its description does not come back from a file as it was");
  return {};
}

std::string rank_file_name(int rank) { return cat("rank-", padded(static_cast<std::uint64_t>(rank), 5), ".h5"); }
std::string group_file_name(int group) { return cat("node-", padded(static_cast<std::uint64_t>(group), 5), ".h5"); }
std::string copy_name(const std::string& file_name) { return "copy-" + file_name; }

}  // namespace backstay::format
