// Types, placements and segments as JSON values, both ways. Private to format.
#pragma once

#include <nlohmann/json.hpp>

#include "backstay/types.hpp"
#include "format/manifest.h"

namespace backstay::format {

using Json = nlohmann::ordered_json;

/// Thrown while a JSON value is taken apart, caught at the end of every decode; the text says what is wrong.
struct BadJson {
  std::string why;
};

Json type_to_json(const Type& type);
Type type_from_json(const Json& json, int depth = 0);

Json placement_to_json(const Placement& placement);
Placement placement_from_json(const Json& json);

/// Without white space; what is not UTF-8 is replaced.
std::string dump(const Json& json);

/// As JSON text, put together here: building a JSON value first takes ten times as long, and tables are long.
std::string segment_to_text(const Segment& segment);
Segment segment_from_json(const Json& json);

/// Members of an object, checked: BadJson where one is missing, of another kind or out of range.
const Json& member(const Json& object, const char* key);
std::string text(const Json& object, const char* key);
std::uint64_t number(const Json& object, const char* key, std::uint64_t at_most);
std::int64_t signed_number(const Json& object, const char* key, std::int64_t at_least, std::int64_t at_most);
std::uint32_t crc(const Json& object, const char* key);
Extents extents(const Json& object, const char* key);
/// Elements in `shape`, or BadJson where they are impossibly many.
std::uint64_t checked_count(const Extents& shape);

}  // namespace backstay::format
