// What several ranks make of damage, of a lost directory and of another number of ranks. (What one process makes of
// every byte of a file is in faults_test.cpp.)
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <map>
#include <new>
#include <random>

#include "support.h"

namespace {
/// This thread is once given no memory of so many bytes or more, when it has had that so often.
thread_local std::size_t denied = 0, granted = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  const bool refuse = denied > 0 && bytes >= denied && granted-- == 0;
  void* const memory = refuse ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace backstay::mpi_test {
namespace {

namespace fs = std::filesystem;

/// A block and a list whose values say which line they are of.
struct State {
  std::vector<double> u = std::vector<double>(3000);
  std::vector<std::int32_t> list;

  void protect(Session& session) {
    const auto n = static_cast<std::int64_t>(u.size());
    session.protect("u", u, block({n * session.size()}, {n * session.rank()}, {n * (session.rank() + 1)}));
    session.protect("list", list, distributed_list());
  }
  void become(int line) {
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = line * 1e6 + rank_of() * 1e4 + static_cast<double>(i);
    list.assign(static_cast<std::size_t>(20 + rank_of()), line);
  }
  bool operator==(const State&) const = default;
};

void write_lines(const Options& options, int count) {
  Session session(MPI_COMM_WORLD, options);
  State state;
  state.protect(session);
  for (int line = 1; line <= count; ++line) {
    state.become(line);
    session.checkpoint(now);
  }
  session.wait();
  ASSERT_EQ(session.status().newest_line, static_cast<std::uint64_t>(count)) << session.status().last_error;
}

/// The line that comes back, the same on every rank and every byte right; 0 where resume() refused.
std::uint64_t line_that_comes_back(const Options& options) {
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, options);
  State state, expected;
  state.protect(session);
  Resumed found;
  const auto refusal = refusal_of([&] { found = session.resume(); });
  if (refusal.code != Code::ok) return 0;
  expected.become(static_cast<int>(found.line));
  EXPECT_TRUE(state == expected) << "line " << found.line << " came back wrong";
  expect_same_on_all_ranks(std::to_string(found.line));
  return found.line;
}

std::size_t damage_in(const Options& options) {
  MPI_Barrier(MPI_COMM_WORLD);
  Session session(MPI_COMM_WORLD, options);
  const auto damage = session.verify().damage;
  expect_same_on_all_ranks(std::to_string(damage.size()) + (damage.empty() ? "" : damage.front()));
  return damage.size();
}

/// On rank 0, while the others wait.
void once(const std::function<void()>& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_of() == 0) work();
  MPI_Barrier(MPI_COMM_WORLD);
}

void flip(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

/// For some bytes of the file: flipped, `check` called, flipped back.
void with_flips(const std::string& path, int count, const std::function<void(std::uint64_t)>& check) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto size = fs::file_size(path);
  std::mt19937_64 random(5);  // the same on every rank
  for (int i = 0; i < count; ++i) {
    const std::uint64_t at = i < 4 ? static_cast<std::uint64_t>(i) * 6 : random() % size;
    once([&] { flip(path, at); });
    check(at);
    once([&] { flip(path, at); });
  }
}

/// Cut off before every page and in the middle of the last one: `check` called, and the file put back.
void with_cuts(const std::string& path, const std::function<void(std::uint64_t)>& check) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto size = fs::file_size(path);
  const auto whole = rank_of() == 0 ? read_text(path) : std::string();
  for (std::uint64_t at = 0; at < size + 2048; at += 4096) {
    const auto cut = std::min(at, size - 2048);
    once([&] { fs::resize_file(path, cut); });
    check(cut);
    once([&] { std::ofstream(path, std::ios::binary) << whole; });
  }
}

class damaged : public ::testing::Test {
 protected:
  const SharedDirectory dir_;
};

