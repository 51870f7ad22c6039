#include "format/manifest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/crc32c.h"
#include "base/text.h"

namespace backstay::format {
namespace {

Manifest sample() {
  Manifest m{"0123456789abcdef", 42, "partner", 3, 7, 1234.5, "tgv \"x\" ü", {}, {}};
  m.files.push_back({"rank-00000.h5", {0}, 0, 1, 12345, 0x9af1});
  m.files.push_back({"rank-00001.h5", {1, 2}, 1, 0, 0, 0xffffffff});
  return m;
}

Bytes with_body(const std::string& body, const std::string& version = "1") {
  const std::string all =
      cat("backstay manifest ", version, ' ', body.size(), ' ', hex8(crc32c(as_bytes(body))), '\n', body);
  return {as_bytes(all).begin(), as_bytes(all).end()};
}

TEST(manifest, comes_back_as_it_was) {
  const auto back = decode_manifest(encode_manifest(sample()));
  ASSERT_TRUE(back.ok()) << back.failure().what;
  EXPECT_EQ(*back, sample());
}

TEST(manifest, what_it_says_of_static_regions_comes_back) {
  auto m = sample();
  m.statics = 41;
  for (const double time : {0.0, 1764367692.123457}) {
    m.statics_time = time;
    const auto back = decode_manifest(encode_manifest(m));
    ASSERT_TRUE(back.ok()) << back.failure().what;
    EXPECT_EQ(*back, m);
  }
}

std::string text_of_a_table() {
  Segment segment;
  segment.region = segment.dataset = "step";
  segment.type = {Type::Kind::integer, 8, {}};
  segment.shape = {1};
  const Bytes text = encode_table({"0123456789abcdef", 1, "rank-00000.h5", {segment}, {}});
  return std::string(as_text(text));
}

/// What is destroyed by exit() that was made behind the first of these.
[[noreturn]] void end_by_exit() {
  static std::string* before = nullptr;
  (void)std::atexit([] { _exit(text_of_a_table() == *before ? 0 : 1); });
  before = new std::string(text_of_a_table());
  std::exit(2);
}

/// The background may be about to commit a line then.
TEST(manifest, a_table_is_written_as_ever_while_the_process_ends_by_exit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_by_exit(), testing::ExitedWithCode(0), "");
}

/// Four ranks on four nodes; the third group member of the second group holds parity only.
Manifest with_groups() {
  Manifest m{"0123456789abcdef", 42, "local", 4, 7, 1234.5, "p", {}, {}};
  for (int rank = 0; rank < 4; ++rank) m.files.push_back({cat("rank-0000", rank, ".h5"), {rank}, rank, -1, 9000, 7});
  m.groups.push_back({{0, 1, 2}, 3, 1, 8192, {1, 2, 0xffffffff}});
  m.groups.push_back({{3, 0}, 1, 1, 12288, {4, 5}});
  return m;
}

TEST(manifest, parity_groups_come_back_as_they_were) {
  const auto back = decode_manifest(encode_manifest(with_groups()));
  ASSERT_TRUE(back.ok()) << back.failure().what;
  EXPECT_EQ(*back, with_groups());
}

TEST(manifest, parity_groups_that_cannot_be_are_refused) {
  const std::vector<std::function<void(Manifest&)>> wrong{
      [](Manifest& m) { m.groups[0].members = {0, 0, 2}; },
      [](Manifest& m) { m.groups[0].members = {0, 1, 4}; },
      [](Manifest& m) { m.groups[0].members.push_back(3); },
      [](Manifest& m) { m.groups[0].owners = 2; },
      [](Manifest& m) { m.groups[0].owners = 4; },
      [](Manifest& m) { m.groups[1].owners = 2; },
      [](Manifest& m) { m.groups[0].parities = 0; },
      [](Manifest& m) { m.groups[0].parities = 3; },
      [](Manifest& m) { m.groups[0].chunk = 4096; },
      [](Manifest& m) { m.groups.pop_back(); },
      [](Manifest& m) {
        m.files[0].ranks = {0, 1};
        m.files.erase(m.files.begin() + 1);
      },
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    Manifest m = with_groups();
    wrong[i](m);
    const auto back = decode_manifest(encode_manifest(m));
    ASSERT_FALSE(back.ok()) << i;
    EXPECT_EQ(back.failure().code, Code::corrupt) << i;
  }
}

TEST(manifest, every_flipped_byte_is_found) {
  const Bytes good = encode_manifest(sample());
  for (std::size_t i = 0; i < good.size(); ++i)
    for (int bit : {0, 3, 7}) {
      Bytes bad = good;
      bad[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(decode_manifest(bad).ok()) << i;
    }
}

TEST(manifest, every_truncation_is_found) {
  const Bytes good = encode_manifest(sample());
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_manifest(ByteView(good).first(size)).ok()) << size;
}

TEST(manifest, other_versions_are_named) {
  for (const char* version : {"0", "2", "99"}) {
    const auto r = decode_manifest(with_body("{}\n", version));
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.failure().code, Code::version);
    EXPECT_NE(r.failure().what.find(version), std::string::npos);
  }
}

