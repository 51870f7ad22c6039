// Memory pages that are closed while a computation runs, and what is found where one is used.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check/finding.h"
#include "check/hooks.h"
#include "check/memory_map.h"
#include "check/own_pages.h"
#include "check/watched.h"

namespace backstay::check {

/// One for each 4 bytes of a page.
using Bits = std::array<std::uint64_t, 16>;
inline bool has(const Bits& bits, std::size_t bit) { return (bits[bit / 64] >> bit % 64 & 1) != 0; }
inline void set(Bits& bits, std::size_t bit) { bits[bit / 64] |= std::uint64_t{1} << bit % 64; }
inline void clear(Bits& bits, std::size_t bit) { bits[bit / 64] &= ~(std::uint64_t{1} << bit % 64); }

/// The bytes of values of four bytes that a computation has left as they were, by page: it may have overwritten them
/// with what they held. Those, and no others, get a pattern the next time.
using Suspects = std::map<const std::byte*, Bits>;

/// How closely pages are looked at of what is to be overwritten.
enum class Closely {
  in_turns,  ///< some of them by their values, others each time
  all,       ///< all of them, whatever it takes
};

/// The closed pages of this process, and the handlers of what is done to them: one for all sessions, from its first use
/// to the end of the process. It lies in pages of its own.
///
/// A page is closed to what is false everywhere in it. Its first use is looked at, and where all of its elements are
/// alike it is opened for the rest of the computation; otherwise for one instruction. Pages of what is to be
/// overwritten hold a pattern, so many at a time; each use of them is looked at, until no pattern is left in them, so
/// that nobody reads it.
class Fences {
 public:
  /// Null: the library that makes system calls safe is not loaded, or this machine is none of these.
  static Fences* get();

  /// A computation begins. Null: one is being looked at for somebody else.
  std::pmr::vector<Watched>* begin(const void* owner, std::size_t regions);
  std::pmr::memory_resource* memory() { return &pool_; }
  /// Closes pages of `ranges`; `turn` steers which, where there are too many. Those of regions that are only found get
  /// what the others leave.
  void close(const Ranges& ranges, std::uint64_t turn, const Suspects& suspects, Closely closely);
  [[nodiscard]] bool is_open(const void* owner) const { return run_.has_value() && owner_ == owner; }
  /// This owner has begun, perhaps, and will not end.
  void release(const void* owner);
  /// All pages are open again, and what was seen stays known. `early`: before the end of the computation.
  void open(bool early);
  /// After open(), for each region: its memory is another by now, or gone.
  std::vector<Finding> end(const std::vector<bool>& moved, Suspects& suspects);
  /// Between open() and end(): of each element, in C order; empty: nothing is known of any.
  [[nodiscard]] std::vector<Fate> fates(std::size_t region);
  /// Between open() and end(): nothing was written to its pages, and they were looked at to the end; or, in the first
  /// and the last, where others may have been written, its values are as they were.
  [[nodiscard]] bool is_unwritten(std::size_t region);
  /// Those of some size that the program has, in order.
  [[nodiscard]] Ranges allocations() const;
  /// Calls `visit(const backstay_check_memory&)` for them, if their callers are noted, from the size that is asked for
  /// on.
  template <class Visit>
  void for_each_allocation(const Visit& visit) const {
    const std::size_t least = services_->stacks_from();
    backstay_check_memory found;
    for (std::size_t at = 0; least > 0 && services_->memory(&at, &found) != 0;)
      if (found.bytes >= least) visit(std::as_const(found));
  }
  /// The region's memory was given back meanwhile.
  [[nodiscard]] bool is_gone(std::size_t region) const { return run_->regions[region].is_gone; }

