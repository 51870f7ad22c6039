#include "redundancy/parity_groups.h"

#include <algorithm>
#include <map>
#include <set>

namespace backstay::redundancy {

namespace {
/// The least burdened rank of a unit that the group has not; units of fewer ranks come later in an even choice.
int helper_for(const ParityGroup& group, const std::vector<int>& units, const std::vector<int>& burden) {
  std::set<int> taken;
  for (const int rank : group.members) taken.insert(units[static_cast<std::size_t>(rank)]);
  int best = -1;
  for (int rank = 0; rank < static_cast<int>(units.size()); ++rank) {
    if (taken.contains(units[static_cast<std::size_t>(rank)])) continue;
    if (best < 0 || burden[static_cast<std::size_t>(rank)] < burden[static_cast<std::size_t>(best)]) best = rank;
  }
  return best;
}
}  // namespace

Result<std::vector<ParityGroup>> plan_groups(const std::vector<int>& units, int k, int p) {
  if (k < 1 || p < 1 || k + p > 255)
    return fail(Code::invalid_argument, "a Reed-Solomon group of ", k, " data and ", p,
                " parity shards is not possible: at least one of each, and 255 together");
  std::map<int, std::vector<int>> by_unit;
  for (std::size_t rank = 0; rank < units.size(); ++rank) by_unit[units[rank]].push_back(static_cast<int>(rank));
  if (by_unit.size() < static_cast<std::size_t>(p) + 1)
    return fail(Code::invalid_argument, "parity for ", p, p == 1 ? " lost failure unit" : " lost failure units",
                " needs ranks (spares do not count) in at least ", p + 1, " of them, and this job has ranks in ",
                by_unit.size(), ": choose fewer parities or smaller units");
  // Unit after unit, dealt out in turn: ranks of one unit follow each other, and there are at least as many groups as
  // a unit has ranks, so no two of them meet.
  std::size_t count = (units.size() + static_cast<std::size_t>(k + p) - 1) / static_cast<std::size_t>(k + p);
  for (const auto& [unit, ranks] : by_unit) count = std::max(count, ranks.size());
  std::vector<ParityGroup> groups(count);
  std::size_t next = 0;
  for (const auto& [unit, ranks] : by_unit)
    for (const int rank : ranks) groups[next++ % count].members.push_back(rank);
  std::vector<int> burden(units.size(), 0);
  for (auto& group : groups) {
    group.owners = group.members.size();
    while (group.members.size() < static_cast<std::size_t>(p) + 1) {
      const int helper = helper_for(group, units, burden);
      ++burden[static_cast<std::size_t>(helper)];
      group.members.push_back(helper);
    }
  }
  return groups;
}

}  // namespace backstay::redundancy