TEST_F(damaged, file_of_a_node_is_read_from_the_partners_copy) {
  if (size_of() == 1) GTEST_SKIP() << "one rank has no partner";
  const auto options = with(usual(dir_.path()), {{"levels", "partner"}, {"nodes", "2"}});
  write_lines(options, 2);
  const std::string original = dir_.path() + "/node-0/partner/line-00000002/rank-00000.h5";
  const std::string copy = dir_.path() + "/node-1/partner/line-00000002/copy-rank-00000.h5";
  for (const auto& path : {original, copy})
    with_flips(path, 20, [&](std::uint64_t at) {
      ASSERT_EQ(line_that_comes_back(options), 2U) << path << " at " << at;
      ASSERT_GT(damage_in(options), 0U) << path << " at " << at;
    });
  once([&] { flip(copy, 9000); });
  with_flips(original, 12, [&](std::uint64_t at) {
    const auto line = line_that_comes_back(options);
    ASSERT_TRUE(line == 1 || line == 2) << at;  // 2: a byte that only other readers look at
  });
  once([&] { flip(original, 9000); });
  EXPECT_EQ(line_that_comes_back(options), 1U) << "both are bad in the same place";
}

TEST_F(damaged, manifest_of_one_node_is_replaced_by_the_other_nodes) {
  if (size_of() == 1) GTEST_SKIP();
  const auto options = with(usual(dir_.path()), {{"levels", "local"}, {"nodes", "2"}});
  write_lines(options, 2);
  for (const char* node : {"/node-0", "/node-1"})
    with_flips(dir_.path() + node + "/local/line-00000002/manifest", 10,
               [&](std::uint64_t at) { EXPECT_EQ(line_that_comes_back(options), 2U) << at; });
}

/// As if they were missing, they are rebuilt; what stood in the place of a line's directory is kept beside it.
TEST_F(damaged, names_of_a_line_that_are_other_things_are_made_again) {
  if (size_of() < 3) GTEST_SKIP() << "fewer than three nodes cannot lose one";
  const std::string line = "/node-1/local/line-00000002";
  const auto in_place_of = [&](const std::string& path, const char* what) {
    fs::remove_all(path);
    if (std::string(what) == "directory") {
      fs::create_directories(path + "/in it");
      std::ofstream(path + "/in it/notes") << "mine";
    } else if (std::string(what) == "pipe") {
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    } else {
      std::ofstream(path) << "mine";
    }
  };
  for (const auto& [name, what] : {std::pair<std::string, const char*>{"/rank-00001.h5", "directory"},
                                   {"/parity-00000-of-rank-00001", "directory"},
                                   {"/manifest", "directory"},
                                   {"/rank-00001.h5", "pipe"},
                                   {"", "file"},
                                   {"", "pipe"}}) {
    const SharedDirectory dir;
    const auto options = with(usual(dir.path()), {{"levels", "local"},
                                                  {"nodes", std::to_string(size_of())},
                                                  {"local.redundancy", "rs(" + std::to_string(size_of() - 1) + ",1)"}});
    write_lines(options, 2);
    once([&] { in_place_of(dir.path() + line + name, what); });
    EXPECT_EQ(line_that_comes_back(options), 2U) << name << " is a " << what;
    EXPECT_EQ(damage_in(options), 0U) << name << " is a " << what;
    EXPECT_EQ(fs::exists(dir.path() + line + ".aside-1"), name.empty()) << what;
  }
}

/// Several ranks write into one file, whose other name must stay as it is for all of them.
TEST_F(damaged, archive_of_hard_links_is_written_over_by_no_rank) {
  const std::string half = std::to_string(std::max(1, size_of() / 2));
  for (const auto& more : {Options{{"shared.layout", "one-file"}},
                           {{"shared.layout", "file-per-node"}, {"nodes", half}},
                           {{"levels", "partner"}, {"nodes", half}}}) {
    if (more.contains("levels") && size_of() < 4) continue;  // one node has no partner
    const SharedDirectory dir;
    const std::string ck = dir.path() + "/ck", archive = dir.path() + "/archive";
    auto options = with(usual(dir.path()), more);
    options["dir"] = ck;
    write_lines(options, 3);
    std::map<std::string, std::string> kept;
    once([&] {
      for (const auto& entry : fs::recursive_directory_iterator(ck)) {
        if (entry.path().extension() != ".h5") continue;
        const auto to = archive / fs::relative(entry.path(), ck);
        fs::create_directories(to.parent_path());
        fs::create_hard_link(entry.path(), to);
        kept[to] = read_text(to);
      }
      EXPECT_GE(kept.size(), 2U);
    });
    {
      Session session(MPI_COMM_WORLD, options);
      State state;
      state.protect(session);
      EXPECT_EQ(session.resume().line, 3U);
      for (int line = 4; line <= 8; ++line) {
        state.become(line);
        EXPECT_EQ(session.checkpoint(now), Outcome::taken);
        session.wait();
      }
      EXPECT_EQ(session.status().failed, 0U) << session.status().last_error;
    }
    EXPECT_EQ(line_that_comes_back(options), 8U);
    EXPECT_EQ(damage_in(options), 0U);
    once([&] {
      for (const auto& [path, bytes] : kept) EXPECT_EQ(read_text(path) == bytes, true) << path;
    });
  }
}

