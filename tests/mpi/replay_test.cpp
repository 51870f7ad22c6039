// Replay on several ranks: with messages inside of computations, on other numbers of ranks, and where ranks differ.
#include <algorithm>
#include <numeric>

#include "support.h"

namespace backstay::mpi_test {
namespace {

constexpr std::int64_t cells = 96;  // of all ranks; 8 ranks and fewer

/// Diffusion on a ring, explicit, with a time step that follows from a reduction; nothing but the field is protected.
class Ring {
 public:
  explicit Ring(MPI_Comm comm) : comm_(comm), mine_(cells / size_of(comm)), u_(mine_ + 2) {}

  /// Stopped before `stop`, where it leaves by an exception.
  struct Stopped {};
  double run(Session& session, int steps, int stop = -1) {
    const std::int64_t first = mine_ * session.rank();
    session.protect("u", inside(u_.data(), {mine_ + 2}, {1}), block({cells}, {first}, {first + mine_}));
    const auto begin = session.declare("begin", {writes("u")});
    const auto limit = session.declare("limit", {reads("u")});
    const auto diffuse = session.declare("diffuse", {updates("u")});
    resumed = session.replay().resumed;
    session.compute(begin, [&] {
      ++ran;
      for (std::int64_t i = 0; i < mine_; ++i) at(i) = static_cast<double>((first + i) % 7);
    });
    double time = 0;
    for (int step = 0; step < steps; ++step) {
      if (step == stop) throw Stopped();
      session.checkpoint();
      const double dt = session.compute(limit, [&] { return ++ran, time_step(); });
      session.compute(diffuse, [&] { ++ran, advance(dt); });
      time += dt;
    }
    double sum = time;
    for (std::int64_t i = 0; i < mine_; ++i) sum += at(i) * static_cast<double>(first + i + 1);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return sum;
  }

  bool resumed = false;
  int ran = 0;

 private:
  double& at(std::int64_t i) { return u_[static_cast<std::size_t>(i + 1)]; }
  double time_step() {
    double most = 0;
    for (std::int64_t i = 0; i < mine_; ++i) most = std::max(most, at(i));
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return 0.25 / (1 + most);
  }
  void advance(double dt) {
    const int rank = rank_of(comm_), size = size_of(comm_);
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Sendrecv(&at(mine_ - 1), 1, MPI_DOUBLE, right, 0, &at(-1), 1, MPI_DOUBLE, left, 0, comm_, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&at(0), 1, MPI_DOUBLE, left, 1, &at(mine_), 1, MPI_DOUBLE, right, 1, comm_, MPI_STATUS_IGNORE);
    double before = at(-1);
    for (std::int64_t i = 0; i < mine_; ++i) {
      const double here = at(i);
      at(i) += dt * (before - 2 * here + at(i + 1));
      before = here;
    }
  }

