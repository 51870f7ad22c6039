// What every store promises, asked of each of them. A new backend is one line in `backends()`.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "store/faulty_store.h"
#include "store/memory_store.h"
#include "store/posix_store.h"

namespace backstay::store {
namespace {

/// A fresh store, and the directory to clean away after it.
struct Subject {
  std::shared_ptr<Store> store;
  std::string directory;
};

struct Backend {
  std::string name;
  std::function<Subject()> make;
};

Subject posix_in(const std::string& parent, Direct direct) {
  std::string pattern = parent + "/backstay store é.XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no directory can be made in " + parent);
  return {make_posix_store(pattern + "/made/with parents", {direct}).value(), pattern};
}

std::vector<Backend> backends() {
  const std::string disk = std::filesystem::temp_directory_path();
  std::vector<Backend> all{
      {"posix", [=] { return posix_in(disk, Direct::automatic); }},
      {"posix_direct", [=] { return posix_in(disk, Direct::on); }},
      {"posix_buffered", [=] { return posix_in(disk, Direct::off); }},
      {"memory", [] { return Subject{make_memory_store(), {}}; }},
      {"faulty", [] { return Subject{make_faulty_store(make_memory_store(), std::make_shared<FaultPlan>()), {}}; }},
  };
  if (std::filesystem::is_directory("/dev/shm"))
    all.push_back({"posix_shm", [] { return posix_in("/dev/shm", Direct::automatic); }});
  return all;
}

class StoreContract : public testing::TestWithParam<Backend> {
 protected:
  StoreContract() : subject_(GetParam().make()), store(*subject_.store) {}
  ~StoreContract() override {
    if (!subject_.directory.empty()) std::filesystem::remove_all(subject_.directory);
  }

  std::unique_ptr<File> to_write(const std::string& path) { return std::move(store.open_to_write(path)).value(); }
  Bytes all_of(const std::string& path) { return read_file(store, path, std::uint64_t{1} << 30).value(); }
  void put(const std::string& path, std::string_view text) {
    ASSERT_TRUE(write_file(store, path, as_bytes(text)).ok()) << path;
  }
  std::string text_of(const std::string& path) { return std::string(as_text(all_of(path))); }
  std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    const auto entries = store.list(path).value();
    for (const Entry& entry : entries) names.push_back(entry.name + (entry.is_dir ? "/" : ""));
    return names;
  }

 private:
  Subject subject_;

 protected:
  Store& store;
};

/// Bytes that differ from page to page and from seed to seed.
Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  std::uint32_t x = seed * 2654435761U + 1;
  for (std::byte& b : bytes) {
    x = x * 1664525U + 1013904223U;
    b = static_cast<std::byte>(x >> 24);
  }
  return bytes;
}

template <class T>
Code code_of(const Result<T>& result) {
  return result ? Code::ok : result.failure().code;
}

TEST_P(StoreContract, awkward_sizes_come_back_as_they_were_written) {
  for (const std::size_t size : {0UL, 1UL, 4095UL, 4096UL, 4097UL, (3UL << 20) + 5}) {
    for (const std::uint64_t offset : {0UL, 1UL, 4095UL, 4096UL, 12345UL}) {
      const Bytes wrote = pattern(size, static_cast<unsigned>(size + offset));
      auto file = to_write("f");
      ASSERT_TRUE(file->write_at(offset, wrote).ok());
      Bytes read(size);
      const auto again = store.open_to_read("f").value();
      ASSERT_TRUE(again->read_at(offset, read).ok());
      EXPECT_EQ(read, wrote) << size << " bytes at " << offset;
      Scratch room;
      const auto there = again->bytes_at(offset, size, room);
      ASSERT_TRUE(there.ok());
      EXPECT_TRUE(std::ranges::equal(*there, wrote)) << size << " bytes at " << offset << ", where they lie";
    }
  }
}

