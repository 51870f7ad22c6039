#include "check/fences.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "check/hold.h"

namespace backstay::check {

namespace {
/// Neighbours of different protection are different mappings to the system, which has 65530 of them at most.
constexpr std::size_t most_pages = 12288;
/// In a computation, of some microseconds each: in pages that are looked at value by value, and as many in those whose
/// elements are not alike.
constexpr int most_steps = 30000, most_steps_for_all = 4000000;
constexpr std::size_t words_of_four = page_size / 4;
/// At the first times, as many as a loop over values of 8 bytes may step through; and later, as a use of them takes
/// hundreds of times as long.
constexpr std::size_t most_exact_pages = most_steps / (page_size / 8), later_exact_pages = 6;
constexpr std::uint64_t first_turns = 4;

/// Of an element whose parts differ.
Fate together_of(Fate a, Fate b) {
  if (a == Fate::read || b == Fate::read) return Fate::read;
  return std::max(a, b) <= Fate::overwritten ? std::min(a, b) : Fate::unknown;
}
}  // namespace

Fences* Fences::present_ = nullptr;

std::pmr::memory_resource& Fences::own_pages() {
  static auto* const pages = new OwnPages;  // for the end of the process, too
  return *pages;
}

Fences* Fences::get() {
  static Fences* const fences = make();
  return fences;
}

// ---- a computation -----------------------------------------------------------------------------------------------

std::pmr::vector<Watched>* Fences::begin(const void* owner, std::size_t regions) {
  {
    const QuietHold hold;
    if (owner_ != nullptr && owner_ != owner) return nullptr;
    owner_ = owner;
  }
  open(true);
  install();
  {
    const QuietHold hold;
    run_.reset();
  }
  pool_.release();
  const QuietHold hold;
  auto& run = run_.emplace(&pool_);
  run.seed = ++runs_ * 0x2545f4914f6cdd1dULL;
  run.thread = services_->thread();
  run.regions.reserve(regions);
  // What is given back from here on is heard of. So are system calls: no memory is taken any more while this is held.
  __atomic_store_n(services_->watching, 1, __ATOMIC_SEQ_CST);
  return &run.regions;
}

Ranges Fences::allocations() const {
  Ranges out;
  backstay_check_memory found;
  for (std::size_t at = 0; services_->memory(&at, &found) != 0;)
    out.emplace_back(static_cast<std::byte*>(found.begin), static_cast<std::byte*>(found.end));
  std::sort(out.begin(), out.end());
  return out;
}

void Fences::close(const Ranges& ranges, std::uint64_t turn, const Suspects& suspects, Closely closely) {
  run_->most_steps = closely == Closely::all ? most_steps_for_all : most_steps;
  run_->seen.resize(run_->regions.size());
  add_pages(ranges, turn);
  choose_exact(turn, closely);
  auto& pages = run_->pages;
  const QuietHold hold;  // no memory is given back from here on: that comes to hook_forget(). None is taken, either
  leave_out_given_back();
  give_patterns(suspects, closely);
  ++changes_;
  run_->state = Run::State::closed;
  if (run_->is_early) {  // another thread's session needs all memory at this moment
    for (auto& page : pages) open_page(page);
    __atomic_store_n(services_->watching, 0, __ATOMIC_SEQ_CST);
    run_->state = Run::State::over;
    return;
  }
  __atomic_store_n(services_->watching, pages.empty() ? 0 : 1, __ATOMIC_SEQ_CST);
  for (auto& page : pages) page.now = page.closed;
  for (std::size_t i = 0, n = 1; i < pages.size(); i += n) {  // neighbours together
    for (n = 1; i + n < pages.size() && pages[i + n].begin == pages[i].begin + n * page_size &&
                pages[i + n].closed == pages[i].closed;)
      ++n;
    if (services_->protect(pages[i].begin, n * page_size, pages[i].closed) != 0)
      for (std::size_t k = i; k < i + n; ++k) open_page(pages[k]);
  }
}

/// What is false everywhere in it; `all_access`: nothing is.
int Fences::protection_of(const std::byte* page) const {
  int protection = all_access;
  for (const auto& region : run_->regions) {
    const auto& layout = region.layout();
    if (layout.end() <= page || layout.begin() >= page + page_size) continue;
    if (region.is_gone) return all_access;
    const auto& rule = region.common_rule();
    if (rule == Rule{true, true, false}) continue;
    protection &= rule == Rule{true, false, false} ? PROT_READ : PROT_NONE;
  }
  return protection;
}

/// Other threads take and give back what they like; nothing is known of what they had.
void Fences::leave_out_given_back() {
  const auto& given_back = run_->given_back;
  const bool too_often = run_->times_given_back > given_back.size();
  for (auto& region : run_->regions) {
    const auto& layout = region.layout();
    if (!region.is_found || !layout.is_usable()) continue;
    region.is_gone = region.is_gone || too_often;
    for (std::size_t i = 0; i < std::min(run_->times_given_back, given_back.size()); ++i)
      region.is_gone = region.is_gone || (layout.begin() < given_back[i].second && given_back[i].first < layout.end());
  }
  std::erase_if(run_->pages,
                [&](const Page& page) { return page.is_found && protection_of(page.begin) == all_access; });
}

bool Fences::is_only_found(const std::byte* page) const {
  bool out = false;
  for (const auto& region : run_->regions) {
    const auto& layout = region.layout();
    if (layout.end() <= page || layout.begin() >= page + page_size) continue;
    if (!region.is_found) return false;
    out = true;
  }
  return out;
}

/// Where there are too many, others each time.
void Fences::add_pages(const Ranges& ranges, std::uint64_t turn) {
  auto& pages = run_->pages;
  std::size_t total = 0, room = most_pages;
  const auto for_each = [&](bool found, const auto& visit) {
    for (const auto& [begin, end] : ranges)
      for (std::byte* page = begin; page < end; page += page_size)
        if (is_only_found(page) == found) visit(page);
  };
  for_each(false, [&](std::byte*) { ++total; });
  const std::size_t first = total > most_pages ? turn * most_pages % total : 0;
  std::size_t number = 0;
  for_each(false, [&](std::byte* page) {
    if ((number++ + total - first) % total >= most_pages) return;
    if (const int protection = protection_of(page); protection != all_access)
      pages.push_back({page, nullptr, protection, all_access});
  });
  room -= std::min(room, pages.size());
  for_each(true, [&](std::byte* page) {
    if (room == 0 || protection_of(page) == all_access) return;
    --room;
    pages.push_back({page, nullptr, PROT_NONE, all_access});
    pages.back().is_found = true;
  });
  std::ranges::sort(pages, {}, &Page::begin);
}

/// Which pages are looked at value by value: at the first times those where a region is first and last to be
/// overwritten, as loops that are wrong are so at an end; and some others.
void Fences::choose_exact(std::uint64_t turn, Closely closely) {
  const auto is_candidate = [](const Watched& region) {
    return region.is_first_written() && !region.is_shared && !region.units().empty();
  };
  std::pmr::vector<std::size_t> candidates(&pool_);
  for (std::size_t i = 0; i < run_->pages.size(); ++i) {
    const std::byte* const page = run_->pages[i].begin;
    if (std::ranges::any_of(run_->regions, [&](const Watched& region) {
          const auto& layout = region.layout();
          return is_candidate(region) && layout.end() > page && layout.begin() < page + page_size;
        }))
      candidates.push_back(i);
  }
  // Two turns for each: what is suspected in the first one is looked at in the second.
  const bool is_first = turn < first_turns;
  const std::size_t most = is_first ? most_exact_pages : later_exact_pages;
  std::size_t left = closely == Closely::all ? candidates.size() : std::min(candidates.size(), most);
  const auto choose = [&](Page* page) {
    if (page == nullptr || page->exact != nullptr || left == 0) return;
    page->exact = new (pool_.allocate(sizeof(Exact), alignof(Exact))) Exact;
    --left;
  };
  for (const auto& region : run_->regions)
    if (is_first && is_candidate(region))
      region.for_each_end([&](const std::byte* element) { choose(page_at(element)); });
  const std::size_t before = is_first
                                 ? turn / 2 * most_exact_pages
                                 : first_turns / 2 * most_exact_pages + (turn - first_turns) / 2 * later_exact_pages;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    choose(&run_->pages[candidates[(before + i) % candidates.size()]]);
}

/// From here on nothing fails, and whoever begins the next one takes the patterns out before.
void Fences::give_patterns(const Suspects& suspects, Closely closely) {
  for (auto& page : run_->pages)
    if (page.exact != nullptr) give_pattern(page, suspects, closely);
}

void Fences::give_pattern(Page& page, const Suspects& suspects, Closely closely) {
  Exact& exact = *page.exact;
  std::memcpy(exact.before.data(), page.begin, page_size);
  const auto suspected = suspects.find(page.begin);
  for (const auto& region : run_->regions) {
    if (!region.is_first_written() || region.is_shared || region.is_gone) continue;
    const auto reach = static_cast<std::ptrdiff_t>(std::min(region.layout().element(), page_size));
    region.for_each_in(page.begin - reach, page.begin + page_size, [&](std::byte* element, const Index& index) {
      if (!region.rule_of(index).first_written || region.is_settled(index)) return;
      for (const auto& unit : region.units()) {
        std::byte* const at = element + unit.offset;
        const bool is_whole = at >= page.begin && at + unit.bytes <= page.begin + page_size &&
                              reinterpret_cast<std::uintptr_t>(at) % unit.bytes == 0;
        if (!is_whole) continue;
        const auto bit = static_cast<std::size_t>(at - page.begin) / 4;
        if (unit.bytes == 4 && closely != Closely::all && (suspected == suspects.end() || !has(suspected->second, bit)))
          continue;
        give_pattern_to(exact, page.begin, at, unit.bytes, region.is_traced);
      }
    });
  }
}

void Fences::give_pattern_to(Exact& exact, const std::byte* page, std::byte* unit, std::size_t bytes, bool is_traced) {
  const std::uint64_t pattern = pattern_at(unit);
  if (!is_traced && std::memcmp(unit, &pattern, bytes) == 0) return;
  if (!is_traced) std::memcpy(unit, &pattern, bytes);
  const auto bit = static_cast<std::size_t>(unit - page) / 4;
  set(exact.has_pattern, bit);
  if (bytes == 8) set(exact.is_long, bit);
  if (is_traced) set(exact.traced, bit);
  exact.is_traced = exact.is_traced && is_traced;
  ++exact.left;
}

Fences::Page* Fences::page_at(const std::byte* address) {
  const auto it = std::lower_bound(run_->pages.begin(), run_->pages.end(), page_of(address),
                                   [](const Page& page, const std::byte* begin) { return page.begin < begin; });
  return it != run_->pages.end() && it->begin == page_of(address) ? &*it : nullptr;
}

std::uint64_t Fences::pattern_at(const std::byte* unit) const {
  std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(unit) ^ run_->seed;
  for (const std::uint64_t factor : {0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL})
    mixed = (mixed ^ mixed >> 29) * factor;
  return mixed ^ mixed >> 32;
}

/// It was given one, and nobody has overwritten that; of a value that is traced: it was not used.
bool Fences::holds_pattern(const Page& page, std::size_t bit) const {
  if (page.exact == nullptr || !has(page.exact->has_pattern, bit)) return false;
  if (has(page.exact->traced, bit)) return true;
  const std::byte* const unit = page.begin + bit * 4;
  const std::uint64_t pattern = pattern_at(unit);
  return std::memcmp(unit, &pattern, has(page.exact->is_long, bit) ? 8 : 4) == 0;
}

/// It is overwritten.
void Fences::take_pattern(Page& page, std::size_t bit) {
  clear(page.exact->has_pattern, bit);
  set(page.exact->overwritten, bit);
  --page.exact->left;
}

/// Unless it was overwritten; another thread may do that at this moment. The page can be written to.
void Fences::restore(Page& page, std::size_t bit, Why why) {
  Exact& exact = *page.exact;
  if (!has(exact.has_pattern, bit)) return;
  const bool is_traced = has(exact.traced, bit);
  std::byte* const unit = page.begin + bit * 4;
  const auto put_back = [&]<class Word>(Word pattern) {
    Word before;
    std::memcpy(&before, exact.before.data() + bit * 4, sizeof before);
    return __atomic_compare_exchange_n(reinterpret_cast<Word*>(unit), &pattern, before, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
  };
  if (!is_traced &&
      !(has(exact.is_long, bit) ? put_back(pattern_at(unit)) : put_back(static_cast<std::uint32_t>(pattern_at(unit)))))
    return take_pattern(page, bit);
  clear(exact.has_pattern, bit);
  --exact.left;
  if (why == Why::read) set(exact.read, bit);
  if (why == Why::opened && is_traced) set(exact.unseen, bit);
}

/// All that has a byte in it.
void Fences::restore_in(Page& page, const std::byte* from, const std::byte* to, Why why) {
  if (page.exact == nullptr || page.exact->left == 0) return;
  const auto first = std::max<std::ptrdiff_t>(from - page.begin, 0) / 4;
  const auto last = (std::min<std::ptrdiff_t>(to - page.begin, page_size) + 3) / 4;
  for (auto bit = std::max<std::ptrdiff_t>(first - 1, 0); bit < last; ++bit) {
    const auto b = static_cast<std::size_t>(bit);
    if (bit >= first || has(page.exact->is_long, b)) restore(page, b, why);
  }
}

void Fences::protect(Page& page, int protection) {
  if (page.now == protection) return;
  page.now = protection;
  if (services_->protect(page.begin, page_size, protection) == 0 || protection == PROT_NONE) return;
  // The system has no room for one more mapping: those that are alike become one, and nothing is looked at any further.
  open_every_page();
  for (auto& other : run_->pages) {
    if (!other.open) restore_in(other, other.begin, other.begin + page_size, Why::opened);
    other.now = all_access;
    other.open = true;
  }
}

/// For the rest of the computation.
void Fences::open_page(Page& page) {
  if (page.open) return;
  protect(page, all_access);
  restore_in(page, page.begin, page.begin + page_size, Why::opened);
  page.open = true;
}

void Fences::open_every_page() {
  auto& pages = run_->pages;
  for (std::size_t i = 0, n = 1; i < pages.size(); i += n) {
    for (n = 1; i + n < pages.size() && pages[i + n].begin == pages[i].begin + n * page_size && !pages[i + n].open &&
                !pages[i].open;)
      ++n;
    if (!pages[i].open && services_->protect(pages[i].begin, n * page_size, all_access) != 0)
      for (std::size_t k = i; k < i + n; ++k) services_->protect(pages[k].begin, page_size, all_access);
    for (std::size_t k = i; k < i + n; ++k) pages[k].now = all_access;
  }
}

void Fences::open(bool early) {
  const QuietHold hold;
  if (!run_) return;
  ++changes_;
  run_->is_early = run_->is_early || early;
  if (run_->state == Run::State::begins) return;  // in another thread, which will see that
  if (run_->state == Run::State::closed) {
    open_every_page();
    __atomic_store_n(services_->watching, 0, __ATOMIC_SEQ_CST);
    run_->state = Run::State::over;
  }
  // What is left in them of patterns goes in end(), which looks for it; early it must go now.
  if (!early) return;
  for (auto& page : run_->pages) open_page(page);
  run_->pages.clear();
}

void Fences::release(const void* owner) {
  if (owner_ != owner) return;
  open(true);
  const QuietHold hold;
  run_.reset();
  owner_ = nullptr;
}

std::vector<Finding> Fences::end(const std::vector<bool>& moved, Suspects& suspects) {
  std::vector<Finding> out;
  for (std::size_t r = 0; r < run_->regions.size(); ++r) {
    if (moved[r] || run_->regions[r].is_gone) continue;
    const auto dimensions = static_cast<std::ptrdiff_t>(run_->regions[r].layout().dimensions());
    for (std::size_t f = 0; f < 3 && r < run_->seen.size(); ++f) {
      const Seen& seen = run_->seen[r][f];
      if (seen.times == 0) continue;
      out.push_back({r,
                     static_cast<Fault>(f),
                     {seen.index.begin(), seen.index.begin() + dimensions},
                     seen.times,
                     seen.code,
                     seen.caller});
    }
    Finding skipped{r, Fault::skips, {}, 0, 0, 0};
    if (!run_->is_early) look_for_skipped(r, skipped);
    if (skipped.elements > 0) out.push_back(std::move(skipped));
  }
  // Where memory is another by now it may be gone, too.
  const bool some_moved = std::ranges::find(moved, true) != moved.end();
  if (!run_->is_early && !some_moved) note_unchanged(suspects);
  const Ranges there = some_moved ? own_memory() : Ranges();
  const QuietHold hold;
  for (auto& page : run_->pages)
    if (!page.open && (!some_moved || !common(there, {{page.begin, page.begin + page_size}}).empty()))
      restore_in(page, page.begin, page.begin + page_size, Why::opened);
  run_.reset();
  owner_ = nullptr;
  return out;
}

/// It lies in pages that nobody has opened, and either nothing was written to those, or its values hold the pattern.
bool Fences::is_skipped(const Watched& region, const std::byte* element) {
  const std::byte* const end = element + region.layout().element();
  bool untouched = true;
  for (const std::byte* at = page_of(element); at < end; at += page_size) {
    const Page* const page = page_at(at);
    if (page == nullptr || page->open) return false;
    untouched = untouched && !page->touched;
  }
  if (untouched) return true;
  std::size_t held = 0;
  for (const auto& unit : region.units()) {
    const std::byte* const at = element + unit.offset;
    const Page* const page = page_at(at);
    if (holds_pattern(*page, static_cast<std::size_t>(at - page->begin) / 4)) ++held;
  }
  return region.counts_elements() ? held > 0 && held == region.units().size() : held > 0;
}

Fate Fences::fate_at(const std::byte* unit) {
  const Page* const page = page_at(unit);
  if (page == nullptr || page->exact == nullptr) return Fate::unknown;
  const Exact& exact = *page->exact;
  const auto bit = static_cast<std::size_t>(unit - page->begin) / 4;
  const bool is_traced = has(exact.traced, bit);
  if (has(exact.read, bit)) return Fate::read;
  if (has(exact.unseen, bit)) return Fate::unseen;
  if (has(exact.has_pattern, bit) && holds_pattern(*page, bit)) return Fate::untouched;
  if (!has(exact.overwritten, bit) && !has(exact.has_pattern, bit)) return Fate::unknown;
  return is_traced ? Fate::seems_overwritten : Fate::overwritten;
}

std::vector<Fate> Fences::fates(std::size_t number) {
  const Watched& region = run_->regions[number];
  const auto& layout = region.layout();
  if (run_->is_early || region.is_gone || region.is_shared || !layout.is_usable() || !region.is_first_written())
    return {};
  std::vector<Fate> out;
  out.reserve(static_cast<std::size_t>(layout.volume()));
  layout.for_each(layout.all(), [&](const std::byte* element, const Index&) {
    std::optional<Fate> together;
    for (const auto& unit : region.units()) {
      const Fate one = fate_at(element + unit.offset);
      together = !together || *together == one ? one : together_of(*together, one);
    }
    out.push_back(together.value_or(Fate::unknown));
  });
  return out;
}

/// Of bytes in a page that is looked at value by value.
bool Fences::is_as_before(const Page& page, const std::byte* from, const std::byte* to) const {
  const Exact& exact = *page.exact;
  for (auto bit = static_cast<std::size_t>(from - page.begin) / 4; bit * 4 < static_cast<std::size_t>(to - page.begin);
       ++bit) {
    if (holds_pattern(page, bit))
      bit += has(exact.is_long, bit) && !has(exact.traced, bit) ? 1 : 0;
    else if (std::memcmp(page.begin + bit * 4, exact.before.data() + bit * 4, 4) != 0)
      return false;
  }
  return true;
}

/// What others write in its first and last page says nothing of it.
bool Fences::is_unwritten(std::size_t number) {
  const auto& layout = run_->regions[number].layout();
  if (run_->is_early || run_->regions[number].is_gone || !layout.is_usable()) return false;
  for (const std::byte* at = page_of(layout.begin()); at < layout.end(); at += page_size) {
    const Page* const page = page_at(at);
    if (page == nullptr) return false;
    if (!page->open && !page->written) continue;
    const std::byte* const from = std::max<const std::byte*>(at, layout.begin());
    const std::byte* const to = std::min<const std::byte*>(at + page_size, layout.end());
    if (to - from == page_size || page->exact == nullptr || !is_as_before(*page, from, to)) return false;
  }
  return true;
}

void Fences::look_for_skipped(std::size_t number, Finding& skipped) {
  const Watched& region = run_->regions[number];
  if (!region.is_first_written()) return;
  const auto& layout = region.layout();
  for (const auto& page : run_->pages) {
    if (page.open || page.begin + page_size <= layout.begin() || page.begin >= layout.end()) continue;
    if (page.touched && (page.exact == nullptr || page.exact->left == 0)) continue;
    // One that begins in the page before is that page's.
    region.for_each_in(page.begin, page.begin + page_size, [&](std::byte* element, const Index& index) {
      if (!region.rule_of(index).first_written || !is_skipped(region, element)) return;
      if (skipped.elements++ == 0)
        skipped.index.assign(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(layout.dimensions()));
    });
  }
}

void Fences::note_unchanged(Suspects& suspects) const {
  suspects.clear();
  for (const auto& page : run_->pages) {
    if (page.exact == nullptr) continue;
    auto& unchanged = suspects[page.begin];
    for (std::size_t bit = 0; bit < words_of_four; ++bit)
      if (holds_pattern(page, bit) || std::memcmp(page.begin + bit * 4, page.exact->before.data() + bit * 4, 4) == 0)
        set(unchanged, bit);
  }
}

}  // namespace backstay::check
