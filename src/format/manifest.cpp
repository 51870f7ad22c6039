#include "format/manifest.h"

#include <cmath>
#include <limits>
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

DataFile file_from_json(const Json& json, int ranks) {
  DataFile file;
  file.name = text(json, "name");
  if (!is_plain_name(file.name)) throw BadJson{"a file name is not plain"};
  const Json& members = member(json, "ranks");
  if (!members.is_array() || members.empty()) throw BadJson{"a file has no ranks"};
  for (const Json& rank : members) {
    if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= static_cast<std::uint64_t>(ranks))
      throw BadJson{"a rank is out of range"};
    file.ranks.push_back(rank.get<int>());
  }
  file.node = static_cast<int>(signed_number(json, "node", -1, std::numeric_limits<int>::max()));
  file.copy_node = static_cast<int>(signed_number(json, "copy_node", -1, std::numeric_limits<int>::max()));
  file.size = number(json, "size", any);
  file.table_crc = crc(json, "table");
  return file;
}

Manifest manifest_from_json(const Json& json) {
  Manifest m;
  m.job = text(json, "job");
  m.line = number(json, "line", any);
  m.level = text(json, "level");
  m.ranks = static_cast<int>(number(json, "ranks", std::numeric_limits<int>::max()));
  m.call = number(json, "call", any);
  m.program = text(json, "program");
  const Json& time = member(json, "time");
  if (!time.is_number() || !std::isfinite(time.get<double>())) throw BadJson{"'time' is not a number"};
  m.time = time.get<double>();
  const Json& files = member(json, "files");
  if (!files.is_array()) throw BadJson{"'files' is not a list"};
  std::set<int> seen;
  for (const Json& f : files) {
    m.files.push_back(file_from_json(f, m.ranks));
    for (int rank : m.files.back().ranks)
      if (!seen.insert(rank).second) throw BadJson{cat("rank ", rank, " is in two files")};
  }
  if (seen.size() != static_cast<std::size_t>(m.ranks)) throw BadJson{"some ranks are in no file"};
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
  const Json json{{"job", m.job},   {"line", m.line}, {"level", m.level},     {"ranks", m.ranks},
                  {"call", m.call}, {"time", m.time}, {"program", m.program}, {"files", std::move(files)}};
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

Bytes encode_table(const Table& table) {
  std::string body =
      cat("{\"job\":", dump(table.job), ",\"line\":", table.line, ",\"file\":", dump(table.file), rows_begin);
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
    return table;
  } catch (const BadJson& bad) {
    return fail(Code::corrupt, "the table is damaged: ", bad.why);
  }
}

}  // namespace backstay::format
