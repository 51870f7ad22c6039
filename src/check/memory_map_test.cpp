#include "check/memory_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <sstream>

namespace backstay::check {
namespace {

std::byte* at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

TEST(memory_map, what_belongs_to_this_process_alone_is_told_from_the_rest) {
  std::istringstream maps(
      "55e000-55f000 r-xp 00000000 08:01 1234 /usr/bin/app\n"
      "560000-562000 rw-p 00001000 08:01 1234 /usr/bin/app\n"
      "562000-564000 rw-p 00000000 00:00 0 \n"
      "570000-580000 rw-p 00000000 00:00 0                          [heap]\n"
      "600000-610000 rw-s 00000000 00:01 99 /dev/zero (deleted)\n"
      "610000-620000 rw-s 00000000 00:00 0 \n"
      "700000-701000 ---p 00000000 00:00 0 \n"
      "701000-702000 rw-p 00000000 00:00 0 \n"
      "702000-703000 rw-p 00000000 00:00 0 [anon:arena]\n"
      "800000-a00000 rw-p 00000000 00:0f 4711 /anon_hugepage (deleted)\n"
      "7ff000-800000 rw-p 00000000 00:00 0                          [stack]\n");
  const Ranges expected{{at(0x562000), at(0x564000)}, {at(0x570000), at(0x580000)}, {at(0x701000), at(0x703000)}};
  EXPECT_EQ(own_memory(maps), expected);
}

TEST(memory_map, ranges_meet_and_join) {
  const Ranges a{{at(0), at(10)}, {at(20), at(30)}}, b{{at(5), at(25)}};
  EXPECT_EQ(common(a, b), (Ranges{{at(5), at(10)}, {at(20), at(25)}}));
  EXPECT_EQ(joined({{at(20), at(30)}, {at(0), at(10)}, {at(10), at(12)}, {at(22), at(25)}, {at(3), at(3)}}),
            (Ranges{{at(0), at(12)}, {at(20), at(30)}}));
  EXPECT_EQ(whole_pages({{at(1), at(4095)}, {at(5000), at(20000)}}), (Ranges{{at(8192), at(16384)}}));
}

TEST(memory_map, of_this_process_it_has_the_heap_and_not_the_stack) {
  const auto memory = own_memory();
  void* const own = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const shared = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const auto has = [](const Ranges& ranges, const void* address) {
    const auto* const byte = static_cast<const std::byte*>(address);
    return !common(ranges, {{const_cast<std::byte*>(byte), const_cast<std::byte*>(byte) + 1}}).empty();
  };
  int on_the_stack = 0;
  EXPECT_TRUE(has(own_memory(), own));
  EXPECT_FALSE(has(own_memory(), shared));
  EXPECT_FALSE(has(memory, &on_the_stack));
  munmap(own, 8192);
  munmap(shared, 8192);
}

}  // namespace
}  // namespace backstay::check
