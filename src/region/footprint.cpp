#include "region/footprint.h"

#include <algorithm>
#include <numeric>

namespace backstay::region {

Footprint footprint_of(const View& view, std::size_t element_size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  Footprint out{begin, begin, 0, element_size};
  if (view.data == nullptr || std::ranges::any_of(view.shape, [](auto length) { return length <= 0; })) return out;
  out.end = begin + element_size;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 1) continue;
    const auto stride = static_cast<std::uintptr_t>(view.strides[d]);
    out.end += stride * static_cast<std::uintptr_t>(view.shape[d] - 1);
    out.step = std::gcd(out.step, stride);
  }
  return out;
}

namespace {
bool may_share(const Footprint& a, const Footprint& b) {
  if (a.begin > b.begin) return may_share(b, a);
  if (a.begin == a.end || b.begin == b.end || b.begin >= a.end) return false;
  const auto step = std::gcd(a.step, b.step);
  if (step == 0) return true;
  const auto between = (b.begin - a.begin) % step;
  return between < a.element || between + b.element > step;
}
}  // namespace

std::vector<std::size_t> that_share_memory(const std::vector<Footprint>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return all[i].begin; });
  std::vector<bool> shares(all.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = i + 1; j < order.size() && all[order[j]].begin < all[order[i]].end; ++j)
      if (may_share(all[order[i]], all[order[j]])) shares[order[i]] = shares[order[j]] = true;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (shares[i]) out.push_back(i);
  return out;
}

}  // namespace backstay::region
