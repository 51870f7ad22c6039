// Memory pages, and memory that shares none with the program: a handler of what is done to the program's pages must not
// need one that is closed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

namespace backstay::check {

inline constexpr std::size_t page_size = 4096;
inline constexpr int all_access = PROT_READ | PROT_WRITE;
inline std::byte* page_of(const std::byte* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(address) & ~(page_size - 1));
}
inline std::byte* page_behind(const std::byte* address) { return page_of(address + page_size - 1); }

/// Memory from the system, in whole pages.
class OwnPages final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t) override { munmap(memory, bytes); }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

}  // namespace backstay::check
