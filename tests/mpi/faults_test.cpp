// Storage that fails, and files that are not what they were. One process, no MPI: a session takes a millisecond here.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "backstay/backstay.hpp"

namespace backstay {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  Directory()
      : path_(fs::is_directory("/dev/shm") ? "/dev/shm/backstay-test.XXXXXX"
                                           : fs::temp_directory_path() / "backstay-test.XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
}

Options options(const std::string& dir, const Options& more = {}) {
  Options out{
      {"dir", dir},    {"every", "1"}, {"policy", "wait"}, {"levels", "shared"}, {"shared.layout", "file-per-rank"},
      {"log", "quiet"}};
  for (const auto& [name, value] : more) out[name] = value;
  return out;
}

/// State that is a plain function of one number, with regions of every alignment and padding between them.
struct State {
  std::int64_t n = 0;
  std::vector<double> large;
  std::vector<std::uint8_t> odd;
  std::string words;

  void protect(Session& session) {
    session.protect("n", n);
    session.protect("large", large, rank_private(), "kg");
    session.protect("odd", odd);
    session.protect("words", words);
  }
  void become(std::int64_t value) {
    n = value;
    large.assign(10001, static_cast<double>(value) * 0.5);  // 80,008 bytes: on a page of its own, and a ragged end
    odd.assign(77, static_cast<std::uint8_t>(value));
    words = "state " + std::to_string(value);
  }
  bool operator==(const State&) const = default;
};
State state_of(std::int64_t value) {
  State state;
  state.become(value);
  return state;
}

/// Line i holds state i, for i = 1 to `count`.
void write_lines(const Options& opts, int count) {
  Session session(alone, opts);
  State state;
  state.protect(session);
  for (int i = 1; i <= count; ++i) {
    state.become(i);
    session.checkpoint(now);
  }
  session.wait();
  ASSERT_EQ(session.status().newest_line, static_cast<std::uint64_t>(count));
  ASSERT_EQ(session.status().failed, 0U) << session.status().last_error;
}

struct Attempt {
  Code refused = Code::ok;
  std::string what;
  std::uint64_t line = 0;
};

/// A new session resumes; what it puts back must be the state of the line that it names.
Attempt resume_in(const Options& opts) {
  State state = state_of(-1);
  Attempt out;
  try {
    Session session(alone, opts);
    state.protect(session);
    out.line = session.resume().line;
  } catch (const Error& e) {
    return {e.code(), e.what(), 0};
  }
  EXPECT_EQ(state == state_of(out.line == 0 ? -1 : static_cast<std::int64_t>(out.line)), true)
      << "line " << out.line << " came back wrong";
  return out;
}

std::vector<std::string> damage_in(const Options& opts) {
  Session session(alone, opts);
  return session.verify().damage;
}

std::string line_dir(const std::string& dir, int line, const std::string& level = "shared") {
  std::string number = std::to_string(line);
  return dir + "/" + level + "/line-" + std::string(8 - number.size(), '0') + number;
}
std::string data_file(const std::string& dir, int line) { return line_dir(dir, line) + "/rank-00000.h5"; }

/// Runs `body` in a process of its own, whose rights, limits and mounts it may change; what it returns.
std::string said_by_child(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string said;
    try {
      said = body();
    } catch (const std::exception& e) {
      said = e.what();
    }
    _exit(write(ends[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;)
    said.append(part.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? said : "ended by signal " + std::to_string(WTERMSIG(status));
}

// ---- the directory ---------------------------------------------------------------------------------------------

TEST(directory, is_made_with_its_parents) {
  const Directory dir;
  const auto opts = options(dir.path() + "/a/b/c d");
  write_lines(opts, 1);
  EXPECT_EQ(resume_in(opts).line, 1U);
}

TEST(directory, that_is_a_file_is_refused) {
  const Directory dir;
  write_text(dir.path() + "/file", "I was here");
  for (const char* place : {"/file", "/file/below"}) {
    const auto out = resume_in(options(dir.path() + place));
    EXPECT_NE(out.refused, Code::ok);
    EXPECT_TRUE(has(out.what, dir.path() + "/file")) << out.what;
  }
  EXPECT_EQ(read_text(dir.path() + "/file"), "I was here");
}

TEST(directory, that_may_not_be_written_is_refused) {
  const Directory dir;
  fs::permissions(dir.path(), fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  const auto said = said_by_child([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) return std::string("skip");
    if (geteuid() != 65534) fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec);
    const auto out = resume_in(options(dir.path()));
    return std::to_string(static_cast<int>(out.refused)) + " " + out.what;
  });
  if (said == "skip") GTEST_SKIP();
  EXPECT_EQ(said.substr(0, 2), std::to_string(static_cast<int>(Code::permission)) + " ") << said;
  EXPECT_TRUE(has(said, dir.path())) << said;
  fs::permissions(dir.path(), fs::perms::owner_all);
}

/// As another user than root, who may do everything. False: nobody else can be had here.
bool is_nobody_in(const std::string& dir) {
  return geteuid() != 0 || (chown(dir.c_str(), 65534, 65534) == 0 && seteuid(65534) == 0);
}

/// Three lines are written, of which one is retired then, `spoil` does something to the directory of it, or of another
/// one; a run resumes, and writes three more. "resumed LINE, COMMITTED committed, FAILED failed".
std::string goes_on_after(const Options& opts, const std::function<void()>& spoil) {
  write_lines(opts, 3);
  spoil();
  State state = state_of(-1);
  Session session(alone, opts);
  state.protect(session);
  const auto line = session.resume().line;
  if (!(state == state_of(static_cast<std::int64_t>(line)))) return "the line came back wrong";
  for (int i = 0; i < 3; ++i) {
    session.checkpoint(now);
    session.wait();
  }
  const auto status = session.status();
  return "resumed " + std::to_string(line) + ", " + std::to_string(status.committed) + " committed, " +
         std::to_string(status.failed) + " failed";
}

TEST(directory, of_a_line_that_may_not_be_read_costs_that_line_and_no_other) {
  for (const auto& [spoilt, line] : {std::pair{1, "3"}, {2, "3"}, {3, "2"}}) {
    const Directory dir;
    const std::string place = line_dir(dir.path(), spoilt);
    const auto said = said_by_child([&] {
      if (!is_nobody_in(dir.path())) return std::string("skip");
      return goes_on_after(options(dir.path(), {{"log", "normal"}}), [&] { fs::permissions(place, fs::perms::none); });
    });
    if (said == "skip") GTEST_SKIP();
    EXPECT_EQ(said, std::string("resumed ") + line + ", 3 committed, 0 failed") << spoilt;
    EXPECT_TRUE(fs::exists(place)) << "it is left as it is";
  }
}

/// It is set aside with the one line that it costs.
TEST(directory, that_is_retired_and_cannot_be_used_again_costs_one_line) {
  const std::vector<std::function<void(const std::string&)>> spoilers{
      [](const auto& place) { fs::permissions(place, fs::perms::owner_read | fs::perms::owner_exec); },
      [](const auto& place) {
        fs::create_directory(place + "/mine");
        write_text(place + "/mine/notes", "mine");
        fs::permissions(place + "/mine", fs::perms::owner_read | fs::perms::owner_exec);
      },
      [](const auto& place) {
        fs::permissions(place + "/rank-00000.h5", fs::perms::owner_read);
        fs::permissions(place, fs::perms::owner_read | fs::perms::owner_exec);
      },
  };
  for (std::size_t i = 0; i < spoilers.size(); ++i) {
    const Directory dir;
    const std::string place = line_dir(dir.path(), 1);
    const auto said = said_by_child([&] {
      if (!is_nobody_in(dir.path())) return std::string("skip");
      return goes_on_after(options(dir.path()), [&] { spoilers[i](place); });
    });
    if (said == "skip") GTEST_SKIP();
    EXPECT_EQ(said, "resumed 3, 2 committed, 1 failed") << i;
    const std::string aside = line_dir(dir.path(), 4) + ".aside-1";
    EXPECT_TRUE(fs::exists(aside)) << i;
    EXPECT_EQ(fs::exists(aside + "/mine"), i == 1) << i;
  }
}

/// `cp -al` is how many keep a state: the same files, under other names.
TEST(directory, that_was_archived_by_hard_links_leaves_the_archive_as_it_was) {
  const Directory dir;
  const std::string ck = dir.path() + "/ck", archive = dir.path() + "/archive";
  for (const char* levels : {"shared", "local"}) {
    const auto opts = options(ck, {{"levels", levels}, {"local_dir", ck + "/node-0"}});
    write_lines(opts, 3);
    for (const auto& entry : fs::recursive_directory_iterator(ck)) {
      const auto to = archive / fs::relative(entry.path(), ck);
      if (entry.is_directory()) fs::create_directories(to);
      if (!entry.is_directory()) fs::create_directories(to.parent_path()), fs::create_hard_link(entry.path(), to);
    }
    std::map<std::string, std::string> kept;
    for (const auto& entry : fs::recursive_directory_iterator(archive))
      if (entry.path().extension() == ".h5" || entry.path().filename() == "manifest")
        kept[entry.path()] = read_text(entry.path());
    ASSERT_GE(kept.size(), 4U);
    {
      State state = state_of(-1);
      Session session(alone, opts);
      state.protect(session);
      EXPECT_EQ(session.resume().line, 3U);
      for (int i = 4; i <= 9; ++i) {
        state.become(i);
        EXPECT_EQ(session.checkpoint(now), Outcome::taken);
        session.wait();
      }
      EXPECT_EQ(session.status().failed, 0U);
    }
    EXPECT_EQ(resume_in(opts).line, 9U);
    for (const auto& [path, bytes] : kept) EXPECT_EQ(read_text(path) == bytes, true) << path;
    fs::remove_all(ck);
    fs::remove_all(archive);
  }
}

/// Somebody has moved the newest line to another disk, or a file of it.
TEST(directory, of_a_line_that_is_a_link_is_followed_and_never_written_over) {
  for (const std::string name : {"", "/rank-00000.h5"}) {
    const Directory dir;
    const auto opts = options(dir.path() + "/ck");
    const std::string place = line_dir(dir.path() + "/ck", 2) + name, moved = dir.path() + "/moved";
    write_lines(opts, 2);
    fs::rename(place, moved);
    fs::create_symlink(moved, place);
    EXPECT_EQ(resume_in(opts).line, 2U);
    EXPECT_TRUE(damage_in(opts).empty());
    const std::string file = name.empty() ? moved + "/rank-00000.h5" : moved, bytes = read_text(file);
    {
      State state = state_of(-1);
      Session session(alone, opts);
      state.protect(session);
      EXPECT_EQ(session.resume().line, 2U);
      for (int i = 3; i <= 8; ++i) {
        state.become(i);
        EXPECT_EQ(session.checkpoint(now), Outcome::taken);
        session.wait();
      }
      EXPECT_EQ(session.status().failed, 0U) << session.status().last_error;
    }
    EXPECT_EQ(resume_in(opts).line, 8U);
    EXPECT_EQ(read_text(file) == bytes, true) << name;
  }
}

namespace {
void expect_bad_link_is_told(const std::string& target, const std::string& why) {
  const Directory dir;
  const auto opts = options(dir.path() + "/ck", {{"log", "normal"}});
  const std::string place = line_dir(dir.path() + "/ck", 2);
  write_lines(opts, 2);
  fs::rename(place, dir.path() + "/moved");
  fs::create_symlink(target, place);
  testing::internal::CaptureStderr();
  EXPECT_EQ(resume_in(opts).line, 1U);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "line 2 at level shared cannot be put back: ") && has(said, place + why)) << said;
  {
    State state = state_of(-1);
    Session session(alone, opts);
    state.protect(session);
    EXPECT_EQ(session.resume().line, 1U);
    for (int i = 3; i <= 6; ++i) {
      state.become(i);
      EXPECT_EQ(session.checkpoint(now), Outcome::taken);
      session.wait();
    }
    EXPECT_EQ(session.status().newest_line, 6U);
    EXPECT_EQ(session.status().failed, 0U) << session.status().last_error;
  }
  EXPECT_TRUE(fs::is_symlink(place));
  EXPECT_EQ(resume_in(opts).line, 6U);
}
}  // namespace

TEST(directory, of_a_line_that_is_a_link_to_nowhere_is_told_and_its_number_not_used_again) {
  expect_bad_link_is_told("away", " is gone, or a link that leads nowhere");
}

TEST(directory, of_a_line_that_is_a_link_to_a_file_is_told_and_its_number_not_used_again) {
  expect_bad_link_is_told("/proc/version", ": Not a directory");
}

TEST(directory, of_a_line_that_is_a_link_to_itself_is_told_and_its_number_not_used_again) {
  expect_bad_link_is_told("line-00000002", ": Too many levels of symbolic links");
}

TEST(directory, of_a_level_that_is_a_link_to_nowhere_is_refused_with_that_reason) {
  const Directory dir;
  fs::create_directories(dir.path() + "/ck");
  fs::create_symlink(dir.path() + "/away", dir.path() + "/ck/shared");
  State state = state_of(1);
  Session session(alone, options(dir.path() + "/ck"));
  state.protect(session);
  session.checkpoint(now);
  session.wait();
  EXPECT_TRUE(has(session.status().last_error, "a link of that name leads nowhere")) << session.status().last_error;
}

TEST(directory, that_is_removed_costs_the_checkpoint_and_not_the_run) {
  const Directory dir;
  const auto opts = options(dir.path() + "/gone",
                            {{"log", "normal"}, {"levels", "local,shared"}, {"local_dir", dir.path() + "/here"}});
  testing::internal::CaptureStderr();
  {
    Session session(alone, opts);
    State state;
    state.protect(session);
    for (int i = 1; i <= 3; ++i) {
      if (i == 2) fs::remove_all(dir.path() + "/gone");
      state.become(i);
      EXPECT_EQ(session.checkpoint(), Outcome::taken);
      session.wait();
    }
    EXPECT_EQ(session.status().committed, 4U);  // local has all three
    EXPECT_EQ(session.status().failed, 2U);
  }
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(said, "line 2 at level shared was given up"), 1) << said;
  EXPECT_EQ(count_of(said, "line 3 at level shared was given up"), 1) << said;
  EXPECT_FALSE(fs::exists(dir.path() + "/gone/shared")) << "a place that has gone is not made again behind our back";
  EXPECT_EQ(resume_in(opts).line, 3U);
}

