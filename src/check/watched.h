// A region while a computation runs that is looked at, and what that may do to it. All of it lies in memory pages of
// its own (own_pages.h).
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "check/layout.h"
#include "check/units.h"
#include "select/access.h"

namespace backstay::check {

/// What may be done to an element.
struct Rule {
  bool read = false, write = false;
  bool first_written = false;  ///< it must be overwritten, and is not to be read before
  bool operator==(const Rule&) const = default;
};

class Watched {
 public:
  Watched(const Layout& layout, const Units& units, std::pmr::memory_resource* memory);
  /// The computation names it.
  void allow(const select::Effect& effect);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// Of all its elements; none: they differ.
  [[nodiscard]] const std::optional<Rule>& common_rule() const { return common_; }
  [[nodiscard]] Rule rule_of(const Index& index) const;
  [[nodiscard]] bool is_first_written() const { return !first_written_.empty(); }
  [[nodiscard]] const std::pmr::vector<Unit>& units() const { return units_; }
  /// See Units.
  [[nodiscard]] bool counts_elements() const { return together_; }
  /// Calls `visit(address)` for the first and the last element of each part that is first written.
  template <class Visit>
  void for_each_end(const Visit& visit) const {
    if (!layout_.is_usable()) return;
    for (const Box& box : first_written_) {
      Index first{}, last{};
      for (std::size_t d = 0; d < layout_.dimensions(); ++d) {
        first[d] = box[d].begin;
        last[d] = box[d].end - 1;
      }
      visit(layout_.address_of(first));
      visit(layout_.address_of(last));
    }
  }
  /// Other regions have some of its elements, too: what lies there is not given a pattern.
  bool is_shared = false;
  /// See Subject. `settled` is not for handlers.
  bool is_traced = false, is_found = false;
  const std::vector<bool>* settled = nullptr;
  [[nodiscard]] bool is_settled(const Index& index) const {
    return settled != nullptr && !settled->empty() && (*settled)[layout_.number_of(index)];
  }
  /// The program has given its memory back: nothing is known of it any more. See Fences.
  bool is_gone = false;

  /// Calls `visit(address, index)` for the elements that begin in [from, to).
  template <class Visit>
  void for_each_in(const std::byte* from, const std::byte* to, const Visit& visit) const {
    if (!layout_.is_usable()) return;
    for (std::byte* at = layout_.first_in(from); at < to && at < layout_.end(); at += layout_.grain()) {
      Index index;
      if (at >= from && layout_.index_of(at, index) && at == layout_.address_of(index)) visit(at, index);
    }
  }

 private:
  using Boxes = std::pmr::vector<Box>;
  void set(Boxes& boxes, const select::BoxSet& set) const;
  [[nodiscard]] bool has(const Boxes& boxes, const Index& index) const;

  Layout layout_;
  std::pmr::vector<Unit> units_;
  bool together_ = false;
  Boxes reads_, writes_, first_written_;
  std::optional<Rule> common_ = Rule{};
};

}  // namespace backstay::check