TEST_F(damaged, file_of_many_ranks_gives_the_older_line_to_all_of_them) {
  const auto options = with(usual(dir_.path()), {{"shared.layout", "one-file"}});
  write_lines(options, 2);
  with_flips(dir_.path() + "/shared/line-00000002/all.h5", 60, [&](std::uint64_t at) {
    const auto line = line_that_comes_back(options);
    ASSERT_TRUE(line == 1 || line == 2) << at;
    ASSERT_GT(damage_in(options), 0U) << at;
  });
  EXPECT_EQ(line_that_comes_back(options), 2U);
}

TEST_F(damaged, file_that_is_cut_off_anywhere_is_found_in_every_layout) {
  for (const auto& [layout, file] :
       {std::pair{"one-file", "all.h5"}, {"file-per-node", "node-00000.h5"}, {"file-per-rank", "rank-00000.h5"}}) {
    const auto options = with(usual(dir_.path() + "/" + layout), {{"shared.layout", layout}});
    write_lines(options, 2);
    with_cuts(options.at("dir") + "/shared/line-00000002/" + file, [&](std::uint64_t at) {
      ASSERT_EQ(line_that_comes_back(options), 1U) << layout << " at " << at;
      ASSERT_GT(damage_in(options), 0U) << layout << " at " << at;
    });
    EXPECT_EQ(line_that_comes_back(options), 2U);
  }
}

TEST_F(damaged, partner_and_copy_stand_in_for_each_other_when_cut_off_anywhere) {
  if (size_of() == 1) GTEST_SKIP() << "one rank has no partner";
  const auto options = with(usual(dir_.path()), {{"levels", "partner"}, {"nodes", "2"}});
  write_lines(options, 2);
  for (const char* file :
       {"/node-0/partner/line-00000002/rank-00000.h5", "/node-1/partner/line-00000002/copy-rank-00000.h5"})
    with_cuts(dir_.path() + file, [&](std::uint64_t at) {
      ASSERT_EQ(line_that_comes_back(options), 2U) << file << " at " << at;
      ASSERT_GT(damage_in(options), 0U) << file << " at " << at;
    });
}

TEST_F(damaged, node_directory_costs_checkpoints_and_not_the_run) {
  if (size_of() == 1) GTEST_SKIP();
  const auto options = with(usual(dir_.path()), {{"levels", "local,shared"}, {"nodes", "2"}});
  {
    Session session(MPI_COMM_WORLD, options);
    State state;
    state.protect(session);
    for (int line = 1; line <= 3; ++line) {
      if (line == 2) once([&] { fs::remove_all(dir_.path() + "/node-1"); });
      state.become(line);
      EXPECT_EQ(session.checkpoint(now), Outcome::taken);
      session.wait();
    }
    EXPECT_EQ(session.status().committed, 4U) << session.status().last_error;
    EXPECT_EQ(session.status().failed, 2U);
    expect_same_on_all_ranks(session.status().last_error);
    EXPECT_TRUE(has(session.status().last_error, "node-1")) << session.status().last_error;
  }
  EXPECT_EQ(line_that_comes_back(options), 3U);
}

TEST_F(damaged, line_without_the_file_of_one_rank_gives_the_older_one) {
  const auto options = with(usual(dir_.path()), {{"shared.layout", "file-per-rank"}});
  write_lines(options, 2);
  const std::string number = std::to_string(size_of() - 1);
  once([&] { fs::remove(dir_.path() + "/shared/line-00000002/rank-0000" + number + ".h5"); });
  EXPECT_EQ(line_that_comes_back(options), 1U);
}

