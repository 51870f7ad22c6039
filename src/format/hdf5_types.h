// backstay::Type as an HDF5 datatype.
#pragma once

#include "backstay/types.hpp"
#include "base/bytes.h"
#include "base/result.h"

namespace backstay::format {

/// The body of a datatype message (version 3). Code::invalid_argument for a size that the kind does not have, a struct
/// without members, and members that share a name, overlap or stick out of their struct.
Result<Bytes> encode_type(const Type& type);

/// UTF-8 text of any length, whose bytes are in the global heap; an element takes 16 bytes.
Bytes encode_heap_text_type();

}  // namespace backstay::format
