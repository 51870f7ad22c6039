#include "format/json_types.h"

#include <limits>

#include "base/text.h"

namespace backstay::format {

namespace {
constexpr std::uint64_t largest = std::uint64_t{1} << 60;  // bytes or elements: beyond it, sums could overflow
constexpr int deepest_struct = 16;

struct KindLetter {
  Type::Kind kind;
  char letter;
  std::vector<std::size_t> sizes;  // empty: any
};
/// Never destroyed: the background writes tables while the process ends by exit().
const std::vector<KindLetter>& kind_letters() {
  using K = Type::Kind;
  static const auto* const table = new std::vector<KindLetter>{
      {K::integer, 'i', {1, 2, 4, 8}},
      {K::unsigned_integer, 'u', {1, 2, 4, 8}},
      {K::floating, 'f', {2, 4, 8, 16}},
      {K::complex, 'c', {8, 16, 32}},
      {K::boolean, 'b', {1}},
      {K::text, 'S', {}},
      {K::opaque, 'V', {}},
  };
  return *table;
}

Type simple_type(std::string_view word) {
  if (!word.empty()) {
    for (const auto& entry : kind_letters()) {
      const auto size = parse_decimal(word.substr(1));
      if (entry.letter != word[0] || !size || *size == 0 || *size > largest) continue;
      bool known = entry.sizes.empty();
      for (auto s : entry.sizes) known = known || s == *size;
      if (known) return {entry.kind, static_cast<std::size_t>(*size), {}};
    }
  }
  throw BadJson{cat("'", word, "' is not an element type")};
}

std::uint64_t checked_bytes(const Extents& shape, std::size_t element) {
  const auto n = checked_count(shape);
  if (n > largest / element) throw BadJson{"a shape is impossibly large"};
  return n * element;
}
}  // namespace

const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) throw BadJson{cat("an object with '", key, "' is missing")};
  const auto it = object.find(key);
  if (it == object.end()) throw BadJson{cat("'", key, "' is missing")};
  return *it;
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) throw BadJson{cat("'", key, "' is not a text")};
  return value.get<std::string>();
}

std::uint64_t number(const Json& object, const char* key, std::uint64_t at_most) {
  const Json& value = member(object, key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > at_most)
    throw BadJson{cat("'", key, "' is out of range")};
  return value.get<std::uint64_t>();
}

std::int64_t signed_number(const Json& object, const char* key, std::int64_t at_least, std::int64_t at_most) {
  const Json& value = member(object, key);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(at_most));
  if (!fits || value.get<std::int64_t>() < at_least || value.get<std::int64_t>() > at_most)
    throw BadJson{cat("'", key, "' is out of range")};
  return value.get<std::int64_t>();
}

std::uint32_t crc(const Json& object, const char* key) {
  const auto n = parse_hex8(text(object, key));
  if (!n) throw BadJson{cat("'", key, "' is not a checksum")};
  return *n;
}

std::uint64_t checked_count(const Extents& shape) {
  std::uint64_t n = 1;
  for (auto s : shape) {
    if (s != 0 && n > largest / static_cast<std::uint64_t>(s)) throw BadJson{"a shape is impossibly large"};
    n *= static_cast<std::uint64_t>(s);
  }
  return n;
}

Extents extents(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array() || value.size() > max_dimensions)
    throw BadJson{cat("'", key, "' is not a list of up to 7 lengths")};
  Extents out;
  for (const Json& n : value) {
    if (!n.is_number_unsigned() || n.get<std::uint64_t>() > largest)
      throw BadJson{cat("'", key, "' has a length out of range")};
    out.push_back(n.get<std::int64_t>());
  }
  return out;
}

Json type_to_json(const Type& type) {
  if (type.kind != Type::Kind::compound) {
    for (const auto& entry : kind_letters())
      if (entry.kind == type.kind) return cat(entry.letter, type.size);
  }
  Json members = Json::array();
  for (const auto& m : type.members)
    members.push_back({{"name", m.name}, {"offset", m.offset}, {"type", type_to_json(m.type)}, {"shape", m.shape}});
  return {{"size", type.size}, {"members", std::move(members)}};
}