TEST_F(damaged, files_of_two_ranks_that_were_swapped_are_not_taken) {
  if (size_of() == 1) GTEST_SKIP();
  const auto options = with(usual(dir_.path()), {{"shared.layout", "file-per-rank"}});
  write_lines(options, 2);
  const std::string line = dir_.path() + "/shared/line-00000002/";
  once([&] {
    fs::rename(line + "rank-00000.h5", line + "x");
    fs::rename(line + "rank-00001.h5", line + "rank-00000.h5");
    fs::rename(line + "x", line + "rank-00001.h5");
  });
  EXPECT_EQ(line_that_comes_back(options), 1U);
}

TEST_F(damaged, a_rank_with_no_memory_left_anywhere_in_a_resume_says_so_on_all) {
  if (size_of() == 1) GTEST_SKIP();
  const auto options = with(usual(dir_.path()), {{"levels", "local"}, {"nodes", "2"}});
  std::vector<double> u(3001, rank_of() + 1);
  const auto n = static_cast<std::int64_t>(u.size());
  const auto protect = [&](Session& session, std::int64_t at) {
    session.protect("u", u, block({n * session.size()}, {n * at}, {n * (at + 1)}));
  };
  {
    Session session(MPI_COMM_WORLD, options);
    protect(session, session.rank());
    session.checkpoint(now);
  }
  const int other = size_of() - 1 - rank_of();  // on the other node
  std::size_t refused = 0;
  for (bool is_back = false; !is_back; refused += is_back ? 0 : 1) {
    ASSERT_LT(refused, 100U);
    u.assign(u.size(), 0);
    Session session(MPI_COMM_WORLD, options);
    protect(session, other);
    granted = refused;
    denied = rank_of() == 0 ? u.size() * sizeof(double) : 0;
    const auto refusal = refusal_of([&] { EXPECT_TRUE(session.resume()); });
    denied = 0;
    is_back = refusal.code == Code::ok;
    EXPECT_TRUE(is_back || refusal.code == Code::limit) << refusal.what;
    EXPECT_TRUE(is_back || has(refusal.what, "rank 0: no memory is left to read")) << refusal.what;
  }
  EXPECT_GT(refused, 1U);
  EXPECT_EQ(u, std::vector<double>(u.size(), other + 1));
}

// ---- another number of ranks ------------------------------------------------------------------------------------

/// The first half of the ranks, or all if there is one.
class fewer_ranks : public ::testing::Test {
 protected:
  fewer_ranks() {
    in_ = rank_of() < std::max(1, size_of() / 2);
    MPI_Comm_split(MPI_COMM_WORLD, in_ ? 0 : 1, rank_of(), &half_);
  }
  ~fewer_ranks() override { MPI_Comm_free(&half_); }
  const SharedDirectory dir_;
  MPI_Comm half_ = MPI_COMM_NULL;
  bool in_ = false;
};

TEST_F(fewer_ranks, equal_values_with_unlike_padding_come_back) {
  struct Padded {
    char c;
    double d;
  };
  alignas(Padded) std::array<unsigned char, sizeof(Padded)> memory;
  memory.fill(static_cast<unsigned char>(17 * (rank_of() + 1)));
  alignas(long double) std::array<unsigned char, sizeof(long double)> more;
  more.fill(static_cast<unsigned char>(17 * (rank_of() + 1)));
  auto* padded = reinterpret_cast<Padded*>(memory.data());
  auto* number = reinterpret_cast<long double*>(more.data());
  const auto become = [&](char c, double d) {
    padded->c = c;
    padded->d = d;
    *number = static_cast<long double>(d);
  };
  const auto protect = [&](Session& session) {
    session.protect("padded", *padded);
    session.protect("number", *number);
  };
  become('x', 1.5);
  {
    Session session(MPI_COMM_WORLD, usual(dir_.path()));
    protect(session);
    session.checkpoint(now);
  }
  become('y', 0);
  if (!in_) return;
  Session session(half_, usual(dir_.path()));
  protect(session);
  EXPECT_TRUE(session.resume().resumed);
  EXPECT_EQ(padded->c, 'x');
  EXPECT_EQ(padded->d, 1.5);
  EXPECT_EQ(*number, 1.5L);
}

