#include "store/posix_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include <fstream>

#include "store/posix_file.h"
#include "store/testing.h"

namespace backstay::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t mebi = std::size_t{1} << 20;

/// Memory that starts on a page.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t size) : all_(size + 4096, std::byte{0x5a}) {
    const auto address = reinterpret_cast<std::uintptr_t>(all_.data());
    view_ = MutableByteView(all_).subspan(round_up(address, 4096) - address, size);
  }
  MutableByteView view() { return view_; }

 private:
  Bytes all_;
  MutableByteView view_;
};

std::unique_ptr<Store> store_in(const std::string& directory, Direct direct = Direct::automatic) {
  return make_posix_store(directory, {direct}).value();
}

/// Does `body` as a user without rights of its own; drops the rights that root has.
std::string said_by_nobody(const std::function<std::string()>& body) {
  return said_by_child([&] { return ::geteuid() == 0 && ::seteuid(65534) != 0 ? "cannot become nobody" : body(); });
}

struct stat about(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found;
}

TEST(posix_store, a_missing_root_is_made_with_its_parents) {
  const TemporaryDirectory dir;
  const auto store = store_in(dir.path() + "/a/b c/d/");
  EXPECT_EQ(store->where(), dir.path() + "/a/b c/d");
  EXPECT_TRUE(fs::is_directory(dir.path() + "/a/b c/d"));
}

TEST(posix_store, a_relative_root_stays_where_it_was) {
  const TemporaryDirectory dir;
  const std::string said = said_by_child([&]() -> std::string {
    if (::chdir(dir.path().c_str()) != 0) return "cannot change directory";
    const auto store = store_in("run");
    if (::chdir("/") != 0) return "cannot change directory";
    return say(write_file(*store, "f", as_bytes("x")));
  });
  EXPECT_EQ(said, "ok");
  EXPECT_TRUE(fs::exists(dir.path() + "/run/f"));
}

TEST(posix_store, a_root_that_is_a_file_is_refused) {
  const TemporaryDirectory dir;
  std::ofstream(dir.path() + "/f") << "kept";
  EXPECT_EQ(say(make_posix_store(dir.path() + "/f")),
            starting_with(Code::invalid_argument) + dir.path() + "/f is not a directory; choose another name");
  EXPECT_EQ(make_posix_store(dir.path() + "/f/under").failure().what,
            "cannot make directory " + dir.path() + "/f: Not a directory; a file is in its place: choose another name");
  EXPECT_EQ(make_posix_store("").failure().code, Code::invalid_argument);
}

TEST(posix_store, a_root_that_may_not_be_written_is_refused) {
  const TemporaryDirectory dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0555), 0);
  const std::string expected = starting_with(Code::permission) + "cannot write in directory " + dir.path() +
                               ": Permission denied; change the permissions or choose another directory";
  EXPECT_EQ(said_by_nobody([&] { return say(make_posix_store(dir.path())); }), expected);
  const std::string under = said_by_nobody([&] { return say(make_posix_store(dir.path() + "/under")); });
  EXPECT_TRUE(under.starts_with(starting_with(Code::permission))) << under;
}

TEST(posix_store, a_directory_that_may_not_be_written_refuses_everything_that_writes) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(write_file(*store_in(dir.path() + "/d"), "f", as_bytes("x")).ok());
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod((dir.path() + "/d").c_str(), 0555), 0);
  ASSERT_EQ(::chmod((dir.path() + "/d/f").c_str(), 0444), 0);
  const std::function<Result<void>(Store&)> calls[] = {
      [](Store& s) { return write_file(s, "d/f", as_bytes("y")); },
      [](Store& s) { return write_file(s, "d/new", as_bytes("y")); },
      [](Store& s) { return s.make_dir("d/new"); },
      [](Store& s) { return s.rename("d/f", "d/g"); },
      [](Store& s) { return s.remove("d/f"); },
  };
  for (const auto& call : calls) {
    const std::string said = said_by_nobody([&] { return say(call(*store_in(dir.path()))); });
    EXPECT_TRUE(said.starts_with(starting_with(Code::permission))) << said;
    EXPECT_NE(said.find(dir.path() + "/d/"), std::string::npos) << said;
  }
  EXPECT_EQ(as_text(read_file(*store_in(dir.path()), "d/f", 9).value()), "x");
}

