#include "samples.h"

#include "base/crc32c.h"
#include "base/text.h"

namespace backstay::fuzz {

namespace {
using format::Manifest;
using format::Segment;
using format::Table;

constexpr std::string_view job = "00c0ffee00c0ffee";

Type struct_type() {
  Type type{Type::Kind::compound, 40, {}};
  type.members.push_back({"x", 0, {}, {Type::Kind::floating, 8, {}}});
  type.members.push_back({"tag \"é\"", 8, {2, 3}, {Type::Kind::unsigned_integer, 2, {}}});
  type.members.push_back({"in", 24, {}, {Type::Kind::compound, 8, {{"y", 0, {}, {Type::Kind::integer, 4, {}}}}}});
  return type;
}

std::vector<Type> sample_types() {
  using K = Type::Kind;
  std::vector<Type> out;
  for (const std::size_t size : {1u, 2u, 4u, 8u}) {
    out.push_back({K::integer, size, {}});
    out.push_back({K::unsigned_integer, size, {}});
  }
  for (const std::size_t size : {2u, 4u, 8u, 16u}) out.push_back({K::floating, size, {}});
  for (const std::size_t size : {8u, 16u, 32u}) out.push_back({K::complex, size, {}});
  out.push_back({K::boolean, 1, {}});
  out.push_back({K::text, 17, {}});
  out.push_back({K::opaque, 3, {}});
  out.push_back(struct_type());
  return out;
}

Segment segment(int rank, std::string region, Type type, Extents shape, Placement placement, std::uint64_t offset) {
  Segment s{rank, std::move(region), "", std::move(type), std::move(shape), "m s-1", std::move(placement), offset, 0,
            0};
  s.dataset = "/" + s.region;
  s.bytes = s.type.size;
  for (const auto n : s.shape) s.bytes *= static_cast<std::uint64_t>(n);
  const Bytes zeros(s.bytes);
  s.crc = crc32c(zeros);
  return s;
}

Table table(std::string file, std::vector<Segment> segments) {
  return {std::string(job), 42, std::move(file), std::move(segments)};
}
}  // namespace

std::vector<Manifest> sample_manifests() {
  Manifest one{std::string(job), 42, "shared", 3, 7, 1.7e9, "heat \"2\" \\ é", {}, {}};
  one.files = {{"all.h5", {0, 1, 2}, -1, -1, 12345, 0xdeadbeef}};
  Manifest partner{std::string(job), 1, "partner", 2, 1, -0.25, "", {}, {}};
  partner.files = {{"rank-00000.h5", {0}, 0, 1, 1, 0}, {"rank-00001.h5", {1}, 1, 0, std::uint64_t{1} << 62, 1}};
  Manifest parity{std::string(job), 999999999, "local", 4, 3, 1e308, "a", {}, {}};
  for (int rank = 0; rank < 4; ++rank)
    parity.files.push_back({cat("rank-0000", rank, ".h5"), {rank}, rank, -1, 4000, 1});
  parity.groups = {{{0, 2, 3}, 2, 1, 4096, {1, 2, 3}}, {{1, 3, 0}, 2, 2, 8192, {4, 5, 6}}};
  const Manifest none{"", 0, "memory", 0, 0, 0, "", {}, {}};
  return {one, partner, parity, none};
}

std::vector<Table> sample_tables() {
  std::vector<Segment> rows;
  std::uint64_t offset = 8192;
  for (const auto& type : sample_types()) {
    rows.push_back(segment(0, cat("a/", rows.size()), type, {3, 2}, rank_private(), offset));
    offset += 64 * ((rows.back().bytes + 63) / 64);
  }
  std::vector<Segment> several;
  for (int rank = 0; rank < 3; ++rank) {
    several.push_back(segment(rank, "u", {Type::Kind::floating, 8, {}}, {2, 4},
                              block({6, 4}, {rank * 2, 0}, {rank * 2 + 2, 4}), 8192 + 4096u * rank));
    several.push_back(
        segment(rank, "list", {Type::Kind::integer, 4, {}}, {rank}, distributed_list(), 8192 + 4096u * rank + 64));
    several.push_back(segment(rank, "dt", {Type::Kind::floating, 8, {}}, {}, replicated(), 8192 + 4096u * rank + 128));
  }
  several.push_back(segment(11, "none \"é\"", {Type::Kind::text, 1, {}}, {0}, rank_private(), 8192));
  return {table("rank-00000.h5", rows), table("all.h5", several), table("rank-00001.h5", {}),
          table("rank-00002.h5", {segment(2, "t", {Type::Kind::integer, 8, {}}, {}, replicated(), 8192)})};
}

std::string with_right_first_line(const std::string& manifest) {
  const auto end = manifest.find('\n');
  if (end == manifest.npos) return manifest;
  auto words = split(manifest.substr(0, end), ' ');
  if (words.size() < 3) return manifest;
  const std::string body = manifest.substr(end + 1);
  return cat(words[0], ' ', words[1], ' ', words[2], ' ', body.size(), ' ', hex8(crc32c(as_bytes(body))), '\n', body);
}

}  // namespace backstay::fuzz
