// What does not fit is refused, with the same sentence on every rank, and the lines stay as they were.
#include <map>

#include "support.h"

namespace backstay::mpi_test {
namespace {

namespace fs = std::filesystem;

/// Names and bytes of all lines.
std::map<std::string, std::string> lines_in(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file() && has(entry.path().string(), "/line-"))
      out[entry.path().string()] = read_text(entry.path().string());
  return out;
}

class refusals : public ::testing::Test {
 protected:
  /// A line with a scalar `n`, a vector `v` of three and a block `u`.
  void SetUp() override {
    Session session(MPI_COMM_WORLD, options_);
    std::vector<double> v{1, 2, 3}, u(4, rank_of());
    int n = 5;
    session.protect("n", n);
    session.protect("v", v);
    session.protect("u", u, row());
    session.checkpoint(now);
    session.wait();
    ASSERT_EQ(session.status().committed, 1U);
  }

  [[nodiscard]] static Placement row(std::int64_t width = 4) {
    const int rank = rank_of();
    return block({size_of(), width}, {rank, 0}, {rank + 1, width});
  }

  /// What resume() says to a session that protects by `protect`; the lines are compared before and after.
  Refusal resume_with(const std::function<void(Session&)>& protect, const Options& more = {}) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto before = lines_in(dir_.path());
    Refusal refusal;
    {
      Session session(MPI_COMM_WORLD, with(options_, more));
      protect(session);
      refusal = refusal_of([&] { session.resume(); });
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(lines_in(dir_.path()), before);
    return refusal;
  }

  void expect_mismatch(const Refusal& refusal, const std::string& part) {
    EXPECT_EQ(refusal.code, Code::mismatch) << refusal.what;
    EXPECT_TRUE(has(refusal.what, part)) << refusal.what;
  }

  const SharedDirectory dir_;
  const Options options_ = with(usual(dir_.path()), {{"shared.layout", "one-file"}});
  int n_ = -1;
  std::vector<double> v_{-1}, u_ = std::vector<double>(4, -1.0);
};

TEST_F(refusals, the_same_regions_come_back) {
  const auto refusal = resume_with([&](Session& s) {
    s.protect("u", u_, row());  // the order does not matter
    s.protect("n", n_);
    s.protect("v", v_);
  });
  EXPECT_EQ(refusal.code, Code::ok) << refusal.what;
  EXPECT_EQ(n_, 5);
}

TEST_F(refusals, another_type) {
  std::vector<float> v(3, -1.0F);
  const auto refusal = resume_with([&](Session& s) {
    s.protect("n", n_);
    s.protect("v", v);
    s.protect("u", u_, row());
  });
  expect_mismatch(refusal, "'v' was saved as float64 and is protected as float32");
  EXPECT_EQ(n_, -1) << "nothing is overwritten by a resume that is refused";
}

TEST_F(refusals, another_shape) {
  double v[2] = {-1, -1};
  expect_mismatch(resume_with([&](Session& s) {
                    s.protect("n", n_);
                    s.protect("v", v, rank_private());
                    s.protect("u", u_, row());
                  }),
                  "'v' was saved with shape [3]");
  EXPECT_EQ(n_, -1);  // protected before it, and not written either
}

TEST_F(refusals, another_placement) {
  expect_mismatch(resume_with([&](Session& s) {
                    s.protect("n", n_);
                    s.protect("v", v_, distributed_list());
                    s.protect("u", u_, row());
                  }),
                  "'v' was saved as private to a rank and is protected as a distributed list");
}

TEST_F(refusals, another_global_shape) {
  std::vector<double> wide(5);
  expect_mismatch(resume_with([&](Session& s) {
                    s.protect("n", n_);
                    s.protect("v", v_);
                    s.protect("u", wide, row(5));
                  }),
                  "'u' was saved as part of a global array of shape");
}

TEST_F(refusals, a_region_that_is_not_in_the_line) {
  int extra = 7;
  const auto protect = [&](Session& s) {
    s.protect("n", n_);
    s.protect("v", v_);
    s.protect("u", u_, row());
    s.protect("extra", extra);
  };
  expect_mismatch(resume_with(protect), "'extra' is protected but is not in the line");
  EXPECT_EQ(n_, -1);
  EXPECT_EQ(resume_with(protect, {{"regions", "lenient"}}).code, Code::ok);
  EXPECT_EQ(n_, 5);
  EXPECT_EQ(extra, 7);
}

TEST_F(refusals, a_region_that_is_not_protected) {
  const auto protect = [&](Session& s) {
    s.protect("n", n_);
    s.protect("u", u_, row());
  };
  expect_mismatch(resume_with(protect), "'v' is in the line but is not protected");
  EXPECT_EQ(resume_with(protect, {{"regions", "lenient"}}).code, Code::ok);
  EXPECT_EQ(n_, 5);
}

TEST_F(refusals, one_rank_that_protects_another_type_is_heard_by_all) {
  std::vector<float> other(3);
  const auto refusal = resume_with([&](Session& s) {
    s.protect("n", n_);
    if (rank_of() == size_of() - 1)
      s.protect("v", other);
    else
      s.protect("v", v_);
    s.protect("u", u_, row());
  });
  expect_mismatch(refusal, "'v' was saved as float64");
}

TEST_F(refusals, a_refused_session_can_still_write) {
  std::vector<float> v(3);
  {
    Session session(MPI_COMM_WORLD, options_);
    session.protect("v", v);
    EXPECT_EQ(refusal_of([&] { session.resume(); }).code, Code::mismatch);
    session.checkpoint(now);
    session.wait();
    EXPECT_EQ(session.status().committed, 1U);
    EXPECT_EQ(session.status().newest_line, 2U);
  }
}

// ---- on the way in -----------------------------------------------------------------------------------------------

TEST(protect, two_regions_with_one_name_are_refused) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int a = 0, b = 0;
  session.protect("a", a);
  const auto refusal = refusal_of([&] { session.protect("a", b); });
  EXPECT_EQ(refusal.code, Code::invalid_argument);
  EXPECT_TRUE(has(refusal.what, "'a' is already protected")) << refusal.what;
  EXPECT_EQ(refusal_of([&] { session.protect("a/b", b); }).code, Code::invalid_argument);
}

