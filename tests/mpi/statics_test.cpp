// Static regions: written once at each level, named by the lines, and put back with them.
#include <algorithm>
#include <numeric>

#include "support.h"

namespace backstay::mpi_test {
namespace {

namespace fs = std::filesystem;

/// A code with a table that does not change, beside a state that does.
struct Code {
  int step = 0;
  std::vector<double> u;
  std::vector<std::int64_t> table;

  explicit Code(std::size_t count = 500) : u(count, 0.0), table(4 * count) {}
  void fill(int rank, std::int64_t version = 0) {
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = version * 1000000007 + rank * static_cast<std::int64_t>(table.size()) + static_cast<std::int64_t>(i);
  }
  void protect(Session& session) {
    const auto n = static_cast<std::int64_t>(u.size());
    const auto rank = static_cast<std::int64_t>(session.rank());
    session.protect("step", step);
    session.protect("u", u, block({n * session.size()}, {n * rank}, {n * (rank + 1)}));
    protect_table(session);
  }
  void protect_table(Session& session) {
    const auto n = static_cast<std::int64_t>(table.size());
    session.protect_static("table", table,
                           block({n * session.size()}, {n * session.rank()}, {n * (session.rank() + 1)}));
  }
  void advance() {
    for (std::size_t i = 0; i < u.size(); ++i) u[i] += static_cast<double>(table[i] + step);
    ++step;
  }
  void forget() {
    step = -1;
    std::fill(u.begin(), u.end(), -1.0);
    std::fill(table.begin(), table.end(), -1);
  }
};

/// Committed lines of a level, oldest first.
std::vector<std::string> lines_of(const std::string& level) {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(level, none))
    if (fs::exists(entry.path() / "manifest")) out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

void run(const Options& options, int steps, std::int64_t version = 0) {
  Session session(MPI_COMM_WORLD, options);
  Code code;
  code.forget();
  code.protect(session);
  if (!session.resume()) {
    code = Code();
    code.fill(session.rank(), version);
  }
  for (; code.step < steps; code.advance()) session.checkpoint();
  session.wait();
  EXPECT_EQ(session.status().last_error, "");
}

/// A session that has nothing puts back step `step` and the table.
void expect_resumed(const Options& options, int step, std::int64_t version = 0) {
  Session session(MPI_COMM_WORLD, options);
  Code code, right;
  code.forget();
  right.fill(session.rank(), version);
  code.protect(session);
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(code.step, step);
  EXPECT_EQ(code.table, right.table);
  while (right.step < step) right.advance();
  EXPECT_EQ(code.u, right.u);
  const Verified verified = session.verify();
  EXPECT_TRUE(verified.damage.empty()) << verified.damage.front();
}

struct Way {
  std::string name;
  Options options;
  std::string place;  ///< of the level, below the directory
};
class statics : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    options_ = with(usual(dir_.path()), GetParam().options);
    if (options_["nodes"] == "2" && size_of() == 1) GTEST_SKIP() << "one rank has no partner";
  }
  [[nodiscard]] std::string static_level() const { return dir_.path() + "/" + GetParam().place + "-static"; }

  const SharedDirectory dir_;
  Options options_;
};

TEST_P(statics, are_written_once_and_come_back_with_every_line) {
  run(options_, 6);
  EXPECT_EQ(lines_of(static_level()), std::vector<std::string>{"line-00000001"});
  EXPECT_EQ(lines_of(dir_.path() + "/" + GetParam().place).size(), 2U);
  expect_resumed(options_, 5);
}

TEST_P(statics, are_not_written_again_by_the_next_job) {
  for (int steps : {4, 7, 9}) run(options_, steps);
  EXPECT_EQ(lines_of(static_level()), std::vector<std::string>{"line-00000001"});
  expect_resumed(options_, 8);
}

TEST_P(statics, of_a_new_history_are_written_anew_and_the_old_ones_go_with_their_lines) {
  run(options_, 3);
  {
    Session session(MPI_COMM_WORLD, options_);  // does not resume
    Code code;
    code.fill(session.rank(), 1);
    code.protect(session);
    for (; code.step < 1; code.advance()) session.checkpoint();
    session.wait();
    EXPECT_EQ(lines_of(static_level()).size(), 2U) << "a line of before still needs its own";
    MPI_Barrier(MPI_COMM_WORLD);
    for (; code.step < 3; code.advance()) session.checkpoint();
    session.wait();
  }
  EXPECT_EQ(lines_of(static_level()).size(), 1U);
  expect_resumed(options_, 2, 1);
}

