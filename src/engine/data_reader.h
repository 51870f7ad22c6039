// Reads one data file of a line: its header, its table, its segments, each checked.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backstay/types.hpp"
#include "format/data_file.h"
#include "store/store.h"

namespace backstay::engine {

class DataReader {
 public:
  /// Opens the file and checks header and table against what the manifest says. With `only_rank`, table() may lack the
  /// segments of others.
  static Result<DataReader> open(store::Store& store, const std::string& path, const format::DataFile& expected,
                                 const std::string& job, std::uint64_t line, std::optional<int> only_rank = {});

  [[nodiscard]] const format::Table& table() const { return table_; }
  /// The bytes of a segment, its CRC checked. `target` has segment.bytes bytes.
  Result<void> read(const format::Segment& segment, MutableByteView target);
  /// The same into memory with strides; `scratch` is used for what is not dense.
  Result<void> read(const format::Segment& segment, const View& target, Bytes& scratch);
  /// The same to nowhere, in little memory.
  Result<void> check(const format::Segment& segment);
  /// The rest of the file: HDF5 metadata and padding, which no resume needs.
  Result<void> check_frame();

 private:
  DataReader() = default;
  template <class Place>
  Result<void> read_pieces(const format::Segment& segment, const Place& place);
  [[nodiscard]] Failure damaged(const format::Segment& segment, std::uint32_t crc) const;
  Result<void> expect_zeros(std::uint64_t from, std::uint64_t to);

  std::string where_;
  std::unique_ptr<store::File> file_;
  format::Header header_;
  format::Table table_;
};

}  // namespace backstay::engine
