// Writes an HDF5 file through encode_hdf5, for tests/python/test_hdf5_image.py to read with other people's tools.
//   hdf5_image_sample PATH [types|many|far] [user block size]
#include <bit>
#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>

#include "format/hdf5_image.h"

namespace backstay::format {
namespace {

/// Datasets and their bytes, before they are written.
struct File {
  struct Piece {
    std::uint64_t offset;
    Bytes bytes;
  };
  Hdf5Description description;
  std::vector<Piece> pieces;
  std::uint64_t end;

  explicit File(std::uint64_t base) : end(base + 512) { description.base = base; }

  void add(std::string path, Type type, Extents shape, ByteView bytes, Attributes attributes = {}) {
    end = round_up(end, 64);
    description.datasets.push_back({std::move(path), std::move(type), std::move(shape), end, std::move(attributes)});
    pieces.push_back({end, Bytes(bytes.begin(), bytes.end())});
    end += bytes.size();
  }
  template <class T>
  void add(std::string path, Extents shape, const std::vector<T>& values, Attributes attributes = {}) {
    add(std::move(path), type_of<T>(), std::move(shape), std::as_bytes(std::span(values)), std::move(attributes));
  }

  Result<void> write(const char* path) {
    description.metadata_offset = round_up(end, 4096);
    auto image = encode_hdf5(description);
    if (!image) return image.failure();
    pieces.push_back({description.base, std::move(image->superblock)});
    pieces.push_back({description.metadata_offset, std::move(image->metadata)});
    std::ofstream out(path, std::ios::binary);
    for (const auto& [offset, bytes] : pieces) {
      out.seekp(static_cast<std::streamoff>(offset));
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    out.flush();
    if (!out) return fail(Code::io, "could not write ", path);
    return {};
  }
};

struct Inner {
  float weight[2][3];
  bool alive;
};
struct Particle {
  double x;
  std::int32_t id;
  Inner inner;
  std::complex<double> phase;
};

}  // namespace
}  // namespace backstay::format

template <>
struct backstay::describe<backstay::format::Inner> {
  static constexpr auto members =
      std::make_tuple(member("weight", &format::Inner::weight), member("is alive", &format::Inner::alive));
};
template <>
struct backstay::describe<backstay::format::Particle> {
  static constexpr auto members =
      std::make_tuple(member("x", &format::Particle::x), member("id", &format::Particle::id),
                      member("inner", &format::Particle::inner), member("phase", &format::Particle::phase));
};

namespace backstay::format {
namespace {

template <class T>
std::vector<T> ramp(std::size_t count, T first) {
  std::vector<T> values(count);
  for (auto& v : values) v = first, first = static_cast<T>(first + T(1));
  return values;
}

void add_numbers(File& file) {
  file.add("/numbers/i1", {3}, ramp<std::int8_t>(3, -1));
  file.add("/numbers/i2", {3}, ramp<std::int16_t>(3, -300));
  file.add("/numbers/i4", {3}, ramp<std::int32_t>(3, -70000));
  file.add("/numbers/i8", {3}, ramp<std::int64_t>(3, -5000000000));
  file.add("/numbers/u1", {3}, ramp<std::uint8_t>(3, 250));
  file.add("/numbers/u2", {3}, ramp<std::uint16_t>(3, 60000));
  file.add("/numbers/u4", {3}, ramp<std::uint32_t>(3, 4000000000));
  file.add("/numbers/u8", {3}, ramp<std::uint64_t>(3, 18000000000000000000U));
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x7bff};  // 1, -2, 65504
  file.add("/numbers/f2", {Type::Kind::floating, 2, {}}, {3}, std::as_bytes(std::span(halves)));
  file.add("/numbers/f4", {3}, std::vector<float>{0.1F, -1e30F, 1e-40F});
  file.add("/numbers/f8", {3}, std::vector<double>{0.1, -1e300, std::bit_cast<double>(0x7ff4000000abcdefU)});
  // 1 and -1.5: sign and exponent (biased by 16383) in the upper 16 of 80 bits, then the mantissa with its leading one.
  const std::vector<std::uint64_t> extended{0x8000000000000000, 0x3fff, 0xc000000000000000, 0xbfff};
  file.add("/numbers/f16", {Type::Kind::floating, 16, {}}, {2}, std::as_bytes(std::span(extended)));
  file.add("/numbers/c8", {2}, std::vector<std::complex<float>>{{1, -2}, {0.5F, 3}});
  file.add("/numbers/c16", {2}, std::vector<std::complex<double>>{{1, -2}, {0.5, 3}});
  file.add("/numbers/c32", {Type::Kind::complex, 32, {}}, {1}, std::as_bytes(std::span(extended)));
  const bool flags[]{true, false, true};
  file.add("/numbers/b1", type_of<bool>(), {3}, std::as_bytes(std::span(flags)));
}

void add_others(File& file) {
  file.add("/others/text", {Type::Kind::text, 6, {}}, {2},
           as_bytes(std::string_view("gr\xc3\xbc\xc3\x9f"
                                     "abcdef",
                                     12)));
  file.add("/others/opaque", {Type::Kind::opaque, 5, {}}, {2}, as_bytes("0123456789"));
  std::vector<Particle> particles(2);
  std::memset(static_cast<void*>(particles.data()), 0, sizeof(Particle) * particles.size());  // padding too
  for (int i = 0; i < 2; ++i) {
    auto& p = particles[static_cast<std::size_t>(i)];
    p.x = 0.5 + i, p.id = 7 + i, p.inner.alive = i == 1, p.phase = {1.0 * i, 2};
    for (int k = 0; k < 6; ++k) p.inner.weight[k / 3][k % 3] = static_cast<float>(10 * i + k);
  }
  file.add("/others/particles", {2}, particles);
  Type big{Type::Kind::compound, 100000, {}};  // offsets that need three bytes
  big.members = {{"last", 99992, {}, type_of<double>()}, {"first", 0, {4}, type_of<std::uint8_t>()}};
  Bytes one(100000);
  const double last = 2.5;
  std::memcpy(&one[99992], &last, sizeof last);
  one[3] = std::byte{9};
  file.add("/others/big", big, {1}, one);
}

void add_shapes(File& file) {
  file.add("/shapes/scalar", {}, std::vector<double>{42.5});
  file.add("/shapes/seven", {2, 3, 1, 2, 3, 2, 2}, ramp<std::int32_t>(144, 0));
  file.add<double>("/shapes/empty", {0}, {});
  file.add<std::int32_t>("/shapes/flat", {4, 0, 3}, {});
  file.add(
      "/shapes/Gr\xc3\xb6\xc3\x9f"
      "e in m",
      {1}, ramp<std::int32_t>(1, 1));
  file.add("/shapes/" + std::string(300, 'n'), {1}, ramp<std::int32_t>(1, 2));
  file.description.links.push_back({"/linked/again", "/shapes/seven"});
  file.description.links.push_back({"/seven", "/linked/again"});
}

void add_attributes(File& file) {
  Attributes attributes{{"units", "m s-1"},
                        {"empty", ""},
                        {"greek", "\xce\xb1\xce\xb2"},
                        {"long", std::string(100000, 'x')},
                        {"step", std::int64_t{-7}},
                        {"time", 0.25},
                        {"global shape", std::vector<std::int64_t>{5, -6, 1LL << 40}},
                        {"nothing", std::vector<std::int64_t>{}}};
  for (int i = 0; i < 300; ++i) attributes.emplace_back(cat("a", i), cat("value ", i));
  file.add("/attributes", {1}, ramp<std::int32_t>(1, 0), attributes);
  file.description.attributes = {{"job", "0123456789abcdef"}, {"line", std::int64_t{42}}, {"time", 1.5}};
}

/// A 4 x 6 array from blocks of 2 x 3, of which the last is missing; and a list from three pieces, one of them empty.
void add_virtual(File& file) {
  Hdf5VirtualDataset field{"/u", type_of<double>(), {4, 6}, {}, {{"units", "K"}}};
  for (int i = 0; i < 3; ++i) {
    const auto path = cat("/by_rank/0000", i, "/u");
    file.add(path, {2, 3}, ramp<double>(6, 100.0 * i + 1));
    field.parts.push_back({path, {2, 3}, {i / 2 * 2, i % 2 * 3}});
  }
  Hdf5VirtualDataset list{"/100%b list", type_of<std::int32_t>(), {5}, {}, {}};
  for (std::int64_t i = 0, start = 0; i < 3; start += i == 1 ? 0 : 2 + i / 2, ++i) {
    const auto path = cat("/by_rank/0000", i, "/100%b list");
    const std::int64_t length = i == 1 ? 0 : 2 + i / 2;
    file.add(path, {length}, ramp(static_cast<std::size_t>(length), static_cast<std::int32_t>(10 * i)));
    list.parts.push_back({path, {length}, {start}});
  }
  file.description.virtual_datasets = {field, list};
  file.description.virtual_datasets.push_back({"/nowhere", type_of<double>(), {2, 2}, {}, {}});
  file.description.virtual_datasets.push_back({"/no elements", type_of<double>(), {0, 2}, {}, {}});
}

/// 10,000 datasets in one group, put together to one list, and 10,000 groups.
void add_many(File& file) {
  Hdf5VirtualDataset all{"/all", type_of<std::int32_t>(), {20000}, {}, {}};
  for (int i = 0; i < 10000; ++i) {
    const auto path = cat("/many/", i);
    file.add(path, {2}, std::vector<std::int32_t>{i, -i}, {{"units", "kg"}, {"rank", std::int64_t{i}}});
    file.description.links.push_back({cat("/groups/", i, "/u"), path});
    all.parts.push_back({path, {2}, {2 * i}});
  }
  file.description.virtual_datasets.push_back(all);
}

/// Offsets of more than 4 GiB; the file is sparse.
void add_far(File& file) {
  file.add("/near", {2}, ramp<std::int64_t>(2, 1));
  file.end = 5'000'000'000;
  file.add("/far", {2}, ramp<std::int64_t>(2, 3));
  constexpr std::int64_t large = 700'000'000;
  file.description.datasets.push_back({"/large", type_of<double>(), {large}, file.end, {}});
  file.end += 8 * large;
  file.add("/farther", {2}, ramp<std::int64_t>(2, 5));
  file.description.virtual_datasets.push_back(
      {"/both", type_of<double>(), {large + 2, 1}, {{"/column", {2, 1}, {large, 0}}}, {}});
  file.add("/column", {2, 1}, ramp<double>(2, 7));
}

Result<void> write_sample(const char* path, std::string_view content, std::uint64_t base) {
  File file(base);
  if (content == "types") {
    for (auto add : {add_numbers, add_others, add_shapes, add_attributes, add_virtual}) add(file);
  } else if (content == "many") {
    add_many(file);
  } else if (content == "far") {
    add_far(file);
  } else {
    return fail(Code::invalid_argument, "no such content: ", content, "; there are types, many and far");
  }
  return file.write(path);
}

}  // namespace
}  // namespace backstay::format

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "hdf5_image_sample PATH [types|many|far] [user block size]\n";
    return 2;
  }
  const auto done =
      backstay::format::write_sample(argv[1], argc > 2 ? argv[2] : "types", argc > 3 ? std::stoull(argv[3]) : 0);
  if (!done) std::cerr << done.failure().what << '\n';
  return done ? 0 : 1;
}