TEST(posix_store, a_root_removed_while_running_is_not_found_and_not_made_again) {
  const TemporaryDirectory dir;
  const auto store = store_in(dir.path() + "/run");
  fs::remove_all(dir.path() + "/run");
  EXPECT_EQ(write_file(*store, "f", as_bytes("x")).failure().code, Code::not_found);
  EXPECT_EQ(store->make_dir("d").failure().code, Code::not_found);
  EXPECT_EQ(store->make_dir("").failure().code, Code::not_found);
  EXPECT_EQ(store->list("").failure().code, Code::not_found);
  EXPECT_FALSE(fs::exists(dir.path() + "/run"));
}

TEST(posix_store, a_full_device_is_no_space) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const TemporaryDirectory dir;
  fs::create_symlink("/dev/full", dir.path() + "/full");
  auto file = store_in(dir.path())->open_to_write("full").value();
  EXPECT_EQ(say(file->write_at(0, as_bytes("abc"))),
            starting_with(Code::no_space) + "cannot write 3 bytes at offset 0 of " + dir.path() +
                "/full: No space left on device; free space there or choose another directory");
}

TEST(posix_store, a_file_system_that_fills_up_in_the_middle_is_no_space) {
  const TemporaryDirectory dir;
  for (const Direct direct : {Direct::off, Direct::automatic, Direct::on}) {
    const std::string said = said_with_mount(dir.path(), "tmpfs", "size=1m", [&] {
      auto file = store_in(dir.path(), direct)->open_to_write("f").value();
      return say(file->write_at(0, AlignedBytes(4 * mebi).view()));
    });
    if (said == no_mounts) GTEST_SKIP() << no_mounts;
    EXPECT_TRUE(said.starts_with(starting_with(Code::no_space))) << said;
    EXPECT_NE(said.find(dir.path() + "/f: No space left on device"), std::string::npos) << said;
  }
}

TEST(posix_store, a_file_system_without_direct_transfers_is_written_all_the_same) {
  const TemporaryDirectory dir;
  for (const char* kind : {"ramfs", "tmpfs"}) {
    const std::string said = said_with_mount(dir.path(), kind, "", [&] {
      const auto store = store_in(dir.path(), Direct::on);
      AlignedBytes wrote(2 * mebi);
      const auto written = write_file(*store, "f", wrote.view());
      const auto read = read_file(*store, "f", 2 * mebi);
      return read && as_text(*read) == as_text(wrote.view()) ? say(written) : "not what was written: " + say(read);
    });
    if (said == no_mounts) GTEST_SKIP() << no_mounts;
    EXPECT_EQ(said, "ok") << kind;
  }
}

TEST(posix_store, the_limit_on_file_sizes_is_a_sentence_and_not_a_signal) {
  const TemporaryDirectory dir;
  const std::string said = said_by_child([&] {
    const rlimit limit{8192, 8192};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("cannot set a limit");
    auto file = store_in(dir.path())->open_to_write("f").value();
    const Bytes bytes(8192);
    return cat(say(file->write_at(0, bytes)), ", ", say(file->resize(8193)), ", ", say(file->write_at(1, bytes)));
  });
  EXPECT_TRUE(said.starts_with("ok, " + starting_with(Code::io))) << said;
  EXPECT_NE(said.find("cannot reach byte 1 + 8192 of " + dir.path() + "/f: File too large; raise the limit"),
            std::string::npos)
      << said;
}