TEST(protect, names_that_no_file_can_hold_are_refused) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int a = 0;
  const std::vector<std::string> names{
      "", "/a", "a//b", "..", "a/.", "by_rank/x", std::string("a\0b", 3), "\xff\xfe", std::string(2000, 'n')};
  for (const auto& name : names)
    EXPECT_EQ(refusal_of([&] { session.protect(name, a); }).code, Code::invalid_argument) << name;
}

TEST(protect, blocks_and_shapes_that_do_not_fit_are_refused) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  std::vector<double> v(6);
  const auto code = [&](const Placement& placement) {
    return refusal_of([&] { session.protect("v", v, placement); }).code;
  };
  EXPECT_EQ(code(block({4, 2}, {0, 0}, {4, 2})), Code::invalid_argument);  // eight elements, not six
  EXPECT_EQ(code(block({3, 2}, {0, 0}, {3, 3})), Code::invalid_argument);  // outside
  EXPECT_EQ(code(block({3, 2}, {-1, 0}, {2, 2})), Code::invalid_argument);
  EXPECT_EQ(code(block({3, 2}, {0}, {3, 2})), Code::invalid_argument);
  EXPECT_EQ(refusal_of([&] { session.protect("v", array(v.data(), {1, 1, 1, 1, 1, 1, 1, 6})); }).code,
            Code::invalid_argument);
  EXPECT_EQ(refusal_of([&] { session.protect("v", array(v.data(), {2, 3}, {3})); }).code, Code::invalid_argument);
  EXPECT_EQ(refusal_of([&] { session.protect("v", array(v.data(), {-1})); }).code, Code::invalid_argument);
  int count = 7;
  EXPECT_EQ(refusal_of([&] { session.protect("v", used(v.data(), count, 6)); }).code, Code::invalid_argument);
  EXPECT_EQ(refusal_of([&] { session.unprotect("v"); }).code, Code::not_found);
}

