#include "store/mapped_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "store/descriptor.h"
#include "store/testing.h"

namespace backstay::store {
namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;

Descriptor make_file(const std::string& path, std::size_t size) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  const Bytes bytes(size, std::byte{1});
  EXPECT_EQ(::pwrite(file.get(), bytes.data(), size, 0), static_cast<ssize_t>(size)) << path;
  return file;
}

Bytes content_of(const Descriptor& file, std::size_t size) {
  Bytes bytes(size);
  EXPECT_EQ(::pread(file.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
  return bytes;
}

/// A kernel that cannot populate (before 5.14) leaves every write to the caller: there is nothing to test then.
bool kernel_maps() {
  const TemporaryDirectory dir;
  const auto file = make_file(dir.path() + "/f", mebi);
  return MappedFiles().write(file.get(), 0, Bytes(mebi));
}

class MappedFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_maps()) GTEST_SKIP() << "this kernel knows no MADV_POPULATE_WRITE";
  }
  TemporaryDirectory dir_;
  MappedFiles mapped_;
};

TEST_F(MappedFilesTest, what_is_written_is_in_the_file) {
  const auto file = make_file(dir_.path() + "/f", 3 * mebi);
  const Bytes twos(mebi + 77, std::byte{2});
  Bytes expected = content_of(file, 3 * mebi);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{4096}, std::size_t{5000}, 2 * mebi - 77}) {
    ASSERT_TRUE(mapped_.write(file.get(), offset, twos)) << offset;
    std::copy(twos.begin(), twos.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    EXPECT_EQ(content_of(file, 3 * mebi), expected) << offset;
  }
  EXPECT_EQ(mapped_.count(), 1U);
}

TEST_F(MappedFilesTest, what_the_file_does_not_reach_is_left_to_the_caller) {
  const auto file = make_file(dir_.path() + "/f", mebi);
  EXPECT_FALSE(mapped_.write(file.get(), 1, Bytes(mebi)));
  EXPECT_EQ(content_of(file, mebi), Bytes(mebi, std::byte{1}));
}

TEST_F(MappedFilesTest, a_file_that_was_cut_or_has_grown_is_seen) {
  const auto file = make_file(dir_.path() + "/f", 2 * mebi);
  ASSERT_TRUE(mapped_.write(file.get(), 0, Bytes(2 * mebi)));
  ASSERT_EQ(::ftruncate(file.get(), mebi), 0);
  EXPECT_FALSE(mapped_.write(file.get(), 0, Bytes(2 * mebi)));
  ASSERT_EQ(::ftruncate(file.get(), 3 * mebi), 0);
  const Bytes threes(3 * mebi, std::byte{3});
  ASSERT_TRUE(mapped_.write(file.get(), 0, threes));
  EXPECT_EQ(content_of(file, 3 * mebi), threes);
  EXPECT_EQ(mapped_.count(), 1U);
}

TEST_F(MappedFilesTest, a_removed_file_is_let_go) {
  const auto file = make_file(dir_.path() + "/f", mebi), other = make_file(dir_.path() + "/g", mebi);
  ASSERT_TRUE(mapped_.write(file.get(), 0, Bytes(mebi)));
  ASSERT_TRUE(mapped_.write(other.get(), 0, Bytes(mebi)));
  mapped_.forget_removed();
  EXPECT_EQ(mapped_.count(), 2U);
  ASSERT_EQ(::unlink((dir_.path() + "/f").c_str()), 0);
  mapped_.forget_removed();
  EXPECT_EQ(mapped_.count(), 1U);
}

TEST_F(MappedFilesTest, the_oldest_goes_when_there_are_too_many) {
  for (std::size_t i = 0; i < MappedFiles::most + 5; ++i)
    ASSERT_TRUE(mapped_.write(make_file(dir_.path() + "/" + std::to_string(i), mebi).get(), 0, Bytes(mebi)));
  EXPECT_EQ(mapped_.count(), MappedFiles::most);
}

/// Pages that were taken from the file and cannot be had again: a touch would be SIGBUS.
TEST_F(MappedFilesTest, a_hole_in_a_full_file_system_is_left_to_the_caller) {
  const std::string said = said_with_mount(dir_.path(), "tmpfs", "size=4m", [&]() -> std::string {
    const auto file = make_file(dir_.path() + "/f", 2 * mebi);
    if (!mapped_.write(file.get(), 0, Bytes(2 * mebi))) return "not mapped";
    if (::ftruncate(file.get(), 0) != 0 || ::ftruncate(file.get(), 2 * mebi) != 0) return "cannot cut";
    const auto filler = make_file(dir_.path() + "/filler", 3 * mebi);
    return mapped_.write(file.get(), 0, Bytes(2 * mebi)) ? "written into what is not there" : "left to the caller";
  });
  if (said == no_mounts) GTEST_SKIP() << said;
  EXPECT_EQ(said, "left to the caller");
}

TEST_F(MappedFilesTest, a_file_is_read_where_it_lies_and_where_it_was_cut_it_is_not) {
  const auto file = make_file(dir_.path() + "/f", 2 * mebi);
  const Bytes twos(mebi + 5, std::byte{2});
  ASSERT_EQ(::pwrite(file.get(), twos.data(), twos.size(), 4095), static_cast<ssize_t>(twos.size()));
  const MappedToRead mapped(file.get());
  const auto there = mapped.bytes(4095, twos.size());
  ASSERT_TRUE(there);
  EXPECT_TRUE(std::ranges::equal(*there, twos));
  EXPECT_FALSE(mapped.bytes(2 * mebi, 1));
  EXPECT_FALSE(mapped.bytes(~std::uint64_t{0} - 3, 8));
  ASSERT_EQ(::ftruncate(file.get(), mebi), 0);
  EXPECT_TRUE(mapped.bytes(4095, 4096));
  EXPECT_FALSE(mapped.bytes(4095, twos.size())) << "a touch would end the program";
}

TEST_F(MappedFilesTest, a_hole_in_a_full_file_system_is_not_read_where_it_lies) {
  const std::string said = said_with_mount(dir_.path(), "tmpfs", "size=4m", [&]() -> std::string {
    const auto file = make_file(dir_.path() + "/f", 0);
    if (::ftruncate(file.get(), 2 * mebi) != 0) return "cannot extend";
    const auto filler = make_file(dir_.path() + "/filler", 0);
    for (off_t at = 0; ::pwrite(filler.get(), "x", 1, at) == 1;) at += 4096;
    const MappedToRead mapped(file.get());
    return mapped.bytes(0, 2 * mebi) ? "zeros" : "left to the caller";
  });
  if (said == no_mounts) GTEST_SKIP() << said;
  EXPECT_EQ(said, "left to the caller");
}

}  // namespace
}  // namespace backstay::store