TEST(posix_store, a_recycled_file_keeps_its_inode_and_blocks) {
  const TemporaryDirectory dir;
  const auto store = store_in(dir.path());
  AlignedBytes bytes(4 * mebi);
  ASSERT_TRUE(write_file(*store, "f", bytes.view()).ok());
  const auto before = about(dir.path() + "/f");
  auto file = store->open_to_write("f").value();
  EXPECT_EQ(about(dir.path() + "/f").st_blocks, before.st_blocks);
  ASSERT_TRUE(file->write_at(0, bytes.view()).ok());
  ASSERT_TRUE(file->resize(4 * mebi).ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(about(dir.path() + "/f").st_blocks, before.st_blocks);
  EXPECT_EQ(about(dir.path() + "/f").st_ino, before.st_ino);
}

TEST(posix_store, a_link_is_removed_and_not_what_it_leads_to) {
  const TemporaryDirectory dir;
  fs::create_directories(dir.path() + "/outside");
  std::ofstream(dir.path() + "/outside/f") << "kept";
  const auto store = store_in(dir.path() + "/run");
  ASSERT_TRUE(store->make_dir("line").ok());
  fs::create_symlink(dir.path() + "/outside", dir.path() + "/run/line/link");
  fs::create_symlink(dir.path() + "/outside", dir.path() + "/run/link");
  EXPECT_TRUE(remove_tree(*store, "line").ok());
  EXPECT_TRUE(remove_tree(*store, "link").ok());
  EXPECT_TRUE(store->list("").value().empty());
  EXPECT_TRUE(fs::exists(dir.path() + "/outside/f"));
}

TEST(posix_store, programs_that_are_started_inherit_no_file) {
  const TemporaryDirectory dir;
  auto file = store_in(dir.path(), Direct::on)->open_to_write("f").value();
  ASSERT_TRUE(file->write_at(0, AlignedBytes(mebi).view()).ok());
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!fs::read_symlink(entry.path(), gone).string().starts_with(dir.path())) continue;
    EXPECT_NE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC, 0) << entry.path();
  }
}

bool is_in_cache(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> page{};
  const iovec into{page.data(), page.size()};
  return ::preadv2(file.get(), &into, 1, 0, RWF_NOWAIT) > 0;
}

bool takes_direct_transfers(const std::string& path) {
  constexpr long tmpfs = 0x01021994;
  struct statfs found{};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  return file.open() && ::fstatfs(file.get(), &found) == 0 && found.f_type != tmpfs;
}

TEST(posix_store, big_aligned_writes_go_past_the_page_cache) {
  const TemporaryDirectory dir;
  std::ofstream(dir.path() + "/probe") << "x";
  if (!takes_direct_transfers(dir.path() + "/probe")) GTEST_SKIP() << "no direct transfers in " << dir.path();
  AlignedBytes bytes(mebi + 1);
  ASSERT_TRUE(write_file(*store_in(dir.path()), "big", bytes.view().first(mebi)).ok());
  EXPECT_FALSE(is_in_cache(dir.path() + "/big"));
  ASSERT_TRUE(write_file(*store_in(dir.path()), "unaligned", bytes.view().last(mebi)).ok());
  EXPECT_TRUE(is_in_cache(dir.path() + "/unaligned"));
  ASSERT_TRUE(write_file(*store_in(dir.path()), "small", bytes.view().first(mebi - 1)).ok());
  EXPECT_TRUE(is_in_cache(dir.path() + "/small"));
  ASSERT_TRUE(write_file(*store_in(dir.path(), Direct::off), "off", bytes.view().first(mebi)).ok());
  EXPECT_TRUE(is_in_cache(dir.path() + "/off"));
}

TEST(split_pages, the_bulk_is_whole_pages_of_the_file) {
  EXPECT_EQ(split_pages(0, 4096, 8192, 4096), (PageSplit{0, 8192, 0}));
  EXPECT_EQ(split_pages(1, 4097, 12288, 4096), (PageSplit{4095, 8192, 1}));
  EXPECT_EQ(split_pages(4095, 8191, 4098, 4096), (PageSplit{1, 4096, 1}));
  EXPECT_EQ(split_pages(8192, 0, 4097, 4096), (PageSplit{0, 4096, 1}));
}

TEST(split_pages, there_is_no_bulk_where_memory_and_file_differ_or_little_is_left) {
  EXPECT_EQ(split_pages(0, 512, 1 << 20, 4096), (PageSplit{1 << 20, 0, 0}));
  EXPECT_EQ(split_pages(1, 4096, 1 << 20, 4096), (PageSplit{1 << 20, 0, 0}));
  EXPECT_EQ(split_pages(0, 0, mebi - 1, mebi), (PageSplit{mebi - 1, 0, 0}));
  EXPECT_EQ(split_pages(1, 1, mebi + 4094, mebi), (PageSplit{mebi + 4094, 0, 0}));
  EXPECT_EQ(split_pages(1, 1, 4095, 4096), (PageSplit{4095, 0, 0}));
  EXPECT_EQ(split_pages(1, 1, 0, 4096), (PageSplit{0, 0, 0}));
}

}  // namespace
}  // namespace backstay::store