/// Writes until the store is full: line 1 fits, line 2 does not, line 3 fits again. What was said, and what is left.
std::string through_a_full_store(const Options& opts, std::size_t too_much) {
  std::ostringstream out;
  testing::internal::CaptureStderr();
  {
    Session session(alone, opts);
    std::vector<char> bytes;
    session.protect("bytes", bytes);
    int calls = 0;
    for (std::size_t size : {std::size_t{100'000}, too_much, std::size_t{100'000}}) {
      bytes.assign(size, static_cast<char>('1' + calls++));
      out << static_cast<int>(session.checkpoint()) << ' ';
      session.wait();
    }
    out << session.status().committed << ' ' << session.status().failed << ' ' << session.verify().damage.size()
        << '\n';
  }
  out << testing::internal::GetCapturedStderr();
  std::vector<char> bytes;
  Session session(alone, opts);
  session.protect("bytes", bytes);
  out << "resumed " << session.resume().line << ' ' << bytes.size() << ' ' << bytes.front();
  return out.str();
}

TEST(directory, on_a_store_that_is_full_costs_the_checkpoint_and_not_the_lines) {
  const Directory dir;
  const auto said = said_by_child([&] {
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", dir.path().c_str(), "tmpfs", 0, "size=2m") != 0)
      return std::string("skip");
    return through_a_full_store(options(dir.path(), {{"log", "normal"}}), std::size_t{4} << 20);
  });
  if (said == "skip") GTEST_SKIP() << "a small file system may not be mounted here";
  EXPECT_TRUE(said.starts_with("1 1 1 2 1 0\n")) << said;
  EXPECT_EQ(count_of(said, "was given up"), 1) << said;
  EXPECT_TRUE(has(said, "No space left")) << said;
  EXPECT_TRUE(said.ends_with("resumed 3 100000 3")) << said;
}

