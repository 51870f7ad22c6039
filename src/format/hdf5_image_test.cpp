#include "format/hdf5_image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "format/hdf5_metadata.h"
#include "format/hdf5_types.h"
#include "format/hdf5_writer.h"

// What HDF5's own tools make of the bytes is tested in tests/python/test_hdf5_image.py.
namespace backstay::format {
namespace {

using Kind = Type::Kind;

std::uint64_t number_at(ByteView bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return value;
}

Hdf5Dataset dataset(std::string path, Extents shape = {2}, std::uint64_t offset = 8192) {
  return {std::move(path), type_of<double>(), std::move(shape), offset, {}};
}

Hdf5Description description(std::vector<Hdf5Dataset> datasets = {}) {
  Hdf5Description d;
  d.base = 4096;
  d.metadata_offset = 1 << 20;
  d.datasets = std::move(datasets);
  return d;
}

/// The body of an object header, after its checksum was checked; and how many bytes its size takes.
struct Header {
  ByteView body;
  std::size_t size_bytes;
};
Header header_at(const Hdf5Image& image, std::size_t at) {
  const ByteView bytes(image.metadata);
  EXPECT_EQ(as_text(bytes.subspan(at, 4)), "OHDR");
  const std::size_t width = std::size_t{1} << number_at(bytes, at + 5, 1);
  const auto size = number_at(bytes, at + 6, width);
  EXPECT_EQ(number_at(bytes, at + 6 + width + size, 4), lookup3(bytes.subspan(at, 6 + width + size)));
  return {bytes.subspan(at + 6 + width, size), width};
}

/// Where the header of the root group is in the metadata of a file made by description().
std::size_t root_of(const Hdf5Image& image) { return number_at(image.superblock, 36, 8) + 4096 - (1 << 20); }

/// The bodies of the messages of one kind.
std::vector<ByteView> messages_of(Header header, unsigned kind) {
  std::vector<ByteView> found;
  for (std::size_t at = 0; at < header.body.size();) {
    const auto size = number_at(header.body, at + 1, 2);
    if (number_at(header.body, at, 1) == kind) found.push_back(header.body.subspan(at + 4, size));
    at += 4 + size;
  }
  return found;
}

void expect_refused(const Hdf5Description& d, const std::string& part_of_sentence) {
  const auto image = encode_hdf5(d);
  ASSERT_FALSE(image.ok()) << "should say: " << part_of_sentence;
  EXPECT_EQ(image.failure().code, Code::invalid_argument);
  EXPECT_NE(image.failure().what.find(part_of_sentence), std::string::npos) << image.failure().what.substr(0, 300);
}

TEST(Lookup3, known_texts_have_their_known_hashes) {
  EXPECT_EQ(lookup3({}), 0xdeadbeefU);
  EXPECT_EQ(lookup3(as_bytes("Four score and seven years ago")), 0x17770551U);
}

TEST(Hdf5Image, superblock_names_base_end_and_root) {
  const auto image = encode_hdf5(description({dataset("/u")}));
  ASSERT_TRUE(image.ok());
  const ByteView s(image->superblock);
  ASSERT_EQ(s.size(), 48U);
  EXPECT_EQ(as_text(s.first(8)), "\x89HDF\r\n\x1a\n");
  EXPECT_EQ(number_at(s, 8, 4), 0x00080802U);
  EXPECT_EQ(number_at(s, 12, 8), 4096U);
  EXPECT_EQ(number_at(s, 28, 8), (1U << 20) + image->metadata.size());
  EXPECT_EQ(number_at(s, 44, 4), lookup3(s.first(44)));
  EXPECT_EQ(messages_of(header_at(*image, root_of(*image)), 0x06).size(), 1U);
}

TEST(Hdf5Image, addresses_count_from_the_base) {
  auto d = description({dataset("/a/u")});
  d.links = {{"/v", "/a/u"}};
  d.attributes = {{"job", "x"}};
  const auto with_block = encode_hdf5(d);
  d.base -= 4096, d.metadata_offset -= 4096, d.datasets[0].offset -= 4096;
  const auto without = encode_hdf5(d);
  ASSERT_TRUE(with_block.ok() && without.ok());
  EXPECT_EQ(with_block->metadata, without->metadata);
  EXPECT_NE(with_block->superblock, without->superblock);
}

TEST(Hdf5Image, empty_file_has_a_root) {
  const auto image = encode_hdf5(description());
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(header_at(*image, root_of(*image)).body.size(), 28U);
}

TEST(Hdf5Image, header_size_takes_the_bytes_it_needs) {
  for (const auto& [links, bytes] : {std::pair{1, 1U}, {20, 2U}, {5000, 4U}}) {
    auto d = description({dataset("/first")});
    for (int i = 1; i < links; ++i) d.links.push_back({cat('/', i), "/first"});
    const auto image = encode_hdf5(d);
    ASSERT_TRUE(image.ok());
    const auto root = header_at(*image, root_of(*image));
    EXPECT_EQ(root.size_bytes, bytes);
    EXPECT_EQ(messages_of(root, 0x06).size(), static_cast<std::size_t>(links));
  }
}

TEST(Hdf5Image, hard_links_are_counted) {
  auto d = description({dataset("/u")});
  const auto once = encode_hdf5(d);
  d.links = {{"/a/v", "/u"}, {"/w", "/a/v"}};
  const auto thrice = encode_hdf5(d);
  ASSERT_TRUE(once.ok() && thrice.ok());
  EXPECT_TRUE(messages_of(header_at(*once, 0), 0x16).empty());
  const auto counts = messages_of(header_at(*thrice, 0), 0x16);
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(number_at(counts[0], 1, 4), 3U);
}

TEST(Hdf5Image, dataset_without_elements_has_no_address) {
  const auto image = encode_hdf5(description({dataset("/u", {3, 0, 2}, 1)}));
  ASSERT_TRUE(image.ok());
  const auto layout = messages_of(header_at(*image, 0), 0x08).at(0);
  EXPECT_EQ(number_at(layout, 2, 8), undefined_address);
  EXPECT_EQ(number_at(layout, 10, 8), 0U);
}

TEST(Hdf5Image, paths_that_name_nothing_are_refused) {
  for (const auto& path : {"", "u", "/", "//u", "/u/", "/a//u", "/.", "/a/./u", "./u"}) {
    expect_refused(description({dataset(path)}), cat("'", path, "'"));
  }
  expect_refused(description({dataset(std::string("/a\0b", 4))}), "zero byte");
  EXPECT_TRUE(encode_hdf5(description({dataset("/../...")})).ok()) << "HDF5 gives '..' no meaning";
}

TEST(Hdf5Image, a_path_is_one_thing_only) {
  expect_refused(description({dataset("/u"), dataset("/u")}), "'/u'");
  expect_refused(description({dataset("/u"), dataset("/u/v")}), "is a dataset, but a group is needed");
  expect_refused(description({dataset("/u/v"), dataset("/u")}), "something else has this path");
  auto d = description({dataset("/u"), dataset("/g/v")});
  d.links = {{"/g/v", "/u"}};
  expect_refused(d, "'/g/v'");
  d.links = {{"/w", "/missing"}};
  expect_refused(d, "'/missing'");
  d.links = {{"/w", "/u/v"}};
  expect_refused(d, "'/u/v'");
  d.links = {{"/w", "/g"}};
  expect_refused(d, "this is a group");
}

TEST(Hdf5Image, shapes_that_cannot_be_are_refused) {
  expect_refused(description({dataset("/u", Extents(8, 1))}), "8 dimensions");
  expect_refused(description({dataset("/u", {2, -1})}), "negative");
  expect_refused(description({dataset("/u", {1LL << 40, 1LL << 40})}), "2^63");
  EXPECT_TRUE(encode_hdf5(description({dataset("/u", Extents(7, 1))})).ok());
}

TEST(Hdf5Image, data_outside_the_file_are_refused) {
  expect_refused(description({dataset("/u", {2}, 4088)}), "at 4088");
  expect_refused(description({dataset("/u", {2}, (1 << 20) - 8)}), "16 bytes");
  expect_refused(description({dataset("/u", {2}, std::numeric_limits<std::uint64_t>::max())}), "16 bytes");
  EXPECT_TRUE(encode_hdf5(description({dataset("/u", {2}, (1 << 20) - 16)})).ok());
  auto d = description();
  for (auto base : {1U, 256U, 4097U, 1536U}) {
    d.base = base;
    expect_refused(d, cat("not ", base));
  }
  d.base = 1 << 20;
  expect_refused(d, "after the superblock");
  d.base = 512, d.metadata_offset = 4100;
  expect_refused(d, "multiple of 8");
}

Type compound(std::size_t size, std::vector<Type::Member> members) {
  return {Kind::compound, size, std::move(members)};
}

TEST(Hdf5Type, types_that_hdf5_cannot_describe_are_refused) {
  const auto f8 = type_of<double>();
  const std::vector<Type> types{
      {Kind::integer, 3, {}},
      {Kind::unsigned_integer, 16, {}},
      {Kind::floating, 1, {}},
      {Kind::complex, 9, {}},
      {Kind::complex, 2, {}},
      {Kind::boolean, 4, {}},
      {Kind::text, 0, {}},
      {Kind::opaque, 0, {}},
      {Kind::opaque, std::size_t{1} << 33, {}},
      compound(8, {}),
      compound(8, {{"", 0, {}, f8}}),
      compound(16, {{"x", 0, {}, f8}, {"x", 8, {}, f8}}),
      compound(16, {{"x", 0, {}, f8}, {"y", 4, {}, f8}}),
      compound(16, {{"x", 12, {}, f8}}),
      compound(16, {{"x", std::numeric_limits<std::size_t>::max(), {}, f8}}),
      compound(16, {{"x", 0, {0}, f8}}),
      compound(16, {{"x", 0, {-2}, f8}}),
      compound(16, {{"x", 0, {1LL << 62, 4}, f8}}),
      compound(16, {{"x", 0, Extents(8, 1), f8}}),
      compound(16, {{"outer", 0, {}, compound(8, {{"inner", 0, {}, {Kind::integer, 5, {}}}})}}),
  };
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto encoded = encode_type(types[i]);
    ASSERT_FALSE(encoded.ok()) << "type " << i;
    EXPECT_EQ(encoded.failure().code, Code::invalid_argument);
  }
  auto d = description({dataset("/a/u")});
  d.datasets[0].type = types.back();
  expect_refused(d, "'/a/u': member 'outer': member 'inner': HDF5 has no integer of 5 bytes");
}

TEST(Hdf5Type, members_may_be_named_in_any_order) {
  const auto f4 = type_of<float>();
  const auto down = encode_type(compound(8, {{"b", 4, {}, f4}, {"a", 0, {}, f4}}));
  const auto up = encode_type(compound(8, {{"a", 0, {}, f4}, {"b", 4, {}, f4}}));
  ASSERT_TRUE(down.ok() && up.ok());
  EXPECT_EQ(*down, *up);
}

TEST(Hdf5Image, what_does_not_fit_a_message_is_refused) {
  expect_refused(description({dataset("/a/" + std::string(65600, 'n'))}), "'/a': its name of a dataset or group takes");
  EXPECT_TRUE(encode_hdf5(description({dataset("/a/" + std::string(65000, 'n'))})).ok());
  auto d = description({dataset("/u")});
  d.datasets[0].attributes = {{"list", std::vector<std::int64_t>(9000)}};
  expect_refused(d, "'/u': its attribute takes 72");
  d.datasets[0].attributes = {{std::string(70000, 'n'), 1.0}};
  expect_refused(d, "'/u': its attribute takes 70");
  d = description({dataset("/u")});
  d.datasets[0].type = compound(6000 * 8, {});
  for (std::size_t i = 0; i < 6000; ++i) d.datasets[0].type.members.push_back({cat(i), 8 * i, {}, type_of<double>()});
  expect_refused(d, "'/u': its type takes");
}

TEST(Hdf5Image, more_links_than_tools_read_are_refused) {
  auto d = description({dataset("/u")});
  for (int i = 0; i < 600; ++i) d.links.push_back({cat("/g/", std::string(60000, 'n'), i), "/u"});
  expect_refused(d, "'/g': its 602 links and attributes take");
}

TEST(Hdf5Image, attribute_names_are_there_and_unique) {
  auto d = description();
  d.attributes = {{"a", 1.0}, {"a", "x"}};
  expect_refused(d, "'/': attribute 'a' is there twice");
  d.attributes = {{"", 1.0}};
  expect_refused(d, "is empty");
}

Hdf5Description two_blocks() {
  auto d = description({dataset("/r/0", {2, 3}), dataset("/r/1", {2, 3}), dataset("/r/none", {0, 3})});
  d.virtual_datasets = {{"/u", type_of<double>(), {4, 3}, {{"/r/0", {2, 3}, {0, 0}}, {"/r/1", {2, 3}, {2, 0}}}, {}}};
  return d;
}

TEST(Hdf5Image, parts_must_exist_and_fit) {
  auto d = two_blocks();
  ASSERT_TRUE(encode_hdf5(d).ok());
  auto& part = d.virtual_datasets[0].parts[1];
  const auto good = part;
  const std::vector<std::pair<Hdf5VirtualDataset::Part, std::string>> bad{
      {{"/r/7", {2, 3}, {2, 0}}, "'/r/7': there is no such dataset"},
      {{"/u", {4, 3}, {0, 0}}, "part '/u' is not a contiguous dataset"},
      {{"/r/1", {1, 3}, {2, 0}}, "part '/r/1' is not a contiguous dataset of the shape"},
      {{"/r/1", {2, 3}, {3, 0}}, "sticks out"},
      {{"/r/1", {2, 3}, {-1, 0}}, "sticks out"},
      {{"/r/1", {2, 3}, {2}}, "sticks out"},
  };
  for (const auto& [wrong, sentence] : bad) {
    part = wrong;
    expect_refused(d, sentence);
  }
  part = good;
  d.virtual_datasets[0].shape = {};
  expect_refused(d, "'/u': a scalar");
}

TEST(Hdf5Image, parts_without_elements_are_not_mapped) {
  auto d = two_blocks();
  d.virtual_datasets[0].parts = {{"/r/none", {0, 3}, {1, 0}}};
  const auto image = encode_hdf5(d);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(as_text(image->metadata).find("GCOL"), std::string_view::npos);
}

TEST(Metadata, equal_objects_are_kept_once) {
  Metadata metadata(64);
  const auto a = metadata.keep("a"), b = metadata.keep("b"), again = metadata.keep("a");
  ASSERT_TRUE(a.ok() && b.ok() && again.ok());
  EXPECT_EQ(a->collection, 64U);
  EXPECT_EQ(a->index, again->index);
  EXPECT_NE(a->index, b->index);
  EXPECT_EQ(metadata.end(), 64U + 4096U);
}

TEST(Metadata, a_full_collection_is_followed_by_another) {
  Metadata metadata(0);
  const auto exact = metadata.keep(std::string(4096 - 32, 'x'));
  const auto next = metadata.keep("y");
  const auto large = metadata.keep(std::string(10000, 'z'));
  ASSERT_TRUE(exact.ok() && next.ok() && large.ok());
  EXPECT_EQ(exact->collection, 0U);
  EXPECT_EQ(next->collection, 4096U);
  EXPECT_EQ(large->collection, 8192U);
  EXPECT_EQ(metadata.end(), 8192U + 10032U);
  const auto bytes = metadata.take();
  EXPECT_EQ(number_at(bytes, 4096 + 16 + 24, 2), 0U) << "free space follows the only object";
  EXPECT_EQ(number_at(bytes, 4096 + 16 + 24 + 8, 8), 4096U - 16 - 24);
}

TEST(Metadata, a_text_that_tools_cannot_read_is_refused) {
  Metadata metadata(0);
  EXPECT_FALSE(metadata.keep(std::string(max_metadata_entry, 'x')).ok());
}

}  // namespace
}  // namespace backstay::format
