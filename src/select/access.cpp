#include "select/access.h"

#include <algorithm>
#include <map>

namespace backstay::select {

namespace {
Result<Box> range_of(const Computation& computation, const Access& access, const Region& region) {
  const Box all = box_of(region.shape);
  if (!access.range) return all;
  const auto wrong = [&](const auto&... how) {
    return fail(Code::invalid_argument, "computation '", computation.name, "', region '", region.name, "': ", how...);
  };
  const Box& range = *access.range;
  if (range.size() != all.size())
    return wrong("the range has ", range.size(), " dimensions, and the region has ", all.size());
  for (std::size_t d = 0; d < all.size(); ++d)
    if (range[d].begin < 0 || range[d].end > all[d].end || range[d].end < range[d].begin)
      return wrong("the range ", range[d].begin, " to ", range[d].end, " of dimension ", d, " is not inside 0 to ",
                   all[d].end);
  return range;
}

/// The elements that are read for those in `range`: what lies outside the region is not there.
Result<Box> reach_of(const Computation& computation, const Access& access, const Region& region, Box range) {
  if (access.stencil.empty() || volume(range) == 0) return range;
  if (access.stencil.size() != range.size())
    return fail(Code::invalid_argument, "computation '", computation.name, "', region '", region.name,
                "': the stencil has ", access.stencil.size(), " dimensions, and the region has ", range.size());
  for (std::size_t d = 0; d < range.size(); ++d) {
    const Range& offsets = access.stencil[d];
    if (offsets.end <= offsets.begin)
      return fail(Code::invalid_argument, "computation '", computation.name, "', region '", region.name,
                  "': the stencil of dimension ", d, " ends before it begins");
    range[d].begin = std::max<std::int64_t>(0, range[d].begin + offsets.begin);
    range[d].end = std::min(region.shape[d], range[d].end + offsets.end - 1);
  }
  return range;
}
}  // namespace

Result<std::vector<Effect>> effects_of(const Computation& computation, const std::vector<Region>& regions) {
  std::map<std::size_t, Effect> effects;
  for (const auto& access : computation.accesses) {
    if (access.region >= regions.size())
      return fail(Code::invalid_argument, "computation '", computation.name, "' names a region that is not protected");
    const Region& region = regions[access.region];
    const auto range = range_of(computation, access, region);
    if (!range) return range.failure();
    auto reach = reach_of(computation, access, region, *range);
    if (!reach) return reach.failure();
    if (access.mode != Mode::read && access.mode != Mode::read_write && !access.stencil.empty())
      return fail(Code::invalid_argument, "computation '", computation.name, "', region '", region.name,
                  "': a stencil says what is read, and this access only writes");
    Effect& effect = effects[access.region];
    effect.region = access.region;
    // What is written only in parts must be saved before it is: some of it stays as it was.
    if (access.mode != Mode::write) effect.reads.add(*reach);
    if (access.mode == Mode::write || access.mode == Mode::read_write) effect.overwrites.add(*range);
    if (access.mode != Mode::read) effect.changes.add(*range);
  }
  std::vector<Effect> out;
  for (auto& [region, effect] : effects) out.push_back(std::move(effect));
  return out;
}

}  // namespace backstay::select