TEST(directory, with_a_limit_on_file_sizes_costs_the_checkpoint_and_not_the_process) {
  const Directory dir;
  const auto said = said_by_child([&] {
    const rlimit limit{1 << 20, 1 << 20};  // SIGXFSZ, which would end the process, is left as it is
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    return through_a_full_store(options(dir.path(), {{"log", "normal"}}), std::size_t{4} << 20);
  });
  EXPECT_TRUE(said.starts_with("1 1 1 2 1 0\n")) << said;
  EXPECT_EQ(count_of(said, "was given up"), 1) << said;
  EXPECT_TRUE(has(said, "File too large")) << said;
  EXPECT_TRUE(said.ends_with("resumed 3 100000 3")) << said;
}

TEST(directory, holds_other_things_that_are_left_alone) {
  const Directory dir;
  const auto opts = options(dir.path());
  fs::create_directories(dir.path() + "/shared/my results");
  write_text(dir.path() + "/shared/my results/notes.txt", "mine");
  write_text(dir.path() + "/shared/line-list", "mine");
  write_text(dir.path() + "/input.dat", "mine");
  write_lines(opts, 6);
  for (const char* name : {"/shared/my results/notes.txt", "/shared/line-list", "/input.dat"})
    EXPECT_EQ(read_text(dir.path() + name), "mine") << name;
  EXPECT_EQ(resume_in(opts).line, 6U);
}