TEST(manifest, names_cannot_leave_the_directory) {
  for (const char* name : {"../x", "/etc/passwd", "a/b", ".", "..", ".hidden", ""}) {
    Manifest m = sample();
    m.files[0].name = name;
    EXPECT_FALSE(decode_manifest(encode_manifest(m)).ok()) << name;
  }
}

TEST(manifest, every_rank_is_in_one_file) {
  Manifest twice = sample(), missing = sample(), beyond = sample();
  twice.files[1].ranks = {0, 1, 2};
  missing.files[1].ranks = {1};
  beyond.files[1].ranks = {1, 3};
  for (const auto& m : {twice, missing, beyond})
    EXPECT_EQ(decode_manifest(encode_manifest(m)).failure().code, Code::corrupt);
}

TEST(manifest, json_of_another_kind_is_refused) {
  for (const char* body : {"", "[]", "null", "{}", "{\"job\":1}", "{\"job\":\"x\",\"line\":-1}", "\xff\xfe"})
    EXPECT_EQ(decode_manifest(with_body(body)).failure().code, Code::corrupt) << body;
}

Table table_sample() {
  Table t{"0123456789abcdef", 42, "rank-00003.h5", {}};
  Type particle{Type::Kind::compound, 32, {}};
  particle.members.push_back({"x", 0, {3}, {Type::Kind::floating, 8, {}}});
  particle.members.push_back({"id", 24, {}, {Type::Kind::integer, 4, {}}});
  t.segments.push_back({3,
                        "flow/u v",
                        "/flow/u v",
                        {Type::Kind::floating, 8, {}},
                        {2, 3},
                        "m s-1",
                        block({4, 3}, {2, 0}, {4, 3}),
                        8192,
                        48,
                        1});
  t.segments.push_back({3, "p", "/p", particle, {0}, "", distributed_list(), 8256, 0, 0});
  t.segments.push_back({3, "t", "/t", {Type::Kind::text, 5, {}}, {}, "", rank_private(), 8320, 5, 2});
  return t;
}

TEST(table, comes_back_as_it_was) {
  const auto back = decode_table(encode_table(table_sample()));
  ASSERT_TRUE(back.ok()) << back.failure().what;
  EXPECT_EQ(*back, table_sample());
}

TEST(table, the_rows_of_one_rank_come_without_the_others) {
  Table all = table_sample();
  all.segments.clear();
  for (int rank : {1, 3, 12, 31})
    for (Segment s : table_sample().segments) {
      s.rank = rank;
      s.units = R"({"rank":3,"region":"a trap",)";  // a text that looks like a row
      all.segments.push_back(s);
    }
  for (int rank : {1, 3, 12, 31, 2}) {
    Table wanted = all;
    std::erase_if(wanted.segments, [&](const Segment& s) { return s.rank != rank; });
    const auto rows = decode_rows(encode_table(all), rank);
    ASSERT_TRUE(rows.ok()) << rows.failure().what;
    if (rank != 2) {
      EXPECT_EQ(*rows, wanted) << rank;
    }
  }
  const std::string spaced = "{ \"job\" : \"j\", \"line\": 1, \"file\": \"f\", \"segments\": [] }";
  EXPECT_TRUE(decode_rows(as_bytes(spaced), 1).ok()) << "white space is no reason to refuse a table";
}

