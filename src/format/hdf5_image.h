// The HDF5 side of a data file: describes datasets whose bytes lie at given offsets, and gives the metadata bytes
// that make every HDF5 tool see them. Pure: no files, no HDF5 library (docs/decisions/0002).
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "backstay/types.hpp"
#include "base/bytes.h"
#include "base/result.h"

namespace backstay::format {

/// A text (UTF-8, of any length), a number, or a 1-D array of numbers.
using AttributeValue = std::variant<std::string, std::int64_t, double, std::vector<std::int64_t>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

/// A contiguous dataset. `path` is absolute ("/ranks/00003/u"); parent groups are made. Components are not empty and
/// not "."; they may hold spaces and any UTF-8, up to 65,000 bytes.
struct Hdf5Dataset {
  std::string path;
  Type type;                 ///< Kind::text: one string of type.size bytes a element
  Extents shape;             ///< empty: scalar. A zero anywhere: no bytes, `offset` is ignored
  std::uint64_t offset = 0;  ///< of its first byte in the file, from the file's very start
  Attributes attributes;
};

/// A dataset put together from others of the same file: part i fills the box that starts at parts[i].lower and has the
/// shape of its source. Elements that no part fills read as NaN, or as zero where the type has none. Not for scalars: a
/// link does that.
struct Hdf5VirtualDataset {
  struct Part {
    std::string source;  ///< path of a contiguous dataset of the same file
    Extents source_shape;
    Extents lower;
  };
  std::string path;
  Type type;
  Extents shape;
  std::vector<Part> parts;
  Attributes attributes;
};

struct Hdf5Link {
  std::string path;
  std::string target;  ///< path of a dataset of the same file; a hard link
};

struct Hdf5Description {
  std::uint64_t base = 0;             ///< size of the user block before the HDF5 superblock: 0 or 512 * 2^n
  std::uint64_t metadata_offset = 0;  ///< where `metadata` will be written, from the file's very start; a multiple of 8
  std::vector<Hdf5Dataset> datasets;
  std::vector<Hdf5VirtualDataset> virtual_datasets;
  std::vector<Hdf5Link> links;
  Attributes attributes;  ///< of the root group
};

struct Hdf5Image {
  Bytes superblock;  ///< to write at `base`
  Bytes metadata;    ///< to write at `metadata_offset`; the file ends with it
};

/// The bytes that turn raw data at known offsets into an HDF5 file. Code::invalid_argument, with the path in the
/// sentence, for a path used twice, a dataset where a group is needed, a part or link without its source, more than
/// max_dimensions, a type that HDF5 cannot describe, data outside base ... metadata_offset, a name, type or attribute
/// of more than 64 KiB. The same description gives the same bytes. Format: HDF5 File Format Specification version 3.0
/// (superblock 2, object headers 2, layout messages 3 and 4).
Result<Hdf5Image> encode_hdf5(const Hdf5Description& description);

}  // namespace backstay::format
