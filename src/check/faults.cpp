// What is done to closed pages: by instructions, whose faults come here as signals, and by the kernel, of which the
// preloaded library tells. In handlers no memory is taken, and none is used that may be closed.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "check/fences.h"
#include "check/hold.h"
#include "check/instruction.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#include <ucontext.h>

namespace backstay::check {

namespace {
constexpr greg_t trap_flag = 0x100, backwards = 0x400;
constexpr std::size_t longest_use = 64;  ///< bytes that one instruction uses, other than a string
constexpr int most_traced_steps = 2000000;

std::size_t number_of(int signal) { return signal == SIGSEGV ? 0 : 1; }

std::byte* pointer_to(greg_t address) {
  std::byte* out = nullptr;
  std::memcpy(&out, &address, sizeof out);
  return out;
}

/// Where a store begins whose fault is at `at`: before the begin of a page, if it comes from the page before.
/// `repeated`: bytes, of an instruction that repeats itself. Null: not known, or it may read what it is to overwrite.
const std::byte* begin_of_store(const unsigned char* code, const std::byte* at, std::size_t repeated,
                                const greg_t* registers) {
  if (page_of(at) != at && repeated == 0) return at;
  constexpr std::array order{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  Registers general{};
  std::ranges::transform(order, general.begin(),
                         [&](int number) { return static_cast<std::uintptr_t>(registers[number]); });
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const auto page = reinterpret_cast<std::uintptr_t>(page_of(at)), source = general[6];
  if (repeated > 0 && source < page + page_size && source + repeated > page) return nullptr;
  const auto before = address - address_of(code, general);
  return before < std::max(repeated, store_of(code).bytes) ? at - before : nullptr;
}
}  // namespace

Fences* Fences::make() {
  void* const found = dlsym(RTLD_DEFAULT, BACKSTAY_CHECK_ATTACH);
  backstay_check_attach_function attach = nullptr;
  std::memcpy(&attach, &found, sizeof attach);
  if (attach == nullptr || sysconf(_SC_PAGESIZE) != static_cast<long>(page_size)) return nullptr;
  auto* const fences = new Fences(attach);
  if (fences->services_ == nullptr) return nullptr;
  present_ = fences;
  pthread_atfork(nullptr, nullptr, after_fork);
  return fences;
}

Fences::Fences(backstay_check_attach_function attach) {
  static const backstay_check_hooks hooks{hook_open, hook_used, hook_forget, hook_action};
  services_ = attach(&hooks);
  if (services_ != nullptr && services_->version != backstay_check_version) services_ = nullptr;
}

/// From the first computation on; what the program had, and what it wants later, is called for what is not ours.
void Fences::install() {
  if (installed_) return;
  installed_ = true;
  const QuietHold hold;
  struct sigaction action{};
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigfillset(&action.sa_mask);  // other handlers may need the books, too
  sigdelset(&action.sa_mask, SIGSEGV);
  sigdelset(&action.sa_mask, SIGTRAP);
  action.sa_sigaction = on_fault;
  services_->action(SIGSEGV, &action, &programs_[number_of(SIGSEGV)]);
  action.sa_sigaction = on_step;
  services_->action(SIGTRAP, &action, &programs_[number_of(SIGTRAP)]);
  __atomic_store_n(services_->acts, 1, __ATOMIC_SEQ_CST);
}

/// A child has one thread, and none of the sessions.
void Fences::after_fork() {
  Hold::forget();
  if (present_ == nullptr || !present_->run_) return;
  auto& fences = *present_;
  fences.open(true);
}

// ---- what lies where ---------------------------------------------------------------------------------------------

Fences::Place Fences::place_at(const std::byte* address) const {
  Place out;
  for (const auto& region : run_->regions) {
    Index index;
    if (region.is_gone || !region.layout().index_of(address, index)) continue;
    const Rule rule = region.rule_of(index);
    if (out.region == nullptr) {
      out = {&region, index, rule};
      continue;
    }
    out.rule = {out.rule.read || rule.read, out.rule.write || rule.write, out.rule.first_written && rule.first_written};
  }
  return out;
}

/// That of all its elements; none: they differ.
const std::optional<Rule>& Fences::rule_of(Page& page) const {
  if (page.is_known) return page.common;
  page.is_known = true;
  for (const auto& region : run_->regions) {
    const auto& layout = region.layout();
    if (region.is_gone || layout.end() <= page.begin || layout.begin() >= page.begin + page_size) continue;
    const std::byte* const end = std::min<const std::byte*>(page.begin + page_size, layout.end());
    for (const std::byte* at = layout.first_in(page.begin); at < end; at += layout.grain()) {
      Index index;
      if (!layout.index_of(at, index)) continue;
      const Rule rule = region.rule_of(index);
      if (region.is_shared || (page.common && !(*page.common == rule))) {
        page.common.reset();
        return page.common;
      }
      page.common = rule;
      if (region.common_rule()) break;
    }
  }
  return page.common;
}

template <class Visit>
void Fences::for_each_closed(const std::byte* from, const std::byte* to, const Visit& visit) {
  auto it = std::lower_bound(run_->pages.begin(), run_->pages.end(), page_of(from),
                             [](const Page& page, const std::byte* begin) { return page.begin < begin; });
  for (; it != run_->pages.end() && it->begin < to; ++it)
    if (!it->open) visit(*it);
}

void Fences::note(const Place& place, Fault fault, std::uintptr_t code, std::uintptr_t caller) {
  Seen& seen =
      run_->seen[static_cast<std::size_t>(place.region - run_->regions.data())][static_cast<std::size_t>(fault)];
  if (seen.times++ > 0) return;
  seen.index = place.index;
  seen.code = code;
  seen.caller = caller;
}

// ---- instructions ------------------------------------------------------------------------------------------------

/// What must be overwritten holds the pattern, or nothing was written to its page at all.
bool Fences::is_read_early(const Page& page, const std::byte* at) const {
  const auto bit = static_cast<std::size_t>(at - page.begin) / 4;
  return !page.touched || holds_pattern(page, bit) ||
         (bit > 0 && page.has_long(bit - 1) && holds_pattern(page, bit - 1));
}

void Fences::look_at_read(Page& page, const Use& use, const Place& place) {
  if (place.region == nullptr) return;
  if (page.is_exact()) make_readable(page);
  const auto code = reinterpret_cast<std::uintptr_t>(use.code);
  if (place.rule.first_written && is_read_early(page, use.at))
    note(place, Fault::reads_early, code, use.caller);
  else if (!place.rule.read && !place.rule.write)
    note(place, Fault::reads, code, use.caller);
  else
    look_at_the_rest_of_a_load(use, place);
}

/// A vector has more than the first element. Where it comes from the page before its begin is not known, and of text it
/// may be more than the program asks for.
void Fences::look_at_the_rest_of_a_load(const Use& use, const Place& first) {
  constexpr std::size_t least_element = 4;
  const auto& region = *first.region;
  const auto& layout = region.layout();
  if (region.common_rule() || layout.element() < least_element || use.repeated > 0 || page_of(use.at) == use.at) return;
  const std::size_t bytes = whole_load_of(use.code);
  for (std::size_t i = layout.element(); i < bytes; i += layout.element()) {
    const Place place = place_at(use.at + i);
    if (place.region == &region && !place.rule.read && !place.rule.write)
      return note(place, Fault::reads, reinterpret_cast<std::uintptr_t>(use.code), use.caller);
  }
}

/// What a store overwrites in parts gets back the rest.
void Fences::look_at_store(Page& page, const Use& use, const Place& place) {
  const auto code = reinterpret_cast<std::uintptr_t>(use.code);
  const Store store = store_of(use.code);
  const std::size_t bytes = use.repeated > 0 ? use.repeated : std::max<std::size_t>(store.bytes, 1);
  const std::byte* const end = std::min<const std::byte*>(
      use.begin != nullptr ? use.begin + bytes : use.at + (use.repeated > 0 ? bytes : 1), page.begin + page_size);
  if (place.region != nullptr && !place.rule.write) {
    note(place, Fault::writes, code, use.caller);
  } else {
    note_range(use.at, end, true, code, use.caller);
  }
  if (!page.is_exact()) return;
  if (store.kind == Store::Kind::changes && place.rule.first_written &&
      holds_pattern(page, static_cast<std::size_t>(use.at - page.begin) / 4))
    note(place, Fault::reads_early, code, use.caller);
  if (store.kind != Store::Kind::sets || use.begin == nullptr)
    return restore_in(page, use.repeated > 0 ? page.begin : use.at,
                      store.kind == Store::Kind::changes ? use.at + store.bytes : page.begin + page_size,
                      store.kind == Store::Kind::changes ? Why::read : Why::perhaps_used);
  const auto from = static_cast<std::size_t>(use.at - page.begin), to = static_cast<std::size_t>(end - page.begin);
  for (const std::size_t edge : {from, to}) {
    if (edge >= page_size) continue;
    const std::size_t bit = edge / 4;
    const std::size_t unit = bit > 0 && page.has_long(bit - 1) ? bit - 1 : bit;
    if (unit * 4 != edge) restore(page, unit, Why::perhaps_used);
  }
  if (to - from < 8 && page.has_long(from / 4)) restore(page, from / 4, Why::perhaps_used);
  if (to - from < 4) restore(page, from / 4, Why::perhaps_used);
  for (std::size_t bit = from / 4; bit < to / 4; ++bit)
    if (has(page.exact->has_pattern, bit) && has(page.exact->traced, bit)) take_pattern(page, bit);
}

/// What it may read is as it was before.
void Fences::let_read(Page& page, const Use& use) {
  protect(page, all_access);
  page.touched = true;  // perhaps, by another thread
  if (const std::size_t bytes = load_of(use.code); bytes > 0)
    return restore_in(page, use.at, use.at + bytes, Why::read);
  restore_in(page, use.at, use.at + 1, Why::read);
  if (use.repeated > 0 || gathers(use.code))
    restore_in(page, page.begin, page.begin + page_size, Why::perhaps_used);
  else
    restore_in(page, use.at, use.at + longest_use, Why::perhaps_used);
}

/// Each has its price, and a page without a pattern is worth less.
bool Fences::has_steps_left(const Page& page) {
  if (page.is_found) return run_->found_steps++ < most_traced_steps;
  if (page.is_exact() && page.exact->is_traced) return run_->traced_steps++ < most_traced_steps;
  return (page.is_exact() ? run_->exact_steps : run_->mixed_steps)++ < run_->most_steps;
}

Fences::Then Fences::look_at_page(Page& page, const Use& use) {
  const Place place = place_at(use.at);
  if (use.write) {
    protect(page, all_access);
    look_at_store(page, use, place);
  } else {
    look_at_read(page, use, place);
    if (page.is_exact()) let_read(page, use);
  }
  page.touched = page.touched || use.write;
  page.written = page.written || use.write;
  const bool is_alike = !page.is_exact() && rule_of(page);
  // A lock that lies beside an array: whoever waits for it in the kernel needs its page.
  const bool may_be_a_lock = use.write && (place.region == nullptr || place.region->is_found) && is_atomic(use.code);
  if (may_be_a_lock || (use.write && is_alike)) {
    open_page(page);
    return Then::go_on;
  }
  if (!use.write) protect(page, PROT_READ);
  if (!use.write && is_alike) {
    page.closed = PROT_READ;  // that it is written is still to be seen
    return Then::go_on;
  }
  if (!has_steps_left(page)) {
    open_page(page);
    return Then::go_on;
  }
  if (use.repeated == 0) return Then::step;
  // One that passes the end of the page leaves nothing of it that could be looked at.
  return page.is_exact() && use.at + use.repeated <= page.begin + page_size ? Then::step_all : Then::keep_open;
}

/// The instruction that repeats itself goes on in a page that has values to be looked at.
bool Fences::goes_on_in(const std::byte* at) {
  Page* const page = is_closed() ? page_at(at) : nullptr;
  if (page == nullptr || page->open || !page->is_exact()) return false;
  if (has_steps_left(*page)) return true;
  open_page(*page);
  return false;
}

/// One that another thread has opened by now is tried again, as is what was closed when the fault happened.
Fences::Then Fences::look_at(const Use& use) {
  Page* const page = is_closed() ? page_at(use.at) : nullptr;
  return page == nullptr || page->open ? Then::not_ours : look_at_page(*page, use);
}

/// Overwritten were at most `bytes` from there.
void Fences::after_step(std::byte* at, std::size_t bytes) {
  Page* const page = is_closed() ? page_at(at) : nullptr;
  if (page == nullptr || page->open) return;
  if (page->is_exact()) {
    make_readable(*page);  // another thread may have closed it
    const auto first = static_cast<std::size_t>(at - page->begin) / 4;
    for (std::size_t bit = first - std::min<std::size_t>(first, 1); bit < std::min(first + bytes / 4, page_size / 4);
         ++bit)
      if (has(page->exact->has_pattern, bit) && !holds_pattern(*page, bit)) take_pattern(*page, bit);
    if (!page->is_exact() && rule_of(*page)) return open_page(*page);
  }
  protect(*page, page->closed);
}

/// All but the last ones.
void Fences::close_steps(backstay_check_thread& thread, std::size_t all_but) {
  const std::size_t closed = thread.count - all_but;
  for (std::size_t i = 0; i < closed; ++i)
    present_->after_step(static_cast<std::byte*>(thread.steps[i]),
                         thread.repeating != nullptr ? page_size : longest_use);
  std::copy(thread.steps + closed, thread.steps + thread.count, thread.steps);
  thread.count = all_but;
  if (all_but == 0) thread.repeating = nullptr;
}

void Fences::on_fault(int signal, siginfo_t* info, void* context) {
  const int errno_before = errno;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  constexpr greg_t writes = 2, fetches = 16;
  const bool may_be_ours = present_ != nullptr && info->si_code == SEGV_ACCERR && (registers[REG_ERR] & fetches) == 0;
  if (may_be_ours && present_->services_->thread()->inside != 0) return end_by(signal);
  if (!may_be_ours) return pass_on(signal, info, context);
  Use use{static_cast<std::byte*>(info->si_addr), (registers[REG_ERR] & writes) != 0,
          reinterpret_cast<const unsigned char*>(registers[REG_RIP]), 0};
  // What a function without a frame of its own will return to, as those are that copy memory.
  const auto stack = static_cast<std::uintptr_t>(registers[REG_RSP]);
  std::memcpy(&use.caller, reinterpret_cast<const void*>(stack), sizeof use.caller);
  if (const std::size_t each = repeats(use.code); each > 0)
    use.repeated = (registers[REG_EFL] & backwards) == 0 ? each * static_cast<std::size_t>(registers[REG_RCX]) : each;
  if (use.write) use.begin = begin_of_store(use.code, use.at, use.repeated, registers);
  auto& thread = *present_->services_->thread();
  Then then = Then::not_ours;
  {
    const Hold hold;
    thread.inside = 1;
    if (thread.repeating != nullptr && thread.repeating != use.code) close_steps(thread, 0);
    then = present_->look_at(use);
    // It uses four pages at a time: on both sides those where an element ends and begins.
    if (use.repeated > 0 && thread.count == backstay_check_steps) close_steps(thread, 4);
    if (then == Then::step && thread.count == backstay_check_steps) {
      if (Page* const page = present_->page_at(use.at)) present_->open_page(*page);
      then = Then::go_on;
    }
    thread.inside = 0;
  }
  if (then == Then::not_ours) {
    // One that belonged to a computation that has ended in this moment is open by now, and is tried again.
    const auto now = present_->changes_.load();
    if (thread.unknown == info->si_addr && thread.unknown_since == now) {
      thread.unknown = nullptr;
      errno = errno_before;
      return pass_on(signal, info, context);
    }
    thread.unknown = info->si_addr;
    thread.unknown_since = now;
  } else {
    thread.unknown = nullptr;
  }
  const bool is_stepped = then == Then::step || then == Then::step_all;
  if (is_stepped || then == Then::keep_open) thread.steps[thread.count++] = info->si_addr;
  if (is_stepped && (registers[REG_EFL] & trap_flag) == 0) {
    ++thread.tracing;
    registers[REG_EFL] |= trap_flag;
  }
  if (then == Then::keep_open || then == Then::step_all) thread.repeating = use.code;
  errno = errno_before;
}

void Fences::on_step(int signal, siginfo_t* info, void* context) {
  auto* const thread = present_ != nullptr ? present_->services_->thread() : nullptr;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto& flags = registers[REG_EFL];
  // Not by the reason that the kernel gives, which it reads from a register of debugging that others use, too: an
  // instruction that uses memory and is followed by a trap while the flag is set was stepped through.
  const bool was_sent = info->si_code <= 0;
  if (thread == nullptr || thread->tracing == 0 || was_sent || (flags & trap_flag) == 0)
    return pass_on(signal, info, context);
  const int errno_before = errno;
  const bool repeats_itself =
      thread->repeating != nullptr && (flags & backwards) == 0 &&
      reinterpret_cast<std::uintptr_t>(thread->repeating) == static_cast<std::uintptr_t>(registers[REG_RIP]);
  {
    const Hold hold;
    // Each time that it repeats itself counts, and its pages stay open until it has left the last one.
    if (!repeats_itself || !present_->goes_on_in(pointer_to(registers[REG_RDI]))) {
      --thread->tracing;
      flags &= ~trap_flag;
      close_steps(*thread, 0);
    }
  }
  errno = errno_before;
}

/// As without us: the instruction is tried again, and ends the program.
void Fences::end_by(int signal) {
  struct sigaction end{};
  end.sa_handler = SIG_DFL;
  present_->services_->action(signal, &end, nullptr);
}

/// To what the program has for it.
void Fences::pass_on(int signal, siginfo_t* info, void* context) {
  struct sigaction next{};
  {
    const Hold hold;
    auto& programs = present_->programs_[number_of(signal)];
    next = programs;
    if ((next.sa_flags & SA_RESETHAND) != 0) programs.sa_handler = SIG_DFL;
  }
  const bool has_siginfo = (next.sa_flags & SA_SIGINFO) != 0;
  const bool was_sent = info->si_code <= 0;
  if (!has_siginfo && next.sa_handler == SIG_IGN && was_sent) return;
  if (!has_siginfo && (next.sa_handler == SIG_DFL || next.sa_handler == SIG_IGN)) {
    end_by(signal);
    if (was_sent || signal != SIGSEGV) raise(signal);
    return;
  }
  sigset_t mask = static_cast<ucontext_t*>(context)->uc_sigmask;
  for (int other = 1; other < NSIG; ++other)
    if (sigismember(&next.sa_mask, other) == 1 && other != SIGSEGV && other != SIGTRAP) sigaddset(&mask, other);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (has_siginfo)
    next.sa_sigaction(signal, info, context);
  else
    next.sa_handler(signal);
}

// ---- the kernel --------------------------------------------------------------------------------------------------

namespace {
std::byte* bytes_at(const void* memory) { return static_cast<std::byte*>(const_cast<void*>(memory)); }
}  // namespace

/// What it reads may be written later, and that is still to be seen.
void Fences::hook_open(const void* memory, std::size_t bytes, int writes, const void* code) {
  if (present_ == nullptr || bytes == 0) return;
  const QuietHold hold;
  auto& fences = *present_;
  if (!fences.is_closed()) return;
  std::byte *const begin = bytes_at(memory), *const end = begin + bytes;
  fences.for_each_closed(begin, end, [&](Page& page) {
    if (writes != 0) return fences.open_page(page);
    std::byte* const first = std::max(begin, page.begin);
    const Place place = fences.place_at(first);
    if (place.rule.first_written)
      fences.look_at_read(page, {first, false, static_cast<const unsigned char*>(code), 0}, place);
    if (page.is_exact()) {
      fences.protect(page, all_access);
      page.touched = true;
      fences.restore_in(page, first, end, Why::read);
      fences.restore_in(page, page.begin, page.begin + page_size, Why::perhaps_used);
    }
    page.closed = PROT_READ;
    fences.protect(page, PROT_READ);
  });
}

void Fences::hook_used(const void* memory, std::size_t bytes, int writes, const void* code) {
  if (present_ == nullptr || bytes == 0) return;
  const QuietHold hold;
  if (present_->is_closed())
    present_->note_range(bytes_at(memory), bytes_at(memory) + bytes, writes != 0,
                         reinterpret_cast<std::uintptr_t>(code), 0);
}

/// The first false one of each region.
void Fences::note_range(const std::byte* from, const std::byte* to, bool write, std::uintptr_t code,
                        std::uintptr_t caller) {
  for (const auto& region : run_->regions) {
    const auto& layout = region.layout();
    const auto& rule = region.common_rule();
    if (region.is_gone || layout.end() <= from || layout.begin() >= to) continue;
    if (rule && (write ? rule->write : rule->read || rule->write)) continue;
    bool found = false;
    const auto* const begin = std::max<const std::byte*>(from, layout.begin());
    const auto* const end = std::min<const std::byte*>(to, layout.end());
    for (const std::byte* at = layout.first_in(begin); at < end && !found; at += layout.grain()) {
      const Place place = place_at(std::max(at, begin));
      if (place.region == nullptr || (write ? place.rule.write : place.rule.read || place.rule.write)) continue;
      note(place, write ? Fault::writes : Fault::reads, code, caller);
      found = true;
    }
  }
}

void Fences::hook_forget(const void* memory, std::size_t bytes) {
  if (present_ == nullptr || bytes == 0) return;
  const QuietHold hold;
  auto& fences = *present_;
  std::byte *const begin = bytes_at(memory), *const end = begin + bytes;
  if (fences.run_ && fences.run_->state == Run::State::begins && fences.services_->thread() != fences.run_->thread) {
    auto& run = *fences.run_;
    const std::size_t number = run.times_given_back++;
    if (number < run.given_back.size()) run.given_back[number] = {begin, end};
  }
  if (!fences.is_closed()) return;
  for (auto& region : fences.run_->regions) {
    const auto& layout = region.layout();
    if (!layout.is_usable() || layout.end() <= begin || layout.begin() >= end) continue;
    region.is_gone = true;
    fences.for_each_closed(layout.begin(), layout.end(), [&](Page& page) { fences.open_page(page); });
  }
  fences.for_each_closed(begin, end, [&](Page& page) { fences.open_page(page); });
}

void Fences::hook_action(int signal, const struct sigaction* wanted, struct sigaction* before) {
  const QuietHold hold;
  auto& programs = present_->programs_[number_of(signal)];
  const struct sigaction was = programs;
  if (wanted != nullptr) programs = *wanted;
  if (before != nullptr) *before = was;
}

}  // namespace backstay::check
#else
namespace backstay::check {
Fences* Fences::make() { return nullptr; }
void Fences::install() {}
}  // namespace backstay::check
#endif