// ---- files that are not what they were ---------------------------------------------------------------------------

class damage : public ::testing::Test {
 protected:
  void SetUp() override { write_lines(opts_, 2); }
  const Directory dir_;
  const Options opts_ = options(dir_.path());
};

/// Offsets at which something begins or ends in a data file, as its header says.
std::set<std::uint64_t> boundaries(const std::string& file) {
  std::istringstream words(file.substr(0, file.find('\n')));
  std::set<std::uint64_t> out{0, 4096, 8192, file.find('\n') + 1};
  std::vector<std::uint64_t> numbers;
  for (std::string word; words >> word;)
    if (word.size() != 8 && word.find_first_not_of("0123456789") == word.npos) numbers.push_back(std::stoull(word));
  // version, table offset and length, hdf5 offset and length, size
  out.insert({numbers.at(1), numbers.at(1) + numbers.at(2), numbers.at(3), numbers.at(5)});
  return out;
}

TEST_F(damage, a_file_cut_off_anywhere_gives_the_older_line) {
  const auto path = data_file(dir_.path(), 2);
  const auto whole = read_text(path);
  std::set<std::uint64_t> sizes;
  for (std::uint64_t at = 0; at < whole.size(); at += 4096) sizes.insert(at);
  for (auto at : boundaries(whole)) sizes.insert({at > 0 ? at - 1 : 0, at, at + 1});
  for (auto size : sizes) {
    if (size == whole.size()) continue;
    write_text(path, whole.substr(0, size) + std::string(size > whole.size() ? size - whole.size() : 0, '\0'));
    ASSERT_EQ(resume_in(opts_).line, 1U) << "cut at " << size << " of " << whole.size();
    ASSERT_FALSE(damage_in(opts_).empty()) << "cut at " << size;
  }
  fs::remove(path);
  EXPECT_EQ(resume_in(opts_).line, 1U);
  write_text(path, whole);
  EXPECT_EQ(resume_in(opts_).line, 2U);
}

