// A region while a computation runs that is looked at. All of it lies in memory pages of its own: a handler of what is
// done to the program's pages must not need one that is closed.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory_resource>
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

/// What may be done to an element.
struct Rule {
  bool read = false, write = false;
  bool first_written = false;  ///< it must be overwritten, and is not to be read before
  bool operator==(const Rule&) const = default;
};

class Guarded {
 public:
  Guarded(const Layout& layout, std::pmr::memory_resource* memory)
      : layout_(layout), reads_(memory), writes_(memory), first_written_(memory), before_(memory) {}
  /// The computation names it.
  void allow(const select::Effect& effect);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  /// Of all its elements; none: they differ.
  [[nodiscard]] const std::optional<Rule>& common_rule() const { return common_; }
  [[nodiscard]] Rule rule_of(const Index& index) const;

  /// Gives what must be overwritten a pattern.
  void poison(std::uint64_t seed);
  [[nodiscard]] bool is_poisoned() const { return !before_.empty(); }
  [[nodiscard]] bool holds_pattern(const std::byte* element) const;
  /// What it held before.
  void restore(std::byte* element) const;
  /// The same for elements in `page` that hold the pattern.
  void restore_page(std::byte* page, std::size_t bytes) const;
  /// Calls `visit(address, index)` for what must be overwritten.
  template <class Visit>
  void for_each_first_written(const Visit& visit) const {
    if (!layout_.is_usable()) return;
    for (const auto& box : first_written_) layout_.for_each(box, visit);
  }

 private:
  using Boxes = std::pmr::vector<Box>;
  void set(Boxes& boxes, const select::BoxSet& set) const;
  [[nodiscard]] bool is_all(const select::BoxSet& set) const { return set.volume() == layout_.volume(); }
  [[nodiscard]] bool has(const Boxes& boxes, const Index& index) const;

  Layout layout_;
  Boxes reads_, writes_, first_written_;
  std::optional<Rule> common_ = Rule{};
  std::pmr::vector<std::byte> before_;  ///< all bytes from layout().begin() to end(), where a pattern is
  std::uint64_t seed_ = 0;
};

}  // namespace backstay::check
