#include "select/place.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace backstay::select {

namespace {
constexpr double precision = 1e-12;  // of times, relative to the largest one

class PolicyIteration {
 public:
  PolicyIteration(const std::vector<Place>& places, double period, double mtbf)
      : places_(places), period_(period), mtbf_(mtbf), turns_(places.size()), values_(places.size(), 0) {
    for (std::size_t i = 0; i < places.size(); ++i) turns_[i] = {i, best_gap(i, i, 0)};
  }

  Schedule run() {
    // Each round lowers the overhead, or the values under the same one, and there are finitely many policies that
    // matter; the bound is for rounding errors.
    for (std::size_t round = 0; round < 10 * places_.size() + 100; ++round) {
      find_best_cycle();
      find_values();
      if (!improve()) break;
    }
    return schedule();
  }

 private:
  [[nodiscard]] double lost(const Turn& turn) const {
    return places_[turn.to].cost + turn.gap * turn.gap / (2 * mtbf_);
  }

  /// From one place to another, with as many periods between as cost the least while time is worth `overhead`.
  [[nodiscard]] double best_gap(std::size_t from, std::size_t to, double overhead) const {
    double least = places_[to].time - places_[from].time;
    if (to <= from) least += period_;
    // gap^2 / (2 mtbf) - overhead gap is least at overhead mtbf, and rises to both sides.
    const double periods = std::max(0.0, std::floor((overhead * mtbf_ - least) / period_));
    const double below = least + periods * period_, above = below + period_;
    const auto worth = [&](double gap) { return gap * gap / (2 * mtbf_) - overhead * gap; };
    return worth(above) < worth(below) ? above : below;
  }

  /// The cycles of the present policy; the one of least overhead gives root_ and overhead_.
  void find_best_cycle() {
    overhead_ = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> seen_from(places_.size(), places_.size());
    for (std::size_t start = 0; start < places_.size(); ++start) {
      std::size_t at = start;
      while (seen_from[at] == places_.size()) {
        seen_from[at] = start;
        at = turns_[at].to;
      }
      if (seen_from[at] != start) continue;  // it leads into a cycle that was looked at
      double time = 0, cost = 0;
      std::size_t on = at;
      do {
        time += turns_[on].gap;
        cost += lost(turns_[on]);
        on = turns_[on].to;
      } while (on != at);
      if (cost / time < overhead_) {
        overhead_ = cost / time;
        root_ = at;
      }
    }
  }

  /// What it costs more or less than the overhead to come from each place to the root. Who does not come there by the
  /// policy goes there at once.
  void find_values() {
    std::vector<bool> known(places_.size(), false);
    values_[root_] = 0;
    known[root_] = true;
    for (std::size_t start = 0; start < places_.size(); ++start) {
      std::vector<std::size_t> path;
      std::vector<bool> on_path(places_.size(), false);
      std::size_t at = start;
      for (; !known[at] && !on_path[at]; at = turns_[at].to) {
        path.push_back(at);
        on_path[at] = true;
      }
      if (!known[at]) turns_[path.back()] = {root_, best_gap(path.back(), root_, overhead_)};
      for (auto i = path.size(); i-- > 0;) {
        const Turn& turn = turns_[path[i]];
        values_[path[i]] = lost(turn) - overhead_ * turn.gap + values_[turn.to];
        known[path[i]] = true;
      }
    }
  }

  bool improve() {
    bool better = false;
    const double enough = precision * (period_ + mtbf_ * overhead_) * std::max(1.0, overhead_);
    for (std::size_t from = 0; from < places_.size(); ++from) {
      double best = values_[from] - enough;
      for (std::size_t to = 0; to < places_.size(); ++to) {
        const Turn turn{to, best_gap(from, to, overhead_)};
        const double value = lost(turn) - overhead_ * turn.gap + values_[to];
        if (value >= best) continue;
        best = value;
        turns_[from] = turn;
        better = true;
      }
    }
    return better;
  }

  [[nodiscard]] Schedule schedule() {
    find_best_cycle();
    Schedule out;
    out.overhead = overhead_;
    std::size_t at = root_;
    do {
      out.turns.push_back(turns_[at]);
      at = turns_[at].to;
    } while (at != root_);
    return out;
  }

  const std::vector<Place>& places_;
  double period_, mtbf_;
  std::vector<Turn> turns_;  // from each place
  std::vector<double> values_;
  double overhead_ = 0;
  std::size_t root_ = 0;
};
}  // namespace

Schedule best_schedule(const std::vector<Place>& places, double period, double mtbf) {
  return PolicyIteration(places, period, mtbf).run();
}

}  // namespace backstay::select