TEST(session, ranks_with_different_options_are_told_which) {
  if (size_of() == 1) GTEST_SKIP();
  const SharedDirectory dir;
  const std::string every = rank_of() == 1 ? "3" : "2";
  const auto refusal =
      refusal_of([&] { Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"every", every}})); });
  EXPECT_EQ(refusal.code, Code::mismatch);
  EXPECT_TRUE(has(refusal.what, "rank 0 has every=2 and rank 1 has every=3")) << refusal.what;
}

TEST(session, a_name_that_leads_out_of_the_directory_is_refused) {
  const SharedDirectory dir;
  for (const char* name : {"../evil", "/evil", "a/../../evil"}) {
    const auto refusal =
        refusal_of([&] { Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"name", name}})); });
    EXPECT_EQ(refusal.code, Code::invalid_argument) << name;
  }
}

TEST(session, two_of_different_levels_in_one_directory_are_refused) {
  for (const auto& [one, other] : {std::pair("local", "shared"), {"shared", "local"}}) {
    const SharedDirectory dir;
    Session first(MPI_COMM_WORLD, with(usual(dir.path()), {{"levels", one}, {"nodes", "1"}}));
    const auto refusal = refusal_of(
        [&] { Session second(MPI_COMM_WORLD, with(usual(dir.path()), {{"levels", other}, {"nodes", "1"}})); });
    EXPECT_EQ(refusal.code, Code::locked) << one << ", then " << other << ": " << refusal.what;
  }
}

TEST(session, rollback_outside_loop_is_an_error) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  EXPECT_EQ(refusal_of([&] { session.rollback("why not"); }).code, Code::invalid_argument);
}

TEST(checkpoint, within_a_save_callback_is_refused_at_once) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  Code code = Code::ok;
  session.protect("x", Callbacks{[&]() -> std::string {
                                   code = refusal_of([&] { session.checkpoint(now); }).code;
                                   return "x";
                                 },
                                 [](auto) {},
                                 {}});
  session.checkpoint(now);
  session.wait();
  EXPECT_EQ(code, Code::invalid_argument);
  EXPECT_EQ(session.status().committed, 1U);
}

/// What the background says of one checkpoint, on every rank.
std::string failure_of(Session& session) {
  session.checkpoint(now);
  session.wait();
  EXPECT_EQ(session.status().committed, 0U);
  EXPECT_EQ(session.status().failed, 1U);
  expect_same_on_all_ranks(session.status().last_error);
  return session.status().last_error;
}

TEST(checkpoint, before_protect_is_given_up_with_a_sentence) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  const auto said = failure_of(session);
  EXPECT_TRUE(has(said, "nothing is protected: call protect() before checkpoint()")) << said;
}

TEST(checkpoint, of_ranks_that_protect_other_names_is_given_up) {
  if (size_of() == 1) GTEST_SKIP();
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int a = 0;
  session.protect(rank_of() == 1 ? "b" : "a", a);
  const auto said = failure_of(session);
  EXPECT_TRUE(has(said, "rank 0 has region 'a'") && has(said, "rank 1 has region 'b'")) << said;
}

TEST(checkpoint, of_ranks_that_protect_other_types_is_given_up) {
  if (size_of() == 1) GTEST_SKIP();
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int whole = 0;
  float real = 0;
  if (rank_of() == size_of() - 1)
    session.protect("x", real);
  else
    session.protect("x", whole);
  const auto said = failure_of(session);
  EXPECT_TRUE(has(said, "int32") && has(said, "float32")) << said;
}

TEST(checkpoint, of_ranks_that_protect_in_another_order_or_number_is_given_up) {
  if (size_of() == 1) GTEST_SKIP();
  const SharedDirectory dir;
  for (const bool fewer : {false, true}) {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    int a = 0, b = 0;
    if (rank_of() == 0) {
      session.protect("a", a);
      session.protect("b", b);
    } else {
      if (!fewer) session.protect("b", b);
      session.protect("a", a);
    }
    const auto said = failure_of(session);
    EXPECT_TRUE(has(said, "the ranks protect different regions")) << said;
  }
}

