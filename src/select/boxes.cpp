#include "select/boxes.h"

#include <algorithm>
#include <optional>

namespace backstay::select {

namespace {
/// What `box` has and `without` has not, appended to `out`.
void append_rest(Box box, const Box& without, std::vector<Box>& out) {
  if (volume(common(box, without)) == 0) {
    out.push_back(std::move(box));
    return;
  }
  for (std::size_t d = 0; d < box.size(); ++d) {
    if (box[d].begin < without[d].begin) {
      Box before = box;
      before[d].end = without[d].begin;
      out.push_back(std::move(before));
      box[d].begin = without[d].begin;
    }
    if (without[d].end < box[d].end) {
      Box after = box;
      after[d].begin = without[d].end;
      out.push_back(std::move(after));
      box[d].end = without[d].end;
    }
  }
}

/// Both in one box, if they lie side by side.
std::optional<Box> joined(const Box& a, const Box& b) {
  std::optional<std::size_t> along;
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (a[d] == b[d]) continue;
    if (along) return {};
    along = d;
  }
  if (!along) return {};
  const Range &x = a[*along], &y = b[*along];
  if (x.end != y.begin && y.end != x.begin) return {};
  Box both = a;
  both[*along] = {std::min(x.begin, y.begin), std::max(x.end, y.end)};
  return both;
}
}  // namespace

std::int64_t volume(const Box& box) {
  std::int64_t elements = 1;
  for (const auto& range : box) elements *= std::max<std::int64_t>(0, range.end - range.begin);
  return elements;
}

Box common(const Box& a, const Box& b) {
  Box out = a;
  for (std::size_t d = 0; d < out.size(); ++d)
    out[d] = {std::max(a[d].begin, b[d].begin), std::min(a[d].end, b[d].end)};
  return out;
}

Box box_of(const std::vector<std::int64_t>& shape) {
  Box out;
  for (const auto extent : shape) out.push_back({0, extent});
  return out;
}

void BoxSet::add(const Box& box) {
  if (select::volume(box) == 0) return;
  std::vector<Box> fresh{box};
  for (const auto& there : boxes_) {
    std::vector<Box> rest;
    for (auto& piece : fresh) append_rest(std::move(piece), there, rest);
    fresh = std::move(rest);
  }
  if (fresh.empty()) return;
  boxes_.insert(boxes_.end(), fresh.begin(), fresh.end());
  join();
}

void BoxSet::add(const BoxSet& other) {
  for (const auto& box : other.boxes_) add(box);
}

void BoxSet::remove(const Box& box) {
  std::vector<Box> rest;
  for (auto& there : boxes_) append_rest(std::move(there), box, rest);
  boxes_ = std::move(rest);
  join();
}

void BoxSet::remove(const BoxSet& other) {
  for (const auto& box : other.boxes_) remove(box);
}

BoxSet BoxSet::in(const Box& box) const {
  BoxSet out;
  for (const auto& there : boxes_)
    if (auto both = common(there, box); select::volume(both) > 0) out.boxes_.push_back(std::move(both));
  return out;
}

BoxSet BoxSet::in(const BoxSet& other) const {
  BoxSet out;
  for (const auto& box : other.boxes_) {
    auto part = in(box);
    out.boxes_.insert(out.boxes_.end(), part.boxes_.begin(), part.boxes_.end());
  }
  out.join();
  return out;
}

std::int64_t BoxSet::volume() const {
  std::int64_t elements = 0;
  for (const auto& box : boxes_) elements += select::volume(box);
  return elements;
}

bool BoxSet::equals(const BoxSet& other) const {
  BoxSet rest = *this;
  rest.remove(other);
  return rest.empty() && volume() == other.volume();
}

/// Neighbours that make one box become one, so that sets stay small.
void BoxSet::join() {
  for (std::size_t i = 0; i < boxes_.size(); ++i)
    for (std::size_t j = i + 1; j < boxes_.size(); ++j) {
      auto both = joined(boxes_[i], boxes_[j]);
      if (!both) continue;
      boxes_[i] = std::move(*both);
      boxes_.erase(boxes_.begin() + static_cast<std::ptrdiff_t>(j));
      i = j = 0;  // it may have new neighbours, also among those before
    }
}

}  // namespace backstay::select