TEST_F(damage, a_manifest_cut_off_anywhere_gives_the_older_line) {
  const auto path = line_dir(dir_.path(), 2) + "/manifest";
  const auto whole = read_text(path);
  for (std::size_t size = 0; size < whole.size(); size += size < 60 ? 1 : 7) {
    write_text(path, whole.substr(0, size));
    ASSERT_EQ(resume_in(opts_).line, 1U) << "cut at " << size;
  }
  write_text(path, whole + "x");
  EXPECT_EQ(resume_in(opts_).line, 1U);
  fs::remove(path);
  EXPECT_EQ(resume_in(opts_).line, 1U);
}

/// Offsets of a file: all of its first bytes and of the surroundings of each boundary, and `samples` more.
std::set<std::uint64_t> sampled(const std::string& file, const std::set<std::uint64_t>& edges, int samples) {
  std::set<std::uint64_t> out;
  for (auto edge : edges)
    for (std::uint64_t at = edge < 3 ? 0 : edge - 3; at < edge + 3 && at < file.size(); ++at) out.insert(at);
  std::mt19937 random(7);
  std::uniform_int_distribution<std::uint64_t> any(0, file.size() - 1);
  for (int i = 0; i < samples; ++i) out.insert(any(random));
  return out;
}

TEST_F(damage, a_flipped_byte_of_a_data_file_is_found_and_never_put_back) {
  const auto path = data_file(dir_.path(), 2);
  const auto whole = read_text(path);
  const auto edges = boundaries(whole);
  auto offsets = sampled(whole, edges, 250);
  for (std::uint64_t at = 0; at < whole.find('\n'); ++at) offsets.insert(at);  // the header line
  std::mt19937 random(8);
  for (auto at : offsets) {
    auto altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ static_cast<char>(1U << (random() % 8)));
    write_text(path, altered);
    const auto out = resume_in(opts_);  // metadata for other readers may be bad while the regions are good
    ASSERT_TRUE(out.refused == Code::ok && (out.line == 1 || out.line == 2)) << "at " << at << ": " << out.what;
    ASSERT_FALSE(damage_in(opts_).empty()) << "a flip at " << at << " was not found";
  }
}

