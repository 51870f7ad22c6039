#include "region/region_set.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "base/crc32c.h"
#include "region/pack.h"

namespace backstay::region {

namespace {
/// Lengths of 0 count as 1: a file describes them all, and readers of files multiply them.
bool fits_in_memory(const Extents& shape, std::size_t element) {
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  std::uint64_t bytes = element;
  for (const auto n : shape) {
    const auto length = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1));
    if (length > most / bytes) return false;
    bytes *= length;
  }
  return true;
}

Result<void> check_type(const std::string& name, const Type& type, int depth = 0) {
  if (type.size == 0) return fail(Code::invalid_argument, "region '", name, "': its element type has no size");
  constexpr bool is_x87 = std::numeric_limits<long double>::digits == 64;
  const bool is_long =
      (type.kind == Type::Kind::floating && type.size == 16) || (type.kind == Type::Kind::complex && type.size == 32);
  if (is_long && !is_x87)
    return fail(Code::invalid_argument, "region '", name, "': files have no such number as the long double of this ",
                "processor: protect it as bytes, by callbacks");
  if (type.kind != Type::Kind::compound) return {};
  if (type.members.empty() || depth > 8)
    return fail(Code::invalid_argument, "region '", name, "': its struct has no members or is nested too deeply");
  std::set<std::string> names;
  for (const auto& m : type.members) {
    if (m.name.empty() || !names.insert(m.name).second)
      return fail(Code::invalid_argument, "region '", name, "': the member name '", m.name, "' is empty or used twice");
    for (const auto n : m.shape)
      if (n < 1)
        return fail(Code::invalid_argument, "region '", name, "': the member '", m.name, "' has the shape ",
                    describe_shape(m.shape), "; its lengths must be 1 or more");
    if (m.type.size == 0 || !fits_in_memory(m.shape, m.type.size) || m.offset > type.size ||
        m.type.size * element_count(m.shape) > type.size - m.offset)
      return fail(Code::invalid_argument, "region '", name, "': the member '", m.name, "' lies outside its struct");
    BACKSTAY_TRY(check_type(name, m.type, depth + 1));
  }
  return {};
}

