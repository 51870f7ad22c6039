#include "format/manifest.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/crc32c.h"
#include "base/text.h"
#include "format/json_types.h"

namespace backstay::format {

namespace {
constexpr std::string_view manifest_magic = "backstay manifest ";
constexpr std::string_view rows_begin = ",\"segments\":[", rows_end = "]}\n";
constexpr std::uint64_t any = std::uint64_t{1} << 62;

Failure manifest_damaged(std::string_view why) { return fail(Code::corrupt, "the manifest is damaged: ", why); }

/// Names come from files: one that leaves the line's directory would read or remove something else.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() < 256 && name[0] != '.' && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

Json parse(std::string_view body) {
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) throw BadJson{"it is not JSON"};
  return json;
}

std::vector<int> ranks_from_json(const Json& members, int ranks) {
  std::vector<int> out;
  for (const Json& rank : members) {
    if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= static_cast<std::uint64_t>(ranks))
      throw BadJson{"a rank is out of range"};
    out.push_back(rank.get<int>());
  }
  return out;
}

DataFile file_from_json(const Json& json, int ranks) {
  DataFile file;
  file.name = text(json, "name");
  if (!is_plain_name(file.name)) throw BadJson{"a file name is not plain"};
  const Json& members = member(json, "ranks");
  if (!members.is_array() || members.empty()) throw BadJson{"a file has no ranks"};
  file.ranks = ranks_from_json(members, ranks);
  file.node = static_cast<int>(signed_number(json, "node", -1, std::numeric_limits<int>::max()));
  file.copy_node = static_cast<int>(signed_number(json, "copy_node", -1, std::numeric_limits<int>::max()));
  file.size = number(json, "size", any);
  file.table_crc = crc(json, "table");
  return file;
}

GroupOfParity group_from_json(const Json& json, int ranks) {
  constexpr std::size_t most_members = 255;
  GroupOfParity group;
  const Json& members = member(json, "members");
  const Json& headers = member(json, "headers");
  if (!members.is_array() || !headers.is_array() || members.size() != headers.size() || members.size() > most_members)
    throw BadJson{"a parity group has other members than headers"};
  group.members = ranks_from_json(members, ranks);
  if (std::set<int>(group.members.begin(), group.members.end()).size() != group.members.size())
    throw BadJson{"a rank is twice in a parity group"};
  group.owners = static_cast<std::size_t>(number(json, "owners", group.members.size()));
  group.parities = static_cast<int>(number(json, "parities", most_members));
  if (group.parities < 1 || group.members.size() <= static_cast<std::size_t>(group.parities))
    throw BadJson{"a parity group has as many parities as members"};
  group.chunk = number(json, "chunk", any / most_members);
  for (const Json& header : headers) {
    const auto sum = header.is_string() ? parse_hex8(header.get<std::string>()) : std::nullopt;
    if (!sum) throw BadJson{"a checksum of a parity group is none"};
    group.headers.push_back(*sum);
  }
  return group;
}

/// Every rank's file is covered by one group, whole.
void check_groups(const Manifest& m) {
  std::map<int, std::uint64_t> sizes;
  for (const auto& file : m.files) {
    if (file.ranks.size() != 1) throw BadJson{"there is parity for a file of several ranks"};
    sizes[file.ranks[0]] = file.size;
  }
  for (const auto& group : m.groups)
    for (std::size_t i = 0; i < group.owners; ++i) {
      const auto size = sizes.extract(group.members[i]);
      if (size.empty()) throw BadJson{cat("rank ", group.members[i], " is in two parity groups")};
      if (size.mapped() > group.chunk * (group.members.size() - static_cast<std::size_t>(group.parities)))
        throw BadJson{"a file is larger than the data of its parity group"};
    }
  if (!sizes.empty()) throw BadJson{cat("rank ", sizes.begin()->first, " is in no parity group")};
}

double seconds(const Json& json, const char* key) {
  const Json& value = member(json, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) throw BadJson{cat("'", key, "' is not a number")};
  return value.get<double>();
}

