#include "check/guarded.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/bytes.h"

namespace backstay::check {

namespace {
std::byte pattern_at(const std::byte* address, std::uint64_t seed) {
  std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(address) ^ seed;
  for (const std::uint64_t factor : {0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL})
    mixed = (mixed ^ mixed >> 29) * factor;
  return static_cast<std::byte>(mixed >> 56);
}
}  // namespace

void* OwnPages::do_allocate(std::size_t bytes, std::size_t) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

void OwnPages::do_deallocate(void* memory, std::size_t bytes, std::size_t) { munmap(memory, bytes); }

namespace {
/// malloc of glibc gives a large array pages of its own, with 16 bytes before it: the last 8 are the length, of which
/// the second bit says so.
bool has_pages_of_its_own(const Layout& layout) {
#ifdef __GLIBC__
  constexpr std::uintptr_t header = 16, flags = 7, has_own_pages = 2;
  const std::byte* const chunk = layout.begin() - header;
  if (page_of(layout.begin()) != chunk) return false;
  std::uintptr_t length = 0;
  std::memcpy(&length, layout.begin() - sizeof(length), sizeof(length));
  return (length & flags) == has_own_pages && (length & ~flags) % page_size == 0 &&
         (length & ~flags) >= static_cast<std::uintptr_t>(layout.end() - chunk);
#else
  return false;
#endif
}
}  // namespace

Guarded::Guarded(const Layout& layout, std::pmr::memory_resource* memory)
    : layout_(layout), reads_(memory), writes_(memory), first_written_(memory), before_(memory), edge_bytes_(memory) {
  if (!layout.is_usable()) return;
  const bool all = has_pages_of_its_own(layout);
  own_begin_ = page_of(layout.begin() + (all ? 0 : page_size - 1));
  own_end_ = std::max(own_begin_, page_of(layout.end() + (all ? page_size - 1 : 0)));
}

std::array<std::pair<std::byte*, std::byte*>, 2> Guarded::edges() const {
  if (!layout_.is_usable()) return {};
  std::byte* const first = std::min(own_begin_, layout_.end());
  return {{{layout_.begin(), std::max(layout_.begin(), first)},
           {layout_.first_in(std::max(first, std::min(own_end_, layout_.end()))), layout_.end()}}};
}

void Guarded::keep_edges() {
  for (const auto& [from, to] : edges()) edge_bytes_.insert(edge_bytes_.end(), from, to);
}

void Guarded::set(Boxes& boxes, const select::BoxSet& set) const {
  for (const auto& box : set.boxes()) {
    Box& flat = boxes.emplace_back();
    std::copy(box.begin(), box.end(), flat.begin());
  }
}

void Guarded::allow(const select::Effect& effect) {
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
    if (!some->empty() && !is_all(*some)) return;
  common_ = Rule{!effect.reads.empty(), !effect.changes.empty(), !first_written.empty()};
}

bool Guarded::has(const Boxes& boxes, const Index& index) const {
  return std::any_of(boxes.begin(), boxes.end(), [&](const Box& box) { return layout_.has(box, index); });
}

Rule Guarded::rule_of(const Index& index) const {
  return common_ ? *common_ : Rule{has(reads_, index), has(writes_, index), has(first_written_, index)};
}

void Guarded::poison(std::uint64_t seed) {
  if (first_written_.empty() || !layout_.is_usable()) return;
  seed_ = seed;
  before_.assign(layout_.begin(), layout_.end());
  for_each_first_written([&](std::byte* element, const Index&) {
    for (std::size_t i = 0; i < layout_.element(); ++i) element[i] = pattern_at(element + i, seed_);
  });
}

bool Guarded::holds_pattern(const std::byte* element) const {
  for (std::size_t i = 0; i < layout_.element(); ++i)
    if (element[i] != pattern_at(element + i, seed_)) return false;
  return true;
}

void Guarded::restore(std::byte* element) const {
  std::memcpy(element, before_.data() + (element - layout_.begin()), layout_.element());
}

/// One that begins in the page before, or ends in the next one, is left as it is.
void Guarded::restore_page(std::byte* page, std::size_t bytes) const {
  if (!is_poisoned()) return;
  for (std::byte* at = layout_.first_in(page); at < std::min(page + bytes, layout_.end()); at += layout_.grain()) {
    Index index;
    if (at < page || at + layout_.element() > page + bytes || !layout_.index_of(at, index)) continue;
    if (rule_of(index).first_written && holds_pattern(at)) restore(at);
  }
}

}  // namespace backstay::check
