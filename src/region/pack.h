// Capture and put back: between the program's memory as a View and dense bytes in C order.
#pragma once

#include "backstay/types.hpp"
#include "base/bytes.h"
#include "base/result.h"

namespace backstay::region {

// Views come checked: no negative strides, lengths or run lengths, at most max_dimensions dimensions, elements of at
// least one byte. Refusing others, with the name of the region, is the duty of the caller.
// Everything here is a plain function of its arguments, safe to call from several threads on different targets.

/// Bytes that a view of elements of `element_size` bytes takes when packed.
std::uint64_t packed_size(const View& view, std::size_t element_size);

/// Copies the elements of `view` densely, in C order, to `target` (packed_size bytes) and returns their CRC-32C.
/// Uses up to `threads` threads on regions of at least 32 MiB, fewer where the system gives none.
std::uint32_t capture(const View& view, std::size_t element_size, std::byte* target, int threads = 1);

/// What capture() returns, without a copy: the elements are read once.
std::uint32_t checksum(const View& view, std::size_t element_size);

/// The inverse: spreads dense bytes (packed_size of them) over the elements of `view`. Bytes between the elements are
/// not touched. Elements that lie on each other (a stride of zero) keep the last value. Returns the CRC-32C of
/// `source`, computed on the way. `source` may be a part, those from byte `from` on.
std::uint32_t put_back(ByteView source, const View& view, std::size_t element_size, std::uint64_t from = 0);

/// A box [lower, upper) in some index space.
struct Box {
  Extents lower;
  Extents upper;
  bool operator==(const Box&) const = default;
};

/// The common part of two boxes, or an empty box (some upper <= lower).
Box intersect(const Box& a, const Box& b);
bool is_empty(const Box& box);
Extents shape_of(const Box& box);
/// The elements of a box of `view`, where they lie. The box lies in the shape of `view`, which has no run lengths.
View part_of(const View& view, const Box& box);

/// Copies the part `part` (global indices) out of `source`, a dense array that fills the box `source_box`, into the
/// memory `target`, whose shape is that of `target_box`. `part` lies in both boxes.
void copy_part(ByteView source, const Box& source_box, const View& target, const Box& target_box, const Box& part,
               std::size_t element_size);

}  // namespace backstay::region
