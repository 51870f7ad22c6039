#include "check/instruction.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace backstay::check {
namespace {

/// With what may stand behind it.
Store of(std::initializer_list<unsigned char> code) {
  std::vector<unsigned char> all(code);
  all.resize(20, 0x90);
  return store_of(all.data());
}

::testing::AssertionResult is(const Store& store, Store::Kind kind, std::size_t bytes) {
  if (store.kind == kind && store.bytes == bytes) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << static_cast<int>(store.kind) << ", " << store.bytes << " bytes";
}

/// The bytes are those of GNU as.
TEST(instruction, moves_to_memory_overwrite) {
  EXPECT_TRUE(is(of({0x88, 0x07}), Store::Kind::sets, 1));                           // mov %al,(%rdi)
  EXPECT_TRUE(is(of({0x66, 0x89, 0x07}), Store::Kind::sets, 2));                     // mov %ax,(%rdi)
  EXPECT_TRUE(is(of({0x89, 0x04, 0x8f}), Store::Kind::sets, 4));                     // mov %eax,(%rdi,%rcx,4)
  EXPECT_TRUE(is(of({0x4c, 0x89, 0x07}), Store::Kind::sets, 8));                     // mov %r8,(%rdi)
  EXPECT_TRUE(is(of({0x48, 0xc7, 0x07, 1, 0, 0, 0}), Store::Kind::sets, 8));         // movq $1,(%rdi)
  EXPECT_TRUE(is(of({0xf2, 0x0f, 0x11, 0x07}), Store::Kind::sets, 8));               // movsd %xmm0,(%rdi)
  EXPECT_TRUE(is(of({0xf3, 0x0f, 0x11, 0x07}), Store::Kind::sets, 4));               // movss %xmm0,(%rdi)
  EXPECT_TRUE(is(of({0x0f, 0x11, 0x07}), Store::Kind::sets, 16));                    // movups %xmm0,(%rdi)
  EXPECT_TRUE(is(of({0x66, 0x0f, 0xd6, 0x07}), Store::Kind::sets, 8));               // movq %xmm0,(%rdi)
  EXPECT_TRUE(is(of({0x66, 0x44, 0x0f, 0x7f, 0x07}), Store::Kind::sets, 16));        // movdqa %xmm8,(%rdi)
  EXPECT_TRUE(is(of({0xf3, 0xaa}), Store::Kind::sets, 1));                           // rep stos
  EXPECT_TRUE(is(of({0xf3, 0x48, 0xa5}), Store::Kind::sets, 8));                     // rep movsq
  EXPECT_TRUE(is(of({0xc5, 0xfb, 0x11, 0x07}), Store::Kind::sets, 8));               // vmovsd %xmm0,(%rdi)
  EXPECT_TRUE(is(of({0xc5, 0xfd, 0x11, 0x07}), Store::Kind::sets, 32));              // vmovupd %ymm0,(%rdi)
  EXPECT_TRUE(is(of({0xc4, 0xc1, 0x7d, 0x29, 0x00}), Store::Kind::sets, 32));        // vmovapd %ymm0,(%r8)
  EXPECT_TRUE(is(of({0x62, 0xf1, 0xfd, 0x48, 0x11, 0x07}), Store::Kind::sets, 64));  // vmovupd %zmm0,(%rdi)
}

TEST(instruction, arithmetic_in_memory_reads_before) {
  EXPECT_TRUE(is(of({0x01, 0x07}), Store::Kind::changes, 4));              // add %eax,(%rdi)
  EXPECT_TRUE(is(of({0x48, 0x83, 0x07, 0x01}), Store::Kind::changes, 8));  // addq $1,(%rdi)
  EXPECT_TRUE(is(of({0xff, 0x07}), Store::Kind::changes, 4));              // incl (%rdi)
  EXPECT_TRUE(is(of({0xf0, 0x0f, 0xc1, 0x07}), Store::Kind::changes, 4));  // lock xadd %eax,(%rdi)
  EXPECT_TRUE(is(of({0x48, 0x87, 0x07}), Store::Kind::changes, 8));        // xchg %rax,(%rdi)
}

TEST(instruction, strings_repeat) {
  const auto repeats_itself = [](std::initializer_list<unsigned char> code) { return repeats(std::data(code)); };
  EXPECT_EQ(repeats_itself({0xf3, 0xaa}), 1U);
  EXPECT_EQ(repeats_itself({0xf3, 0x48, 0xa5}), 8U);
  EXPECT_EQ(repeats_itself({0xaa}), 0U);
  EXPECT_EQ(repeats_itself({0xf3, 0x0f, 0x11, 0x07}), 0U);
}

/// Never fewer than it reads.
TEST(instruction, the_bytes_of_a_load_are_known) {
  const auto bytes = [](std::initializer_list<unsigned char> code) {
    std::vector<unsigned char> all(code);
    all.resize(20, 0x90);
    return load_of(all.data());
  };
  EXPECT_EQ(bytes({0x8a, 0x07}), 1U);                           // mov (%rdi),%al
  EXPECT_EQ(bytes({0x8b, 0x07}), 4U);                           // mov (%rdi),%eax
  EXPECT_EQ(bytes({0x48, 0x8b, 0x07}), 8U);                     // mov (%rdi),%rax
  EXPECT_EQ(bytes({0x66, 0x8b, 0x07}), 2U);                     // mov (%rdi),%ax
  EXPECT_EQ(bytes({0x48, 0x63, 0x07}), 4U);                     // movslq (%rdi),%rax
  EXPECT_EQ(bytes({0x48, 0x03, 0x07}), 8U);                     // add (%rdi),%rax
  EXPECT_EQ(bytes({0x48, 0x39, 0x07}), 8U);                     // cmp %rax,(%rdi)
  EXPECT_EQ(bytes({0x0f, 0xb6, 0x07}), 1U);                     // movzbl (%rdi),%eax
  EXPECT_EQ(bytes({0xf2, 0x0f, 0x10, 0x07}), 8U);               // movsd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xf3, 0x0f, 0x10, 0x07}), 4U);               // movss (%rdi),%xmm0
  EXPECT_EQ(bytes({0x66, 0x0f, 0x10, 0x07}), 16U);              // movupd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xf2, 0x0f, 0x58, 0x07}), 8U);               // addsd (%rdi),%xmm0
  EXPECT_EQ(bytes({0x66, 0x0f, 0x59, 0x07}), 16U);              // mulpd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xf3, 0x0f, 0x5b, 0x07}), 16U);              // cvttps2dq (%rdi),%xmm0
  EXPECT_EQ(bytes({0x66, 0x0f, 0x2f, 0x07}), 8U);               // comisd (%rdi),%xmm0
  EXPECT_EQ(bytes({0x66, 0x0f, 0x16, 0x07}), 16U);              // movhpd (%rdi),%xmm0: 8, in fact
  EXPECT_EQ(bytes({0xc5, 0xfb, 0x10, 0x07}), 8U);               // vmovsd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xc5, 0xfd, 0x10, 0x07}), 32U);              // vmovupd (%rdi),%ymm0
  EXPECT_EQ(bytes({0xc4, 0xe2, 0xf1, 0x99, 0x07}), 8U);         // vfmadd132sd (%rdi),%xmm1,%xmm0
  EXPECT_EQ(bytes({0xc4, 0xe2, 0xf5, 0xb8, 0x07}), 32U);        // vfmadd231pd (%rdi),%ymm1,%ymm0
  EXPECT_EQ(bytes({0xc4, 0xe2, 0x7d, 0x19, 0x07}), 8U);         // vbroadcastsd (%rdi),%ymm0
  EXPECT_EQ(bytes({0x62, 0xf1, 0xfd, 0x48, 0x10, 0x07}), 64U);  // vmovupd (%rdi),%zmm0
  EXPECT_EQ(bytes({0x62, 0xf2, 0x77, 0x48, 0x9a, 0x07}), 0U);   // v4fmaddps (%rdi): reads for four registers
  EXPECT_EQ(bytes({0xdd, 0x07}), 0U);                           // fldl (%rdi)
  EXPECT_EQ(bytes({0x48, 0x8b, 0xc7}), 0U);                     // mov %rdi,%rax
  EXPECT_EQ(bytes({0xa5}), 0U);                                 // movsl
  EXPECT_EQ(bytes({0xc4, 0xe2, 0xf5, 0x92, 0x04, 0xcf}), 0U);   // vgatherdpd
}

TEST(instruction, loads_of_whole_vectors_are_told_from_those_that_may_read_less) {
  const auto bytes = [](std::initializer_list<unsigned char> code) {
    std::vector<unsigned char> all(code);
    all.resize(20, 0x90);
    return whole_load_of(all.data());
  };
  EXPECT_EQ(bytes({0x0f, 0x10, 0x07}), 16U);                    // movups (%rdi),%xmm0
  EXPECT_EQ(bytes({0x66, 0x0f, 0x28, 0x07}), 16U);              // movapd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xf2, 0x0f, 0x10, 0x07}), 8U);               // movsd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xf3, 0x0f, 0x6f, 0x07}), 16U);              // movdqu (%rdi),%xmm0
  EXPECT_EQ(bytes({0x66, 0x0f, 0x58, 0x07}), 16U);              // addpd (%rdi),%xmm0
  EXPECT_EQ(bytes({0xc5, 0xfd, 0x10, 0x07}), 32U);              // vmovupd (%rdi),%ymm0
  EXPECT_EQ(bytes({0xc4, 0xe2, 0xf5, 0xb8, 0x07}), 32U);        // vfmadd231pd (%rdi),%ymm1,%ymm0
  EXPECT_EQ(bytes({0x62, 0xf1, 0xfd, 0x48, 0x10, 0x07}), 64U);  // vmovupd (%rdi),%zmm0
  EXPECT_EQ(bytes({0x62, 0xf1, 0xfd, 0x49, 0x10, 0x07}), 0U);   // vmovupd (%rdi),%zmm0{%k1}
  EXPECT_EQ(bytes({0x62, 0xf1, 0xf5, 0x58, 0x58, 0x07}), 0U);   // vaddpd (%rdi){1to8},%zmm1,%zmm0
  EXPECT_EQ(bytes({0x0f, 0x5a, 0x07}), 0U);                     // cvtps2pd (%rdi),%xmm0: 8
  EXPECT_EQ(bytes({0x66, 0x0f, 0x16, 0x07}), 0U);               // movhpd (%rdi),%xmm0
  EXPECT_EQ(bytes({0x0f, 0x6f, 0x07}), 0U);                     // movq (%rdi),%mm0
  EXPECT_EQ(bytes({0x48, 0x8b, 0x07}), 0U);                     // mov (%rdi),%rax
  EXPECT_EQ(bytes({0x0f, 0x10, 0xc1}), 0U);                     // movups %xmm1,%xmm0
}

TEST(instruction, what_locks_do_is_known) {
  const auto is_so = [](std::initializer_list<unsigned char> code) { return is_atomic(std::data(code)); };
  EXPECT_TRUE(is_so({0xf0, 0x0f, 0xb1, 0x17}));  // lock cmpxchg %edx,(%rdi)
  EXPECT_TRUE(is_so({0x48, 0x87, 0x07}));        // xchg %rax,(%rdi)
  EXPECT_FALSE(is_so({0x48, 0x89, 0x07}));       // mov %rax,(%rdi)
  EXPECT_FALSE(is_so({0xf2, 0x0f, 0x11, 0x07}));
}

TEST(instruction, gathers_are_known) {
  const auto gathers_so = [](std::initializer_list<unsigned char> code) { return gathers(std::data(code)); };
  EXPECT_TRUE(gathers_so({0xc4, 0xe2, 0xf5, 0x92, 0x04, 0xcf}));        // vgatherdpd
  EXPECT_TRUE(gathers_so({0x62, 0xf2, 0xfd, 0x49, 0x93, 0x04, 0xcf}));  // vgatherqpd of 512 bits
  EXPECT_FALSE(gathers_so({0xc5, 0xfd, 0x10, 0x07}));                   // vmovupd
}

TEST(instruction, what_writes_in_parts_is_unknown) {
  EXPECT_EQ(of({0x62, 0xf1, 0xfd, 0x49, 0x11, 0x07}).kind, Store::Kind::unknown);        // vmovupd %zmm0,(%rdi){%k1}
  EXPECT_EQ(of({0xc4, 0xe2, 0x75, 0x2f, 0x07}).kind, Store::Kind::unknown);              // vmaskmovpd
  EXPECT_EQ(of({0x62, 0xf2, 0xfd, 0x49, 0xa3, 0x04, 0xcf}).kind, Store::Kind::unknown);  // vscatterqpd
  EXPECT_EQ(of({0x0f, 0xae, 0x07}).kind, Store::Kind::unknown);                          // fxsave
  EXPECT_EQ(of({0xdd, 0x1f}).kind, Store::Kind::unknown);                                // fstpl (%rdi)
}

/// The registers hold 1000 times their number.
TEST(instruction, the_address_of_a_store_is_found) {
  Registers registers{};
  for (std::size_t r = 0; r < registers.size(); ++r) registers[r] = 1000 * r;
  const auto at = [&](std::initializer_list<unsigned char> code) {
    std::vector<unsigned char> all(code);
    all.resize(20, 0x90);
    return address_of(all.data(), registers);
  };
  EXPECT_EQ(at({0x89, 0x07}), 7000U);                                                   // mov %eax,(%rdi)
  EXPECT_EQ(at({0x89, 0x45, 0xf8}), 5000U - 8);                                         // mov %eax,-8(%rbp)
  EXPECT_EQ(at({0x41, 0x89, 0x45, 0x00}), 13000U);                                      // mov %eax,(%r13)
  EXPECT_EQ(at({0x48, 0x89, 0x04, 0xcf}), 7000U + 8 * 1000);                            // mov %rax,(%rdi,%rcx,8)
  EXPECT_EQ(at({0x4a, 0x89, 0x44, 0xe6, 0x10}), 6000U + 8 * 12000 + 16);                // mov %rax,16(%rsi,%r12,8)
  EXPECT_EQ(at({0x48, 0x89, 0x04, 0x24}), 4000U);                                       // mov %rax,(%rsp)
  EXPECT_EQ(at({0x48, 0x89, 0x04, 0xcd, 0x00, 0x10, 0, 0}), 8 * 1000 + 0x1000U);        // mov %rax,0x1000(,%rcx,8)
  EXPECT_EQ(at({0x48, 0x89, 0x87, 0xf0, 0xff, 0xff, 0xff}), 7000U - 16);                // mov %rax,-16(%rdi) in 32 bits
  EXPECT_EQ(at({0xf2, 0x41, 0x0f, 0x11, 0x04, 0x08}), 8000U + 1000);                    // movsd %xmm0,(%r8,%rcx)
  EXPECT_EQ(at({0xc5, 0xfd, 0x11, 0x47, 0x20}), 7000U + 32);                            // vmovupd %ymm0,32(%rdi)
  EXPECT_EQ(at({0xc4, 0xa1, 0x7d, 0x11, 0x04, 0xdf}), 7000U + 8 * 11000);               // vmovupd %ymm0,(%rdi,%r11,8)
  EXPECT_EQ(at({0xc4, 0xc1, 0x7d, 0x29, 0x00}), 8000U);                                 // vmovapd %ymm0,(%r8)
  EXPECT_EQ(at({0x62, 0xf1, 0xfd, 0x48, 0x11, 0x47, 0x01}), 7000U + 64);                // vmovupd %zmm0,64(%rdi)
  EXPECT_EQ(at({0x62, 0x91, 0xfd, 0x48, 0x11, 0x44, 0xd1, 0xff}), 9000U + 80000 - 64);  // ...,-64(%r9,%r10,8)
  EXPECT_EQ(at({0xf3, 0x48, 0xab}), 7000U);                                             // rep stosq
  EXPECT_EQ(at({0x89, 0x05, 1, 0, 0, 0}), 0U);                                          // mov %eax,1(%rip)
  EXPECT_EQ(at({0x64, 0x89, 0x07}), 0U);                                                // mov %eax,%fs:(%rdi)
  EXPECT_EQ(at({0xc4, 0xe2, 0x75, 0x2f, 0x07}), 0U);                                    // vmaskmovpd
}

}  // namespace
}  // namespace backstay::check
