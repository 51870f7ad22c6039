#include "select/place.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

namespace backstay::select {
namespace {

int below(int limit, std::mt19937& random) { return std::uniform_int_distribution(0, limit - 1)(random); }

double overhead_of(const std::vector<Place>& places, const std::vector<Turn>& turns, double mtbf) {
  double cost = 0, time = 0;
  for (const auto& turn : turns) {
    cost += places[turn.to].cost + turn.gap * turn.gap / (2 * mtbf);
    time += turn.gap;
  }
  return cost / time;
}

/// The best of all schedules that visit each place at most once with gaps of up to `most` periods: the best one of all
/// is such, as a cycle through a place twice is two cycles.
class BruteForce {
 public:
  BruteForce(const std::vector<Place>& places, double period, double mtbf, int most)
      : places_(places), period_(period), mtbf_(mtbf), most_(most), used_(places.size(), false) {}

  double run() {
    for (first_ = 0; first_ < places_.size(); ++first_) go_on(first_);
    return best_;
  }

 private:
  void go_on(std::size_t at) {
    for (std::size_t to = 0; to < places_.size(); ++to) {
      if (used_[to]) continue;
      for (int periods = 0; periods <= most_; ++periods) {
        const double gap = places_[to].time - places_[at].time + (periods + (to <= at ? 1 : 0)) * period_;
        turns_.push_back({to, gap});
        used_[to] = true;
        if (to == first_)
          best_ = std::min(best_, overhead_of(places_, turns_, mtbf_));
        else
          go_on(to);
        used_[to] = false;
        turns_.pop_back();
      }
    }
  }

  const std::vector<Place>& places_;
  double period_, mtbf_;
  int most_;
  std::vector<bool> used_;
  std::vector<Turn> turns_;
  std::size_t first_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

TEST(place, the_schedule_is_the_best_of_all_by_brute_force) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::vector<Place> places;
    const double period = 4 + below(8, random);
    for (int time = 0; time < static_cast<int>(period) && places.size() < 4; ++time)
      if (below(3, random) == 0 || (places.empty() && time + 1 >= static_cast<int>(period)))
        places.push_back({static_cast<double>(time), (1 + below(40, random)) * 0.1});
    const double mtbf = 1 + below(100, random);
    const Schedule schedule = best_schedule(places, period, mtbf);
    ASSERT_NEAR(schedule.overhead, BruteForce(places, period, mtbf, 6).run(), 1e-9) << "seed " << seed;
    ASSERT_NEAR(schedule.overhead, overhead_of(places, schedule.turns, mtbf), 1e-12);
  }
}

TEST(place, gaps_are_those_between_the_places) {
  const std::vector<Place> places{{0, 5}, {1, 1}, {2.5, 4}};
  const Schedule schedule = best_schedule(places, 10, 300);
  double time = places[schedule.turns.back().to].time;
  for (const auto& turn : schedule.turns) {
    const double periods = (time + turn.gap - places[turn.to].time) / 10;
    EXPECT_NEAR(periods, std::round(periods), 1e-9);
    time = places[turn.to].time;
  }
}

TEST(place, a_short_period_gives_the_cheapest_place_at_the_interval_of_young) {
  const std::vector<Place> places{{0, 2}, {0.004, 0.5}, {0.006, 0.6}};
  const Schedule schedule = best_schedule(places, 0.01, 3600);
  ASSERT_EQ(schedule.turns.size(), 1U);
  EXPECT_EQ(schedule.turns[0].to, 1U);
  EXPECT_NEAR(schedule.turns[0].gap, std::sqrt(2 * 3600 * 0.5), 0.01);
}

TEST(place, waiting_for_a_cheaper_place_pays_as_long_as_it_saves_more_than_it_risks) {
  // Young's interval of the dear place is 60 s: with a period of 500 s it pays to use it as well.
  const std::vector<Place> often{{0, 1}, {100, 2}, {200, 2}, {300, 2}, {400, 2}};
  EXPECT_GT(best_schedule(often, 500, 900).turns.size(), 1U);
  EXPECT_EQ(best_schedule(often, 500, 900000).turns.size(), 1U);
}

/// What a session does with place=best: of all places the cheapest one, the first time it is met when a gap of Young
/// is over.
double overhead_of_the_cheapest(const std::vector<Place>& places, double period, double mtbf) {
  double cost = std::numeric_limits<double>::infinity();
  for (const auto& place : places) cost = std::min(cost, place.cost);
  const double gap = period * std::ceil(std::sqrt(2 * mtbf * cost) / period);
  return (cost + gap * gap / (2 * mtbf)) / gap;
}

TEST(place, to_wait_for_the_cheapest_one_costs_the_square_of_a_period_in_a_gap_at_most) {
  double worst_of_short_ones = 1;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::vector<Place> places;
    double least = 1e9;
    for (int i = 0, count = 1 + below(20, random); i < count; ++i) {
      places.push_back({i * 0.05, 0.01 * (1 + below(100, random))});
      least = std::min(least, places.back().cost);
    }
    const double period = 1, mtbf = std::pow(10.0, 1 + below(50, random) * 0.1);
    const double periods_in_a_gap = std::sqrt(2 * mtbf * least) / period;
    if (periods_in_a_gap < 1) continue;
    const double longer = overhead_of_the_cheapest(places, period, mtbf) / best_schedule(places, period, mtbf).overhead;
    EXPECT_LE(longer, 1 + 1 / (2 * periods_in_a_gap * periods_in_a_gap)) << "seed " << seed;
    if (periods_in_a_gap >= 10) worst_of_short_ones = std::max(worst_of_short_ones, longer);
  }
  EXPECT_LE(worst_of_short_ones, 1.005);
}

TEST(place, hundreds_of_places_are_scheduled_in_bounded_time) {
  std::mt19937 random(7);
  std::vector<Place> places;
  for (int i = 0; i < 800; ++i) places.push_back({i * 0.01, 0.1 + below(1000, random) * 1e-3});
  const auto start = std::chrono::steady_clock::now();
  const Schedule schedule = best_schedule(places, 8, 1000);
  EXPECT_GT(schedule.overhead, 0);
  // Sanitizers make it several times slower.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace backstay::select