TEST(checkpoint, with_a_callback_that_throws_on_one_rank_is_given_up_on_all) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  bool angry = rank_of() == size_of() - 1;
  session.protect("c", Callbacks{[&] { return angry ? throw std::runtime_error("no way") : std::string("fine"); },
                                 [](std::span<const std::byte>) {},
                                 {}});
  const auto said = failure_of(session);
  EXPECT_TRUE(has(said, "'c': its save callback failed: no way")) << said;
  angry = false;
  session.checkpoint(now);
  session.wait();
  EXPECT_EQ(session.status().committed, 1U);
}

TEST(checkpoint, that_fails_is_thrown_on_every_rank_at_the_same_call_if_asked) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"on_error", "throw"}, {"every", "3"}}));
  bool angry = rank_of() == 0;
  session.protect("c", Callbacks{[&] { return angry ? throw std::runtime_error("no way") : std::string("fine"); },
                                 [](std::span<const std::byte>) {},
                                 {}});
  std::string story;
  for (int call = 1; call <= 12; ++call) {
    const auto refusal = refusal_of([&] { session.checkpoint(); });
    if (refusal.code == Code::ok) continue;
    story += std::to_string(call) + " ";
    EXPECT_EQ(refusal.code, Code::user) << refusal.what;
    angry = false;
  }
  EXPECT_NE(story, "") << "the failure was never thrown";
}

/// The line that is new then waits for a computation, but on the rank that has nothing of it.
TEST(checkpoint, that_fails_is_thrown_at_once_also_where_a_line_waits_for_computations_on_some_ranks_only) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"on_error", "throw"}, {"every", "1"}, {"timeout", "30"}}));
  bool angry = rank_of() == 0;
  session.protect("c", Callbacks{[&] { return angry ? throw std::runtime_error("no way") : std::string("fine"); },
                                 [](std::span<const std::byte>) {},
                                 {}});
  std::vector<double> f(rank_of() == 0 ? 0 : 100);
  session.protect("f", f);
  const auto set = session.declare("set", {writes("f")});
  int refusals = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int call = 1; call <= 12; ++call) {
    refusals += refusal_of([&] { session.checkpoint(); }).code == Code::ok ? 0 : 1;
    angry = false;
    session.compute(set, [&] { std::fill(f.begin(), f.end(), call); });
  }
  EXPECT_EQ(refusals, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(25));
}

TEST(checkpoint, whose_older_line_one_node_cannot_remove_is_thrown_by_nobody_and_said_by_that_node) {
  const SharedDirectory dir;
  const std::string last = std::to_string(size_of() - 1);
  const bool is_last = rank_of() == size_of() - 1;
  const Options more{{"levels", "local"},
                     {"nodes", std::to_string(size_of())},
                     {"keep", "2"},
                     {"on_error", "throw"},
                     {"log", "normal"}};
  ::testing::internal::CaptureStderr();
  {
    Session session(MPI_COMM_WORLD, with(usual(dir.path()), more));
    double x = 0;
    session.protect("x", x);
    for (int call = 1; call <= 8; ++call) {
      if (call == 3 && is_last) {
        const std::filesystem::path manifest = dir.path() + "/node-" + last + "/local/line-00000001/manifest";
        EXPECT_TRUE(std::filesystem::remove(manifest));
        std::filesystem::create_directories(manifest / "in the way");
      }
      const auto refusal = refusal_of([&] {
        session.checkpoint();
        session.wait();
      });
      EXPECT_EQ(refusal.code, Code::ok) << refusal.what;
    }
    EXPECT_EQ(session.status().committed, 8U);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string sentence = (size_of() == 1 ? "" : "rank " + last + ": ") +
                               "line 3 at level local is whole, but an older line could not be removed: ";
  EXPECT_EQ(has(said, sentence), is_last) << said;
  EXPECT_TRUE(has(read_text(dir.path() + "/events.jsonl"), "\"leftover\""));
}

Callbacks loading_fails_on_the_last_rank() {
  const auto load = [](std::span<const std::byte>) {
    if (rank_of() == size_of() - 1) throw std::runtime_error("cannot read it");
  };
  return {[] { return std::string("bytes"); }, load, {}};
}

TEST(resume, with_a_load_callback_that_throws_on_one_rank_is_refused_on_all) {
  const SharedDirectory dir;
  const auto protect = [](Session& s) { s.protect("c", loading_fails_on_the_last_rank()); };
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    protect(session);
    session.checkpoint(now);
  }
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  protect(session);
  const auto refusal = refusal_of([&] { session.resume(); });
  EXPECT_EQ(refusal.code, Code::user);
  EXPECT_TRUE(has(refusal.what, "cannot read it")) << refusal.what;
}

