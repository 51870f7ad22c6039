// Ranges of array indices, and sets of elements made of them.
#pragma once

#include <cstdint>
#include <vector>

namespace backstay::select {

/// begin <= i < end
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Range&) const = default;
};

/// One range for each dimension. Without any: the element of a scalar.
using Box = std::vector<Range>;

/// Its elements.
std::int64_t volume(const Box& box);
/// What both have; they have equally many dimensions.
Box common(const Box& a, const Box& b);
/// All of an array.
Box box_of(const std::vector<std::int64_t>& shape);

/// Elements of one array, as boxes that do not overlap. Exact: nothing is rounded to whole boxes.
class BoxSet {
 public:
  BoxSet() = default;
  explicit BoxSet(const Box& box) { add(box); }
  void add(const Box& box);
  void add(const BoxSet& other);
  void remove(const Box& box);
  void remove(const BoxSet& other);
  [[nodiscard]] BoxSet in(const Box& box) const;
  [[nodiscard]] BoxSet in(const BoxSet& other) const;
  [[nodiscard]] bool empty() const { return boxes_.empty(); }
  [[nodiscard]] std::int64_t volume() const;
  /// The same elements, however they are cut into boxes.
  [[nodiscard]] bool equals(const BoxSet& other) const;
  [[nodiscard]] const std::vector<Box>& boxes() const { return boxes_; }

 private:
  void join();

  std::vector<Box> boxes_;  // none is empty
};

}  // namespace backstay::select
