#include "comm/repair_plan.h"

#include <algorithm>

namespace backstay::comm {

namespace {
bool anybody_says(const std::vector<Survivor>& survivors, Word word) {
  return std::any_of(survivors.begin(), survivors.end(), [&](const Survivor& s) { return s.word == word; });
}

/// Beyond the loop in which ranks are replaced: it cannot roll back.
bool anybody_has_gone_on(const std::vector<Survivor>& survivors) {
  return anybody_says(survivors, Word::closing) ||
         std::any_of(survivors.begin(), survivors.end(), [](const Survivor& s) { return !s.may_roll_back; });
}

std::vector<int> lost_ranks(const std::vector<Survivor>& survivors, int workers) {
  std::vector<int> lost;
  for (int rank = 0; rank < workers; ++rank)
    if (std::none_of(survivors.begin(), survivors.end(), [&](const Survivor& s) { return s.rank == rank; }))
      lost.push_back(rank);
  return lost;
}

/// Ranks that die together with this spare, once for each way.
int company_of(const Survivor& spare, const std::vector<Survivor>& survivors, const std::vector<int>& ranks) {
  int company = 0;
  for (std::size_t i = 0; i < survivors.size(); ++i)
    for (std::size_t u = 0; ranks[i] >= 0 && u < spare.units.size(); ++u)
      company += spare.units[u] != 0 && spare.units[u] == survivors[i].units[u] ? 1 : 0;
  return company;
}

/// survivors.size(): there is none.
std::size_t best_spare(const std::vector<Survivor>& survivors, const std::vector<int>& ranks) {
  std::size_t best = survivors.size();
  int least = 0;
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    if (ranks[i] >= 0) continue;
    const int company = company_of(survivors[i], survivors, ranks);
    if (best < survivors.size() && company >= least) continue;
    best = i;
    least = company;
  }
  return best;
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
  plan.anybody_closes = anybody_says(survivors, Word::closing);
  for (const auto& survivor : survivors) plan.ranks.push_back(survivor.rank);
  const auto lost = lost_ranks(survivors, workers);
  for (int rank : lost) {
    const std::size_t next = best_spare(survivors, plan.ranks);
    plan.replaced.push_back({rank, -1, -1});
    if (next == survivors.size()) continue;
    plan.ranks[next] = rank;
    plan.replaced.back() = {rank, survivors[next].number, survivors[next].node};
  }
  const bool replaced = plan.replaced.empty() || plan.replaced.back().by_number >= 0;
  const bool failed = !lost.empty() || anybody_says(survivors, Word::failed);
  plan.same_ranks = !failed;
  if (failed)
    plan.fate = anybody_has_gone_on(survivors) || (!replaced && !may_shrink) ? Fate::lost : Fate::again;
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
