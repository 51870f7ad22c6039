// Files of lines are damaged: bytes flipped or zeroed, files cut short or filled with other bytes of their own, swapped
// between lines or between ranks. What a job then puts back is a state that was saved, all bytes of it; whatever was
// changed is noticed by resume() or by verify(); all ranks say the same. It is the newest one where nothing of that was
// changed, or nothing but files of as many nodes as the level bears the loss of.
#include <cstring>
#include <set>

#include "jobs_on_disks.h"

namespace backstay::engine::on_disks {
namespace {

struct Way {
  std::string name;
  LevelKind kind;
  Layout layout;
  ParityConfig parity = {};
  StaticRegions statics = StaticRegions::none;
  int nodes = 2;
};

/// A file of a line.
struct Damaged {
  std::string disk, path;
  Bytes* bytes;
  [[nodiscard]] std::string line() const {
    const auto at = path.find("line-");
    return at == path.npos ? "" : path.substr(at, path.find('/', at) - at);
  }
  [[nodiscard]] bool is_static() const { return path.find("-static/") != path.npos; }
  [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
};

class flips : public ::testing::TestWithParam<Way> {
 protected:
  static constexpr int lines = 3;                               // of which the last two are kept
  static constexpr std::string_view retired = "line-00000001";  // whose files are there to be used again
  static constexpr std::string_view newest = "line-00000003";

  void SetUp() override {
    LevelConfig level;
    level.kind = GetParam().kind;
    level.layout = GetParam().layout;
    level.parity = GetParam().parity;
    base_.levels = {level};
    base_.statics = GetParam().statics;
    base_.dir = dir_.path();
    base_.nodes = GetParam().nodes;
    base_.disks = new_disks(base_.nodes);
    for (int line = 0; line < lines; ++line) run_job(base_, 0);
    whole_ = look(base_).verified;
  }

  static std::vector<Damaged> files_of(const Disks& disks) {
    std::vector<Damaged> out;
    for (const auto& [where, disk] : disks)
      for (auto& [path, bytes] : disk->files()) {
        const Damaged file{where, path, bytes};
        if (!file.line().empty() && !bytes->empty()) out.push_back(file);
      }
    return out;
  }

  /// Changes one file, or two; says how.
  static std::string damage(std::vector<Damaged>& files, std::mt19937& random) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Damaged& file = files[below(files.size())];
    Bytes& bytes = *file.bytes;
    if (bytes.empty()) return "nothing";
    const std::size_t at = below(bytes.size());
    const std::size_t length = std::min(bytes.size() - at, 1 + below(std::size_t{1} << below(13)));
    const std::string where = " of " + file.disk + "/" + file.path + " at " + std::to_string(at);
    switch (below(6)) {
      case 0:
        bytes[at] ^= std::byte{1} << below(8);
        return "bit flipped" + where;
      case 1:
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, std::byte{0});
        return std::to_string(length) + " bytes zeroed" + where;
      case 2:
        bytes.resize(at);
        return "cut short" + where;
      case 3: {
        const Bytes copy(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                         bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
        if (below(2) == 0) {
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), copy.begin(), copy.end());
          return std::to_string(length) + " bytes doubled" + where;
        }
        std::memmove(bytes.data() + below(bytes.size() - length + 1), copy.data(), length);
        return std::to_string(length) + " bytes put somewhere else" + where;
      }
      default:
        return swap(file, files, below(2) == 0, below);
    }
  }

  /// With the file of the same name of another line, or with another file of this line.
  template <class Below>
  static std::string swap(Damaged& file, std::vector<Damaged>& files, bool between_lines, const Below& below) {
    std::vector<Damaged*> others;
    for (auto& other : files)
      if (between_lines ? other.line() != file.line() && other.name() == file.name()
                        : other.line() == file.line() && other.path != file.path)
        others.push_back(&other);
    if (others.empty()) return "nothing";
    Damaged& other = *others[below(others.size())];
    const std::string what = file.disk + "/" + file.path + " and " + other.disk + "/" + other.path;
    if (below(3) == 0) {
      *other.bytes = *file.bytes;
      return "copied: " + what;
    }
    std::swap(*file.bytes, *other.bytes);
    return "swapped: " + what;
  }

