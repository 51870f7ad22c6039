// Which element of a region lies at an address. Pure, and fit for a signal handler: nothing here takes memory but the
// constructor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backstay/types.hpp"
#include "select/boxes.h"

namespace backstay::check {

inline constexpr std::size_t most_dimensions = 7;
using Index = std::array<std::int64_t, most_dimensions>;
using Box = std::array<select::Range, most_dimensions>;  ///< of as many dimensions as its region has

class Layout {
 public:
  /// `element`: bytes. A view whose elements overlap, or of cells in use, is none that can be looked at.
  Layout(const View& view, std::size_t element);
  [[nodiscard]] bool is_usable() const { return usable_; }
  [[nodiscard]] std::byte* begin() const { return data_; }
  [[nodiscard]] std::byte* end() const { return data_ + (usable_ ? bytes_ : 0); }
  [[nodiscard]] std::size_t element() const { return element_; }
  [[nodiscard]] std::size_t dimensions() const { return dimensions_; }
  /// From one element to the next one in memory, in bytes.
  [[nodiscard]] std::size_t shortest_stride() const { return shortest_stride_; }
  /// There is nothing between the elements of a row.
  [[nodiscard]] bool is_dense() const { return shortest_stride_ == element_; }
  /// Elements.
  [[nodiscard]] std::int64_t volume() const;
  /// The element that has this byte; false: it lies in none, but between them (in a halo, say).
  bool index_of(const std::byte* address, Index& index) const;
  /// Whether `box` has it.
  [[nodiscard]] bool has(const Box& box, const Index& index) const;
  /// All of it.
  [[nodiscard]] Box all() const {
    Box out{};
    for (std::size_t d = 0; d < dimensions_; ++d) out[d] = {0, shape_[d]};
    return out;
  }
  /// Calls `visit(address, index)` for the elements of the box, in C order.
  template <class Visit>
  void for_each(const Box& box, const Visit& visit) const {
    Index index{};
    for (std::size_t d = 0; d < dimensions_; ++d) {
      if (box[d].begin >= box[d].end) return;
      index[d] = box[d].begin;
    }
    while (true) {
      visit(address_of(index), index);
      std::size_t d = dimensions_;
      for (; d > 0 && ++index[d - 1] == box[d - 1].end; --d) index[d - 1] = box[d - 1].begin;
      if (d == 0) return;
    }
  }
  /// The distance to which all elements are aligned, from begin() on: to look at all in a part of memory.
  [[nodiscard]] std::size_t grain() const { return grain_; }
  /// The last such place up to `address`, or the first one of all.
  [[nodiscard]] std::byte* first_in(const std::byte* address) const {
    return address <= data_
               ? data_
               : data_ + (address - data_) / static_cast<std::ptrdiff_t>(grain_) * static_cast<std::ptrdiff_t>(grain_);
  }
  [[nodiscard]] std::byte* address_of(const Index& index) const;
  /// Of an element, in C order.
  [[nodiscard]] std::size_t number_of(const Index& index) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t element_ = 1, dimensions_ = 0, bytes_ = 0, grain_ = 1, shortest_stride_ = 1;
  Index shape_{}, strides_{};
  std::array<std::size_t, most_dimensions> by_stride_{};  ///< dimensions, the longest stride first
  bool usable_ = false;
};

}  // namespace backstay::check
