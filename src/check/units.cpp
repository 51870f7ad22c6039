#include "check/units.h"

#include <algorithm>

namespace backstay::check {

namespace {
void add(std::vector<Unit>& out, const Type& type, std::size_t offset) {
  using Kind = Type::Kind;
  const auto add_words = [&](std::size_t word, std::size_t bytes) {
    for (std::size_t at = 0; at + word <= bytes; at += word) out.push_back({offset + at, word});
  };
  if (type.kind == Kind::compound) {
    for (const auto& member : type.members) {
      std::size_t count = 1;
      for (const auto length : member.shape) count *= static_cast<std::size_t>(length);
      for (std::size_t i = 0; i < count; ++i) add(out, member.type, offset + member.offset + i * member.type.size);
    }
  } else if (type.kind == Kind::complex) {
    if (type.size == 8 || type.size == 16) add_words(type.size / 2, type.size);
  } else if (type.kind == Kind::opaque) {
    add_words(8, type.size);
  } else if (type.kind != Kind::text) {
    if (type.size == 4 || type.size == 8) add_words(type.size, type.size);
    if (type.size == 16) add_words(8, 8);  // x87: ten bytes, and a gap
  }
}
}  // namespace

Units units_of(const Type& type, const std::vector<std::pair<std::size_t, std::size_t>>& padding) {
  Units out;
  add(out.units, type, 0);
  std::erase_if(out.units, [&](const Unit& unit) {
    return std::ranges::any_of(
        padding, [&](const auto& gap) { return gap.first < unit.offset + unit.bytes && unit.offset < gap.second; });
  });
  out.together = type.kind == Type::Kind::opaque;
  return out;
}

}  // namespace backstay::check
