#include "region/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <thread>
#include <type_traits>

#include "base/crc32c.h"

namespace backstay::region {
namespace {

// Packed bytes moved, then summed while in L1. Measured (bench/kernels.cpp): small enough that the sum of one piece
// overlaps with the fetch of the next, and 1.3 x faster than gathering apart and writing past the cache.
constexpr std::size_t piece_size = 1024;
// Rows are asked for this many bytes ahead: the hardware prefetcher loses its way at every gap between them.
constexpr std::size_t prefetch_distance = 4096;
constexpr std::size_t line = 64;
constexpr std::uint64_t threaded_from = std::uint64_t{32} << 20;
constexpr std::uint64_t least_per_thread = std::uint64_t{8} << 20;

std::uint64_t product(const Extents& shape) {
  std::uint64_t n = 1;
  for (const auto extent : shape) n *= static_cast<std::uint64_t>(extent);
  return n;
}

/// Rows of `size` bytes, `count` of them, `stride` bytes apart (of a single one: where the next is likely to be).
struct Rows {
  std::byte* first = nullptr;
  std::size_t size = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
};

/// Asks for memory that will be needed; harmless where there is none.
inline void prefetch(std::uintptr_t address, std::size_t size) {
  for (std::size_t at = 0; at < size; at += line) __builtin_prefetch(reinterpret_cast<const void*>(address + at));
}

/// Calls copy(row, offset of the row among the packed bytes, size of a row) for each row. Rows of one element are
/// common (a column, one component of several): there the size is a constant, so that the copy is one move, where a
/// call of memcpy takes ten times that.
template <class Copy>
void for_each_row(const Rows& rows, Copy copy) {
  const std::size_t rows_ahead = std::max<std::size_t>(prefetch_distance / std::max(rows.size, line), 1);
  const auto ahead = static_cast<std::uintptr_t>(rows.stride) * rows_ahead;
  const auto each = [&](auto size) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      prefetch(reinterpret_cast<std::uintptr_t>(rows.first + i * rows.stride) + ahead, size);
      copy(rows.first + i * rows.stride, static_cast<std::size_t>(i) * size, size);
    }
  };
  switch (rows.size) {
    case 1:
      return each(std::integral_constant<std::size_t, 1>{});
    case 2:
      return each(std::integral_constant<std::size_t, 2>{});
    case 4:
      return each(std::integral_constant<std::size_t, 4>{});
    case 8:
      return each(std::integral_constant<std::size_t, 8>{});
    case 16:
      return each(std::integral_constant<std::size_t, 16>{});
    default:
      return each(rows.size);
  }
}

/// A view as few dimensions of long rows: dimensions of one element are dropped, those that continue each other are
/// joined, and the innermost, where dense, becomes the row.
struct Layout {
  std::array<std::int64_t, max_dimensions> shape{};
  std::array<std::int64_t, max_dimensions> strides{};
  std::size_t dimensions = 0;
  std::size_t row_size = 0;

  Layout(const Extents& extents, const Extents& steps, std::size_t element_size) : row_size(element_size) {
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] != 1) push(extents[d], steps[d]);
    }
    if (dimensions > 0 && strides[dimensions - 1] == static_cast<std::int64_t>(element_size)) {
      row_size *= static_cast<std::size_t>(shape[--dimensions]);
    }
  }

 private:
  void push(std::int64_t extent, std::int64_t stride) {
    if (dimensions > 0 && strides[dimensions - 1] == extent * stride) {
      shape[dimensions - 1] *= extent;
      strides[dimensions - 1] = stride;
    } else {
      shape[dimensions] = extent;
      strides[dimensions++] = stride;
    }
  }
};

/// Walks the rows of a strided view in C order, from the packed byte `skip` on. Not for empty views.
class StridedWalk {
 public:
  StridedWalk(std::byte* data, const Layout& layout, std::uint64_t skip) : layout_(layout), row_(data) {
    std::uint64_t rows = skip / layout.row_size;
    inside_ = static_cast<std::size_t>(skip % layout.row_size);
    for (std::size_t d = layout.dimensions; d-- > 0;) {
      const auto extent = static_cast<std::uint64_t>(layout.shape[d]);
      index_[d] = static_cast<std::int64_t>(rows % extent);
      row_ += index_[d] * layout.strides[d];
      rows /= extent;
    }
  }

  /// The next rows at equal distances, `limit` (> 0) packed bytes at most; a single part of a row where the walk
  /// stands inside one, or where less than a row is wanted.
  Rows next(std::size_t limit) {
    if (inside_ != 0 || limit < layout_.row_size) return next_part(limit);
    const auto wanted = static_cast<std::int64_t>(limit / layout_.row_size);
    if (layout_.dimensions == 0) return {row_, layout_.row_size, 0, 1};
    const std::size_t inner = layout_.dimensions - 1;
    const std::int64_t count = std::min(wanted, layout_.shape[inner] - index_[inner]);
    const Rows rows{row_, layout_.row_size, layout_.strides[inner], count};
    advance(count);
    return rows;
  }

