#include "check/fenceable.h"

#include <algorithm>
#include <cstring>

#include "check/own_pages.h"

namespace backstay::check {

namespace {
/// malloc of glibc gives a large array pages of its own, with 16 bytes before it: the last 8 are the length, of which
/// the second bit says so.
bool has_pages_of_its_own(const Layout& layout) {
#ifdef __GLIBC__
  constexpr std::uintptr_t header = 16, flags = 7, has_own_pages = 2;
  const std::byte* const chunk = layout.begin() - header;
  if (page_of(layout.begin()) != chunk) return false;
  std::uintptr_t length = 0;
  std::memcpy(&length, layout.begin() - sizeof(length), sizeof(length));
  return (length & flags) == has_own_pages && (length & ~flags) % page_size == 0 &&
         (length & ~flags) >= static_cast<std::uintptr_t>(layout.end() - chunk) &&
         (length & ~flags) < static_cast<std::uintptr_t>(layout.end() - chunk) + page_size;
#else
  return false;
#endif
}

/// The bytes of one period of an array of structs that belong to no region are too few for anything to be there.
bool is_filled(const std::vector<Watched>& regions, const Layout& layout) {
  constexpr std::size_t longest_period = 65536, longest_gap = 7;
  const std::size_t period = layout.shortest_stride();
  if (period > longest_period) return false;
  std::vector<bool> filled(period, false);
  for (const auto& region : regions) {
    const auto& other = region.layout();
    if (!other.is_usable() || other.shortest_stride() != period) continue;
    const std::ptrdiff_t away = other.begin() - layout.begin();
    if (away <= -static_cast<std::ptrdiff_t>(period) || away >= static_cast<std::ptrdiff_t>(period)) continue;
    for (std::size_t i = 0; i < other.element(); ++i)
      filled[(static_cast<std::size_t>(away + static_cast<std::ptrdiff_t>(period)) + i) % period] = true;
  }
  std::size_t gap = 0, longest = 0;
  for (std::size_t i = 0; i < 2 * period; ++i) {
    gap = filled[i % period] ? 0 : gap + 1;
    longest = std::max(longest, gap);
  }
  return longest <= longest_gap;
}

/// Elements of both may be the same bytes.
bool may_share(const Layout& a, const Layout& b) {
  if (a.end() <= b.begin() || b.end() <= a.begin()) return false;
  const std::size_t period = a.shortest_stride();
  if (a.is_dense() || b.is_dense() || b.shortest_stride() != period) return true;
  // One behind the other in each struct.
  const auto length = static_cast<std::ptrdiff_t>(period);
  const auto at = static_cast<std::size_t>(((b.begin() - a.begin()) % length + length) % length);
  return at < a.element() || at + b.element() > period;
}
}  // namespace

Ranges fenceable(const std::vector<Watched>& regions, const Ranges& own) {
  Ranges all;
  for (const auto& region : regions) {
    const auto& layout = region.layout();
    if (!layout.is_usable() || common(own, {{layout.begin(), layout.end()}}) != Ranges{{layout.begin(), layout.end()}})
      continue;
    if (!layout.is_dense() && !is_filled(regions, layout)) continue;
    if (has_pages_of_its_own(layout))
      all.emplace_back(page_of(layout.begin()), page_behind(layout.end()));
    else
      all.emplace_back(layout.begin(), layout.end());
  }
  return whole_pages(joined(std::move(all)));
}

void mark_shared(std::vector<Watched>& regions) {
  for (std::size_t i = 0; i < regions.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      const auto &a = regions[i].layout(), &b = regions[k].layout();
      if (a.is_usable() && b.is_usable() && may_share(a, b)) regions[i].is_shared = regions[k].is_shared = true;
    }
}

}  // namespace backstay::check
