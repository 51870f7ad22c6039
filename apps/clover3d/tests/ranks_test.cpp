// On any number of ranks: each rank compares its block, bit for bit, with the whole box computed alone; and what each
// loop does is what it declares.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../../blinkers.h"
#include "flows.h"
#include "problem.h"

namespace clover3d {
namespace {

/// With thin blocks among them: a halo is as thick as the thinnest.
constexpr std::array<Triple, 17> cuts = {{{1, 1, 1},
                                          {2, 1, 1},
                                          {1, 2, 1},
                                          {1, 1, 2},
                                          {3, 1, 1},
                                          {1, 3, 1},
                                          {1, 1, 3},
                                          {2, 2, 1},
                                          {1, 2, 2},
                                          {2, 1, 2},
                                          {4, 1, 1},
                                          {2, 3, 1},
                                          {3, 1, 2},
                                          {1, 2, 3},
                                          {2, 2, 2},
                                          {4, 1, 2},
                                          {1, 4, 2}}};

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

TEST(Ranks, every_array_has_the_same_bits_however_the_box_is_cut) {
  const Domain domain = domain_of({9, 11, 8});
  constexpr int steps = 6;
  System whole = started(MPI_COMM_SELF, domain, boxes);
  std::vector<double> times;
  for (int s = 0; s < steps; ++s) times.push_back(step(whole, s, 1));
  const Totals expected = totals(whole);
  bool tried = false;
  for (const Triple& ranks : cuts) {
    if (ranks[0] * ranks[1] * ranks[2] != world_size()) continue;
    tried = true;
    System part = started(MPI_COMM_WORLD, domain, boxes, ranks);
    for (int s = 0; s < steps; ++s) EXPECT_EQ(step(part, s, 1), times[static_cast<std::size_t>(s)]);
    const Totals sums = totals(part);
    EXPECT_EQ(sums.mass, expected.mass);
    EXPECT_EQ(sums.internal_energy, expected.internal_energy);
    EXPECT_EQ(sums.kinetic_energy, expected.kinetic_energy);
    EXPECT_EQ(sums.pressure, expected.pressure);
    for (const Field field : all_fields()) {
      for_own(part, stagger_of(field), [&](int i, int j, int k, std::ptrdiff_t c) {
        ASSERT_EQ(std::memcmp(part.data(field) + c, whole.data(field) + whole.layout().at(i, j, k), sizeof(double)), 0)
            << name_of(field) << " " << i << " " << j << " " << k;
      });
    }
  }
  EXPECT_TRUE(tried);
}

class Blinkers : public program::Blinkers<System, Loop, Field> {
 public:
  explicit Blinkers(System& system)
      : program::Blinkers<System, Loop, Field>(
            system, all_loops(), all_fields(), [&system](Field field, const auto& visit) {
              for_own(system, stagger_of(field),
                      [&, data = system.data(field)](int, int, int, std::ptrdiff_t c) { visit(data[c]); });
            }) {}
};

/// After `steps` steps, all fields of both but the work arrays' halos.
void expect_same_fields(System& one, System& other) {
  for (const Field field : all_fields()) {
    for_own(one, stagger_of(field), [&](int i, int j, int k, std::ptrdiff_t c) {
      ASSERT_EQ(one.data(field)[c], other.data(field)[c]) << name_of(field) << " " << i << " " << j << " " << k;
    });
  }
}

// Nothing checks a declaration when a program runs: a wrong one is a wrong restart.
TEST(Loops, read_and_change_only_what_they_declare) {
  System clean = started(MPI_COMM_WORLD, domain_of({12, 10, 8}), boxes);
  System blinkered = started(MPI_COMM_WORLD, domain_of({12, 10, 8}), boxes);
  Blinkers blinkers(blinkered);
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(step(clean, s, 1), step(blinkered, s, 1));
    EXPECT_EQ(totals(clean).kinetic_energy, totals(blinkered).kinetic_energy);
  }
  blinkers.take_off();
  EXPECT_TRUE(blinkers.all_were_run());
  expect_same_fields(clean, blinkered);
}

// So a line needs no more of a step's beginning, and no halo: what is not constant is NaN but for these five.
TEST(Loops, a_step_needs_five_fields_alone) {
  const std::set<Field> needed = {Field::density0, Field::energy0, Field::xvel0, Field::yvel0, Field::zvel0};
  System clean = started(MPI_COMM_WORLD, domain_of({12, 10, 8}), boxes);
  System spoilt = started(MPI_COMM_WORLD, domain_of({12, 10, 8}), boxes);
  for (int s = 0; s < 3; ++s) {
    for (const Field field : all_fields()) {
      if (is_constant(field)) continue;
      std::vector<double> kept(spoilt.layout().points, std::nan(""));
      if (needed.contains(field))
        for_own(spoilt, stagger_of(field),
                [&](int, int, int, std::ptrdiff_t c) { kept[static_cast<std::size_t>(c)] = spoilt.data(field)[c]; });
      std::copy(kept.begin(), kept.end(), spoilt.data(field));
    }
    EXPECT_EQ(step(clean, s, 1), step(spoilt, s, 1));
  }
  expect_same_fields(clean, spoilt);
}

}  // namespace
}  // namespace clover3d
