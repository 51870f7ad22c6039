// Memory pages that are closed while a computation runs, and what is found where one is used.
#pragma once

#include <signal.h>

#include <array>
#include <optional>
#include <vector>

#include "check/access_check.h"
#include "check/guarded.h"

namespace backstay::check {

/// The closed pages of this process, and the handlers of what is done to them. It lies in pages of its own.
class Fences {
 public:
  static Fences* present;

  Fences();
  ~Fences();
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;
  static void* operator new(std::size_t bytes) { return own_pages().allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) { own_pages().deallocate(memory, bytes); }

  /// Of the computation that begins; to be filled, then close_all().
  std::pmr::vector<Guarded>& regions() { return run_->regions; }
  std::pmr::memory_resource* memory() { return &pool_; }
  void close_all();
  /// All pages are open again; what was seen, by region.
  std::vector<Finding> open_all();
  /// No regions, and no pages.
  void clear();

 private:
  struct Page {
    std::byte* begin = nullptr;
    int closed = 0;     ///< the protection that it has
    bool open = false;  ///< for the rest of the computation
  };
  /// The first fault of a kind in a region.
  struct Seen {
    std::uint64_t times = 0;
    Index index{};
    std::uintptr_t code = 0;
  };
  struct Run {
    explicit Run(std::pmr::memory_resource* memory) : regions(memory), pages(memory), seen(memory) {}
    std::pmr::vector<Guarded> regions;
    std::pmr::vector<Page> pages;  ///< by address
    std::pmr::vector<std::array<Seen, 3>> seen;
    int looks = 0;
  };

  static std::pmr::memory_resource& own_pages();
  static void on_fault(int signal, siginfo_t* info, void* context);
  static void on_step(int signal, siginfo_t* info, void* context);
  bool look_at(std::byte* address, bool write, std::uintptr_t code, bool& step);
  bool look_at_element(Page& page, const Guarded& region, const Index& index, bool write, std::uintptr_t code);
  [[nodiscard]] const Guarded* region_at(const std::byte* address) const;
  [[nodiscard]] std::optional<Rule> rule_of_page(const std::byte* page) const;
  Page* page_at(const std::byte* address);
  void note(const Guarded& region, Fault fault, const Index& index, std::uintptr_t code);

  std::pmr::monotonic_buffer_resource pool_{&own_pages()};
  std::optional<Run> run_;
  struct sigaction before_fault_{}, before_step_{};
  stack_t before_stack_{};
  std::byte* stack_ = nullptr;
};

}  // namespace backstay::check
