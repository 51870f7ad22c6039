// Declared computations on several ranks: what lines leave out, at each level, and where ranks differ.
#include <algorithm>
#include <numeric>

#include "support.h"

namespace backstay::mpi_test {
namespace {

constexpr std::int64_t count = 500;  // elements of a rank

/// A code with a field, and with fluxes that it makes anew in each step.
struct Code {
  int step = 0;
  std::vector<double> u, flux;
  Computation fluxes, update, look;

  Code() : u(count, 0.0), flux(count, 0.0) {}
  void protect(Session& session) {
    const std::int64_t rank = session.rank();
    session.protect("step", step);
    for (auto& [name, field] : {std::pair("u", &u), std::pair("flux", &flux)})
      session.protect(name, *field, block({count * session.size()}, {count * rank}, {count * (rank + 1)}));
    fluxes = session.declare("fluxes", {reads("u"), writes("flux")});
    update = session.declare("update", {reads("flux"), updates("u")});
    look = session.declare("look", {reads("flux")});
  }
  void advance(Session& session) {
    session.compute(fluxes, [&] {
      for (std::size_t i = 0; i < u.size(); ++i) flux[i] = u[i] / 2 + static_cast<double>(i) + step;
    });
    session.compute(update, [&] {
      for (std::size_t i = 0; i < u.size(); ++i) u[i] += flux[i];
    });
    ++step;
  }
};

struct Way {
  std::string name;
  Options options;
};
class declared : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    options_ = with(usual(dir_.path()), GetParam().options);
    if (options_["nodes"] == "2" && size_of() == 1) GTEST_SKIP() << "one rank has no partner";
  }
  /// Of a program that is stopped in step `steps`, after it was decided what that line needs.
  void run(int steps) {
    Session session(MPI_COMM_WORLD, options_);
    Code code;
    code.protect(session);
    session.resume();
    while (code.step < steps) {
      session.checkpoint();
      code.advance(session);
    }
    EXPECT_EQ(session.status().left_out_bytes, count * sizeof(double));
    session.wait();
    EXPECT_EQ(session.status().last_error, "");
  }

  const SharedDirectory dir_;
  Options options_;
};

TEST_P(declared, fluxes_are_left_out_and_the_program_goes_on_with_the_same_values) {
  Code right;
  {
    Session session(MPI_COMM_WORLD, with(usual(dir_.path()), {{"levels", "memory"}, {"every", "1000"}}));
    right.protect(session);
    while (right.step < 8) right.advance(session);
  }
  run(5);
  Session session(MPI_COMM_WORLD, options_);
  Code code;
  std::fill(code.u.begin(), code.u.end(), -1);
  std::fill(code.flux.begin(), code.flux.end(), -1);
  code.protect(session);
  ASSERT_TRUE(session.resume().resumed);
  EXPECT_EQ(code.step, 4);
  EXPECT_EQ(code.flux, std::vector<double>(count, -1));
  const Verified verified = session.verify();
  EXPECT_TRUE(verified.damage.empty()) << verified.damage.front();
  while (code.step < 8) code.advance(session);
  EXPECT_EQ(code.u, right.u);
  EXPECT_EQ(code.flux, right.flux);
}

INSTANTIATE_TEST_SUITE_P(levels, declared,
                         ::testing::Values(Way{"one_file", {{"levels", "shared"}}},
                                           Way{"a_file_for_each_rank",
                                               {{"levels", "shared"}, {"shared.layout", "file-per-rank"}}},
                                           Way{"partner", {{"levels", "partner"}, {"nodes", "2"}}}),
                         [](const auto& way) { return way.param.name; });

