#include "format/hdf5_metadata.h"

#include <algorithm>

#include "format/hdf5_writer.h"

namespace backstay::format {
namespace {

constexpr std::uint64_t collection_header = 16, object_header = 16;
constexpr std::uint64_t min_collection = 4096;  // libhdf5 refuses smaller ones

}  // namespace

std::uint64_t Metadata::append(ByteView bytes) {
  bytes_.resize(round_up(bytes_.size(), 8));
  const auto address = end();
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return address;
}

void Metadata::overwrite(std::uint64_t address, ByteView bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(address - start_));
}

void Metadata::open_collection(std::uint64_t object_size) {
  const auto size = std::max(min_collection, collection_header + object_size);
  Writer out;
  out.text("GCOL").u8(1).zeros(3).u64(size).zeros(size - collection_header);
  last_ = {append(out.view()), 0};
  free_address_ = last_.collection + collection_header;
  free_bytes_ = size - collection_header;
}

Result<HeapId> Metadata::keep(const std::string& object) {
  if (const auto known = kept_.find(object); known != kept_.end()) return known->second;
  const auto size = object_header + round_up(object.size(), 8);
  if (collection_header + size > max_metadata_entry) {
    return fail(Code::invalid_argument, "a text or list of parts of ", object.size(), " bytes is more than the ",
                max_metadata_entry, " bytes that HDF5 tools read at once");
  }
  if (size > free_bytes_) open_collection(size);
  ++last_.index;
  overwrite(free_address_, Writer().u16(last_.index).u16(1).u32(0).u64(object.size()).text(object).view());
  free_address_ += size;
  free_bytes_ -= size;
  // The rest is object 0, the free space; a rest that is too small for its header is known to be free without one.
  if (free_bytes_ >= object_header) overwrite(free_address_, Writer().u64(0).u64(free_bytes_).view());
  kept_.emplace(object, last_);
  return last_;
}

}  // namespace backstay::format