TEST_F(fewer_ranks, redistribute_gets_the_bytes_of_every_old_rank_in_order) {
  const auto options = usual(dir_.path());
  std::string mine = "rank " + std::to_string(rank_of()) + std::string(static_cast<std::size_t>(rank_of()), '.'), got;
  const Callbacks callbacks{
      [&] { return mine; },
      [&](std::span<const std::byte> bytes) { got.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size()); },
      [&](const std::vector<std::span<const std::byte>>& all, int rank, int size) {
        got = std::to_string(rank) + "/" + std::to_string(size) + ":";
        for (const auto& bytes : all)
          got += std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + ";";
      }};
  {
    Session session(MPI_COMM_WORLD, options);
    session.protect("c", callbacks);
    session.checkpoint(now);
  }
  if (in_) {
    Session session(half_, options);
    session.protect("c", callbacks);
    EXPECT_TRUE(session.resume());
    std::string expected = std::to_string(rank_of(half_)) + "/" + std::to_string(size_of(half_)) + ":";
    for (int rank = 0; rank < size_of(); ++rank)
      expected += "rank " + std::to_string(rank) + std::string(static_cast<std::size_t>(rank), '.') + ";";
    EXPECT_EQ(got, size_of() == 1 ? mine : expected);
  }
}

TEST_F(fewer_ranks, replicated_texts_come_back_where_all_ranks_had_the_same) {
  const auto options = usual(dir_.path());
  std::mt19937_64 random(7);
  std::string text = "the same", own = "of rank " + std::to_string(rank_of());
  random.discard(100);
  const auto protect = [&](Session& session, bool with_own) {
    session.protect("random", random, replicated());
    EXPECT_THROW(session.protect("listed", random, distributed_list()), Error);
    session.protect("text", text, replicated());
    if (with_own) session.protect("own", own, replicated());
  };
  for (const bool with_own : {false, true}) {
    Session session(MPI_COMM_WORLD, with(options, {{"dir", dir_.path() + (with_own ? "/own" : "/all")}}));
    protect(session, with_own);
    session.checkpoint(now);
  }
  const auto next = random();
  random.seed(8);
  text.clear();
  if (!in_) return;
  for (const bool with_own : {false, true}) {
    Session session(half_, with(options, {{"dir", dir_.path() + (with_own ? "/own" : "/all")}}));
    protect(session, with_own);
    if (!with_own || size_of() == 1) {
      EXPECT_TRUE(session.resume());
      EXPECT_EQ(random(), next);
      EXPECT_EQ(text, "the same");
      continue;
    }
    try {
      session.resume();
      ADD_FAILURE() << "it has taken one of several texts";
    } catch (const Error& e) {
      EXPECT_TRUE(has(e.what(), "region 'own' is replicated")) << e.what();
    }
  }
}

TEST_F(fewer_ranks, engines_of_ranks_are_their_own_where_nobody_says_otherwise) {
  if (size_of() == 1) GTEST_SKIP();
  std::mt19937_64 random(7);
  {
    Session session(MPI_COMM_WORLD, usual(dir_.path()));
    session.protect("random", random);
    session.checkpoint(now);
  }
  if (!in_) return;
  Session session(half_, usual(dir_.path()));
  session.protect("random", random);
  try {
    session.resume();
    ADD_FAILURE() << "all ranks draw the same now";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::mismatch);
    EXPECT_TRUE(has(e.what(), "region 'random' is private to a rank")) << e.what();
  }
}