TEST(table, what_was_left_out_comes_back_and_is_known_to_who_reads_one_rank) {
  Table table = table_sample();
  table.left_out = {
      {0, "flux", {10, 3}}, {1, R"(,{"rank":0,"region":)", {}}, {1, "flux", {0}}, {0, "mesh", {4}, 4000000000U}};
  const auto back = decode_table(encode_table(table));
  ASSERT_TRUE(back.ok()) << back.failure().what;
  EXPECT_EQ(*back, table);
  const auto rows = decode_rows(encode_table(table), table.segments.front().rank);
  ASSERT_TRUE(rows.ok()) << rows.failure().what;
  EXPECT_EQ(rows->left_out, table.left_out);
}

TEST(table, what_was_left_out_is_checked) {
  for (const std::string entries :
       {"3", "[3]", "[{}]", R"([{"by":-1,"name":"f","shape":[]}])", R"([{"by":0,"name":7,"shape":[]}])",
        R"([{"by":0,"name":"f","shape":[-1]}])", R"([{"by":0,"name":"f","shape":[1152921504606846976,2]}])"}) {
    const std::string text =
        R"({"job":"0123456789abcdef","line":1,"file":"f","left_out":)" + entries + R"(,"segments":[]})";
    EXPECT_EQ(decode_table(as_bytes(text)).failure().code, Code::corrupt) << text;
  }
}

TEST(table, every_type_comes_back) {
  using K = Type::Kind;
  for (const auto& [kind, size] : std::vector<std::pair<K, std::size_t>>{{K::integer, 1},
                                                                         {K::integer, 8},
                                                                         {K::unsigned_integer, 4},
                                                                         {K::floating, 2},
                                                                         {K::floating, 16},
                                                                         {K::complex, 32},
                                                                         {K::boolean, 1},
                                                                         {K::text, 3},
                                                                         {K::opaque, 77}}) {
    Table t{"j", 1, "f", {}};
    t.segments.push_back({0, "r", "/r", {kind, size, {}}, {}, "", replicated(), 0, size, 0});
    EXPECT_EQ(*decode_table(encode_table(t)), t);
  }
}

TEST(table, shapes_that_do_not_fit_are_refused) {
  auto bytes = table_sample(), block_shape = table_sample(), outside = table_sample(), member = table_sample();
  bytes.segments[0].bytes = 47;
  block_shape.segments[0].placement.upper = {3, 3};
  outside.segments[0].placement.global = {3, 3};
  member.segments[1].type.members[0].offset = 16;
  for (const auto& t : {bytes, block_shape, outside, member})
    EXPECT_EQ(decode_table(encode_table(t)).failure().code, Code::corrupt);
}

/// Together they may be as many elements as there are.
TEST(table, parts_of_a_region_lie_apart) {
  const auto with_parts = [](std::int64_t second) {
    Table t{"j", 1, "f", {}, {}};
    for (const std::int64_t at : {std::int64_t{0}, second}) {
      Segment part{0, "u", "/u", {Type::Kind::floating, 8, {}}, {2}, "", {}, 0, 16, 0};
      part.part = Part{{4}, {at}};
      t.segments.push_back(part);
    }
    return encode_table(t);
  };
  EXPECT_TRUE(decode_table(with_parts(2)).ok());
  const auto refused = decode_table(with_parts(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().code, Code::corrupt);
  EXPECT_NE(refused.failure().what.find("parts of 'u' of rank 0 overlap"), std::string::npos) << refused.failure().what;
}

TEST(table, impossible_sizes_do_not_overflow) {
  auto t = table_sample();
  t.segments[1].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40, 1};
  EXPECT_FALSE(decode_table(encode_table(t)).ok());
}

}  // namespace
}  // namespace backstay::format
