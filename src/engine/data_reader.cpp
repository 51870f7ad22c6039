#include "engine/data_reader.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/text.h"
#include "region/pack.h"

namespace backstay::engine {

namespace {
// Small enough to be summed while it is in the second-level cache, large enough to read at full speed.
constexpr std::size_t piece_size = std::size_t{128} << 10;

bool is_dense(const View& view, std::size_t element) {
  return view.run_lengths.empty() &&
         view.strides == detail::dense_strides(view.shape, static_cast<std::int64_t>(element));
}
}  // namespace

Result<DataReader> DataReader::open(store::Store& store, const std::string& path, const format::DataFile& expected,
                                    const std::string& job, std::uint64_t line, std::optional<int> only_rank) {
  DataReader reader;
  reader.where_ = store.where() + "/" + path;
  auto file = store.open_to_read(path);
  if (!file) return file.failure();
  reader.file_ = std::move(*file);
  Bytes first(format::page);
  if (auto read = reader.file_->read_at(0, first); !read)
    return fail(read.failure().code, reader.where_, ": ", read.failure().what);
  auto header = format::decode_header(first);
  if (!header) return fail(header.failure().code, reader.where_, ": ", header.failure().what);
  reader.header_ = *header;
  const auto size = reader.file_->size();
  if (!size) return size.failure();
  if (header->size != *size || header->size != expected.size || header->table_crc != expected.table_crc)
    return fail(Code::corrupt, reader.where_, ": this is not the file that the manifest of line ", line,
                " means (another size or table)");
  if (std::any_of(first.begin() + (std::find(first.begin(), first.end(), std::byte{'\n'}) - first.begin()) + 1,
                  first.end(), [](std::byte b) { return b != std::byte{0}; }))
    return fail(Code::corrupt, reader.where_, ": bytes after the header line were altered");
  Bytes table(header->table_length);
  BACKSTAY_TRY(reader.file_->read_at(header->table_offset, table));
  if (crc32c(table) != header->table_crc)
    return fail(Code::corrupt, reader.where_, ": the checksum of its table differs");
  auto decoded = only_rank ? format::decode_rows(table, *only_rank) : format::decode_table(table);
  if (!decoded) return fail(decoded.failure().code, reader.where_, ": ", decoded.failure().what);
  if (decoded->job != job || decoded->line != line || decoded->file != expected.name)
    return fail(Code::corrupt, reader.where_, ": it belongs to job ", decoded->job, ", line ", decoded->line, ", file ",
                decoded->file, ", not to job ", job, ", line ", line, ", file ", expected.name);
  for (const auto& s : decoded->segments)
    if (s.offset < format::first_area || s.offset > header->table_offset || s.bytes > header->table_offset - s.offset)
      return fail(Code::corrupt, reader.where_, ": the segment '", s.region, "' of rank ", s.rank,
                  " lies outside the file");
  reader.table_ = std::move(*decoded);
  return reader;
}

Failure DataReader::damaged(const format::Segment& segment, std::uint32_t crc) const {
  return fail(Code::corrupt, where_, ": region '", segment.region, "' of rank ", segment.rank,
              ": checksum differs (stored ", hex8(segment.crc), ", read ", hex8(crc), ")");
}

/// `place`: for so many bytes of the segment, from there on.
template <class Place>
Result<void> DataReader::read_pieces(const format::Segment& segment, const Place& place) {
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < segment.bytes; at += piece_size) {
    const MutableByteView part = place(at, std::min<std::uint64_t>(piece_size, segment.bytes - at));
    BACKSTAY_TRY(file_->read_at(segment.offset + at, part));
    crc = crc32c(part, crc);
  }
  if (crc != segment.crc) return damaged(segment, crc);
  return {};
}

Result<void> DataReader::read(const format::Segment& segment, MutableByteView target) {
  return read_pieces(segment, [&](std::uint64_t at, std::uint64_t bytes) { return target.subspan(at, bytes); });
}

Result<void> DataReader::check(const format::Segment& segment) {
  Bytes piece(std::min<std::uint64_t>(piece_size, segment.bytes));
  return read_pieces(segment, [&](std::uint64_t, std::uint64_t bytes) { return MutableByteView(piece).first(bytes); });
}

Result<void> DataReader::read(const format::Segment& segment, const View& target, Bytes& scratch) {
  if (is_dense(target, segment.type.size))
    return read(segment, MutableByteView(target.data, static_cast<std::size_t>(segment.bytes)));
  // Rows that differ in length are found by going through all of those before.
  const std::uint64_t most = target.run_lengths.empty() ? piece_size : segment.bytes;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < segment.bytes; at += scratch.size()) {
    scratch.resize(static_cast<std::size_t>(std::min(most, segment.bytes - at)));
    BACKSTAY_TRY(file_->read_at(segment.offset + at, scratch));
    const auto of_piece = region::put_back(scratch, target, segment.type.size, at);
    crc = crc32c_combine(crc, of_piece, scratch.size());
  }
  if (crc != segment.crc) return damaged(segment, crc);
  return {};
}

Result<void> DataReader::expect_zeros(std::uint64_t from, std::uint64_t to) {
  Bytes bytes;
  for (; from < to; from += bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(piece_size, to - from));
    BACKSTAY_TRY(file_->read_at(from, bytes));
    if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; }))
      return fail(Code::corrupt, where_, ": padding between ", from, " and ", from + bytes.size(), " was altered");
  }
  return {};
}

Result<void> DataReader::check_frame() {
  Bytes superblock(format::page), metadata(header_.hdf5_length);
  BACKSTAY_TRY(file_->read_at(format::page, superblock));
  BACKSTAY_TRY(file_->read_at(header_.hdf5_offset, metadata));
  if (crc32c(metadata, crc32c(superblock)) != header_.hdf5_crc)
    return fail(Code::corrupt, where_, ": the checksum of its HDF5 metadata differs");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> used;
  for (const auto& s : table_.segments) used.emplace_back(s.offset, s.offset + s.bytes);
  std::sort(used.begin(), used.end());
  std::uint64_t end = format::first_area;
  for (const auto& [from, to] : used) {
    if (from > end) BACKSTAY_TRY(expect_zeros(end, from));
    end = std::max(end, to);
  }
  BACKSTAY_TRY(expect_zeros(end, header_.table_offset));
  return expect_zeros(header_.table_offset + header_.table_length, header_.hdf5_offset);
}

}  // namespace backstay::engine