Manifest manifest_from_json(const Json& json) {
  Manifest m;
  m.job = text(json, "job");
  m.line = number(json, "line", any);
  m.level = text(json, "level");
  m.ranks = static_cast<int>(number(json, "ranks", std::numeric_limits<int>::max()));
  m.call = number(json, "call", any);
  m.program = text(json, "program");
  m.time = seconds(json, "time");
  const Json& files = member(json, "files");
  if (!files.is_array()) throw BadJson{"'files' is not a list"};
  std::set<int> seen;
  for (const Json& f : files) {
    m.files.push_back(file_from_json(f, m.ranks));
    for (int rank : m.files.back().ranks)
      if (!seen.insert(rank).second) throw BadJson{cat("rank ", rank, " is in two files")};
  }
  if (seen.size() != static_cast<std::size_t>(m.ranks)) throw BadJson{"some ranks are in no file"};
  if (json.contains("statics")) {
    m.statics = number(json, "statics", any);
    if (m.statics == 0 || m.statics > m.line) throw BadJson{"its static regions are in no line, or in a later one"};
    if (json.contains("statics_time")) m.statics_time = seconds(json, "statics_time");
  }
  if (!json.contains("groups")) return m;
  const Json& groups = member(json, "groups");
  if (!groups.is_array()) throw BadJson{"'groups' is not a list"};
  for (const Json& g : groups) m.groups.push_back(group_from_json(g, m.ranks));
  check_groups(m);
  return m;
}
}  // namespace

Bytes encode_manifest(const Manifest& m) {
  Json files = Json::array();
  for (const auto& f : m.files)
    files.push_back({{"name", f.name},
                     {"ranks", f.ranks},
                     {"node", f.node},
                     {"copy_node", f.copy_node},
                     {"size", f.size},
                     {"table", hex8(f.table_crc)}});
  Json json{{"job", m.job},   {"line", m.line}, {"level", m.level},     {"ranks", m.ranks},
            {"call", m.call}, {"time", m.time}, {"program", m.program}, {"files", std::move(files)}};
  if (m.statics > 0) json["statics"] = m.statics;
  if (m.statics > 0 && m.statics_time != 0) json["statics_time"] = m.statics_time;
  for (const auto& g : m.groups) {
    Json headers = Json::array();
    for (const auto sum : g.headers) headers.push_back(hex8(sum));
    json["groups"].push_back({{"members", g.members},
                              {"owners", g.owners},
                              {"parities", g.parities},
                              {"chunk", g.chunk},
                              {"headers", std::move(headers)}});
  }
  const std::string body = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string all =
      cat(manifest_magic, format_version, ' ', body.size(), ' ', hex8(crc32c(as_bytes(body))), '\n', body);
  const ByteView view = as_bytes(all);
  return {view.begin(), view.end()};
}

Result<Manifest> decode_manifest(ByteView bytes) {
  const std::string_view all = as_text(bytes);
  const auto end = all.find('\n');
  if (end == all.npos || !all.starts_with(manifest_magic))
    return manifest_damaged("its first line is not that of a manifest");
  const auto words = split(all.substr(manifest_magic.size(), end - manifest_magic.size()), ' ');
  const auto version = words.empty() ? std::nullopt : parse_decimal(words[0]);
  if (!version) return manifest_damaged("its first line is not that of a manifest");
  if (*version != format_version)
    return fail(Code::version, "it is of format version ", *version, ", and this backstay reads version ",
                format_version,
                *version > format_version ? ": use the newer backstay that wrote it"
                                          : ": use the older backstay that wrote it");
  const std::string_view body = all.substr(end + 1);
  if (words.size() != 3 || parse_decimal(words[1]) != body.size())
    return manifest_damaged("it is not of the length it says");
  if (parse_hex8(words[2]) != crc32c(as_bytes(body)))
    return manifest_damaged(
        cat("its checksum differs (stored ", words[2], ", read ", hex8(crc32c(as_bytes(body))), ")"));
  try {
    return manifest_from_json(parse(body));
  } catch (const BadJson& bad) {
    return manifest_damaged(bad.why);
  }
}

