// A whole data file, opened as a restart opens it. Most of a file is padding, so the input is what matters of it, in
// text: the header line, in which `=` stands for what is right; the table; after a zero byte the first area's bytes.
#include <algorithm>

#include "base/crc32c.h"
#include "base/text.h"
#include "engine/data_reader.h"
#include "format/data_file.h"
#include "samples.h"
#include "store/memory_store.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
constexpr std::string_view right_header = "backstay data 1 table = = = hdf5 = = = size = crc =\n";
constexpr std::string_view name = "all.h5";

struct Parts {
  std::string_view line, table, area;
};

Parts parts_of(std::string_view input) {
  const auto end = std::min(input.find('\n'), input.size());
  const std::string_view rest = input.substr(std::min(end + 1, input.size()));
  const auto zero = std::min(rest.find('\0'), rest.size());
  return {input.substr(0, end), rest.substr(0, zero), rest.substr(std::min(zero + 1, rest.size()))};
}

/// The words of a right header take the place of each `=`.
std::string header_line(std::string_view given, const format::Header& right) {
  const std::string all(as_text(format::encode_header(right)));
  const auto of_right = split(all.substr(0, all.find('\n')), ' ');
  const auto words = split(given, ' ');
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_sum = i == 14;  // of what stands before, whatever that is
    const std::string right_word = is_sum ? hex8(crc32c(as_bytes(line + " "))) : i < of_right.size() ? of_right[i] : "";
    line += (i > 0 ? " " : "") + (words[i] == "=" ? right_word : words[i]);
  }
  return line + "\n";
}

Bytes compose(const Parts& parts) {
  const Bytes superblock(format::page, std::byte{'s'}), metadata = bytes_of("the rest of HDF5");
  format::Header header;
  header.table_offset = format::first_area + round_up(parts.area.size(), format::page);
  header.table_length = parts.table.size();
  header.table_crc = crc32c(as_bytes(parts.table));
  header.hdf5_offset = header.table_offset + round_up(parts.table.size(), format::page);
  header.hdf5_length = metadata.size();
  header.hdf5_crc = crc32c(metadata, crc32c(superblock));
  header.size = header.hdf5_offset + metadata.size();
  Bytes file(static_cast<std::size_t>(header.size));
  const auto put = [&](std::uint64_t at, ByteView bytes) {
    std::copy_n(bytes.begin(), std::min<std::size_t>(bytes.size(), file.size() - at),
                file.begin() + std::ptrdiff_t(at));
  };
  put(0, as_bytes(header_line(parts.line, header)));
  put(format::page, superblock);
  put(format::first_area, as_bytes(parts.area));
  put(header.table_offset, as_bytes(parts.table));
  put(header.hdf5_offset, metadata);
  return file;
}

/// What a manifest says that means just this file.
format::DataFile expected(const format::Table& table, const Bytes& file) {
  format::DataFile out{table.file, {0}, -1, -1, file.size(), 0};
  if (const auto header = format::decode_header(ByteView(file).first(format::page))) out.table_crc = header->table_crc;
  return out;
}

void read_all(engine::DataReader& reader, std::uint64_t size) {
  for (const auto& segment : reader.table().segments) {
    expect(segment.bytes <= size && segment.offset <= size - segment.bytes, "a segment lies in the file");
    Bytes bytes(static_cast<std::size_t>(segment.bytes));
    (void)reader.read(segment, bytes).ok();
  }
  (void)reader.check_frame().ok();
}
}  // namespace

void try_input(ByteView input) {
  const Parts parts = parts_of(as_text(input));
  const Bytes file = compose(parts);
  const auto decoded = format::decode_table(as_bytes(parts.table));
  const format::Table table = decoded ? *decoded : format::Table{"", 0, std::string(name), {}};
  const auto store = store::make_memory_store();
  const std::string path(name);
  expect(store::write_file(*store, path, file).ok(), "a small file is written");
  for (const auto rank : {std::optional<int>{}, std::optional<int>{0}, std::optional<int>{2}}) {
    auto reader = engine::DataReader::open(*store, path, expected(table, file), table.job, table.line, rank);
    if (reader) read_all(*reader, file.size());
    if (reader && !rank && cat(parts.line, "\n") == right_header)
      expect(reader->table() == table, "the table of a file is the one that was put in");
  }
}

Bytes repaired(Bytes input) {
  const std::string_view text = as_text(input);
  const auto end = text.find('\n');
  const auto sum = text.substr(0, std::min(end, text.size())).rfind(" crc ");
  if (end == text.npos || sum == text.npos) return input;
  return bytes_of(std::string(text.substr(0, sum)) + " crc =" + std::string(text.substr(end)));
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const auto& table : sample_tables())
    for (const std::size_t area : {0u, 10u, 300u})
      out.push_back(bytes_of(cat(right_header, as_text(format::encode_table(table)), '\0', std::string(area, '\0'))));
  out.push_back(bytes_of("backstay data 1 table 8192 = = hdf5 = 16 = size = crc =\n{}"));
  return out;
}

}  // namespace backstay::fuzz
