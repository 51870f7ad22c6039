#include "api/live_part.h"

#include <algorithm>

#include "base/result.h"

namespace backstay::api {

namespace {
constexpr std::size_t most_boxes = 8;  ///< the faces of a box in three dimensions are six

class Cutter {
 public:
  Cutter(const std::vector<bool>& some, const Extents& shape) : some_(some), shape_(shape) {}

  /// Of the dimensions from `d` on; `first` is the number of their first element.
  [[nodiscard]] std::vector<select::Box> cut(std::size_t d, std::size_t first) const {
    if (d == shape_.size()) return some_[first] ? std::vector<select::Box>{{}} : std::vector<select::Box>();
    std::size_t each = 1;
    for (std::size_t inner = d + 1; inner < shape_.size(); ++inner) each *= static_cast<std::size_t>(shape_[inner]);
    std::vector<select::Box> out, before;
    select::Range alike;
    for (; alike.end < shape_[d]; ++alike.end) {
      auto row = cut(d + 1, first + static_cast<std::size_t>(alike.end) * each);
      if (row == before) continue;
      add(out, alike, before);
      alike.begin = alike.end;
      before = std::move(row);
    }
    add(out, alike, before);
    return out;
  }

 private:
  static void add(std::vector<select::Box>& out, const select::Range& range, const std::vector<select::Box>& boxes) {
    for (const auto& box : boxes) {
      auto& one = out.emplace_back(box);
      one.insert(one.begin(), range);
    }
  }

  const std::vector<bool>& some_;
  const Extents& shape_;
};
}  // namespace

std::vector<select::Box> boxes_of(const std::vector<bool>& some, const Extents& shape) {
  return some.empty() ? std::vector<select::Box>() : Cutter(some, shape).cut(0, 0);
}

std::string describe_part(const std::vector<bool>& some, const Extents& shape) {
  if (std::ranges::find(some, false) == some.end()) return "";
  const auto boxes = boxes_of(some, shape);
  if (boxes.size() > most_boxes) return "";
  std::string out;
  for (const auto& box : boxes) {
    out += out.empty() ? "[" : " [";
    for (std::size_t d = 0; d < box.size(); ++d) out += cat(d > 0 ? ", " : "", box[d].begin, ':', box[d].end);
    out += ']';
  }
  return out;
}

}  // namespace backstay::api