  MPI_Comm comm_;
  std::int64_t mine_;
  std::vector<double> u_;
};

double undisturbed(MPI_Comm comm, int steps) {
  Session session(comm, {{"levels", "memory"}, {"every", "100000"}, {"log", "quiet"}, {"dir", "unused"}});
  return Ring(comm).run(session, steps);
}

/// Of a job that is stopped before that step.
void stop_at(int stop, const Options& options) {
  Session session(MPI_COMM_WORLD, options);
  Ring ring(MPI_COMM_WORLD);
  EXPECT_THROW(ring.run(session, stop + 1, stop), Ring::Stopped);
  session.wait();
  EXPECT_EQ(session.status().last_error, "");
}

TEST(replay, goes_on_with_the_same_values_at_each_level) {
  const double right = undisturbed(MPI_COMM_WORLD, 10);
  for (const Options& more : {Options{{"levels", "shared"}}, Options{{"shared.layout", "file-per-rank"}},
                              Options{{"levels", "partner"}, {"nodes", two_nodes()}}}) {
    const SharedDirectory dir;
    const Options options = with(usual(dir.path()), more);
    stop_at(6, options);
    Session session(MPI_COMM_WORLD, options);
    Ring ring(MPI_COMM_WORLD);
    EXPECT_EQ(ring.run(session, 10), right);
    EXPECT_TRUE(ring.resumed);
    EXPECT_EQ(ring.ran, 2 * 5);
  }
}

TEST(replay, the_ranks_find_the_place_together) {
  const SharedDirectory dir;
  const Options options = with(usual(dir.path()), {{"place", "best"}});
  stop_at(30, options);
  Session session(MPI_COMM_WORLD, options);
  Ring ring(MPI_COMM_WORLD);
  EXPECT_EQ(ring.run(session, 40), undisturbed(MPI_COMM_WORLD, 40));
  EXPECT_TRUE(ring.resumed);
  EXPECT_LE(ring.ran, 2 * 11 + 1);
}

TEST(replay, a_body_that_is_rolled_back_is_replayed_by_all_ranks) {
  const SharedDirectory dir;
  const double right = undisturbed(MPI_COMM_WORLD, 10);
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int turns = 0;
  session.loop([&] {
    Ring ring(session.comm());
    try {
      EXPECT_EQ(ring.run(session, 10, turns++ == 0 ? 7 : -1), right);
    } catch (const Ring::Stopped&) {
      session.rollback("to see");
    }
  });
  EXPECT_EQ(turns, 2);
}

TEST(replay, ranks_that_all_went_one_way_are_replayed_by_fewer) {
  if (size_of() < 2 || size_of() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const SharedDirectory dir;
  stop_at(6, usual(dir.path()));
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of() < size_of() / 2 ? 0 : MPI_UNDEFINED, 0, &half);
  if (half != MPI_COMM_NULL) {
    {
      Session session(half, usual(dir.path()));
      Ring ring(half);
      const double sum = ring.run(session, 10);
      EXPECT_TRUE(ring.resumed);
      EXPECT_EQ(ring.ran, 2 * 5);
      EXPECT_EQ(sum, undisturbed(half, 10));
    }
    MPI_Comm_free(&half);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// All compute the same in the same order; what rank 0 saves it decides elsewhere, as its boundary is read there.
TEST(replay, ranks_that_decide_a_line_at_different_places_went_one_way) {
  if (size_of() < 2 || size_of() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const SharedDirectory dir;
  const auto run = [&](MPI_Comm comm, int steps) {
    Session session(comm, usual(dir.path()));
    const std::int64_t all = 6 * size_of(), mine = all / session.size(), first = mine * session.rank();
    const std::int64_t edge = session.rank() == 0 ? 1 : 0;
    std::vector<double> u(static_cast<std::size_t>(mine)), w(u);
    for (auto& [name, field] : {std::pair("u", &u), std::pair("w", &w)})
      session.protect(name, *field, block({all}, {first}, {first + mine}));
    const auto begin = session.declare("begin", {writes("u"), writes("w")});
    const auto boundary = session.declare("boundary", {reads("w").in({{0, edge}}), writes("u").in({{0, edge}})});
    const auto middle = session.declare("middle", {reads("u"), writes("w")});
    const auto update = session.declare("update", {reads("w"), updates("u")});
    const bool resumed = session.replay().resumed;
    session.compute(begin, [&] {
      for (std::size_t i = 0; i < u.size(); ++i) u[i] = w[i] = static_cast<double>(first) + static_cast<double>(i);
    });
    for (int step = 0; step < steps; ++step) {
      session.checkpoint();
      session.compute(boundary, [&] {
        if (edge > 0) u[0] = w[0] + 1;
      });
      session.compute(middle, [&] {
        for (std::size_t i = 0; i < u.size(); ++i) w[i] = u[i] / 2 + step;
      });
      session.compute(update, [&] {
        for (std::size_t i = 0; i < u.size(); ++i) u[i] += w[i];
      });
    }
    session.wait();
    double sum = 0, total = 0;
    for (const double x : u) sum += x;
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, comm);
    return std::pair(resumed, total);
  };
  (void)run(MPI_COMM_WORLD, 4);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of() < size_of() / 2 ? 0 : MPI_UNDEFINED, 0, &half);
  double again = 0;
  if (half != MPI_COMM_NULL) {
    const auto [resumed, total] = run(half, 6);
    EXPECT_TRUE(resumed);
    again = total;
    MPI_Comm_free(&half);
  }
  MPI_Bcast(&again, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank_of() == 0) std::filesystem::remove_all(dir.path());
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(run(MPI_COMM_WORLD, 6), std::pair(false, again));
}

/// Each rank computes as often as it says.
void compute_often(Session& session, int times) {
  std::vector<double> u(4);
  session.protect("u", u, block({4 * session.size()}, {4 * session.rank()}, {4 * session.rank() + 4}));
  const auto step = session.declare("step", {updates("u")});
  session.replay();
  for (int i = 0; i < times; ++i) session.compute(step, [&] { u[0] += 1; });
  session.checkpoint(now);
  session.wait();
  EXPECT_EQ(u[0], times);
}

TEST(replay, ranks_may_go_different_ways_but_not_on_other_numbers_of_them) {
  const SharedDirectory dir;
  for (int launch = 0; launch < 2; ++launch) {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    compute_often(session, 3 + session.rank());
  }
  if (size_of() < 2 || size_of() % 2 != 0) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of() < size_of() / 2 ? 0 : MPI_UNDEFINED, 0, &half);
  if (half != MPI_COMM_NULL) {
    {
      Session session(half, usual(dir.path()));
      std::vector<double> u(8);
      session.protect("u", u, block({8 * session.size()}, {8 * session.rank()}, {8 * session.rank() + 8}));
      (void)session.declare("step", {updates("u")});
      const auto refused = refusal_of([&] { session.replay(); }, half);
      EXPECT_NE(refused.what.find("the ranks that saved it went different ways"), std::string::npos) << refused.what;
    }
    MPI_Comm_free(&half);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(replay, another_way_is_refused_on_all_ranks_alike) {
  const SharedDirectory dir;
  for (const int times : {3, 5}) {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    if (times == 3) {
      compute_often(session, times);
      continue;
    }
    const auto refused = refusal_of([&] { compute_often(session, times); });
    EXPECT_EQ(refused.code, Code::mismatch);
    EXPECT_NE(refused.what.find("number 4 of the computations and results of the replay is the computation 'step'"),
              std::string::npos)
        << refused.what;
  }
}

}  // namespace
}  // namespace backstay::mpi_test
