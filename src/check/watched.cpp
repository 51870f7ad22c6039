#include "check/watched.h"

#include <algorithm>

namespace backstay::check {

Watched::Watched(const Layout& layout, const Units& units, std::pmr::memory_resource* memory)
    : layout_(layout),
      units_(units.units.begin(), units.units.end(), memory),
      together_(units.together),
      reads_(memory),
      writes_(memory),
      first_written_(memory) {}

void Watched::set(Boxes& boxes, const select::BoxSet& set) const {
  for (const auto& box : set.boxes()) {
    Box& flat = boxes.emplace_back();
    std::copy(box.begin(), box.end(), flat.begin());
  }
}

void Watched::allow(const select::Effect& effect) {
  const auto first_written = [&] {
    auto out = effect.overwrites;
    out.remove(effect.reads);
    return out;
  }();
  set(reads_, effect.reads);
  set(writes_, effect.changes);
  set(first_written_, first_written);
  common_.reset();
  for (const auto* some : {&effect.reads, &effect.changes, &first_written})
    if (!some->empty() && some->volume() != layout_.volume()) return;
  common_ = Rule{!effect.reads.empty(), !effect.changes.empty(), !first_written.empty()};
}

bool Watched::has(const Boxes& boxes, const Index& index) const {
  return std::any_of(boxes.begin(), boxes.end(), [&](const Box& box) { return layout_.has(box, index); });
}

Rule Watched::rule_of(const Index& index) const {
  return common_ ? *common_ : Rule{has(reads_, index), has(writes_, index), has(first_written_, index)};
}

}  // namespace backstay::check
