#include "format/hdf5_image.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <string_view>

#include "format/hdf5_messages.h"
#include "format/hdf5_metadata.h"
#include "format/hdf5_writer.h"

namespace backstay::format {
namespace {

constexpr std::uint64_t superblock_size = 48;

template <class... Parts>
Failure refuse(std::string_view path, const Parts&... parts) {
  return fail(Code::invalid_argument, "HDF5 object '", path, "': ", parts...);
}

/// One element that is no number, in the layout of docs/format.md; empty for types that have none.
Bytes not_a_number(const Type& type) {
  using K = Type::Kind;
  if (type.kind == K::complex) {
    const Bytes part = not_a_number({K::floating, type.size / 2, {}});
    Bytes both = part;
    both.insert(both.end(), part.begin(), part.end());
    return both;
  }
  if (type.kind != K::floating) return {};
  Writer out;
  if (type.size == 2) out.u16(0x7e00);
  if (type.size == 4) out.u32(0x7fc00000);
  if (type.size == 8) out.u64(0x7ff8000000000000);
  if (type.size == 16) out.u64(0xc000000000000000).u16(0x7fff).zeros(6);  // x87: 80 bits
  return out.take();
}

/// The components of an absolute path.
Result<std::vector<std::string_view>> split_path(std::string_view path) {
  std::vector<std::string_view> names;
  if (!path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    return refuse(path, "a path must start with '/' and hold no zero byte");
  }
  for (std::size_t start = 1; start <= path.size();) {
    const auto end = std::min(path.find('/', start), path.size());
    names.push_back(path.substr(start, end - start));
    if (names.back().empty() || names.back() == ".") return refuse(path, "a component of a path is empty or '.'");
    start = end + 1;
  }
  return names;
}

/// A group if it is neither kind of dataset.
struct Object {
  std::string path;  ///< the first one, for sentences
  const Hdf5Dataset* dataset = nullptr;
  const Hdf5VirtualDataset* virtual_dataset = nullptr;
  std::map<std::string, std::size_t, std::less<>> children = {};
  std::uint32_t links = 0;
  std::uint64_t address = 0;  ///< once its header is encoded

  [[nodiscard]] bool is_group() const { return dataset == nullptr && virtual_dataset == nullptr; }
};

/// Who is where. A group comes before everything that is in it, except what a hard link brought there.
class Tree {
 public:
  std::vector<Object> objects = {Object{.path = "/"}};  ///< the first is the root

  Result<void> add(const std::string& path, Object object) {
    objects.push_back(std::move(object));
    return link(path, objects.size() - 1);
  }

  Result<void> link(const std::string& path, std::size_t index) {
    const auto names = split_path(path);
    if (!names) return names.failure();
    std::size_t group = 0;
    for (std::size_t i = 0; i + 1 < names->size(); ++i) {
      group = child_group(group, (*names)[i]);
      if (!objects[group].is_group()) return refuse(path, "'", (*names)[i], "' is a dataset, but a group is needed");
    }
    if (!objects[group].children.emplace(names->back(), index).second)
      return refuse(path, "something else has this path");
    ++objects[index].links;
    return {};
  }

  /// The number of the dataset at `path`.
  [[nodiscard]] Result<std::size_t> find(const std::string& path) const {
    const auto names = split_path(path);
    if (!names) return names.failure();
    std::size_t at = 0;
    for (auto name : *names) {
      const auto child = objects[at].children.find(name);
      if (child == objects[at].children.end()) return refuse(path, "there is no such dataset to refer to");
      at = child->second;
    }
    if (objects[at].is_group()) return refuse(path, "a dataset is needed, but this is a group");
    return at;
  }