  struct Seen {
    int state = 0;        // -1: bytes that were never saved
    std::string refusal;  // of resume(), or of the opening
    Verified verified;
    bool alike = true;  // on all ranks
  };
  static Seen look(const Trial& trial) {
    std::array<Seen, ranks> seen;
    comm::run_ranks(ranks, [&](comm::Comm& comm) {
      Seen& mine = seen[static_cast<std::size_t>(comm.rank())];
      try {
        JobRank job(comm, trial, std::make_shared<store::FaultPlan>());
        if (auto verified = job.verify()) mine.verified = std::move(*verified);
        const auto found = job.look();
        if (found) mine.state = *found;
        if (!found) mine.refusal = found.failure().what;
      } catch (const std::exception& e) {
        mine.refusal = e.what();
      }
    });
    for (const auto& other : seen)
      if (other.state != seen[0].state || other.refusal != seen[0].refusal) seen[0].alike = false;
    return seen[0];
  }

  const store::TemporaryDirectory dir_;
  Trial base_;
  Verified whole_;
};

TEST_P(flips, of_any_file_are_noticed_and_never_loaded) {
  std::mt19937 random(17 + 1000003 * number_from("FLIPS_SEED"));
  const char* wanted = std::getenv("FLIPS");
  const int trials = wanted == nullptr ? 150 : std::atoi(wanted);
  ASSERT_EQ(whole_.lines, 2U);
  std::map<std::string, int> ends;
  int changed = 0;
  for (int number = 0; number < trials; ++number) {
    Trial trial = base_;
    trial.disks = copy_of(base_.disks);
    auto files = files_of(trial.disks);
    const auto before = files_of(base_.disks);
    std::string story;
    const auto times = 1 + random() % 3;
    for (unsigned i = 0; i < times; ++i) story += (i > 0 ? "; " : "") + damage(files, random);
    std::set<std::string> damaged_lines;
    for (std::size_t i = 0; i < files.size(); ++i)
      if (*files[i].bytes != *before[i].bytes && (files[i].is_static() || files[i].line() != retired))
        damaged_lines.insert(files[i].is_static() && base_.statics == StaticRegions::fixed ? "all" : files[i].line());
    changed += damaged_lines.empty() ? 0 : 1;
    std::set<std::string> hit;  // disks of what the newest line needs
    for (std::size_t i = 0; i < files.size(); ++i)
      if (*files[i].bytes != *before[i].bytes && (files[i].is_static() || files[i].line() == newest))
        hit.insert(files[i].disk);
    const auto bears = GetParam().kind == LevelKind::partner ? 1 : static_cast<std::size_t>(GetParam().parity.p);
    const bool has_newest = hit.size() <= bears;
    const Seen seen = look(trial);
    SCOPED_TRACE("trial " + std::to_string(number) + ": " + story);
    ASSERT_TRUE(seen.alike) << "the ranks saw different things";
    ASSERT_NE(seen.state, -1) << "wrong bytes were put back";
    if (!seen.refusal.empty()) {
      ++ends["refused"];
      ASSERT_FALSE(damaged_lines.empty()) << seen.refusal;
      const bool of_both = damaged_lines.size() == 2 || damaged_lines.contains("all");
      const bool of_version = seen.refusal.find("version") != std::string::npos;
      ASSERT_TRUE((of_both && !has_newest) || of_version) << seen.refusal;
      continue;
    }
    ASSERT_TRUE(seen.state == lines || (seen.state == lines - 1 && !has_newest)) << seen.state;
    ++ends[seen.state == lines ? "the newest line" : "the line before"];
    const bool noticed = seen.state != lines || !seen.verified.damage.empty() || seen.verified.lines < whole_.lines;
    ASSERT_EQ(noticed, !damaged_lines.empty());
  }
  std::printf("files damaged: %d", changed);
  for (const auto& [end, count] : ends) std::printf(", %s: %d", end.c_str(), count);
  std::printf("\n");
  EXPECT_GT(changed, trials / 2);
}

INSTANTIATE_TEST_SUITE_P(
    , flips,
    ::testing::Values(
        Way{"local", LevelKind::local, Layout::file_per_rank},
        Way{"partner", LevelKind::partner, Layout::file_per_rank},
        Way{"parity", LevelKind::local, Layout::file_per_rank, {1, 1, {}}},
        Way{"file_per_rank", LevelKind::shared, Layout::file_per_rank},
        Way{"file_per_node", LevelKind::shared, Layout::file_per_node},
        Way{"one_file", LevelKind::shared, Layout::one_file},
        Way{"parity_with_statics", LevelKind::local, Layout::file_per_rank, {1, 1, {}}, StaticRegions::changing},
        Way{"three_and_one", LevelKind::local, Layout::file_per_rank, {3, 1, {}}, StaticRegions::none, 4},
        Way{"two_and_two", LevelKind::local, Layout::file_per_rank, {2, 2, {}}, StaticRegions::changing, 4},
        Way{"file_per_node_with_statics", LevelKind::shared, Layout::file_per_node, {}, StaticRegions::fixed}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace backstay::engine::on_disks
