// The same bits on any number of ranks: run on 8, which form groups of each size. Each group compares itself
// with one rank alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "../../blinkers.h"
#include "simulation.h"
#include "stored.h"

namespace tgv {
namespace {

/// Ranks [0, size) of the world; MPI_COMM_NULL on the others.
class Group {
 public:
  explicit Group(int size) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &comm_);
  }
  ~Group() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  [[nodiscard]] MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

std::string csv_of_a_run(MPI_Comm comm, int n, bool stored = false) {
  Options options;
  options.stored = stored;
  options.n = n;
  options.quiet = true;
  options.output_every = 4;
  std::size_t printed = 0;
  Simulation sim(comm, options, printed);
  for (; sim.step < 20; ++sim.step) sim.advance();
  return to_csv(sim.history);
}

TEST(Ranks, the_table_has_the_same_bytes_on_any_number_of_ranks) {
  for (int n : {16, 17}) {
    const std::string alone = csv_of_a_run(MPI_COMM_SELF, n);
    for (int size : {1, 2, 3, 4, 5, 6, 7, 8}) {
      const Group group(size);
      if (group.comm() == MPI_COMM_NULL) continue;
      EXPECT_EQ(csv_of_a_run(group.comm(), n), alone) << n << "^3 points on " << size << " ranks";
      EXPECT_EQ(csv_of_a_run(group.comm(), n, true), alone) << n << "^3 points, stored, on " << size << " ranks";
    }
  }
}

/// As each field's rows, so that one cube can be compared with a block of another.
bool same_bits(AnySolver& part, AnySolver& whole) {
  const Block& b = part.block();
  const Triple size = b.size();
  for (std::size_t c = 0; c < 5; ++c) {
    for (int k = 0; k < size[2]; ++k) {
      for (int j = 0; j < size[1]; ++j) {
        const double* ours = part.fields()[c].data() + part.layout().at(0, j, k);
        const double* theirs = whole.fields()[c].data() + whole.layout().at(b.lower[0], b.lower[1] + j, b.lower[2] + k);
        if (std::memcmp(ours, theirs, static_cast<std::size_t>(size[0]) * sizeof(double)) != 0) return false;
      }
    }
  }
  return true;
}

TEST(Ranks, every_field_has_the_same_bits_however_the_cube_is_cut) {
  Flow flow;
  flow.n = 15;
  Solver whole(MPI_COMM_SELF, flow, 0.6);
  whole.start_taylor_green();
  for (int s = 0; s < 10; ++s) whole.advance();
  for (Triple ranks : {Triple{2, 2, 2}, Triple{1, 2, 4}, Triple{4, 1, 2}, Triple{7, 1, 1}, Triple{3, 2, 1},
                       Triple{1, 1, 7}, Triple{1, 5, 1}}) {
    const Group group(ranks[0] * ranks[1] * ranks[2]);
    if (group.comm() == MPI_COMM_NULL) continue;
    Solver part(group.comm(), flow, 0.6, ranks);
    part.start_taylor_green();
    for (int s = 0; s < 10; ++s) part.advance();
    EXPECT_TRUE(same_bits(part, whole)) << ranks[0] << " x " << ranks[1] << " x " << ranks[2];
    StoredSolver stored(group.comm(), flow, 0.6, ranks);
    stored.start_taylor_green();
    for (int s = 0; s < 10; ++s) stored.advance();
    EXPECT_TRUE(same_bits(stored, whole)) << "stored, " << ranks[0] << " x " << ranks[1] << " x " << ranks[2];
  }
}

void visit_own(StoredSolver& solver, Field field, const std::function<void(double&)>& visit) {
  const Triple size = solver.layout().size;
  for (int k = 0; k < size[2]; ++k) {
    for (int j = 0; j < size[1]; ++j) {
      for (int i = 0; i < size[0]; ++i) visit(solver.data(field)[solver.layout().at(i, j, k)]);
    }
  }
}

/// Of two on the same blocks, without halos.
bool same_insides(StoredSolver& one, StoredSolver& other) {
  for (const Field field : all_fields()) {
    std::vector<double> values;
    visit_own(one, field, [&](double& at) { values.push_back(at); });
    auto value = values.begin();
    bool same = true;
    visit_own(other, field, [&](double& at) { same = std::memcmp(&at, &*value++, sizeof at) == 0 && same; });
    if (!same) return false;
  }
  return true;
}

/// Totals, a step, totals again.
Totals run_of(StoredSolver& solver, int steps) {
  for (int s = 0; s < steps; ++s) {
    (void)solver.totals();
    solver.advance();
  }
  return solver.totals();
}

// Nothing checks a declaration when a program runs: a wrong one is a wrong restart.
TEST(Stored, loops_read_and_change_only_what_they_declare) {
  Flow flow;
  flow.n = 12;
  StoredSolver clean(MPI_COMM_WORLD, flow, 0.6), blinkered(MPI_COMM_WORLD, flow, 0.6);
  for (auto* solver : {&clean, &blinkered}) solver->start_taylor_green();
  program::Blinkers<StoredSolver, Loop, Field> blinkers(
      blinkered, all_loops(), all_fields(),
      [&](Field field, const auto& visit) { visit_own(blinkered, field, visit); });
  EXPECT_EQ(run_of(clean, 3).kinetic_energy_rate, run_of(blinkered, 3).kinetic_energy_rate);
  blinkers.take_off();
  EXPECT_TRUE(blinkers.all_were_run());
  EXPECT_TRUE(same_insides(blinkered, clean));
}

// So a line needs no more of a step's beginning, and a run can go on before any loop without a halo.
TEST(Stored, a_step_needs_the_insides_of_the_five_fields_alone) {
  Flow flow;
  flow.n = 12;
  StoredSolver clean(MPI_COMM_WORLD, flow, 0.6), spoilt(MPI_COMM_WORLD, flow, 0.6);
  for (auto* solver : {&clean, &spoilt}) solver->start_taylor_green();
  const auto points = static_cast<std::size_t>(spoilt.layout().points);
  const auto spoil_halos = [&](Field field) {
    std::vector<double> inside;
    visit_own(spoilt, field, [&](double& at) { inside.push_back(at); });
    std::fill_n(spoilt.data(field), points, std::nan(""));
    auto value = inside.begin();
    visit_own(spoilt, field, [&](double& at) { at = *value++; });
  };
  spoilt.watch([&](Loop) {
    for (const Field field : all_fields()) spoil_halos(field);
    return true;
  });
  for (int s = 0; s < 2; ++s) {
    for (const Field field : all_fields()) {
      if (field <= Field::energy) continue;
      std::fill_n(spoilt.data(field), points, std::nan(""));
    }
    EXPECT_EQ(run_of(clean, 1).kinetic_energy_rate, run_of(spoilt, 1).kinetic_energy_rate);
  }
  EXPECT_TRUE(same_insides(spoilt, clean));
}

TEST(Ranks, a_cube_too_small_for_its_ranks_is_refused_on_every_rank) {
  const Group group(7);
  if (group.comm() == MPI_COMM_NULL) return;
  Flow flow;
  flow.n = 8;
  EXPECT_THROW(Solver(group.comm(), flow, 0.6), std::invalid_argument);
}

}  // namespace
}  // namespace tgv