/// With a lost node, ranks get their data from each other while they fill: one that fails must not leave the others.
TEST(resume, from_a_partner_with_a_callback_that_throws_is_refused_on_all_with_its_reason) {
  if (size_of() == 1) GTEST_SKIP() << "one rank has no partner";
  const SharedDirectory dir;
  const auto options = with(usual(dir.path()), {{"levels", "partner"}, {"nodes", "2"}});
  std::vector<double> before(1000), after(1000);
  const auto protect = [&](Session& s) {
    s.protect("before", before);
    s.protect("c", loading_fails_on_the_last_rank());
    s.protect("after", after);
  };
  {
    Session session(MPI_COMM_WORLD, options);
    protect(session);
    session.checkpoint(now);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of() == 0) fs::remove_all(dir.path() + "/node-1");
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, options);
  protect(session);
  const auto refusal = refusal_of([&] { session.resume(); });
  EXPECT_EQ(refusal.code, Code::user);
  EXPECT_TRUE(has(refusal.what, "cannot read it")) << refusal.what;
}

TEST(resume, into_blocks_that_leave_out_some_of_what_was_saved_is_refused_unless_asked_for) {
  const SharedDirectory dir;
  const auto part = [](Session& s, std::vector<double>& u, std::int64_t length) {
    u.resize(static_cast<std::size_t>(length), rank_of());
    s.protect("u", u, block({10 * s.size()}, {10 * s.rank()}, {10 * s.rank() + length}));
  };
  {
    std::vector<double> u;
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    part(session, u, 10);
    session.checkpoint(now);
  }
  // The last rank alone is short: the others must hear of it too.
  std::vector<double> u;
  const std::int64_t length = rank_of() == size_of() - 1 ? 7 : 10;
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    part(session, u, length);
    const auto refusal = refusal_of([&] { session.resume(); });
    EXPECT_EQ(refusal.code, Code::mismatch);
    EXPECT_TRUE(has(refusal.what, "would be lost") && has(refusal.what, "regions=lenient")) << refusal.what;
  }
  u.assign(u.size(), -1);
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), {{"regions", "lenient"}}));
  part(session, u, length);
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(u, std::vector<double>(static_cast<std::size_t>(length), rank_of()));
}

TEST(communicator, between_two_groups_is_refused_alike) {
  if (size_of() == 1) GTEST_SKIP() << "two groups need two ranks";
  const SharedDirectory dir;
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  const int side = rank_of() % 2;
  MPI_Comm_split(MPI_COMM_WORLD, side, rank_of(), &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 7, &between);
  const auto refusal = refusal_of([&] { Session(between, usual(dir.path())); });
  EXPECT_EQ(refusal.code, Code::invalid_argument);
  EXPECT_TRUE(has(refusal.what, "MPI_Intercomm_merge")) << refusal.what;
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

TEST_F(refusals, spares_that_leave_no_rank_or_have_not_the_whole_job_are_refused_alike_on_all_ranks) {
  const auto opened = [&](MPI_Comm comm, int spares) {
    return refusal_of([&] { Session session(comm, with(options_, {{"spares", std::to_string(spares)}})); });
  };
  const Refusal too_many = opened(MPI_COMM_WORLD, size_of());
  EXPECT_EQ(too_many.code, Code::invalid_argument) << too_many.what;
  EXPECT_TRUE(has(too_many.what, "at least one must work")) << too_many.what;
  expect_same_on_all_ranks(too_many.what);
  if (size_of() == 1) return;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of() % 2, rank_of(), &half);
  const Refusal part = opened(half, 1);
  EXPECT_EQ(part.code, Code::invalid_argument) << part.what;
  EXPECT_TRUE(has(part.what, "has not all of MPI_COMM_WORLD")) << part.what;
  expect_same_on_all_ranks(part.what);
  MPI_Comm_free(&half);
}

}  // namespace
}  // namespace backstay::mpi_test