TEST_P(StoreContract, memory_aligned_as_the_file_and_not_gives_the_same_file) {
  const Bytes source = pattern((4UL << 20) + 8192, 7);
  for (std::size_t shift : {0UL, 1UL, 512UL, 4095UL}) {
    const ByteView wrote = ByteView(source).subspan(shift, (3UL << 20) + 5);
    const std::uint64_t offset = 8192 + reinterpret_cast<std::uintptr_t>(wrote.data()) % 4096;
    for (const std::uint64_t at : {offset, offset + 3}) {
      ASSERT_TRUE(to_write("f")->write_at(at, wrote).ok());
      Bytes into(source.size());
      const auto read = MutableByteView(into).subspan(4095 - shift, wrote.size());
      ASSERT_TRUE(store.open_to_read("f").value()->read_at(at, read).ok());
      EXPECT_TRUE(std::equal(read.begin(), read.end(), wrote.begin())) << "shift " << shift << ", offset " << at;
    }
  }
}

TEST_P(StoreContract, a_recycled_file_keeps_old_bytes_beyond_the_write) {
  const Bytes old = pattern((3UL << 20) + 5, 1);
  const Bytes fresh = pattern((2UL << 20) + 77, 2);
  ASSERT_TRUE(to_write("f")->write_at(0, old).ok());
  ASSERT_TRUE(to_write("f")->write_at(4097, fresh).ok());
  Bytes expected = old;
  std::copy(fresh.begin(), fresh.end(), expected.begin() + 4097);
  EXPECT_EQ(all_of("f"), expected);
}

TEST_P(StoreContract, parts_written_in_any_order_make_one_file) {
  const Bytes whole = pattern((5UL << 20) + 123, 3);
  auto file = to_write("f");
  const std::size_t half = (2UL << 20) + 4096;
  ASSERT_TRUE(file->write_at(half, ByteView(whole).subspan(half)).ok());
  ASSERT_TRUE(file->write_at(0, ByteView(whole).first(half)).ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(all_of("f"), whole);
}

TEST_P(StoreContract, an_open_writer_reads_what_it_wrote) {
  const Bytes wrote = pattern((2UL << 20) + 9, 4);
  auto file = to_write("f");
  ASSERT_TRUE(file->write_at(3, wrote).ok());
  Bytes read(wrote.size());
  ASSERT_TRUE(file->read_at(3, read).ok());
  EXPECT_EQ(read, wrote);
}

TEST_P(StoreContract, a_gap_reads_as_zeros) {
  put("f", "ab");
  ASSERT_TRUE(to_write("f")->write_at(5, as_bytes("z")).ok());
  EXPECT_EQ(text_of("f"), std::string("ab\0\0\0z", 6));
}

TEST_P(StoreContract, resize_cuts_and_extends_with_zeros) {
  const Bytes old = pattern(10000, 5);
  ASSERT_TRUE(write_file(store, "f", old).ok());
  auto file = to_write("f");
  for (const std::size_t size : {4097UL, 4097UL, 9000UL, 0UL, 20000UL}) {
    ASSERT_TRUE(file->resize(size).ok());
    EXPECT_EQ(file->size().value(), size);
    Bytes expected(size);
    if (size <= 9000) std::copy_n(old.begin(), std::min(size, 4097UL), expected.begin());
    EXPECT_EQ(all_of("f"), expected) << size;
  }
}

TEST_P(StoreContract, bytes_cut_away_do_not_come_back) {
  ASSERT_TRUE(write_file(store, "f", pattern(10000, 6)).ok());
  auto file = to_write("f");
  ASSERT_TRUE(file->resize(10).ok());
  ASSERT_TRUE(file->write_at(9000, as_bytes("x")).ok());
  const Bytes read = all_of("f");
  ASSERT_EQ(read.size(), 9001U);
  EXPECT_EQ(std::count(read.begin() + 10, read.begin() + 9000, std::byte{0}), 8990);
}

TEST_P(StoreContract, reading_past_the_end_is_corrupt_and_says_where) {
  for (const std::size_t size : {0UL, 10UL, 4096UL, (2UL << 20) + 5}) {
    ASSERT_TRUE(write_file(store, "short", pattern(size, 8)).ok());
    Bytes into(size + 1);
    Scratch room;
    auto result = store.open_to_read("short").value()->read_at(0, into);
    ASSERT_EQ(code_of(result), Code::corrupt) << size;
    EXPECT_NE(result.failure().what.find("short ends at byte " + std::to_string(size)), std::string::npos)
        << result.failure().what;
    EXPECT_EQ(code_of(store.open_to_read("short").value()->read_at(size + 5000, into)), Code::corrupt);
    EXPECT_EQ(code_of(store.open_to_read("short").value()->bytes_at(0, size + 1, room)), Code::corrupt);
    EXPECT_EQ(code_of(store.open_to_read("short").value()->bytes_at(size + 5000, 1, room)), Code::corrupt);
  }
}

TEST_P(StoreContract, reading_nothing_succeeds_anywhere) {
  put("f", "x");
  EXPECT_TRUE(store.open_to_read("f").value()->read_at(0, {}).ok());
}

TEST_P(StoreContract, an_impossible_offset_is_a_failure) {
  auto file = to_write("f");
  EXPECT_FALSE(file->write_at(~std::uint64_t{0} - 2, as_bytes("xyz")).ok());
  EXPECT_FALSE(file->resize(~std::uint64_t{0}).ok());
  Bytes into(3);
  EXPECT_FALSE(file->read_at(~std::uint64_t{0} - 2, into).ok());
}

TEST_P(StoreContract, a_file_opened_to_read_cannot_be_written) {
  put("f", "abc");
  auto file = std::move(store.open_to_read("f")).value();
  EXPECT_FALSE(file->write_at(0, as_bytes("x")).ok());
  EXPECT_FALSE(file->resize(1).ok());
  EXPECT_EQ(text_of("f"), "abc");
}

TEST_P(StoreContract, several_threads_write_one_file_at_once) {
  constexpr std::size_t part = (1UL << 20) + 4096;
  constexpr unsigned writers = 6;
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < writers; ++w) {
    threads.emplace_back([this, w] {
      const Bytes bytes = pattern(part, w);
      auto file = to_write("shared");
      for (int round = 0; round < 3; ++round) EXPECT_TRUE(file->write_at(w * part, bytes).ok());
    });
  }
  for (auto& thread : threads) thread.join();
  const Bytes read = all_of("shared");
  ASSERT_EQ(read.size(), writers * part);
  for (unsigned w = 0; w < writers; ++w)
    EXPECT_TRUE(std::equal(read.begin() + w * part, read.begin() + (w + 1) * part, pattern(part, w).begin())) << w;
}