TEST_P(statics, that_are_protected_anew_with_other_data_are_written_anew) {
  {
    Session session(MPI_COMM_WORLD, options_);
    Code code;
    code.fill(session.rank());
    code.protect(session);
    session.checkpoint();
    session.wait();
    for (int i = 0; i < 3; ++i) {  // the same data, and then others
      session.unprotect("table");
      code.fill(session.rank(), i / 2);
      code.protect_table(session);
      session.checkpoint(now);
      session.wait();
      EXPECT_EQ(lines_of(static_level()).size(), i < 2 ? 1U : 2U) << i;
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  Session session(MPI_COMM_WORLD, options_);
  Code code, right;
  code.forget();
  right.fill(session.rank(), 1);
  code.protect(session);
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(code.table, right.table);
}

TEST_P(statics, that_are_lost_make_their_lines_none) {
  run(options_, 4);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of() == 0)
    for (const auto& node : {"", "node-0/", "node-1/"})
      fs::remove_all(dir_.path() + "/" + node + fs::path(static_level()).filename().string());
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, options_);
  EXPECT_FALSE(session.verify().damage.empty());
  Code code;
  code.protect(session);
  const auto refusal = refusal_of([&] { session.resume(); });
  EXPECT_EQ(refusal.code, backstay::Code::corrupt);
  EXPECT_TRUE(has(refusal.what, "-static, which has its static regions: it is not there")) << refusal.what;
}

INSTANTIATE_TEST_SUITE_P(
    , statics,
    ::testing::Values(
        Way{"shared", {{"levels", "shared"}}, "shared"},
        Way{"one_file", {{"levels", "shared"}, {"shared.layout", "one-file"}}, "shared"},
        Way{"local", {{"levels", "local"}, {"nodes", "1"}}, "node-0/local"},
        Way{"partner", {{"levels", "partner"}, {"nodes", "2"}}, "node-0/partner"},
        Way{"parity", {{"levels", "local"}, {"nodes", "2"}, {"local.redundancy", "rs(1,1)"}}, "node-0/local"}),
    [](const auto& test) { return test.param.name; });

TEST(static_regions, come_back_on_another_number_of_ranks) {
  const SharedDirectory dir;
  const auto options = usual(dir.path());
  run(options, 3);
  const int fewer = (size_of() + 1) / 2;
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank_of() < fewer ? 0 : MPI_UNDEFINED, rank_of(), &half);
  if (half != MPI_COMM_NULL) {
    const std::int64_t all = 2000 * size_of(), lower = all * rank_of() / fewer, upper = all * (rank_of() + 1) / fewer;
    const std::int64_t u_all = 500 * size_of(), u_lower = u_all * rank_of() / fewer,
                       u_upper = u_all * (rank_of() + 1) / fewer;
    for (int turn = 0; turn < 2; ++turn) {
      Session session(half, options);
      int step = 0;
      std::vector<double> u(static_cast<std::size_t>(u_upper - u_lower));
      std::vector<std::int64_t> table(static_cast<std::size_t>(upper - lower), -1), right(table.size());
      std::iota(right.begin(), right.end(), lower);
      session.protect("step", step);
      session.protect("u", u, block({u_all}, {u_lower}, {u_upper}));
      session.protect_static("table", table, block({all}, {lower}, {upper}));
      EXPECT_TRUE(session.resume().resumed);
      EXPECT_EQ(table, right) << turn;
      session.checkpoint(now);
      session.wait();
    }
    MPI_Comm_free(&half);
  }
}

TEST(static_regions, that_were_changed_are_put_back_as_they_were) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  Code code;
  code.fill(session.rank());
  const auto right = code.table;
  code.protect(session);
  session.checkpoint();
  if (session.rank() == 0) code.table[17] = 4;
  session.wait();
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(code.table, right);
}