TEST_F(fewer_ranks, a_cell_list_is_refused_alike_and_nothing_is_touched) {
  if (size_of() == 1) GTEST_SKIP();
  for (const auto& [replays, placement] :
       {std::pair(false, distributed_list()), std::pair(true, distributed_list()), std::pair(false, rank_private())}) {
    const bool is_list = placement.kind == Placement::Kind::distributed_list;
    const auto options = usual(dir_.path() + (replays ? "/replay" : is_list ? "/resume" : "/private"));
    std::vector<int> ids(12, rank_of()), counts{4, 0, rank_of() % 4};
    {
      Session session(MPI_COMM_WORLD, options);
      session.protect("ids", filled_slots(ids.data(), counts.data(), 3, 4), placement);
      if (replays) session.replay();
      session.checkpoint(now);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const auto ids_were = ids, counts_were = counts;
    if (in_) {
      Session session(half_, options);
      session.protect("ids", filled_slots(ids.data(), counts.data(), 3, 4), placement);
      const auto refusal = refusal_of([&] { replays ? session.replay() : session.resume(); }, half_);
      EXPECT_EQ(refusal.code, Code::mismatch);
      EXPECT_TRUE(has(refusal.what, "comes back on as many ranks as saved it")) << refusal.what;
      EXPECT_TRUE(has(refusal.what, "protect it by callbacks with a redistribute")) << refusal.what;
    }
    EXPECT_EQ(ids, ids_were);
    EXPECT_EQ(counts, counts_were);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_F(fewer_ranks, private_data_are_refused_alike_and_the_line_stays) {
  if (size_of() == 1) GTEST_SKIP();
  const auto options = usual(dir_.path());
  std::vector<int> own(2, rank_of());
  {
    Session session(MPI_COMM_WORLD, options);
    session.protect("own", own);
    session.checkpoint(now);
  }
  if (in_) {
    Session session(half_, options);
    session.protect("own", own);
    std::string said;
    try {
      session.resume();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::mismatch);
      said = e.what();
    }
    EXPECT_TRUE(has(said, "'own' is private to a rank and was saved by " + std::to_string(size_of()) + " ranks"))
        << said;
    expect_same_on_all_ranks(said, half_);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  own.assign(5, -1);
  Session session(MPI_COMM_WORLD, options);
  session.protect("own", own);
  EXPECT_TRUE(session.resume());
  EXPECT_EQ(own, std::vector<int>(2, rank_of()));
}

TEST_F(fewer_ranks, a_replicated_scalar_that_was_not_the_same_everywhere_is_refused) {
  if (size_of() == 1) GTEST_SKIP();
  const auto options = usual(dir_.path());
  int same = 3, other = rank_of();
  {
    Session session(MPI_COMM_WORLD, options);
    session.protect("same", same);
    session.protect("other", other);
    session.checkpoint(now);
  }
  if (in_) {
    Session session(half_, options);
    session.protect("same", same);
    session.protect("other", other);
    try {
      session.resume();
      ADD_FAILURE() << "resumed";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::mismatch);
      EXPECT_TRUE(has(e.what(), "'other' is replicated")) << e.what();
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(fewer_ranks, a_line_of_fewer_ranks_comes_back_on_more) {
  const auto options = usual(dir_.path());
  const std::int64_t total = 96;
  const auto part = [&](MPI_Comm comm) {
    const std::int64_t rank = rank_of(comm), size = size_of(comm);
    return block({total}, {total * rank / size}, {total * (rank + 1) / size});
  };
  std::vector<std::int64_t> u, list;
  if (in_) {
    const auto mine = part(half_);
    for (auto i = mine.lower[0]; i < mine.upper[0]; ++i) u.push_back(i * i);
    list.assign(static_cast<std::size_t>(rank_of(half_) + 1), rank_of(half_));
    Session session(half_, options);
    session.protect("u", u, mine);
    session.protect("list", list, distributed_list());
    session.checkpoint(now);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto mine = part(MPI_COMM_WORLD);
  u.assign(static_cast<std::size_t>(mine.upper[0] - mine.lower[0]), -1);
  list.clear();
  Session session(MPI_COMM_WORLD, options);
  session.protect("u", u, mine);
  session.protect("list", list, distributed_list());
  EXPECT_EQ(session.resume().saved_ranks, std::max(1, size_of() / 2));
  for (auto i = mine.lower[0]; i < mine.upper[0]; ++i) ASSERT_EQ(u[static_cast<std::size_t>(i - mine.lower[0])], i * i);
  const auto writers = static_cast<std::int64_t>(std::max(1, size_of() / 2));
  auto held = static_cast<std::int64_t>(list.size()), all = std::int64_t{0};
  MPI_Allreduce(&held, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all, writers * (writers + 1) / 2);
}

}  // namespace
}  // namespace backstay::mpi_test
