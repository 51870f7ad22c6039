// A region while a computation runs that is looked at. All of it lies in memory pages of its own: a handler of what is
// done to the program's pages must not need one that is closed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

#include "check/layout.h"
#include "select/access.h"

namespace backstay::check {

/// Memory from the system, in whole pages.
class OwnPages final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

inline constexpr std::size_t page_size = 4096;
inline std::byte* page_of(const std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) & ~(page_size - 1));
}

/// What may be done to an element.
struct Rule {
  bool read = false, write = false;
  bool first_written = false;  ///< it must be overwritten, and is not to be read before
  bool operator==(const Rule&) const = default;
};

class Guarded {
 public:
  Guarded(const Layout& layout, std::pmr::memory_resource* memory);
  /// The computation names it.
  void allow(const select::Effect& effect);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// Of all its elements; none: they differ.
  [[nodiscard]] const std::optional<Rule>& common_rule() const { return common_; }
  [[nodiscard]] Rule rule_of(const Index& index) const;

  /// Pages in which there is nothing but this region, or nothing that anybody uses: what system calls are given must
  /// not lie in a closed page.
  [[nodiscard]] std::byte* own_begin() const { return own_begin_; }
  [[nodiscard]] std::byte* own_end() const { return own_end_; }
  /// Remembers what lies in the other pages.
  void keep_edges();
  /// Calls `visit(index)` for elements there that have changed, and may not.
  template <class Visit>
  void for_each_changed_at_edges(const Visit& visit) const {
    const std::byte* before = edge_bytes_.data();
    for (const auto& [from, to] : edges()) {
      for (std::byte* p = from; p < to; p += layout_.grain()) {
        Index index;
        if (!layout_.index_of(p, index) || p != layout_.address_of(index) || rule_of(index).write) continue;
        const auto bytes = std::min(layout_.element(), static_cast<std::size_t>(to - p));
        if (std::memcmp(p, before + (p - from), bytes) != 0) visit(index);
      }
      before += to - from;
    }
  }

  /// Gives what must be overwritten a pattern.
  void poison(std::uint64_t seed);
  [[nodiscard]] bool is_poisoned() const { return !before_.empty(); }
  [[nodiscard]] bool holds_pattern(const std::byte* element) const;
  /// What it held before.
  void restore(std::byte* element) const;
  /// The same for elements in `page` that hold the pattern.
  void restore_page(std::byte* page, std::size_t bytes) const;
  /// Calls `visit(address, index)` for what must be overwritten and lies in own pages: elsewhere nobody would see that
  /// the pattern is read.
  template <class Visit>
  void for_each_first_written(const Visit& visit) const {
    if (!layout_.is_usable()) return;
    for (const auto& box : first_written_)
      layout_.for_each(box, [&](std::byte* element, const Index& index) {
        if (element >= own_begin_ && element + layout_.element() <= own_end_) visit(element, index);
      });
  }

 private:
  using Boxes = std::pmr::vector<Box>;
  [[nodiscard]] std::array<std::pair<std::byte*, std::byte*>, 2> edges() const;
  void set(Boxes& boxes, const select::BoxSet& set) const;
  [[nodiscard]] bool is_all(const select::BoxSet& set) const { return set.volume() == layout_.volume(); }
  [[nodiscard]] bool has(const Boxes& boxes, const Index& index) const;

  Layout layout_;
  std::byte *own_begin_ = nullptr, *own_end_ = nullptr;
  Boxes reads_, writes_, first_written_;
  std::optional<Rule> common_ = Rule{};
  std::pmr::vector<std::byte> before_;  ///< all bytes from layout().begin() to end(), where a pattern is
  std::pmr::vector<std::byte> edge_bytes_;
  std::uint64_t seed_ = 0;
};

}  // namespace backstay::check
