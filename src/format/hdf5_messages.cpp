#include "format/hdf5_messages.h"

#include <bit>

#include "format/hdf5_types.h"
#include "format/hdf5_writer.h"

namespace backstay::format {
namespace {

using Kind = Message::Kind;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::datatype:
      return "type";
    case Kind::link:
      return "name of a dataset or group";
    case Kind::attribute:
      return "attribute";
    default:
      return "description";
  }
}

Bytes encode_dataspace(const Extents& shape) {
  Writer out;
  out.u8(2).u8(shape.size()).u8(0).u8(shape.empty() ? 0 : 1);
  for (auto n : shape) out.u64(static_cast<std::uint64_t>(n));
  return out.take();
}

/// The box of `shape` elements that starts at `lower`, as a hyperslab selection (version 2: 64-bit, regular).
void put_box(Writer& out, const Extents& lower, const Extents& shape) {
  constexpr unsigned hyperslab = 2, version = 2, regular = 1;
  const auto rank = shape.size();
  out.u32(hyperslab).u32(version).u8(regular).u32(4 + 32 * rank).u32(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto start = static_cast<std::uint64_t>(lower[d]), block = static_cast<std::uint64_t>(shape[d]);
    out.u64(start).u64(1).u64(1).u64(block);  // start, stride, count, block
  }
}

/// A virtual dataset reads "%b" in the name of a source as a block number, and "%%" as "%".
std::string escape_percent(std::string_view path) {
  std::string out;
  for (char c : path) out.append(c == '%' ? 2 : 1, c);
  return out;
}

/// What an attribute message holds behind the name.
struct Value {
  Bytes type, space, data;
};

struct EncodeValue {
  Metadata& metadata;

  static Result<Value> fixed(const Type& type, const Extents& shape, Writer data) {
    auto encoded = encode_type(type);
    if (!encoded) return encoded.failure();
    return Value{*std::move(encoded), encode_dataspace(shape), data.take()};
  }
  Result<Value> operator()(std::int64_t value) const {
    return fixed(type_of<std::int64_t>(), {}, Writer().u64(static_cast<std::uint64_t>(value)));
  }
  Result<Value> operator()(double value) const {
    return fixed(type_of<double>(), {}, Writer().u64(std::bit_cast<std::uint64_t>(value)));
  }
  Result<Value> operator()(const std::vector<std::int64_t>& values) const {
    Writer data;
    for (auto value : values) data.u64(static_cast<std::uint64_t>(value));
    return fixed(type_of<std::int64_t>(), {static_cast<std::int64_t>(values.size())}, std::move(data));
  }
  Result<Value> operator()(const std::string& text) const {
    // An empty text is a lone terminator: HDF5 reads a text of no bytes as a null pointer, not as "".
    const auto stored = text.empty() ? std::string(1, '\0') : text;
    auto id = metadata.keep(stored);
    if (!id) return id.failure();
    Writer data;
    data.u32(stored.size()).u64(id->collection).u32(id->index);
    return Value{encode_heap_text_type(), encode_dataspace({}), data.take()};
  }
};

}  // namespace

Message dataspace_message(const Extents& shape) { return {Kind::dataspace, encode_dataspace(shape)}; }

Result<Message> datatype_message(const Type& type) {
  auto encoded = encode_type(type);
  if (!encoded) return encoded.failure();
  return Message{Kind::datatype, *std::move(encoded)};
}

Message fill_value_message(ByteView value) {
  constexpr unsigned version = 3, allocate_late = 2, write_if_set = 2, defined = 1;
  constexpr unsigned flags = allocate_late | write_if_set << 2;
  if (value.empty()) return {Kind::fill_value, Writer().u8(version).u8(flags).take()};
  Writer out;
  out.u8(version).u8(flags | defined << 5).u32(static_cast<std::uint32_t>(value.size())).bytes(value);
  return {Kind::fill_value, out.take()};
}

Message contiguous_layout_message(std::uint64_t address, std::uint64_t bytes) {
  constexpr unsigned version = 3, contiguous = 1;
  return {Kind::layout, Writer().u8(version).u8(contiguous).u64(address).u64(bytes).take()};
}

Message virtual_layout_message(const HeapId& parts) {
  constexpr unsigned version = 4, virtual_class = 3;
  return {Kind::layout, Writer().u8(version).u8(virtual_class).u64(parts.collection).u32(parts.index).take()};
}

Message link_info_message() {
  // Version 0, creation order not kept; no heap and no index: the links are messages of the header.
  return {Kind::link_info, Writer().u8(0).u8(0).u64(undefined_address).u64(undefined_address).take()};
}

Message group_info_message() { return {Kind::group_info, Writer().u8(0).u8(0).take()}; }

Message link_message(std::string_view name, std::uint64_t address) {
  constexpr unsigned version = 1, has_character_set = 1U << 4, utf8 = 1;
  const auto width = width_code(name.size());
  Writer out;
  out.u8(version).u8(has_character_set | width).u8(utf8).number(name.size(), 1U << width).text(name).u64(address);
  return {Kind::link, out.take()};
}

Message reference_count_message(std::uint32_t links) {
  return {Kind::reference_count, Writer().u8(0).u32(links).take()};
}

Result<Message> attribute_message(const std::string& name, const AttributeValue& value, Metadata& metadata) {
  constexpr unsigned version = 3, utf8 = 1;
  if (name.empty() || name.find('\0') != std::string::npos) {
    return fail(Code::invalid_argument, "attribute name '", name, "' is empty or holds a zero byte");
  }
  const auto encoded = std::visit(EncodeValue{metadata}, value);
  if (!encoded) return encoded.failure();
  Writer out;
  out.u8(version).u8(0).u16(name.size() + 1).u16(encoded->type.size()).u16(encoded->space.size()).u8(utf8).name(name);
  out.bytes(encoded->type).bytes(encoded->space).bytes(encoded->data);
  return Message{Kind::attribute, out.take()};
}

std::string encode_parts(const std::vector<Hdf5VirtualDataset::Part>& parts) {
  Writer out;
  out.u8(0).u64(parts.size());
  for (const auto& part : parts) {
    out.name(".").name(escape_percent(part.source));  // "." is the file itself
    put_box(out, Extents(part.source_shape.size()), part.source_shape);
    put_box(out, part.lower, part.source_shape);
  }
  out.checksum();
  return std::string(as_text(out.view()));
}

Result<Bytes> encode_object_header(const std::vector<Message>& messages) {
  Writer body;
  for (const auto& message : messages) {
    if (message.body.size() > 0xffff) {
      return fail(Code::invalid_argument, "its ", name_of(message.kind), " takes ", message.body.size(),
                  " bytes, and HDF5 has room for 65535: make it shorter");
    }
    body.u8(static_cast<std::uint8_t>(message.kind)).u16(message.body.size()).u8(0).bytes(message.body);
  }
  if (body.size() > max_metadata_entry - 64) {
    return fail(Code::invalid_argument, "its ", messages.size(), " links and attributes take ", body.size(),
                " bytes, more than the ", max_metadata_entry, " that HDF5 tools read at once: use subgroups");
  }
  const auto width = width_code(body.size());
  Writer out;
  out.text("OHDR").u8(2).u8(width).number(body.size(), 1U << width).bytes(body.view()).checksum();
  return out.take();
}

}  // namespace backstay::format