 private:
  /// The child, made if it is missing.
  std::size_t child_group(std::size_t parent, std::string_view name) {
    const auto [child, is_new] = objects[parent].children.emplace(name, objects.size());
    const auto index = child->second;
    if (is_new) objects.push_back({.path = cat(parent == 0 ? "" : objects[parent].path, '/', name), .links = 1});
    return index;
  }
};

bool has_no_elements(const Extents& shape) { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

/// Bytes of an array; refuses too many dimensions, negative lengths and a product that does not fit.
Result<std::uint64_t> byte_count(std::string_view path, const Type& type, const Extents& shape) {
  if (shape.size() > max_dimensions) {
    return refuse(path, shape.size(), " dimensions are more than the ", max_dimensions, " that backstay stores");
  }
  if (std::any_of(shape.begin(), shape.end(), [](auto n) { return n < 0; }))
    return refuse(path, "a length is negative");
  if (has_no_elements(shape)) return std::uint64_t{0};
  std::uint64_t bytes = type.size;
  for (auto n : shape) {
    const auto length = static_cast<std::uint64_t>(n);
    if (bytes > std::numeric_limits<std::int64_t>::max() / length) return refuse(path, "more than 2^63 bytes");
    bytes *= length;
  }
  return bytes;
}

class Encoder {
 public:
  explicit Encoder(const Hdf5Description& description)
      : description_(description), metadata_(description.metadata_offset - description.base) {}

  Result<Hdf5Image> encode() {
    BACKSTAY_TRY(build_tree());
    for (auto& object : tree_.objects) {
      if (object.dataset != nullptr) BACKSTAY_TRY(encode_dataset(object));
      if (object.virtual_dataset != nullptr) BACKSTAY_TRY(encode_virtual_dataset(object));
    }
    // From the last to the first: a header holds the addresses of the children, which come later in the tree.
    for (std::size_t i = tree_.objects.size(); i-- > 0;) {
      if (tree_.objects[i].is_group()) BACKSTAY_TRY(encode_group(i));
    }
    return Hdf5Image{superblock(), metadata_.take()};
  }

 private:
  Result<void> build_tree() {
    for (const auto& dataset : description_.datasets)
      BACKSTAY_TRY(tree_.add(dataset.path, {.path = dataset.path, .dataset = &dataset}));
    for (const auto& dataset : description_.virtual_datasets) {
      BACKSTAY_TRY(tree_.add(dataset.path, {.path = dataset.path, .virtual_dataset = &dataset}));
    }
    for (const auto& [path, target] : description_.links) {
      const auto index = tree_.find(target);
      if (!index) return index.failure();
      BACKSTAY_TRY(tree_.link(path, *index));
    }
    return {};
  }

  Result<void> encode_dataset(Object& object) {
    const auto& d = *object.dataset;
    const auto bytes = byte_count(d.path, d.type, d.shape);
    if (!bytes) return bytes.failure();
    if (*bytes == 0) return finish_dataset(object, d, contiguous_layout_message(undefined_address, 0));
    if (d.offset < description_.base || d.offset > description_.metadata_offset ||
        *bytes > description_.metadata_offset - d.offset) {
      return refuse(d.path, "its ", *bytes, " bytes at ", d.offset, " are not between the user block and the metadata");
    }
    return finish_dataset(object, d, contiguous_layout_message(d.offset - description_.base, *bytes));
  }

  Result<void> encode_virtual_dataset(Object& object) {
    const auto& d = *object.virtual_dataset;
    const auto bytes = byte_count(d.path, d.type, d.shape);
    if (!bytes) return bytes.failure();
    if (d.shape.empty()) return refuse(d.path, "a scalar cannot be put together from parts: use a link");
    for (const auto& part : d.parts) BACKSTAY_TRY(check_part(d, part));
    auto mapped = d.parts;
    std::erase_if(mapped, [](const auto& part) { return has_no_elements(part.source_shape); });
    // Nothing to map: plain storage without bytes also reads as zero, and libhdf5 1.10 opens no empty list of parts.
    if (*bytes == 0 || mapped.empty()) {
      return finish_dataset(object, d, contiguous_layout_message(undefined_address, *bytes), not_a_number(d.type));
    }
    const auto parts = metadata_.keep(encode_parts(mapped));
    if (!parts) return refuse(d.path, parts.failure().what);
    return finish_dataset(object, d, virtual_layout_message(*parts), not_a_number(d.type));
  }

  Result<void> check_part(const Hdf5VirtualDataset& d, const Hdf5VirtualDataset::Part& part) {
    const auto source = tree_.find(part.source);
    if (!source) return source.failure();
    const auto* stored = tree_.objects[*source].dataset;
    if (stored == nullptr || stored->shape != part.source_shape) {
      return refuse(d.path, "its part '", part.source, "' is not a contiguous dataset of the shape that was named");
    }
    bool inside = part.lower.size() == d.shape.size() && part.source_shape.size() == d.shape.size();
    for (std::size_t i = 0; inside && i < d.shape.size(); ++i) {
      inside = part.lower[i] >= 0 && part.lower[i] <= d.shape[i] && part.source_shape[i] <= d.shape[i] - part.lower[i];
    }
    if (!inside) return refuse(d.path, "its part '", part.source, "' sticks out of it");
    return {};
  }

  /// What both kinds of dataset have beside their layout.
  template <class Dataset>
  Result<void> finish_dataset(Object& object, const Dataset& d, Message layout, ByteView fill = {}) {
    auto type = datatype_message(d.type);
    if (!type) return refuse(d.path, type.failure().what);
    std::vector<Message> messages{dataspace_message(d.shape), *std::move(type), fill_value_message(fill),
                                  std::move(layout)};
    if (object.links > 1) messages.push_back(reference_count_message(object.links));
    return append_header(object, std::move(messages), d.attributes);
  }

  Result<void> encode_group(std::size_t index) {
    auto& group = tree_.objects[index];
    std::vector<Message> messages{link_info_message(), group_info_message()};
    for (const auto& [name, child] : group.children) {
      messages.push_back(link_message(name, tree_.objects[child].address));
    }
    const bool is_root = index == 0;
    return append_header(group, std::move(messages), is_root ? description_.attributes : Attributes{});
  }

  Result<void> append_header(Object& object, std::vector<Message> messages, const Attributes& attributes) {
    std::set<std::string_view> names;
    for (const auto& [name, value] : attributes) {
      auto message = attribute_message(name, value, metadata_);
      if (!message) return refuse(object.path, message.failure().what);
      if (!names.insert(name).second) return refuse(object.path, "attribute '", name, "' is there twice");
      messages.push_back(*std::move(message));
    }
    const auto header = encode_object_header(messages);
    if (!header) return refuse(object.path, header.failure().what);
    object.address = metadata_.append(*header);
    return {};
  }

  /// Every address in the file counts from the base; only the end of the file counts from its very start.
  [[nodiscard]] Bytes superblock() const {
    constexpr unsigned version = 2, address_bytes = 8, length_bytes = 8;
    Writer out;
    out.text("\x89HDF\r\n\x1a\n").u8(version).u8(address_bytes).u8(length_bytes).u8(0).u64(description_.base);
    out.u64(undefined_address).u64(description_.base + metadata_.end()).u64(tree_.objects[0].address).checksum();
    return out.take();
  }

  const Hdf5Description& description_;
  Tree tree_;
  Metadata metadata_;
};

}  // namespace

Result<Hdf5Image> encode_hdf5(const Hdf5Description& description) {
  const auto base = description.base, metadata = description.metadata_offset;
  if (base != 0 && (base < 512 || !std::has_single_bit(base))) {
    return fail(Code::invalid_argument, "an HDF5 user block has 0, 512, 1024, 2048, ... bytes, not ", base);
  }
  if (metadata % 8 != 0 || metadata < superblock_size || metadata - superblock_size < base) {
    return fail(Code::invalid_argument, "the HDF5 metadata at ", metadata,
                " must start at a multiple of 8, after the superblock at ", base);
  }
  return Encoder(description).encode();
}

}  // namespace backstay::format
