#include "check/layout.h"

#include <algorithm>
#include <numeric>

namespace backstay::check {

Layout::Layout(const View& view, std::size_t element)
    : data_(view.data), element_(element), dimensions_(view.shape.size()) {
  if (!view.valid || !view.run_lengths.empty() || dimensions_ > most_dimensions || element == 0) return;
  bytes_ = grain_ = shortest_stride_ = element;
  for (std::size_t d = 0; d < dimensions_; ++d) {
    shape_[d] = view.shape[d];
    strides_[d] = view.strides[d];
    by_stride_[d] = d;
    if (shape_[d] <= 0) return;
    bytes_ += static_cast<std::size_t>((shape_[d] - 1) * strides_[d]);
    if (shape_[d] > 1) grain_ = std::gcd(grain_, static_cast<std::size_t>(strides_[d]));
  }
  std::sort(by_stride_.begin(), by_stride_.begin() + static_cast<std::ptrdiff_t>(dimensions_),
            [&](std::size_t a, std::size_t b) { return strides_[a] > strides_[b]; });
  auto inside = static_cast<std::int64_t>(element);  // bytes from the first to the last of the dimensions looked at
  for (std::size_t i = dimensions_; i-- > 0;) {
    const std::size_t d = by_stride_[i];
    if (shape_[d] > 1 && strides_[d] < inside) return;
    if (shape_[d] > 1 && inside == static_cast<std::int64_t>(element))
      shortest_stride_ = static_cast<std::size_t>(strides_[d]);
    inside += (shape_[d] - 1) * strides_[d];
  }
  usable_ = true;
}

std::int64_t Layout::volume() const {
  std::int64_t n = is_usable() ? 1 : 0;
  for (std::size_t d = 0; d < dimensions_; ++d) n *= shape_[d];
  return n;
}

bool Layout::index_of(const std::byte* address, Index& index) const {
  if (address < begin() || address >= end()) return false;
  std::int64_t left = address - data_;
  for (std::size_t i = 0; i < dimensions_; ++i) {
    const std::size_t d = by_stride_[i];
    index[d] = shape_[d] > 1 ? std::min(left / strides_[d], shape_[d] - 1) : 0;
    left -= index[d] * strides_[d];
  }
  return left < static_cast<std::int64_t>(element_);
}

bool Layout::has(const Box& box, const Index& index) const {
  for (std::size_t d = 0; d < dimensions_; ++d)
    if (index[d] < box[d].begin || index[d] >= box[d].end) return false;
  return true;
}

std::byte* Layout::address_of(const Index& index) const {
  std::byte* address = data_;
  for (std::size_t d = 0; d < dimensions_; ++d) address += index[d] * strides_[d];
  return address;
}

std::size_t Layout::number_of(const Index& index) const {
  std::int64_t number = 0;
  for (std::size_t d = 0; d < dimensions_; ++d) number = number * shape_[d] + index[d];
  return static_cast<std::size_t>(number);
}

}  // namespace backstay::check
