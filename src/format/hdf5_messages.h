// Object headers (version 2) and the messages in them; section IV.A of the specification.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/hdf5_image.h"
#include "format/hdf5_metadata.h"

namespace backstay::format {

struct Message {
  enum class Kind : std::uint8_t {
    dataspace = 0x01,
    link_info = 0x02,
    datatype = 0x03,
    fill_value = 0x05,
    link = 0x06,
    layout = 0x08,
    group_info = 0x0a,
    attribute = 0x0c,
    reference_count = 0x16,
  };
  Kind kind;
  Bytes body;
};

Message dataspace_message(const Extents& shape);
Result<Message> datatype_message(const Type& type);
/// Elements that were never written read as zero.
/// What is read where nothing was written: `value`, one element; empty: zeros.
Message fill_value_message(ByteView value = {});
Message contiguous_layout_message(std::uint64_t address, std::uint64_t bytes);
/// `parts` is where encode_parts() is kept.
Message virtual_layout_message(const HeapId& parts);
Message link_info_message();
Message group_info_message();
/// A hard link.
Message link_message(std::string_view name, std::uint64_t address);
Message reference_count_message(std::uint32_t links);
/// Texts go to the heap of `metadata`, so that h5py gives them back as `str`.
Result<Message> attribute_message(const std::string& name, const AttributeValue& value, Metadata& metadata);

/// The mapping of a virtual dataset, for the global heap. Every part must have elements.
std::string encode_parts(const std::vector<Hdf5VirtualDataset::Part>& parts);

/// Code::invalid_argument for a message of more than 65,535 bytes, and for more messages than HDF5 tools read.
Result<Bytes> encode_object_header(const std::vector<Message>& messages);

}  // namespace backstay::format
