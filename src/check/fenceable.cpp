#include "check/fenceable.h"

#include <algorithm>
#include <iterator>

#include "check/own_pages.h"

namespace backstay::check {

namespace {
/// The pages of a region, as far as they belong to the allocation that has it; without one, the region itself.
std::pair<std::byte*, std::byte*> reach_of(const Layout& layout, const Ranges& allocations) {
  const auto behind = std::upper_bound(allocations.begin(), allocations.end(), layout.begin(),
                                       [](const std::byte* at, const auto& one) { return at < one.first; });
  if (behind == allocations.begin() || layout.end() > std::prev(behind)->second) return {layout.begin(), layout.end()};
  const auto& [begin, end] = *std::prev(behind);
  return {std::max(begin, page_of(layout.begin())), std::min(end, page_behind(layout.end()))};
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

Ranges fenceable(const std::vector<Watched>& regions, const Ranges& own, const Ranges& allocations) {
  Ranges all;
  for (const auto& region : regions) {
    const auto& layout = region.layout();
    if (!layout.is_usable()) continue;
    const auto reach = reach_of(layout, allocations);
    if (common(own, {reach}) != Ranges{reach}) continue;
    if (!layout.is_dense() && !is_filled(regions, layout)) continue;
    all.push_back(reach);
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