namespace {
/// With other words than rows have, which decode_rows() looks for.
Json left_out_to_json(const std::vector<LeftOut>& regions) {
  Json out = Json::array();
  for (const auto& region : regions) {
    out.push_back({{"by", region.rank}, {"name", region.region}, {"shape", region.shape}});
    if (region.made) out.back()["made"] = *region.made;
    if (region.lower) out.back()["lower"] = *region.lower;
    if (region.unlisted) out.back()["unlisted"] = true;
  }
  return out;
}

std::vector<LeftOut> left_out_from_json(const Json& json) {
  if (!json.is_array()) throw BadJson{"'left_out' is not a list"};
  std::vector<LeftOut> out;
  for (const Json& entry : json) {
    out.push_back({static_cast<int>(number(entry, "by", std::numeric_limits<int>::max())), text(entry, "name"),
                   extents(entry, "shape")});
    (void)checked_count(out.back().shape);
    if (entry.contains("lower")) {
      out.back().lower = extents(entry, "lower");
      if (out.back().lower->size() != out.back().shape.size())
        throw BadJson{cat("the block of '", out.back().region, "', which was left out, has unequal dimensions")};
    }
    if (entry.contains("made"))
      out.back().made = static_cast<std::uint32_t>(number(entry, "made", std::numeric_limits<std::uint32_t>::max()));
    out.back().unlisted = entry.contains("unlisted") && entry["unlisted"] == true;
  }
  return out;
}
}  // namespace

Bytes encode_table(const Table& table) {
  std::string body = cat("{\"job\":", dump(table.job), ",\"line\":", table.line, ",\"file\":", dump(table.file));
  if (!table.left_out.empty()) body += cat(",\"left_out\":", dump(left_out_to_json(table.left_out)));
  body += rows_begin;
  for (const auto& s : table.segments) {
    if (&s != table.segments.data()) body += ',';
    body += segment_to_text(s);
  }
  body += rows_end;
  const ByteView view = as_bytes(body);
  return {view.begin(), view.end()};
}

namespace {
/// The table with the rows of `rank` alone; nothing where it is not written as encode_table() does. These words cannot
/// be part of a name: a quotation mark inside a JSON text has a backslash before it.
std::optional<std::string> only_rows_of(std::string_view table, int rank) {
  const auto is_row = [](int of) { return cat("{\"rank\":", of, ",\"region\":"); };
  const auto begin = table.find(rows_begin);
  const auto first = table.find(is_row(rank));
  if (begin == table.npos || first == table.npos || !table.ends_with(rows_end)) return {};
  auto last = table.rfind(is_row(rank));
  last = std::min(table.find(",{\"rank\":", last), table.size() - rows_end.size());
  return cat(table.substr(0, begin), rows_begin, table.substr(first, last - first), rows_end);
}
}  // namespace

Result<Table> decode_rows(ByteView bytes, int rank) {
  const auto rows = only_rows_of(as_text(bytes), rank);
  if (!rows) return decode_table(bytes);
  auto table = decode_table(as_bytes(*rows));
  if (table) std::erase_if(table->segments, [&](const Segment& s) { return s.rank != rank; });
  return table;
}

namespace {
bool overlap(const Segment& a, const Segment& b) {
  if (a.part->at.size() != b.part->at.size()) return false;
  for (std::size_t d = 0; d < a.shape.size(); ++d)
    if (a.part->at[d] >= b.part->at[d] + b.shape[d] || b.part->at[d] >= a.part->at[d] + a.shape[d]) return false;
  return true;
}

void require_parts_apart(const std::vector<Segment>& segments) {
  std::map<std::pair<int, std::string_view>, std::vector<const Segment*>> regions;
  for (const auto& segment : segments) {
    if (!segment.part || segment.bytes == 0) continue;
    auto& others = regions[{segment.rank, segment.region}];
    for (const auto* other : others)
      if (overlap(segment, *other))
        throw BadJson{cat("parts of '", segment.region, "' of rank ", segment.rank, " overlap")};
    others.push_back(&segment);
  }
}
}  // namespace

Result<Table> decode_table(ByteView bytes) {
  try {
    const Json json = parse(as_text(bytes));
    Table table;
    table.job = text(json, "job");
    table.line = number(json, "line", any);
    table.file = text(json, "file");
    const Json& segments = member(json, "segments");
    if (!segments.is_array()) throw BadJson{"'segments' is not a list"};
    for (const Json& s : segments) table.segments.push_back(segment_from_json(s));
    require_parts_apart(table.segments);
    if (json.contains("left_out")) table.left_out = left_out_from_json(member(json, "left_out"));
    return table;
  } catch (const BadJson& bad) {
    return fail(Code::corrupt, "the table is damaged: ", bad.why);
  }
}

}  // namespace backstay::format
