#include "comm/repair_plan.h"

#include <algorithm>

namespace backstay::comm {

namespace {
bool anybody_says(const std::vector<Survivor>& survivors, Word word) {
  return std::any_of(survivors.begin(), survivors.end(), [&](const Survivor& s) { return s.word == word; });
}

std::vector<int> lost_ranks(const std::vector<Survivor>& survivors, int workers) {
  std::vector<int> lost;
  for (int rank = 0; rank < workers; ++rank)
    if (std::none_of(survivors.begin(), survivors.end(), [&](const Survivor& s) { return s.rank == rank; }))
      lost.push_back(rank);
  return lost;
}

/// Without gaps, in the order they had.
void number_anew(RepairPlan& plan) {
  std::vector<int> used;
  for (int rank : plan.ranks)
    if (rank >= 0) used.push_back(rank);
  std::sort(used.begin(), used.end());
  for (int& rank : plan.ranks)
    if (rank >= 0) rank = static_cast<int>(std::lower_bound(used.begin(), used.end(), rank) - used.begin());
  plan.workers = static_cast<int>(used.size());
}
}  // namespace

RepairPlan plan_repair(const std::vector<Survivor>& survivors, int workers, bool may_shrink) {
  RepairPlan plan;
  plan.workers = workers;
  for (const auto& survivor : survivors) plan.ranks.push_back(survivor.rank);
  const auto lost = lost_ranks(survivors, workers);
  std::size_t next = 0;
  for (int rank : lost) {
    while (next < survivors.size() && survivors[next].rank >= 0) ++next;
    plan.replaced.push_back({rank, -1, -1});
    if (next == survivors.size()) continue;
    plan.ranks[next] = rank;
    plan.replaced.back() = {rank, survivors[next].number, survivors[next].node};
    ++next;
  }
  const bool replaced = plan.replaced.empty() || plan.replaced.back().by_number >= 0;
  const bool failed = !lost.empty() || anybody_says(survivors, Word::failed);
  plan.same_ranks = !failed;
  if (failed)
    // Who has left the loop cannot roll back.
    plan.fate = anybody_says(survivors, Word::closing) || (!replaced && !may_shrink) ? Fate::lost : Fate::again;
  else
    plan.fate = anybody_says(survivors, Word::finished) ? Fate::finished : Fate::closed;
  if (!replaced && may_shrink) number_anew(plan);
  if (plan.workers == 0) plan.fate = Fate::lost;
  if (plan.fate != Fate::lost) return plan;
  // Those who worked save together what they can; spares have nothing.
  for (std::size_t i = 0; i < survivors.size(); ++i) plan.ranks[i] = survivors[i].rank;
  number_anew(plan);
  return plan;
}

}  // namespace backstay::comm