TEST(static_regions, of_every_kind_come_back) {
  const SharedDirectory dir;
  struct All {
    double number = 0;
    std::string text;
    std::vector<float> grown;
    std::array<int, 3> three{};
    std::vector<int> slots = std::vector<int>(8), counts = std::vector<int>(2);
  };
  const auto protect = [](Session& session, All& all, int& step) {
    session.protect("step", step);
    session.protect_static("number", all.number);
    session.protect_static("deep/text", all.text);
    session.protect_static("grown", all.grown, rank_private(), "m");
    session.protect_static("three", array(all.three.data(), {3}));
    session.protect_static("cells", filled_slots(all.slots.data(), all.counts.data(), 2, 4));
    session.protect_static(
        "bytes", Callbacks{[] { return std::string("abc"); }, [](auto bytes) { EXPECT_EQ(bytes.size(), 3U); }, {}});
  };
  All saved{2.5, "a text", {1, 2, 3, 4}, {7, 8, 9}, {1, 2, 0, 0, 5, 0, 0, 0}, {2, 1}};
  int step = 3;
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    protect(session, saved, step);
    session.checkpoint();
  }
  All back;
  back.counts = {0, 0};
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  protect(session, back, step);
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(back.number, 2.5);
  EXPECT_EQ(back.text, "a text");
  EXPECT_EQ(back.grown, saved.grown);
  EXPECT_EQ(back.three, saved.three);
  EXPECT_EQ(back.counts, saved.counts);
  EXPECT_EQ(back.slots, saved.slots);
}

TEST(static_regions, and_others_have_different_names) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int a = 0, b = 0;
  session.protect("a", a);
  EXPECT_TRUE(has(refusal_of([&] { session.protect_static("a", b); }).what, "already protected"));
  EXPECT_TRUE(has(refusal_of([&] { session.protect_static("a/b", b); }).what, "cannot be in one file"));
  session.protect_static("b", b);
  EXPECT_TRUE(has(refusal_of([&] { session.protect("b", a); }).what, "already protected"));
  session.unprotect("b");
  session.protect("b", b);
}

