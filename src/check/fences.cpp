#include "check/fences.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>

#if defined(__x86_64__) && defined(__linux__)
#include <ucontext.h>

namespace backstay::check {

namespace {
constexpr int all = PROT_READ | PROT_WRITE;
constexpr std::size_t stack_size = std::size_t{1} << 18;
constexpr greg_t trap_flag = 0x100;

/// Pages that this thread has open for one instruction, which may touch a few.
struct Steps {
  std::array<std::byte*, 8> pages{};
  std::size_t count = 0;
  greg_t code = 0;  ///< of that instruction
};
thread_local Steps steps;
/// The last fault of this thread that was in no page of ours, and how often pages had been closed then.
thread_local const void* unknown = nullptr;
thread_local std::uint64_t unknown_since = 0;

/// Held while pages are closed, opened or looked at: other threads use memory in them, too. In handlers nothing else
/// can be waited for; who holds it uses memory of Fences alone.
std::atomic_flag busy;
std::atomic<std::uint64_t> closings{0};
class Hold {
 public:
  Hold() {
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Hold() { busy.clear(std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
};
}  // namespace

Fences* Fences::present = nullptr;

std::pmr::memory_resource& Fences::own_pages() {
  static OwnPages pages;
  return pages;
}

/// The handlers of this thread have a stack of their own, as the program's may hold a region.
Fences::Fences() {
  clear();
  stack_ = static_cast<std::byte*>(own_pages().allocate(stack_size));
  stack_t stack{};
  stack.ss_sp = stack_;
  stack.ss_size = stack_size;
  sigaltstack(&stack, &before_stack_);
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  action.sa_sigaction = on_fault;
  sigaction(SIGSEGV, &action, &before_fault_);
  action.sa_sigaction = on_step;
  sigaction(SIGTRAP, &action, &before_step_);
  present = this;
}

Fences::~Fences() {
  (void)open_all();
  {
    const Hold hold;
    present = nullptr;
  }
  sigaction(SIGSEGV, &before_fault_, nullptr);
  sigaction(SIGTRAP, &before_step_, nullptr);
  sigaltstack(&before_stack_, nullptr);
  own_pages().deallocate(stack_, stack_size);
}

void Fences::clear() {
  const Hold hold;
  run_.reset();
  pool_.release();
  run_.emplace(&pool_);
}

/// A page of what is only read stays open to that; of what is free in all ways there is nothing to see.
void Fences::close_all() {
  run_->seen.resize(run_->regions.size());
  std::map<std::byte*, int> closed;
  for (const auto& region : run_->regions) {
    const auto& layout = region.layout();
    const auto& rule = region.common_rule();
    if (!layout.is_usable() || rule == Rule{true, true, false}) continue;
    const int protection = rule == Rule{true, false, false} ? PROT_READ : PROT_NONE;
    for (std::byte* page = region.own_begin(); page < region.own_end(); page += page_size)
      closed.try_emplace(page, protection).first->second &= protection;
  }
  for (const auto& [begin, protection] : closed) run_->pages.push_back({begin, protection, false});
  const Hold hold;
  ++closings;
  const auto& pages = run_->pages;
  for (std::size_t i = 0, n = 1; i < pages.size(); i += n) {  // neighbours together
    for (n = 1; i + n < pages.size() && pages[i + n].begin == pages[i].begin + n * page_size &&
                pages[i + n].closed == pages[i].closed;)
      ++n;
    mprotect(pages[i].begin, n * page_size, pages[i].closed);
  }
}

std::vector<Finding> Fences::open_all() {
  {
    const Hold hold;
    for (const auto& page : run_->pages)
      if (!page.open) mprotect(page.begin, page_size, all);
    run_->pages.clear();
  }
  std::vector<Finding> out;
  for (std::size_t r = 0; r < run_->seen.size(); ++r)
    for (std::size_t f = 0; f < run_->seen[r].size(); ++f) {
      const Seen& seen = run_->seen[r][f];
      if (seen.times == 0) continue;
      const auto dimensions = static_cast<std::ptrdiff_t>(run_->regions[r].layout().dimensions());
      out.push_back(
          {r, static_cast<Fault>(f), {seen.index.begin(), seen.index.begin() + dimensions}, seen.times, seen.code});
    }
  run_->seen.clear();
  return out;
}

// ---- in signal handlers: no memory is taken, and none is used that may be closed
// -------------------------------------

const Guarded* Fences::region_at(const std::byte* address) const {
  for (const auto& region : run_->regions)
    if (address >= region.layout().begin() && address < region.layout().end()) return &region;
  return nullptr;
}

Fences::Page* Fences::page_at(const std::byte* address) {
  const auto it = std::lower_bound(run_->pages.begin(), run_->pages.end(), page_of(address),
                                   [](const Page& page, const std::byte* begin) { return page.begin < begin; });
  return it != run_->pages.end() && it->begin == page_of(address) ? &*it : nullptr;
}

/// That of all its elements; none: they differ.
std::optional<Rule> Fences::rule_of_page(const std::byte* page) const {
  std::optional<Rule> common;
  for (const auto& region : run_->regions) {
    const auto& layout = region.layout();
    if (layout.end() <= page || layout.begin() >= page + page_size) continue;
    const std::byte* const end = std::min<const std::byte*>(page + page_size, layout.end());
    for (const std::byte* at = layout.first_in(page); at < end; at += layout.grain()) {
      Index index;
      if (!layout.index_of(at, index)) continue;
      const Rule rule = region.rule_of(index);
      if (common && !(*common == rule)) return {};
      common = rule;
      if (region.common_rule()) break;
    }
  }
  return common;
}

void Fences::note(const Guarded& region, Fault fault, const Index& index, std::uintptr_t code) {
  Seen& seen = run_->seen[static_cast<std::size_t>(&region - run_->regions.data())][static_cast<std::size_t>(fault)];
  if (std::atomic_ref(seen.times).fetch_add(1) > 0) return;
  seen.index = index;
  seen.code = code;
}

/// True: the page need not be closed again as it was.
bool Fences::look_at_element(Page& page, const Guarded& region, const Index& index, bool write, std::uintptr_t code) {
  const Rule rule = region.rule_of(index);
  if (!write && rule.first_written && region.holds_pattern(region.layout().address_of(index))) {
    note(region, Fault::reads_early, index, code);
    region.restore_page(page.begin, page_size);
  } else if (write ? !rule.write : !rule.read && !rule.write) {
    note(region, write ? Fault::writes : Fault::reads, index, code);
  }
  const auto common = rule_of_page(page.begin);
  if (!common) return false;
  page.open = write || common->write;
  if (page.open) return true;
  page.closed = PROT_READ;  // that it is written is still to be seen
  mprotect(page.begin, page_size, PROT_READ);
  return true;
}

/// False: that page is none of ours.
bool Fences::look_at(std::byte* address, bool write, std::uintptr_t code, bool& step) {
  Page* const page = page_at(address);
  if (page == nullptr) return false;
  mprotect(page->begin, page_size, all);
  const Guarded* const region = region_at(address);
  Index index;
  if (region != nullptr && region->layout().index_of(address, index) &&
      look_at_element(*page, *region, index, write, code))
    return true;
  page->open = ++run_->looks > AccessCheck::close_looks;
  step = !page->open;
  return true;
}

void Fences::on_fault(int signal, siginfo_t* info, void* context) {
  const int errno_before = errno;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto* const address = static_cast<std::byte*>(info->si_addr);
  const bool write = (registers[REG_ERR] & 2) != 0;
  bool step = false, ours = false;
  {
    const Hold hold;
    const bool again = unknown == address && unknown_since == closings;
    ours =
        present != nullptr && present->look_at(address, write, static_cast<std::uintptr_t>(registers[REG_RIP]), step);
    // A page that another thread has opened by now is none of ours: it is tried again. If that fails, too, it goes to
    // who was here before.
    if (!ours && again && present != nullptr) sigaction(signal, &present->before_fault_, nullptr);
  }
  if (!ours) {
    unknown = address;
    unknown_since = closings;
  }
  if (step && steps.count < steps.pages.size()) {
    steps.pages[steps.count++] = page_of(address);
    steps.code = registers[REG_RIP];
    registers[REG_EFL] |= trap_flag;
  }
  errno = errno_before;
}

void Fences::on_step(int signal, siginfo_t*, void* context) {
  const int errno_before = errno;
  if (steps.count == 0) {  // of somebody else
    const Hold hold;
    if (present != nullptr) sigaction(signal, &present->before_step_, nullptr);
    raise(signal);
  }
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (steps.count > 0 && registers[REG_RIP] == steps.code) return;  // it repeats itself: to its end
  registers[REG_EFL] &= ~trap_flag;
  for (; steps.count > 0; --steps.count) {
    std::byte* const stepped = steps.pages[steps.count - 1];
    const Hold hold;
    const Page* const page = present != nullptr ? present->page_at(stepped) : nullptr;
    if (page != nullptr && !page->open) mprotect(page->begin, page_size, page->closed);
  }
  errno = errno_before;
}

}  // namespace backstay::check
#else
namespace backstay::check {
Fences* Fences::present = nullptr;
std::pmr::memory_resource& Fences::own_pages() {
  static OwnPages pages;
  return pages;
}
Fences::Fences() { clear(); }
Fences::~Fences() = default;
void Fences::clear() {
  run_.reset();
  run_.emplace(&pool_);
}
void Fences::close_all() {}
std::vector<Finding> Fences::open_all() { return {}; }
}  // namespace backstay::check
#endif