  static void* operator new(std::size_t bytes) { return own_pages().allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { own_pages().deallocate(memory, bytes); }
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;

 private:
  /// A page that is looked at value by value, and what it held before.
  struct Exact {
    std::array<std::byte, page_size> before;
    Bits has_pattern{};     ///< of a value of 8 bytes, the first 4; of one that is traced: it was not used yet
    Bits is_long{};         ///< those of 8
    Bits traced{};          ///< those without a pattern
    bool is_traced = true;  ///< all of them
    Bits read{}, overwritten{}, unseen{};  ///< what became of the first 4 bytes, as Fate says; none: `unknown`
    int left = 0;
  };
  /// Why a value loses its pattern other than by being overwritten.
  enum class Why {
    read,
    perhaps_used,
    opened,  ///< the page is not looked at any further
  };
  struct Page {
    std::byte* begin = nullptr;
    Exact* exact = nullptr;
    int closed = 0;         ///< the protection that it is to have
    int now = 0;            ///< the one that it has, perhaps for one instruction
    bool open = false;      ///< for the rest of the computation
    bool touched = false;   ///< something may have been written to it
    bool written = false;   ///< an instruction did
    bool is_found = false;  ///< of regions that are only found
    bool is_known = false;
    std::optional<Rule> common = {};  ///< where `is_known`: the rule of all its elements; none: they differ
    [[nodiscard]] bool is_exact() const { return exact != nullptr && exact->left > 0; }
    /// A value of 8 bytes that begins there was given a pattern.
    [[nodiscard]] bool has_long(std::size_t bit) const {
      return exact != nullptr && has(exact->has_pattern, bit) && has(exact->is_long, bit);
    }
  };
  /// The first fault of a kind in a region.
  struct Seen {
    std::uint64_t times = 0;
    Index index{};
    std::uintptr_t code = 0, caller = 0;
  };
  struct Run {
    explicit Run(std::pmr::memory_resource* memory) : regions(memory), pages(memory), seen(memory) {}
    std::pmr::vector<Watched> regions;
    std::pmr::vector<Page> pages;  ///< by address
    std::pmr::vector<std::array<Seen, 3>> seen;
    std::uint64_t seed = 0;
    int exact_steps = 0, mixed_steps = 0, most_steps = 0;
    int traced_steps = 0;  ///< in pages without a pattern
    int found_steps = 0;   ///< in pages of regions that are only found
    /// Memory that other threads have given back since the computation began, before anything was closed.
    std::array<std::pair<const std::byte*, const std::byte*>, 64> given_back{};
    std::size_t times_given_back = 0;
    const backstay_check_thread* thread = nullptr;  ///< that looks
    bool is_early = false;                          ///< nothing is known of what it has left undone
    enum class State { begins, closed, over } state = State::begins;
  };
  struct Place {
    const Watched* region = nullptr;  ///< none: what lies there is of nobody
    Index index{};
    Rule rule;  ///< what all regions allow that have it
  };
  /// A use of memory: where the instruction stands, and where its function was called from, if that is known.
  struct Use {
    std::byte* at = nullptr;
    bool write = false;
    const unsigned char* code = nullptr;
    std::uintptr_t caller = 0;
    std::size_t repeated = 0;          ///< bytes that an instruction that repeats itself goes through from there
    const std::byte* begin = nullptr;  ///< of a store: there, or in the page before; null: that is not known
  };

  explicit Fences(backstay_check_attach_function attach);
  [[nodiscard]] bool is_closed() const { return run_ && run_->state == Run::State::closed; }
  static std::pmr::memory_resource& own_pages();
  static Fences* make();
  void install();
  void leave_out_given_back();
  void add_pages(const Ranges& ranges, std::uint64_t turn);
  [[nodiscard]] bool is_only_found(const std::byte* page) const;
  [[nodiscard]] int protection_of(const std::byte* page) const;
  void choose_exact(std::uint64_t turn, Closely closely);
  void give_patterns(const Suspects& suspects, Closely closely);
  void give_pattern(Page& page, const Suspects& suspects, Closely closely);
  [[nodiscard]] std::uint64_t pattern_at(const std::byte* unit) const;
  [[nodiscard]] bool holds_pattern(const Page& page, std::size_t bit) const;
  void give_pattern_to(Exact& exact, const std::byte* page, std::byte* unit, std::size_t bytes, bool is_traced);
  void restore(Page& page, std::size_t bit, Why why);
  void restore_in(Page& page, const std::byte* from, const std::byte* to, Why why);
  void take_pattern(Page& page, std::size_t bit);
  [[nodiscard]] Fate fate_at(const std::byte* unit);
  [[nodiscard]] bool is_as_before(const Page& page, const std::byte* from, const std::byte* to) const;
  void open_page(Page& page);
  void open_every_page();
  void protect(Page& page, int protection);
  void make_readable(Page& page) {
    if ((page.now & PROT_READ) == 0) protect(page, PROT_READ);
  }
  void look_for_skipped(std::size_t region, Finding& skipped);
  [[nodiscard]] bool is_skipped(const Watched& region, const std::byte* element);
  void note_unchanged(Suspects& suspects) const;

  static void on_fault(int signal, siginfo_t* info, void* context);
  static void on_step(int signal, siginfo_t* info, void* context);
  static void end_by(int signal);
  static void pass_on(int signal, siginfo_t* info, void* context);
  static void hook_open(const void* memory, std::size_t bytes, int writes, const void* code);
  static void hook_used(const void* memory, std::size_t bytes, int writes, const void* code);
  static void hook_forget(const void* memory, std::size_t bytes);
  static void hook_action(int signal, const struct sigaction* wanted, struct sigaction* before);
  static void after_fork();
  enum class Then {
    go_on,
    step,       ///< its page is open for this instruction
    step_all,   ///< likewise, each time that it repeats itself
    keep_open,  ///< for an instruction that repeats itself, until the thread is seen elsewhere
    not_ours,
  };
  static void close_steps(backstay_check_thread& thread, std::size_t all_but);
  Then look_at(const Use& use);
  Then look_at_page(Page& page, const Use& use);
  void look_at_read(Page& page, const Use& use, const Place& place);
  void look_at_the_rest_of_a_load(const Use& use, const Place& first);
  void let_read(Page& page, const Use& use);
  [[nodiscard]] bool has_steps_left(const Page& page);
  [[nodiscard]] bool goes_on_in(const std::byte* at);
  void look_at_store(Page& page, const Use& use, const Place& place);
  void after_step(std::byte* at, std::size_t bytes);
  [[nodiscard]] Place place_at(const std::byte* address) const;
  [[nodiscard]] const std::optional<Rule>& rule_of(Page& page) const;
  Page* page_at(const std::byte* address);
  /// Pages that are not open and have bytes in [from, to).
  template <class Visit>
  void for_each_closed(const std::byte* from, const std::byte* to, const Visit& visit);
  [[nodiscard]] bool is_read_early(const Page& page, const std::byte* at) const;
  void note(const Place& place, Fault fault, std::uintptr_t code, std::uintptr_t caller);
  void note_range(const std::byte* from, const std::byte* to, bool write, std::uintptr_t code, std::uintptr_t caller);

  static Fences* present_;
  const backstay_check_services* services_ = nullptr;
  std::pmr::monotonic_buffer_resource pool_{&own_pages()};
  std::optional<Run> run_;
  const void* owner_ = nullptr;
  std::uint64_t runs_ = 0;
  std::atomic<std::uint64_t> changes_{0};  ///< of the pages that are closed, other than by faults
  bool installed_ = false;
  std::array<struct sigaction, 2> programs_{};  ///< of SIGSEGV and SIGTRAP, as the program wants it
};

}  // namespace backstay::check