/// Ranks wait for each other at each step, so that one that stood in a call alone would keep all from going on.
std::string said_in_steps(Session& session, int steps, const std::function<void(int)>& before_step) {
  std::string said;
  for (int step = 0; step < steps; ++step) {
    before_step(step);
    session.checkpoint();
    if (said.empty()) said = session.status().last_error;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  session.wait();
  return said.empty() ? session.status().last_error : said;
}

TEST(static_regions, of_one_rank_only_are_told_of) {
  if (size_of() == 1) GTEST_SKIP();
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int a = 0;
  std::vector<double> x(10);
  session.protect("a", a);
  if (session.rank() == 0) session.protect_static("x", x);
  const auto said = said_in_steps(session, 3, [](int) {});
  EXPECT_TRUE(has(said, "the ranks protect different regions: rank 0 has region 'x'")) << said;
}

TEST(static_regions, of_which_one_rank_protects_some_later_are_whole_from_then_on) {
  const SharedDirectory dir;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  int a = 0;
  std::vector<double> x(10);
  session.protect("a", a);
  const auto said = said_in_steps(session, 6, [&](int step) {
    if (step == (session.rank() == 0 ? 3 : 0)) session.protect_static("x", x);
  });
  EXPECT_EQ(has(said, "the ranks protect different regions"), size_of() > 1) << said;
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(lines_of(dir.path() + "/shared").back(), "line-00000006");
}

TEST(static_regions, that_one_rank_protects_anew_with_other_data_are_written_anew) {
  const SharedDirectory dir;
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    Code code;
    code.fill(session.rank());
    code.protect(session);
    (void)said_in_steps(session, 6, [&](int step) {
      if (step != 2 || session.rank() != 0) return;
      session.unprotect("table");
      code.fill(session.rank(), 7);
      code.protect_table(session);
    });
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  Code code, right;
  code.forget();
  right.fill(session.rank(), session.rank() == 0 ? 7 : 0);
  code.protect(session);
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(code.table, right.table);
}

namespace {
enum class Removed { all, data, data_of_an_earlier_run };

void remove(const std::string& statics, Removed what) {
  if (what == Removed::all) {
    fs::remove_all(statics);
    return;
  }
  for (const auto& line : lines_of(statics))
    for (const auto& entry : fs::directory_iterator(statics + "/" + line))
      if (entry.path().filename() != "manifest") fs::remove(entry.path());
}

void expect_written_again(Removed what) {
  const SharedDirectory dir;
  if (what == Removed::data_of_an_earlier_run) run(usual(dir.path()), 2);
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  Code code;
  code.fill(session.rank());
  code.protect(session);
  EXPECT_EQ(session.resume().resumed, what == Removed::data_of_an_earlier_run);
  const auto said = said_in_steps(session, 8, [&](int step) {
    session.wait();
    if (step == 3 && session.rank() == 0) remove(dir.path() + "/shared-static", what);
    MPI_Barrier(MPI_COMM_WORLD);
  });
  EXPECT_TRUE(has(said, "is gone, with the static regions of this line")) << said;
  // One for each of 8 steps; but behind the 2 of an earlier run the first step has what was put back, and needs none.
  const std::uint64_t newest = what == Removed::data_of_an_earlier_run ? 2 + 7 : 8;
  EXPECT_EQ(lines_of(dir.path() + "/shared").back(), newest == 8 ? "line-00000008" : "line-00000009");
  session.prune(1);
  const Verified verified = session.verify();
  EXPECT_TRUE(verified.damage.empty()) << verified.damage.front();
  code.forget();
  EXPECT_EQ(session.resume().line, newest);
}
}  // namespace

TEST(static_regions, that_are_removed_under_a_running_job_are_written_again) { expect_written_again(Removed::all); }

/// By someone who removes old files.
TEST(static_regions, of_which_only_the_data_are_removed_are_written_again) { expect_written_again(Removed::data); }

TEST(static_regions, of_an_earlier_run_of_which_only_the_data_are_removed_are_written_again) {
  expect_written_again(Removed::data_of_an_earlier_run);
}

TEST(static_regions, that_are_damaged_keep_prune_from_removing_others) {
  const SharedDirectory dir;
  const auto options = usual(dir.path());
  run(options, 3);
  Session session(MPI_COMM_WORLD, options);  // does not resume
  Code code;
  code.fill(session.rank(), 1);
  code.protect(session);
  session.checkpoint();
  session.wait();
  const std::string level = dir.path() + "/shared-static";
  ASSERT_EQ(lines_of(level).size(), 2U);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of() == 0)
    for (const auto& entry : fs::directory_iterator(level + "/" + lines_of(level).back())) {
      if (entry.path().extension() != ".h5") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(8192 + 1).put('!').put('?');
    }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(refusal_of([&] { session.prune(1); }).code, backstay::Code::corrupt);
  EXPECT_EQ(lines_of(level).size(), 2U);
  code.forget();
  EXPECT_TRUE(session.resume().resumed) << "the line of the first history, with its own static regions";
  Code right;
  right.fill(session.rank());
  EXPECT_EQ(code.table, right.table);
}

TEST(static_regions, and_lines_without_any_are_told_apart) {
  const SharedDirectory dir;
  const auto options = usual(dir.path());
  int step = 1;
  std::vector<double> x(10, 2.0);
  const auto resume = [&](bool as_static, const Options& more) {
    Session session(MPI_COMM_WORLD, with(options, more));
    session.protect("step", step);
    as_static ? session.protect_static("x", x) : session.protect("x", x);
    return refusal_of([&] { session.resume(); }).what;
  };
  {
    Session session(MPI_COMM_WORLD, options);
    session.protect("step", step);
    session.protect("x", x);
    session.checkpoint();
  }
  EXPECT_TRUE(has(resume(true, {}), "line 1 at level shared: region 'x' is protected as static, and the line has no"));
  {
    Session session(MPI_COMM_WORLD, options);
    session.protect("step", step);
    session.protect_static("x", x);
    session.checkpoint();
  }
  EXPECT_TRUE(has(resume(false, {}), "x")) << resume(false, {});
  EXPECT_EQ(resume(true, {}), "");
  EXPECT_EQ(resume(false, {{"regions", "lenient"}}), "");
}

}  // namespace
}  // namespace backstay::mpi_test