Result<void> check_placement(const RegionSpec& spec) {
  const Placement& p = spec.placement;
  const bool is_same_text = spec.type.kind == Type::Kind::text && p.kind == Placement::Kind::replicated;
  if (spec.save && p.kind != Placement::Kind::rank_private && !is_same_text)
    return fail(Code::invalid_argument, "region '", spec.name, "': what callbacks save has no placement",
                spec.type.kind == Type::Kind::text ? ", but a text may be replicated()" : "");
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

/// The bytes of numbers in the 80-bit format that lie behind their 10 bytes. Gaps between members are left alone: they
/// may hold members that nobody described.
void note_padding(const Type& type, std::size_t at, std::vector<std::pair<std::size_t, std::size_t>>& out) {
  constexpr std::size_t used = 10, slot = 16;
  if (type.kind == Type::Kind::floating && type.size == slot) out.emplace_back(at + used, at + slot);
  if (type.kind == Type::Kind::complex && type.size == 2 * slot)
    for (const std::size_t part : {at, at + slot}) out.emplace_back(part + used, part + slot);
  for (const auto& m : type.members)
    for (std::uint64_t i = 0; i < element_count(m.shape); ++i)
      note_padding(m.type, at + m.offset + i * m.type.size, out);
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

/// The region of which this one would be a part, or the other way round: a file cannot have a dataset "a" beside a
/// group "a" with "a/b" in it.
const std::string* RegionSet::nested_with(const std::string& name) const {
  for (auto slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
    if (const auto outer = at_.find(std::string_view(name).substr(0, slash)); outer != at_.end()) return &outer->first;
  const auto inner = at_.lower_bound(name + "/");
  return inner != at_.end() && inner->first.starts_with(name + "/") ? &inner->first : nullptr;
}

Result<void> RegionSet::require_free(const std::string& name) const {
  if (at_.contains(name))
    return fail(Code::invalid_argument, "region '", name,
                "' is already protected: unprotect it first or choose another name");
  if (const auto* other = nested_with(name))
    return fail(Code::invalid_argument, "regions '", *other, "' and '", name,
                "' cannot be in one file: one would be an array and a group at once; rename one");
  return {};
}

Result<void> RegionSet::add(RegionSpec spec) {
  BACKSTAY_TRY(require_free(spec.name));
  const bool by_memory = static_cast<bool>(spec.view), by_callbacks = spec.save && (spec.load || spec.redistribute);
  if (by_memory == by_callbacks)
    return fail(Code::invalid_argument, "region '", spec.name,
                "' needs either memory or a pair of save and load callbacks");
  BACKSTAY_TRY(check_type(spec.name, spec.type));
  BACKSTAY_TRY(check_placement(spec));
  if (by_memory) BACKSTAY_TRY(check_view(spec, spec.view()));
  if (spec.padding.empty()) note_padding(spec.type, 0, spec.padding);
  const auto [known, is_new] = turn_.try_emplace(spec.name, next_turn_);
  next_turn_ += is_new ? 1 : 0;
  const auto next = std::partition_point(
      specs_.begin(), specs_.end(), [&, turn = known->second](const RegionSpec& s) { return turn_.at(s.name) < turn; });
  const auto place = static_cast<std::size_t>(next - specs_.begin());
  if (next != specs_.end())
    for (auto& [other, index] : at_) index += index >= place ? 1 : 0;
  at_[spec.name] = place;
  specs_.insert(next, std::move(spec));
  ++changes_;
  return {};
}

Result<void> RegionSet::remove(std::string_view name) {
  const auto it = at_.find(name);
  if (it == at_.end()) return fail(Code::not_found, "region '", name, "' is not protected");
  const std::size_t place = it->second;
  ++changes_;
  specs_.erase(specs_.begin() + static_cast<std::ptrdiff_t>(place));
  at_.erase(it);
  for (auto& [other, index] : at_) index -= index > place ? 1 : 0;
  return {};
}

void RegionSet::keep_only(const std::vector<std::string>& names) {
  const std::set<std::string_view> kept(names.begin(), names.end());
  changes_ += std::erase_if(specs_, [&](const RegionSpec& spec) { return !kept.contains(spec.name); });
  std::erase_if(turn_, [&](const auto& turn) { return !kept.contains(turn.first); });
  at_.clear();
  for (std::size_t i = 0; i < specs_.size(); ++i) at_[specs_[i].name] = i;
}

std::vector<std::string> RegionSet::names() const {
  std::vector<std::string> out;
  for (const auto& spec : specs_) out.push_back(spec.name);
  return out;
}

const RegionSpec* RegionSet::find(std::string_view name) const {
  const auto it = at_.find(name);
  return it == at_.end() ? nullptr : &specs_[it->second];
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
  if (!fits_in_memory(view.shape, spec.type.size))
    return bad("its shape ", describe_shape(view.shape), " is larger than any memory");
  for (auto s : view.strides)
    if (s < 0)
      return bad("a stride is negative, which is not supported: protect the array from its first element in memory");
  if (view.run_lengths.empty() && view.strides.size() != view.shape.size())
    return bad("it has not one stride for each dimension");
  for (std::size_t d = 0; d < view.strides.size() && d < view.shape.size(); ++d)
    if (!fits_in_memory({view.shape[d], view.strides[d]}, 1)) return bad("a stride is larger than any memory");
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

Failure cannot_hold(const RegionSpec& spec, const Extents& shape) {
  return fail(Code::mismatch, "region '", spec.name, "' was saved with shape ", describe_shape(shape),
              ", which the memory protected under that name cannot hold");
}

Result<View> look_at(const RegionSpec& spec) {
  try {
    return spec.view();
  } catch (const std::exception& e) {
    return fail(Code::user, "region '", spec.name, "': its memory could not be looked at: ", e.what());
  } catch (...) {
    return fail(Code::user, "region '", spec.name,
                "': its memory could not be looked at: an exception of another kind");
  }
}

bool has_shape(const RegionSpec& spec, const Extents& shape) {
  const auto now = look_at(spec);
  return now && now->valid && now->shape == shape;
}

bool stays_as_it_is(const RegionSpec& spec, const Extents& shape) {
  const auto now = look_at(spec);
  return now && now->valid && (now->shape == shape || !now->run_lengths.empty());
}

Result<View> memory_for(const RegionSpec& spec, const Extents& shape) {
  View memory;
  try {
    memory = spec.reshape ? spec.reshape(shape) : spec.view();
  } catch (const std::exception& e) {  // a vector that cannot grow, or a program's own function
    return fail(Code::user, "region '", spec.name, "': its memory could not be made ready: ", e.what());
  } catch (...) {
    return fail(Code::user, "region '", spec.name,
                "': its memory could not be made ready: an exception of another kind");
  }
  if (!memory.valid || memory.shape != shape) return cannot_hold(spec, shape);
  BACKSTAY_TRY(check_view(spec, memory));
  return memory;
}

/// Who makes room need not keep what is there.
Result<View> memory_for_a_part(const RegionSpec& spec, const Extents& shape) {
  if (!spec.reshape || !has_shape(spec, shape)) return memory_for(spec, shape);
  const View before = spec.view();
  Bytes kept(static_cast<std::size_t>(packed_size(before, spec.type.size)));
  (void)capture(before, spec.type.size, kept.data());
  auto memory = memory_for(spec, shape);
  if (memory) (void)put_back(kept, *memory, spec.type.size);
  return memory;
}

void clear_padding(const RegionSpec& spec, std::span<std::byte> elements) {
  if (spec.padding.empty()) return;
  for (std::size_t at = 0; at < elements.size(); at += spec.type.size)
    for (const auto& [begin, end] : spec.padding) std::memset(elements.data() + at + begin, 0, end - begin);
}

std::uint32_t checksum_without_padding(const RegionSpec& spec, const View& view) {
  if (spec.padding.empty()) return checksum(view, spec.type.size);
  Bytes elements(static_cast<std::size_t>(packed_size(view, spec.type.size)));
  (void)capture(view, spec.type.size, elements.data());
  clear_padding(spec, elements);
  return crc32c(elements);
}

namespace {
/// The program's own function, whatever comes out of it.
template <class Call>
Result<void> ask(const RegionSpec& spec, const char* what_failed, const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return fail(Code::user, "region '", spec.name, "': ", what_failed, ": ", e.what());
  } catch (...) {
    return fail(Code::user, "region '", spec.name, "': ", what_failed);
  }
  return {};
}
}  // namespace

Result<void> hand_over(const RegionSpec& spec) {
  if (!spec.delivered) return {};
  return ask(spec, "what was put back could not be handed over", [&] { spec.delivered(); });
}

Result<void> load(const RegionSpec& spec, std::span<const ByteView> saved, bool by_one, int rank, int ranks) {
  return ask(spec, "its load callback failed", [&] {
    if (by_one && spec.load) return spec.load(saved.front());
    spec.redistribute({saved.begin(), saved.end()}, by_one ? 0 : rank, by_one ? 1 : ranks);
  });
}

}  // namespace backstay::region