TEST_P(StoreContract, several_threads_share_one_open_file) {
  constexpr std::size_t part = (2UL << 20);
  auto file = to_write("shared");
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < 4; ++w)
    threads.emplace_back([&file, w] { EXPECT_TRUE(file->write_at(w * part, pattern(part, w)).ok()); });
  for (auto& thread : threads) thread.join();
  const Bytes read = all_of("shared");
  for (unsigned w = 0; w < 4; ++w)
    EXPECT_TRUE(std::equal(read.begin() + w * part, read.begin() + (w + 1) * part, pattern(part, w).begin())) << w;
}

TEST_P(StoreContract, several_threads_make_the_same_directories) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([this, t] {
      EXPECT_TRUE(store.make_dir("a/b/c").ok());
      EXPECT_TRUE(write_file(store, "a/b/c/" + std::to_string(t), as_bytes("x")).ok());
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(names_in("a/b/c"), (std::vector<std::string>{"0", "1", "2", "3", "4", "5"}));
}

TEST_P(StoreContract, rename_replaces_a_file) {
  ASSERT_TRUE(store.make_dir("d").ok());
  put("manifest.part", "new");
  put("d/manifest", "old");
  ASSERT_TRUE(store.rename("manifest.part", "d/manifest").ok());
  ASSERT_TRUE(store.sync_dir("d").ok());
  EXPECT_EQ(text_of("d/manifest"), "new");
  EXPECT_EQ(names_in(""), std::vector<std::string>{"d/"});
}

TEST_P(StoreContract, rename_moves_a_directory_with_what_is_in_it) {
  ASSERT_TRUE(store.make_dir("line/sub").ok());
  put("line/sub/f", "x");
  put("line-other", "y");
  ASSERT_TRUE(store.rename("line", "retired").ok());
  EXPECT_EQ(names_in(""), (std::vector<std::string>{"line-other", "retired/"}));
  EXPECT_EQ(text_of("retired/sub/f"), "x");
  ASSERT_TRUE(store.make_dir("full").ok());
  put("full/f", "z");
  EXPECT_FALSE(store.rename("retired", "full").ok());
  EXPECT_FALSE(store.rename("retired", "retired/inside").ok());
  EXPECT_FALSE(store.rename("line-other", "full").ok());
  EXPECT_FALSE(store.rename("full", "line-other").ok());
}

TEST_P(StoreContract, an_open_file_follows_its_bytes_not_its_name) {
  auto file = to_write("a");
  ASSERT_TRUE(store.rename("a", "b").ok());
  ASSERT_TRUE(file->write_at(0, pattern(2UL << 20, 9)).ok());
  EXPECT_EQ(all_of("b"), pattern(2UL << 20, 9));
  EXPECT_EQ(names_in(""), std::vector<std::string>{"b"});
  ASSERT_TRUE(store.remove("b").ok());
  EXPECT_TRUE(file->write_at(0, as_bytes("still there")).ok());
  EXPECT_TRUE(file->sync().ok());
}

TEST_P(StoreContract, remove_takes_files_and_empty_directories_and_minds_nothing_missing) {
  ASSERT_TRUE(store.make_dir("d").ok());
  put("d/f", "x");
  EXPECT_FALSE(store.remove("d").ok());
  EXPECT_EQ(text_of("d/f"), "x");
  EXPECT_TRUE(store.remove("d/f").ok());
  EXPECT_TRUE(store.remove("d/f").ok());
  EXPECT_TRUE(store.remove("d").ok());
  EXPECT_TRUE(store.remove("d").ok());
  EXPECT_TRUE(store.remove("never/was").ok());
}

TEST_P(StoreContract, remove_tree_takes_all_and_nothing_beside) {
  ASSERT_TRUE(store.make_dir("lines/42/deep/er").ok());
  put("lines/42/f", "x");
  put("lines/42/deep/er/g", "y");
  put("lines/420", "beside");
  EXPECT_TRUE(remove_tree(store, "lines/42").ok());
  EXPECT_TRUE(remove_tree(store, "lines/42").ok());
  EXPECT_TRUE(remove_tree(store, "no/such/tree").ok());
  EXPECT_EQ(names_in("lines"), std::vector<std::string>{"420"});
  EXPECT_TRUE(remove_tree(store, "lines/420").ok());
  EXPECT_TRUE(remove_tree(store, "").ok());
  EXPECT_TRUE(names_in("").empty());
}

TEST_P(StoreContract, list_is_sorted_and_tells_kinds_and_sizes) {
  EXPECT_TRUE(names_in("").empty());
  for (const char* name : {"b", "a", "B", "a.part", "c-dir"}) put(name, name);
  ASSERT_TRUE(store.remove("c-dir").ok());
  ASSERT_TRUE(store.make_dir("c-dir/x").ok());
  EXPECT_EQ(names_in(""), (std::vector<std::string>{"B", "a", "a.part", "b", "c-dir/"}));
  EXPECT_EQ(store.list("").value()[2].size, 6U);
  EXPECT_EQ(store.list("").value()[4].size, 0U);
}

TEST_P(StoreContract, what_is_missing_is_not_found_with_its_whole_name) {
  ASSERT_TRUE(store.make_dir("d").ok());
  EXPECT_EQ(code_of(store.open_to_read("d/gone")), Code::not_found);
  EXPECT_EQ(code_of(store.open_to_read("no/gone")), Code::not_found);
  EXPECT_EQ(code_of(store.open_to_write("no/new")), Code::not_found);
  EXPECT_EQ(code_of(store.list("no")), Code::not_found);
  EXPECT_EQ(code_of(store.rename("gone", "other")), Code::not_found);
  EXPECT_EQ(code_of(store.sync_dir("no")), Code::not_found);
  EXPECT_EQ(code_of(read_file(store, "gone", 10)), Code::not_found);
  const std::string what = store.open_to_read("d/gone").failure().what;
  EXPECT_NE(what.find(store.where() + "/d/gone: "), std::string::npos) << what;
}

TEST_P(StoreContract, a_directory_is_no_file_and_a_file_no_directory) {
  ASSERT_TRUE(store.make_dir("d").ok());
  put("f", "x");
  EXPECT_EQ(code_of(store.open_to_read("d")), Code::io);
  EXPECT_EQ(code_of(store.open_to_write("d")), Code::io);
  EXPECT_EQ(code_of(store.open_to_write("f/g")), Code::io);
  EXPECT_EQ(code_of(store.make_dir("f")), Code::io);
  EXPECT_EQ(code_of(store.make_dir("f/g")), Code::io);
  EXPECT_EQ(code_of(store.list("f")), Code::io);
  EXPECT_EQ(code_of(store.sync_dir("f")), Code::io);
}

TEST_P(StoreContract, make_dir_is_fine_where_there_is_one) {
  EXPECT_TRUE(store.make_dir("").ok());
  EXPECT_TRUE(store.make_dir("a/b").ok());
  put("a/b/f", "kept");
  EXPECT_TRUE(store.make_dir("a/b").ok());
  EXPECT_TRUE(store.sync_dir("").ok());
  EXPECT_EQ(text_of("a/b/f"), "kept");
}

TEST_P(StoreContract, names_with_spaces_and_other_scripts_work) {
  for (const std::string name : {"with space", "Größe", "速度場", "a\nb", "-rf", "q'\"uote"}) {
    ASSERT_TRUE(store.make_dir("dir " + name).ok());
    put("dir " + name + "/" + name, name);
    EXPECT_EQ(names_in("dir " + name), std::vector<std::string>{name});
    EXPECT_EQ(text_of("dir " + name + "/" + name), name);
  }
}

TEST_P(StoreContract, no_path_leads_out_of_the_store) {
  for (const std::string path : {"/etc", "../x", "a/../../x", "a//b", "a/", ".", "./a"}) {
    EXPECT_EQ(code_of(store.open_to_write(path)), Code::invalid_argument) << path;
    EXPECT_EQ(code_of(store.open_to_read(path)), Code::invalid_argument) << path;
    EXPECT_EQ(code_of(store.make_dir(path)), Code::invalid_argument) << path;
    EXPECT_EQ(code_of(store.remove(path)), Code::invalid_argument) << path;
    EXPECT_EQ(code_of(store.rename("f", path)), Code::invalid_argument) << path;
    EXPECT_EQ(code_of(store.list(path)), Code::invalid_argument) << path;
    EXPECT_EQ(code_of(store.sync_dir(path)), Code::invalid_argument) << path;
  }
  EXPECT_EQ(code_of(store.remove(std::string("a\0b", 3))), Code::invalid_argument);
  EXPECT_EQ(code_of(store.remove("")), Code::invalid_argument);
  EXPECT_EQ(code_of(store.rename("", "x")), Code::invalid_argument);
}

TEST_P(StoreContract, write_file_replaces_and_read_file_keeps_its_bound) {
  put("f", "a long text");
  put("f", "short");
  EXPECT_EQ(text_of("f"), "short");
  EXPECT_EQ(as_text(read_file(store, "f", 5).value()), "short");
  EXPECT_EQ(code_of(read_file(store, "f", 4)), Code::corrupt);
  put("f", "");
  EXPECT_TRUE(read_file(store, "f", 0).value().empty());
}

INSTANTIATE_TEST_SUITE_P(every, StoreContract, testing::ValuesIn(backends()),
                         [](const auto& backend) { return backend.param.name; });

}  // namespace
}  // namespace backstay::store