 private:
  Rows next_part(std::size_t limit) {
    const std::size_t size = std::min(limit, layout_.row_size - inside_);
    const Rows part{row_ + inside_, size, static_cast<std::int64_t>(size), 1};
    inside_ += part.size;
    if (inside_ == layout_.row_size) {
      inside_ = 0;
      if (layout_.dimensions > 0) advance(1);
    }
    return part;
  }

  /// Moves on by `count` rows, at most to the end of the innermost dimension.
  void advance(std::int64_t count) {
    std::size_t d = layout_.dimensions - 1;
    index_[d] += count;
    row_ += count * layout_.strides[d];
    while (d > 0 && index_[d] == layout_.shape[d]) {
      row_ += layout_.strides[d - 1] - index_[d] * layout_.strides[d];
      index_[d] = 0;
      ++index_[--d];
    }
  }

  const Layout& layout_;
  std::byte* row_;          // start of the row that the walk stands in
  std::size_t inside_ = 0;  // bytes of it that are done
  std::array<std::int64_t, max_dimensions> index_{};
};

/// The same for a ragged view, whose rows differ in length.
class RaggedWalk {
 public:
  RaggedWalk(const View& view, std::size_t element_size, std::uint64_t skip)
      : lengths_(view.run_lengths), element_size_(element_size), stride_(view.strides[0]), row_(view.data) {
    while (run_ < lengths_.size() && skip >= row_size()) {
      skip -= row_size();
      leave_row();
    }
    inside_ = static_cast<std::size_t>(skip);
  }

  Rows next(std::size_t limit) {
    while (row_size() == inside_) leave_row();
    const Rows part{row_ + inside_, std::min(limit, row_size() - inside_), stride_, 1};
    inside_ += part.size;
    return part;
  }

 private:
  [[nodiscard]] std::size_t row_size() const { return static_cast<std::size_t>(lengths_[run_]) * element_size_; }
  void leave_row() {
    inside_ = 0;
    ++run_;
    row_ += stride_;
  }

  const std::vector<std::int64_t>& lengths_;
  std::size_t element_size_;
  std::int64_t stride_;
  std::byte* row_;
  std::size_t run_ = 0;
  std::size_t inside_ = 0;
};

/// Moves the walk on by `size` packed bytes, calling copy as for_each_row does.
template <class Walk, class Copy>
void transfer(Walk& walk, std::size_t size, Copy copy) {
  for (std::size_t at = 0; at < size;) {
    const Rows rows = walk.next(size - at);
    for_each_row(rows, [&](std::byte* row, std::size_t offset, auto n) { copy(row, at + offset, n); });
    at += rows.size * static_cast<std::size_t>(rows.count);
  }
}

template <class Walk>
void gather(Walk& walk, std::byte* dense, std::size_t size) {
  transfer(walk, size, [&](std::byte* row, std::size_t at, auto n) { std::memcpy(dense + at, row, n); });
}

template <class Walk>
void scatter(Walk& walk, const std::byte* dense, std::size_t size) {
  transfer(walk, size, [&](std::byte* row, std::size_t at, auto n) { std::memcpy(row, dense + at, n); });
}

template <class Walk>
std::uint32_t pack(Walk walk, std::byte* target, std::uint64_t size) {
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < size; at += piece_size) {
    const std::size_t piece = std::min<std::uint64_t>(piece_size, size - at);
    gather(walk, target + at, piece);
    crc = crc32c({target + at, piece}, crc);
  }
  return crc;
}

template <class Walk>
std::uint32_t sum(Walk walk, std::uint64_t size) {
  std::array<std::byte, piece_size> piece;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < size; at += piece_size) {
    const std::size_t part = std::min<std::uint64_t>(piece_size, size - at);
    gather(walk, piece.data(), part);
    crc = crc32c({piece.data(), part}, crc);
  }
  return crc;
}

template <class Walk>
std::uint32_t unpack(Walk walk, ByteView source) {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < source.size(); at += piece_size) {
    const ByteView piece = source.subspan(at, std::min(piece_size, source.size() - at));
    crc = crc32c(piece, crc);
    scatter(walk, piece.data(), piece.size());
  }
  return crc;
}

/// Captures the packed bytes [from, from + size) of a view.
std::uint32_t capture_slice(const View& view, std::size_t element_size, std::uint64_t from, std::uint64_t size,
                            std::byte* target) {
  if (!view.run_lengths.empty()) return pack(RaggedWalk(view, element_size, from), target, size);
  const Layout layout(view.shape, view.strides, element_size);
  if (layout.dimensions == 0) return copy_crc32c(target, {view.data + from, static_cast<std::size_t>(size)});
  return pack(StridedWalk(view.data, layout, from), target, size);
}

/// A contiguous part of the packed bytes, and the thread that captures it.
struct Slice {
  std::uint64_t from = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  std::thread thread;
};