Type type_from_json(const Json& json, int depth) {
  if (json.is_string()) return simple_type(json.get_ref<const std::string&>());
  if (depth >= deepest_struct) throw BadJson{"a struct is nested too deeply"};
  Type type;
  type.kind = Type::Kind::compound;
  type.size = static_cast<std::size_t>(number(json, "size", largest));
  const Json& members = member(json, "members");
  if (!members.is_array() || type.size == 0) throw BadJson{"a struct has no size or no members"};
  for (const Json& m : members) {
    Type::Member out;
    out.name = text(m, "name");
    out.offset = static_cast<std::size_t>(number(m, "offset", type.size));
    out.shape = extents(m, "shape");
    out.type = type_from_json(member(m, "type"), depth + 1);
    if (checked_bytes(out.shape, out.type.size) > type.size - out.offset)
      throw BadJson{cat("the member '", out.name, "' lies outside its struct")};
    type.members.push_back(std::move(out));
  }
  return type;
}

Json placement_to_json(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::rank_private:
      return {{"kind", "private"}};
    case Placement::Kind::replicated:
      return {{"kind", "replicated"}};
    case Placement::Kind::distributed_list:
      return {{"kind", "list"}};
    case Placement::Kind::block:
      break;
  }
  return {{"kind", "block"}, {"global", placement.global}, {"lower", placement.lower}, {"upper", placement.upper}};
}

Placement placement_from_json(const Json& json) {
  const std::string kind = text(json, "kind");
  if (kind == "private") return rank_private();
  if (kind == "replicated") return replicated();
  if (kind == "list") return distributed_list();
  if (kind != "block") throw BadJson{cat("'", kind, "' is not a placement")};
  Placement p = block(extents(json, "global"), extents(json, "lower"), extents(json, "upper"));
  if (p.lower.size() != p.global.size() || p.upper.size() != p.global.size())
    throw BadJson{"a block has unequal dimensions"};
  for (std::size_t d = 0; d < p.global.size(); ++d)
    if (p.lower[d] > p.upper[d] || p.upper[d] > p.global[d]) throw BadJson{"a block lies outside its global array"};
  return p;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string segment_to_text(const Segment& s) {
  const std::string part =
      s.part ? cat(",\"part\":{\"of\":", dump(s.part->of), ",\"at\":", dump(s.part->at), "}") : std::string();
  return cat("{\"rank\":", s.rank, ",\"region\":", dump(s.region), ",\"dataset\":", dump(s.dataset),
             ",\"type\":", dump(type_to_json(s.type)), ",\"shape\":", dump(s.shape), ",\"units\":", dump(s.units),
             ",\"placement\":", dump(placement_to_json(s.placement)), part, ",\"offset\":", s.offset,
             ",\"bytes\":", s.bytes, ",\"crc32c\":\"", hex8(s.crc), "\"}");
}

namespace {
Part part_from_json(const Json& json, const Segment& segment) {
  Part part{extents(json, "of"), extents(json, "at")};
  (void)checked_bytes(part.of, segment.type.size);
  bool fits = part.of.size() == segment.shape.size() && part.at.size() == segment.shape.size();
  for (std::size_t d = 0; fits && d < part.of.size(); ++d)
    fits = part.at[d] <= part.of[d] && segment.shape[d] <= part.of[d] - part.at[d];
  if (!fits) throw BadJson{cat("a part of '", segment.region, "' lies outside of it")};
  if (segment.placement.kind != Placement::Kind::block && segment.placement.kind != Placement::Kind::rank_private)
    throw BadJson{cat("'", segment.region, "' is neither private nor a block, and was saved in parts")};
  return part;
}
}  // namespace

Segment segment_from_json(const Json& json) {
  Segment s;
  s.rank = static_cast<int>(number(json, "rank", std::numeric_limits<int>::max()));
  s.region = text(json, "region");
  s.dataset = text(json, "dataset");
  s.type = type_from_json(member(json, "type"));
  s.shape = extents(json, "shape");
  s.units = text(json, "units");
  s.placement = placement_from_json(member(json, "placement"));
  s.offset = number(json, "offset", largest);
  s.bytes = number(json, "bytes", largest);
  s.crc = crc(json, "crc32c");
  if (checked_bytes(s.shape, s.type.size) != s.bytes)
    throw BadJson{cat("the shape and the bytes of '", s.region, "' differ")};
  if (json.contains("part")) s.part = part_from_json(member(json, "part"), s);
  const Extents& whole = s.part ? s.part->of : s.shape;
  if (s.placement.kind == Placement::Kind::block) {
    for (std::size_t d = 0; d < whole.size(); ++d)
      if (whole.size() != s.placement.lower.size() || whole[d] != s.placement.upper[d] - s.placement.lower[d])
        throw BadJson{cat("the shape and the block of '", s.region, "' differ")};
  }
  return s;
}

}  // namespace backstay::format