/// The ranks of half of the job, and on the others nothing.
class Half {
 public:
  Half() { MPI_Comm_split(MPI_COMM_WORLD, rank_of() < size_of() / 2 ? 0 : MPI_UNDEFINED, 0, &comm_); }
  ~Half() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  [[nodiscard]] MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// Takes a line in which `flux` is left out by the ranks from `first` on, and is 0 on the others; half as many ranks
/// resume. The refusal.
std::string resume_on_half(const Options& options, int first) {
  {
    Session session(MPI_COMM_WORLD, options);
    Code code;
    std::iota(code.u.begin(), code.u.end(), count * session.rank());
    code.protect(session);
    session.resume();
    session.checkpoint();
    if (session.rank() < first) session.compute(code.look, [] {});
    code.advance(session);
    session.wait();
  }
  const Half half;
  if (half.comm() == MPI_COMM_NULL) return "";
  Session session(half.comm(), options);
  const std::int64_t mine = count * size_of() / session.size();
  std::vector<double> u(static_cast<std::size_t>(mine), -1), flux(u), expected(u);
  int step = -1;
  session.protect("step", step);
  for (auto& [name, field] : {std::pair("u", &u), std::pair("flux", &flux)})
    session.protect(name, *field, block({count * size_of()}, {mine * session.rank()}, {mine * (session.rank() + 1)}));
  try {
    EXPECT_TRUE(session.resume().resumed);
  } catch (const Error& e) {
    return e.what();
  }
  std::iota(expected.begin(), expected.end(), mine * session.rank());
  EXPECT_EQ(u, expected);
  for (std::int64_t i = 0; i < mine; ++i)
    EXPECT_EQ(flux[static_cast<std::size_t>(i)], (mine * session.rank() + i) / count < first ? 0 : -1) << i;
  return "";
}

TEST(declared_on_other_ranks, what_all_left_out_stays_as_it_is) {
  if (size_of() < 2 || size_of() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const SharedDirectory dir;
  EXPECT_EQ(resume_on_half(usual(dir.path()), 0), "");
}

TEST(declared_on_other_ranks, what_some_left_out_comes_back_as_far_as_others_saved_it) {
  if (size_of() < 2 || size_of() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const SharedDirectory dir;
  EXPECT_EQ(resume_on_half(usual(dir.path()), 1), "");
}

/// Rank 0 alone changes what the beginning of the program makes, so that the others need not save it.
TEST(declared_on_other_ranks, what_the_beginning_makes_on_some_ranks_is_there_beside_what_others_saved) {
  if (size_of() < 2 || size_of() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const SharedDirectory dir;
  const auto options = usual(dir.path());
  const auto sum_after = [&](MPI_Comm comm, int steps) {
    Session session(comm, options);
    const std::int64_t all = count * size_of(), mine = all / session.size(), first = mine * session.rank();
    std::vector<double> coefficients(static_cast<std::size_t>(mine)), u(coefficients);
    int step = 0;
    for (auto& [name, field] : {std::pair("coefficients", &coefficients), std::pair("u", &u)})
      session.protect(name, *field, block({all}, {first}, {first + mine}));
    session.protect("step", step);
    const auto begin = session.declare("begin", {writes("coefficients")});
    const auto touch = session.declare("touch", {updates("coefficients")});
    const auto move = session.declare("move", {reads("coefficients"), updates("u")});
    session.compute(begin, [&] { std::iota(coefficients.begin(), coefficients.end(), first); });
    session.init_done();
    session.resume();
    for (; step < steps; ++step) {
      session.checkpoint();
      if (session.rank() == 0) session.compute(touch, [&] { coefficients[0] += 1; });
      session.compute(move, [&] {
        for (std::size_t i = 0; i < u.size(); ++i) u[i] += coefficients[i] * (step + 1);
      });
    }
    session.wait();
    double sum = std::accumulate(u.begin(), u.end(), 0.0), total = 0;
    MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, comm);
    return total;
  };
  (void)sum_after(MPI_COMM_WORLD, 4);
  const auto n = static_cast<double>(count * size_of());
  const double right = 21 * n * (n - 1) / 2 + 1 * 1 + 2 * 2 + 3 * 3 + 4 * 4 + 5 * 5 + 6 * 6;
  const Half half;
  if (half.comm() != MPI_COMM_NULL) {
    EXPECT_EQ(sum_after(half.comm(), 6), right);
  }
}

TEST(declared_on_ranks, each_rank_has_its_own_part_back) {
  const SharedDirectory dir;
  const Options options = usual(dir.path());
  {
    Session session(MPI_COMM_WORLD, options);
    Code code;
    std::fill(code.flux.begin(), code.flux.end(), 7);
    code.protect(session);
    session.resume();
    session.checkpoint();
    if (session.rank() % 2 == 0) session.compute(code.look, [] {});
    code.advance(session);
    session.wait();
  }
  Session session(MPI_COMM_WORLD, options);
  Code code;
  std::fill(code.flux.begin(), code.flux.end(), -1);
  code.protect(session);
  ASSERT_TRUE(session.resume().resumed);
  EXPECT_EQ(code.flux, std::vector<double>(count, session.rank() % 2 == 0 ? 7 : -1));
}

TEST(declared_on_ranks, other_declarations_on_one_rank_are_told_to_all) {
  if (size_of() < 2) GTEST_SKIP() << "one rank cannot differ";
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  std::vector<double> u(10);
  session.protect("u", u);
  (void)session.declare("set", {session.rank() == 1 ? reads("u") : writes("u")});
  session.resume();
  session.checkpoint();
  session.wait();
  EXPECT_NE(session.status().last_error.find("rank 0 has the computation 'set' that writes u where rank 1 has the "
                                             "computation 'set' that reads u"),
            std::string::npos)
      << session.status().last_error;
}

TEST(declared_on_ranks, all_hear_what_one_was_refused_and_left_the_session_with) {
  if (size_of() < 2) GTEST_SKIP() << "one rank cannot differ";
  const SharedDirectory dir;
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    Code code;
    code.protect(session);
    session.checkpoint();
    code.advance(session);
    session.wait();
    ASSERT_EQ(session.status().last_error, "");
  }
  std::string told;
  try {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    Code code;
    code.protect(session);
    session.resume();
    if (session.rank() == size_of() - 1) session.compute(code.look, [] {});
    for (int call = 0; call < 5 && told.empty(); ++call) {
      session.checkpoint();
      code.advance(session);
      told = session.status().last_error;
    }
  } catch (const Error& refused) {
    EXPECT_EQ(refused.code(), backstay::Code::mismatch);
    told = refused.what();
  }
  EXPECT_EQ(told.find("the computation 'look' that reads flux, needs region 'flux', which the line"), 0U) << told;
  expect_same_on_all_ranks(told);
}

TEST(declared_on_ranks, another_list_on_one_rank_is_told_to_all) {
  if (size_of() < 2) GTEST_SKIP() << "one rank cannot differ";
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  std::vector<double> u(10), f(10);
  session.protect("u", u);
  session.protect("f", f);
  (void)session.declare("swap", {updates("u"), updates("f")});
  session.save_only({session.rank() == 1 ? "f" : "u"});
  session.resume();
  session.checkpoint();
  session.wait();
  EXPECT_NE(
      session.status().last_error.find("rank 0 has a line of nothing but u where rank 1 has a line of nothing but f"),
      std::string::npos)
      << session.status().last_error;
}

}  // namespace
}  // namespace backstay::mpi_test
