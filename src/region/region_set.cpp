#include "region/region_set.h"

#include <algorithm>
#include <set>

namespace backstay::region {

namespace {
Result<void> check_type(const std::string& name, const Type& type, int depth = 0) {
  if (type.size == 0) return fail(Code::invalid_argument, "region '", name, "': its element type has no size");
  if (type.kind != Type::Kind::compound) return {};
  if (type.members.empty() || depth > 8)
    return fail(Code::invalid_argument, "region '", name, "': its struct has no members or is nested too deeply");
  std::set<std::string> names;
  for (const auto& m : type.members) {
    if (m.name.empty() || !names.insert(m.name).second)
      return fail(Code::invalid_argument, "region '", name, "': the member name '", m.name, "' is empty or used twice");
    if (m.offset + m.type.size * element_count(m.shape) > type.size)
      return fail(Code::invalid_argument, "region '", name, "': the member '", m.name, "' lies outside its struct");
    BACKSTAY_TRY(check_type(name, m.type, depth + 1));
  }
  return {};
}

Result<void> check_placement(const RegionSpec& spec) {
  const Placement& p = spec.placement;
  if (spec.save && p.kind != Placement::Kind::rank_private)
    return fail(Code::invalid_argument, "region '", spec.name, "': what callbacks save has no placement");
  if (p.kind != Placement::Kind::block) return {};
  if (p.global.size() != p.lower.size() || p.global.size() != p.upper.size() || p.global.empty())
    return fail(Code::invalid_argument, "region '", spec.name,
                "': global shape, lower and upper need the same number of dimensions");
  if (p.global.size() > max_dimensions)
    return fail(Code::invalid_argument, "region '", spec.name, "': more than ", max_dimensions, " dimensions");
  for (std::size_t d = 0; d < p.global.size(); ++d)
    if (p.lower[d] < 0 || p.lower[d] > p.upper[d] || p.upper[d] > p.global[d])
      return fail(Code::invalid_argument, "region '", spec.name, "': the block ", describe_shape(p.lower), " to ",
                  describe_shape(p.upper), " does not lie in the global shape ", describe_shape(p.global));
  return {};
}

/// "a" and "a/b": a file cannot have a dataset and a group of one name.
bool nested(std::string_view outer, std::string_view inner) {
  return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '/';
}
}  // namespace

std::string describe_type(const Type& type) {
  using K = Type::Kind;
  switch (type.kind) {
    case K::integer:
      return cat("int", type.size * 8);
    case K::unsigned_integer:
      return cat("uint", type.size * 8);
    case K::floating:
      return cat("float", type.size == 16 ? 80 : type.size * 8);
    case K::complex:
      return cat("complex", type.size * 8);
    case K::boolean:
      return "bool";
    case K::text:
      return "text";
    case K::opaque:
      return cat(type.size, "-byte opaque");
    case K::compound:
      break;
  }
  std::string out = cat(type.size, "-byte struct {");
  for (const auto& m : type.members)
    out += cat(out.back() == '{' ? "" : ", ", m.name, ": ", describe_type(m.type),
               m.shape.empty() ? "" : describe_shape(m.shape));
  return out + "}";
}

std::string describe_shape(const Extents& shape) {
  std::string out = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) out += cat(d == 0 ? "" : ", ", shape[d]);
  return out + "]";
}

std::uint64_t element_count(const Extents& shape) {
  std::uint64_t n = 1;
  for (auto s : shape) n *= static_cast<std::uint64_t>(s);
  return n;
}

Result<void> RegionSet::add(RegionSpec spec) {
  for (const auto& other : specs_) {
    if (other.name == spec.name)
      return fail(Code::invalid_argument, "region '", spec.name,
                  "' is already protected: unprotect it first or choose another name");
    if (nested(other.name, spec.name) || nested(spec.name, other.name))
      return fail(Code::invalid_argument, "regions '", other.name, "' and '", spec.name,
                  "' cannot be in one file: one would be an array and a group at once; rename one");
  }
  const bool by_memory = static_cast<bool>(spec.view), by_callbacks = spec.save && (spec.load || spec.redistribute);
  if (by_memory == by_callbacks)
    return fail(Code::invalid_argument, "region '", spec.name,
                "' needs either memory or a pair of save and load callbacks");
  BACKSTAY_TRY(check_type(spec.name, spec.type));
  BACKSTAY_TRY(check_placement(spec));
  if (by_memory) BACKSTAY_TRY(check_view(spec, spec.view()));
  specs_.push_back(std::move(spec));
  return {};
}

Result<void> RegionSet::remove(std::string_view name) {
  const auto it = std::find_if(specs_.begin(), specs_.end(), [&](const auto& s) { return s.name == name; });
  if (it == specs_.end()) return fail(Code::not_found, "region '", name, "' is not protected");
  specs_.erase(it);
  return {};
}

const RegionSpec* RegionSet::find(std::string_view name) const {
  const auto it = std::find_if(specs_.begin(), specs_.end(), [&](const auto& s) { return s.name == name; });
  return it == specs_.end() ? nullptr : &*it;
}

std::vector<std::string> RegionSet::signature() const {
  static constexpr const char* kinds[] = {"private", "replicated", "block", "list"};
  std::vector<std::string> out;
  for (const auto& s : specs_)
    out.push_back(cat("region '", s.name, "' of ", describe_type(s.type), ", ",
                      kinds[static_cast<int>(s.placement.kind)],
                      s.placement.kind == Placement::Kind::block ? " of " + describe_shape(s.placement.global) : ""));
  return out;
}

Result<void> check_view(const RegionSpec& spec, const View& view) {
  const auto bad = [&](const auto&... parts) {
    return fail(Code::invalid_argument, "region '", spec.name, "': ", parts...);
  };
  if (!view.valid) return bad("its memory cannot be saved: a count or a number of strides is out of range");
  if (view.shape.size() > max_dimensions)
    return bad("it has ", view.shape.size(), " dimensions, and ", max_dimensions, " is the most");
  for (auto n : view.shape)
    if (n < 0) return bad("its shape ", describe_shape(view.shape), " has a negative length");
  for (auto s : view.strides)
    if (s < 0)
      return bad("a stride is negative, which is not supported: protect the array from its first element in memory");
  if (view.run_lengths.empty() && view.strides.size() != view.shape.size())
    return bad("it has not one stride for each dimension");
  if (view.data == nullptr && element_count(view.shape) > 0) return bad("its memory is a null pointer");
  const Placement& p = spec.placement;
  if (p.kind == Placement::Kind::distributed_list && view.shape.empty())
    return bad("a scalar cannot be a distributed list");
  if (p.kind != Placement::Kind::block) return {};
  Extents box(p.global.size());
  for (std::size_t d = 0; d < box.size(); ++d) box[d] = p.upper[d] - p.lower[d];
  if (view.shape != box)
    return bad("its shape is ", describe_shape(view.shape), " and its block is ", describe_shape(box),
               ": they must be the same");
  return {};
}

}  // namespace backstay::region