TEST_F(damage, a_flipped_byte_of_a_manifest_is_found_and_never_believed) {
  const auto path = line_dir(dir_.path(), 2) + "/manifest";
  const auto whole = read_text(path);
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (unsigned bit : {static_cast<unsigned>(at % 8), static_cast<unsigned>((at + 3) % 8)}) {
      auto altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ static_cast<char>(1U << bit));
      write_text(path, altered);
      const auto out = resume_in(opts_);
      ASSERT_TRUE(out.line == 1 || out.refused == Code::version)
          << "at " << at << ": line " << out.line << " " << out.what;
      ASSERT_FALSE(damage_in(opts_).empty()) << "a flip at " << at << " was not found";
    }
}

TEST_F(damage, of_every_line_is_a_refusal) {
  for (int line : {1, 2}) {
    const auto path = data_file(dir_.path(), line);
    auto bytes = read_text(path);
    bytes[20000] = static_cast<char>(bytes[20000] ^ 1);
    write_text(path, bytes);
  }
  const auto out = resume_in(opts_);
  EXPECT_EQ(out.refused, Code::corrupt);
  EXPECT_TRUE(has(out.what, "none can be put back") && has(out.what, "backstay verify")) << out.what;
}

TEST_F(damage, the_other_level_has_the_line_whole) {
  const Directory dir;
  const auto opts = options(dir.path(), {{"levels", "local,shared"}});
  write_lines(opts, 3);
  const auto path = line_dir(dir.path() + "/node-0", 3, "local") + "/rank-00000.h5";
  auto bytes = read_text(path);
  ASSERT_GT(bytes.size(), 20000U);
  bytes[20000] = static_cast<char>(bytes[20000] ^ 1);
  write_text(path, bytes);
  EXPECT_EQ(resume_in(opts).line, 3U);
}