std::vector<Slice> split(std::uint64_t total, int threads) {
  const std::uint64_t most = total / least_per_thread;
  const std::uint64_t count = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::max(threads, 1)), 1, most);
  const std::uint64_t size = round_up((total + count - 1) / count, 4096);  // whole pages: no line has two writers
  std::vector<Slice> slices;
  for (std::uint64_t from = 0; from < total; from += size) {
    slices.emplace_back();
    slices.back().from = from;
    slices.back().size = std::min(size, total - from);
  }
  return slices;
}

std::uint32_t capture_threaded(const View& view, std::size_t element_size, std::byte* target, std::uint64_t total,
                               int threads) {
  std::vector<Slice> slices = split(total, threads);
  const auto run = [&](Slice& slice) {
    slice.crc = capture_slice(view, element_size, slice.from, slice.size, target + slice.from);
  };
  for (std::size_t i = 1; i < slices.size(); ++i) {
    try {
      slices[i].thread = std::thread([&run, &slice = slices[i]] { run(slice); });
    } catch (const std::exception&) {
      run(slices[i]);  // no more threads, or no memory for one: slower, not wrong
    }
  }
  run(slices[0]);
  std::uint32_t crc = 0;
  for (auto& slice : slices) {
    if (slice.thread.joinable()) slice.thread.join();
    crc = crc32c_combine(crc, slice.crc, slice.size);
  }
  return crc;
}

/// The memory of the part `part` of an array whose box is `box` and whose memory begins at `view.data`.
View part_of(View view, const Box& box, const Box& part) {
  for (std::size_t d = 0; d < view.strides.size(); ++d) view.data += (part.lower[d] - box.lower[d]) * view.strides[d];
  view.shape = shape_of(part);
  return view;
}

/// C-order strides, in bytes.
Extents dense_strides(const Extents& shape, std::size_t element_size) {
  Extents strides(shape.size());
  auto stride = static_cast<std::int64_t>(element_size);
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  return strides;
}

}  // namespace

std::uint64_t packed_size(const View& view, std::size_t element_size) { return product(view.shape) * element_size; }

std::uint32_t capture(const View& view, std::size_t element_size, std::byte* target, int threads) {
  const std::uint64_t total = packed_size(view, element_size);
  if (total == 0) return 0;
  if (threads > 1 && total >= threaded_from) return capture_threaded(view, element_size, target, total, threads);
  return capture_slice(view, element_size, 0, total, target);
}

std::uint32_t checksum(const View& view, std::size_t element_size) {
  const std::uint64_t total = packed_size(view, element_size);
  if (total == 0) return 0;
  if (!view.run_lengths.empty()) return sum(RaggedWalk(view, element_size, 0), total);
  const Layout layout(view.shape, view.strides, element_size);
  if (layout.dimensions == 0) return crc32c({view.data, static_cast<std::size_t>(total)});
  return sum(StridedWalk(view.data, layout, 0), total);
}

std::uint32_t put_back(ByteView source, const View& view, std::size_t element_size, std::uint64_t from) {
  if (source.empty()) return 0;
  if (!view.run_lengths.empty()) return unpack(RaggedWalk(view, element_size, from), source);
  const Layout layout(view.shape, view.strides, element_size);
  if (layout.dimensions == 0) return copy_crc32c(view.data + from, source);
  return unpack(StridedWalk(view.data, layout, from), source);
}

Box intersect(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.lower.size(); ++d) {
    common.lower[d] = std::max(a.lower[d], b.lower[d]);
    common.upper[d] = std::min(a.upper[d], b.upper[d]);
  }
  return common;
}

bool is_empty(const Box& box) {
  for (std::size_t d = 0; d < box.lower.size(); ++d) {
    if (box.upper[d] <= box.lower[d]) return true;
  }
  return false;
}

View part_of(const View& view, const Box& box) {
  View out = view;
  out.shape = shape_of(box);
  for (std::size_t d = 0; d < out.shape.size(); ++d) out.data += box.lower[d] * view.strides[d];
  return out;
}

Extents shape_of(const Box& box) {
  Extents shape(box.lower.size());
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = std::max<std::int64_t>(box.upper[d] - box.lower[d], 0);
  return shape;
}

void copy_part(ByteView source, const Box& source_box, const View& target, const Box& target_box, const Box& part,
               std::size_t element_size) {
  if (is_empty(part)) return;
  View from;
  from.data = const_cast<std::byte*>(source.data());  // only read
  from.strides = dense_strides(shape_of(source_box), element_size);
  from = part_of(std::move(from), source_box, part);
  const View to = part_of(target, target_box, part);
  const Layout from_layout(from.shape, from.strides, element_size);
  const Layout to_layout(to.shape, to.strides, element_size);
  StridedWalk reads(from.data, from_layout, 0);
  StridedWalk writes(to.data, to_layout, 0);
  std::array<std::byte, piece_size> piece;
  for (std::uint64_t left = packed_size(to, element_size); left > 0;) {
    const std::size_t size = std::min<std::uint64_t>(piece_size, left);
    gather(reads, piece.data(), size);
    scatter(writes, piece.data(), size);
    left -= size;
  }
}

}  // namespace backstay::region