TEST_F(damage, a_file_of_another_job_or_another_line_is_not_taken) {
  const Directory other;
  write_lines(options(other.path()), 2);
  const auto path = data_file(dir_.path(), 2);
  for (const auto& foreign : {data_file(other.path(), 2), data_file(dir_.path(), 1)}) {
    const auto whole = read_text(path);
    fs::copy_file(foreign, path, fs::copy_options::overwrite_existing);
    EXPECT_EQ(fs::file_size(path), whole.size());
    EXPECT_EQ(resume_in(opts_).line, 1U);
    EXPECT_FALSE(damage_in(opts_).empty());
    write_text(path, whole);
  }
  const auto manifest = line_dir(dir_.path(), 2) + "/manifest";
  fs::copy_file(line_dir(other.path(), 2) + "/manifest", manifest, fs::copy_options::overwrite_existing);
  EXPECT_EQ(resume_in(opts_).line, 1U);
  fs::copy_file(line_dir(dir_.path(), 1) + "/manifest", manifest, fs::copy_options::overwrite_existing);
  EXPECT_EQ(resume_in(opts_).line, 1U);
}

TEST_F(damage, a_damaged_line_does_not_stand_in_the_way_of_new_ones) {
  const auto path = data_file(dir_.path(), 2);
  fs::resize_file(path, 5000);
  {
    Session session(alone, opts_);
    State state;
    state.protect(session);
    EXPECT_EQ(session.resume().line, 1U);
    for (int i = 3; i <= 4; ++i) {
      state.become(i);
      session.checkpoint(now);
    }
    session.wait();
    EXPECT_EQ(session.verify().damage.size(), 0U);
  }
  EXPECT_EQ(resume_in(opts_).line, 4U);
}

/// A directory in its place stands for all that keeps one from reading it: the tests run as root, too.
TEST_F(damage, a_line_whose_manifest_cannot_be_read_says_why_and_does_not_stand_in_the_way_of_new_ones) {
  const auto manifest = line_dir(dir_.path(), 2) + "/manifest";
  fs::rename(manifest, dir_.path() + "/kept");
  fs::create_directory(manifest);
  ::testing::internal::CaptureStderr();
  {
    Session session(alone, options(dir_.path(), {{"log", "normal"}}));
    State state;
    state.protect(session);
    EXPECT_EQ(session.resume().line, 1U);
    state.become(3);
    session.checkpoint(now);
    session.wait();
    EXPECT_EQ(session.status().last_error, "");
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, "line 2 at level shared cannot be put back") && has(said, "Is a directory")) << said;
  EXPECT_FALSE(has(said, "damaged")) << said;
  EXPECT_EQ(resume_in(opts_).line, 3U);
  fs::remove(manifest);
  fs::rename(dir_.path() + "/kept", manifest);
  EXPECT_EQ(damage_in(opts_).size(), 0U) << "it is as it was";
}

// ---- other versions ----------------------------------------------------------------------------------------------

TEST_F(damage, a_manifest_of_another_version_is_a_refusal_that_names_it) {
  const auto path = line_dir(dir_.path(), 2) + "/manifest";
  const auto whole = read_text(path);
  const std::string start = "backstay manifest 1 ";
  ASSERT_TRUE(whole.starts_with(start));
  for (const char* version : {"0", "2", "77"}) {
    write_text(path, "backstay manifest " + std::string(version) + " " + whole.substr(start.size()));
    const auto out = resume_in(opts_);
    EXPECT_EQ(out.refused, Code::version);
    EXPECT_TRUE(has(out.what, std::string("format version ") + version)) << out.what;
    EXPECT_TRUE(has(out.what, version[0] == '0' ? "older backstay" : "newer backstay")) << out.what;
  }
  write_text(path, whole);
  EXPECT_EQ(resume_in(opts_).line, 2U) << "a refusal leaves the lines as they were";
}

TEST_F(damage, a_data_file_of_another_version_is_not_read) {
  const auto path = data_file(dir_.path(), 2);
  auto bytes = read_text(path);
  ASSERT_TRUE(bytes.starts_with("backstay data 1 "));
  bytes[14] = '2';
  write_text(path, bytes);
  EXPECT_EQ(resume_in(opts_).line, 1U);
  const auto found = damage_in(opts_);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(has(found[0], "format version 2")) << found[0];
}

}  // namespace
}  // namespace backstay
