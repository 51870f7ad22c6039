#include "check/instruction.h"

#include <cstring>

namespace backstay::check {

namespace {
/// What stands before the opcode. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2,
/// chapter 2.
struct Prefixes {
  bool operand_16 = false;  ///< 66
  bool repeats = false;     ///< F2 or F3
  bool wide = false;        ///< REX.W
  bool is_vector = false;   ///< VEX or EVEX
  bool masked = false;      ///< EVEX with a mask: not all is read or written
  bool spreads = false;     ///< EVEX that reads one value for all of a register
  bool is_evex = false;     ///< short displacements count in bytes of the operand
  bool in_segment = false;  ///< FS or GS
  bool is_locked = false;   ///< F0
  int index = 0, base = 0;  ///< what is added to the numbers of these registers
  std::size_t vector = 16;  ///< bytes of the register
  int map = 0;              ///< 0: one byte; 1: 0F; others
  int pp = 0;               ///< of a vector: 0, 66, F3, F2
};

/// Moves `code` to the opcode. False: that cannot be.
bool read_vector_prefix(const unsigned char*& code, Prefixes& p) {
  p.is_vector = true;
  if (*code == 0xc5) {
    p.map = 1;
    p.vector = (code[1] & 4) != 0 ? 32 : 16;
    p.pp = code[1] & 3;
    code += 2;
    return true;
  }
  p.is_evex = *code == 0x62;
  p.index = (code[1] & 0x40) != 0 ? 0 : 8;
  p.base = (code[1] & 0x20) != 0 ? 0 : 8;
  p.map = code[1] & (p.is_evex ? 7 : 31);
  p.pp = code[2] & 3;
  p.wide = (code[2] & 0x80) != 0;
  if (p.is_evex) {
    p.vector = std::size_t{16} << (code[3] >> 5 & 3);
    p.masked = (code[3] & 7) != 0;
    p.spreads = (code[3] & 16) != 0;
    code += 4;
    return p.vector <= 64;
  }
  p.vector = (code[2] & 4) != 0 ? 32 : 16;
  code += 3;
  return true;
}

bool read_prefixes(const unsigned char*& code, Prefixes& p) {
  for (int i = 0; i < 4; ++i, ++code) {
    p.in_segment = p.in_segment || *code == 0x64 || *code == 0x65;
    p.is_locked = p.is_locked || *code == 0xf0;
    if (*code == 0x66)
      p.operand_16 = true;
    else if (*code == 0xf2 || *code == 0xf3) {
      p.repeats = true;
      p.pp = *code == 0xf3 ? 2 : 3;
    } else if (*code != 0x2e && *code != 0x36 && *code != 0x3e && *code != 0x26 && *code != 0x64 && *code != 0x65 &&
               *code != 0xf0)
      break;
  }
  if (p.operand_16 && p.pp == 0) p.pp = 1;
  if (*code == 0xc4 || *code == 0xc5 || *code == 0x62) return read_vector_prefix(code, p);
  if ((*code & 0xf0) == 0x40) {
    p.wide = (*code & 8) != 0;
    p.index = (*code & 2) != 0 ? 8 : 0;
    p.base = (*code & 1) != 0 ? 8 : 0;
    ++code;
  }
  if (*code != 0x0f) return true;
  p.map = 1;
  ++code;
  return *code != 0x38 && *code != 0x3a;
}

/// movs, cmps, stos, lods, scas.
bool is_string(unsigned char opcode) {
  return (opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf);
}

/// Of general registers.
std::size_t operand(const Prefixes& p) { return p.wide ? 8 : p.operand_16 ? 2 : 4; }

Store store_of_one_byte(unsigned char opcode, unsigned char modrm, const Prefixes& p) {
  const int extension = modrm >> 3 & 7;
  const std::size_t bytes = (opcode & 1) != 0 ? operand(p) : 1;
  switch (opcode) {
    case 0x88:  // mov
    case 0x89:
      return {Store::Kind::sets, bytes};
    case 0xc6:
    case 0xc7:
      return extension == 0 ? Store{Store::Kind::sets, bytes} : Store{};
    case 0xaa:  // stos
    case 0xab:
    case 0xa4:  // movs
    case 0xa5:
      return {Store::Kind::sets, bytes};
    case 0x86:  // xchg
    case 0x87:
    case 0xc0:  // shifts
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
      return {Store::Kind::changes, bytes};
    case 0x80:  // arithmetic with a constant; 7 is cmp
    case 0x81:
    case 0x83:
      return extension != 7 ? Store{Store::Kind::changes, opcode == 0x80 ? 1 : operand(p)} : Store{};
    case 0xf6:  // not, neg
    case 0xf7:
      return extension == 2 || extension == 3 ? Store{Store::Kind::changes, bytes} : Store{};
    case 0xfe:  // inc, dec
    case 0xff:
      return extension < 2 ? Store{Store::Kind::changes, bytes} : Store{};
    default:  // add, or, adc, sbb, and, sub, xor to memory
      return opcode < 0x38 && (opcode & 7) < 2 ? Store{Store::Kind::changes, bytes} : Store{};
  }
}

/// Opcodes behind 0F, with or without a vector prefix.
Store store_of_two_bytes(unsigned char opcode, const Prefixes& p) {
  const auto sets = [](std::size_t bytes) { return Store{Store::Kind::sets, bytes}; };
  switch (opcode) {
    case 0x11:  // movups, movupd, movss, movsd
      return sets(p.pp == 2 ? 4 : p.pp == 3 ? 8 : p.vector);
    case 0x13:  // movlps, movhps
    case 0x17:
      return sets(8);
    case 0x29:  // movaps, movntps
    case 0x2b:
      return sets(p.vector);
    case 0xe7:  // movntdq; without a prefix movntq of MMX
    case 0x7f:  // movdqa, movdqu; without a prefix movq of MMX
      return sets(p.pp == 0 ? 8 : p.vector);
    case 0x7e:  // movd, movq from a register
      return sets(p.wide ? 8 : 4);
    case 0xd6:
      return p.pp == 1 ? sets(8) : Store{};
    case 0xc3:  // movnti
      return p.is_vector ? Store{} : sets(p.wide ? 8 : 4);
    case 0xb0:  // cmpxchg, xadd
    case 0xb1:
    case 0xc0:
    case 0xc1:
      return p.is_vector ? Store{} : Store{Store::Kind::changes, (opcode & 1) != 0 ? operand(p) : 1};
    default:
      return {};
  }
}

std::size_t load_of_one_byte(unsigned char opcode, unsigned char modrm, const Prefixes& p) {
  const std::size_t bytes = (opcode & 1) != 0 ? operand(p) : 1;
  const int extension = modrm >> 3 & 7;
  if (opcode < 0x40) {  // arithmetic; of those that write only cmp comes here
    const int kind = opcode & 7;
    return kind == 2 || kind == 3 || (kind < 2 && opcode >= 0x38) ? bytes : 0;
  }
  switch (opcode) {
    case 0x63:  // movslq
      return 4;
    case 0x69:  // imul
    case 0x6b:
    case 0x81:  // cmp with a constant
    case 0x83:
      return operand(p);
    case 0x80:
    case 0x84:  // test
    case 0x85:
    case 0x8a:  // mov
    case 0x8b:
      return bytes;
    case 0xf6:  // test, mul, div
    case 0xf7:
      return extension == 2 || extension == 3 ? 0 : bytes;
    default:
      return 0;
  }
}

/// Opcodes behind 0F, with or without a vector prefix.
std::size_t load_of_two_bytes(unsigned char opcode, const Prefixes& p) {
  const std::size_t of_kind = p.pp == 2 ? 4 : p.pp == 3 ? 8 : p.vector;    // ss, sd, or all of a register
  if ((opcode & 0xf0) == 0x40) return p.is_vector ? 0 : operand(p);        // cmov
  if (opcode >= 0x51 && opcode <= 0x5f && opcode != 0x5b) return of_kind;  // sqrt to max, cvtss2sd
  switch (opcode) {
    case 0x10:  // movups, movupd, movss, movsd
    case 0xc2:  // cmp
      return of_kind;
    case 0x2e:  // ucomis, comis
    case 0x2f:
      return p.pp == 1 ? 8 : 4;
    case 0x2a:  // cvtsi2sd
      return p.pp >= 2 && !p.wide ? 4 : 8;
    case 0x2c:  // cvttsd2si
    case 0x2d:
      return p.pp == 2 ? 4 : p.pp == 3 ? 8 : 16;
    case 0x12:  // movlps, movhps, and those that double what they read
    case 0x16:
    case 0x14:  // unpck
    case 0x15:
    case 0x28:  // movaps
    case 0x5b:  // cvtdq2ps
    case 0x6f:  // movdqa, movdqu
    case 0xc6:  // shuf
      return p.vector;
    case 0x6e:  // movd, movq
      return p.wide ? 8 : 4;
    case 0x7e:
      return p.pp == 2 ? 8 : 0;
    case 0xaf:  // imul
      return p.is_vector ? 0 : operand(p);
    case 0xb6:  // movzx, movsx
    case 0xbe:
      return p.is_vector ? 0 : 1;
    case 0xb7:
    case 0xbf:
      return p.is_vector ? 0 : 2;
    default:
      return 0;
  }
}

/// Opcodes behind 0F 38, with a vector prefix.
std::size_t load_of_three_bytes(unsigned char opcode, const Prefixes& p) {
  if (opcode == 0x18) return 4;  // vbroadcastss
  if (opcode == 0x19) return 8;  // vbroadcastsd
  const int column = opcode & 15;
  if (p.pp != 1 || opcode < 0x96 || opcode > 0xbf || column < 6) return 0;  // vfmadd and its kin
  const bool is_scalar = column >= 9 && (column & 1) != 0;
  return is_scalar ? (p.wide ? 8 : 4) : p.vector;
}
}  // namespace

Store store_of(const unsigned char* code) {
  Prefixes p;
  if (!read_prefixes(code, p) || p.masked || p.map > 1) return {};
  if (p.map == 0 && is_string(code[0])) return store_of_one_byte(code[0], 0, p);
  if ((code[1] & 0xc0) == 0xc0) return {};  // its operand is a register
  return p.map == 1 ? store_of_two_bytes(code[0], p) : store_of_one_byte(code[0], code[1], p);
}

std::size_t repeats(const unsigned char* code) {
  Prefixes p;
  if (!read_prefixes(code, p) || p.map != 0 || p.is_vector || !p.repeats || !is_string(*code)) return 0;
  return (*code & 1) != 0 ? operand(p) : 1;
}

std::uintptr_t address_of(const unsigned char* code, const Registers& registers) {
  const std::size_t bytes = store_of(code).bytes;
  Prefixes p;
  if (bytes == 0 || !read_prefixes(code, p) || p.in_segment) return 0;
  if (p.map == 0 && is_string(*code)) return registers[7];
  const unsigned char* at = ++code;  // mod, reg, rm
  const int mod = *at >> 6;
  std::uintptr_t out = 0;
  bool has_base = true;
  if ((*at & 7) == 4) {  // scale, index, base
    ++at;
    const int index = (*at >> 3 & 7) + p.index;
    if (index != 4) out += registers[static_cast<std::size_t>(index)] << (*at >> 6);
    has_base = mod != 0 || (*at & 7) != 5;
  } else if (mod == 0 && (*at & 7) == 5) {
    return 0;  // behind the instruction, whose end is not known
  }
  if (has_base) out += registers[static_cast<std::size_t>((*at & 7) + p.base)];
  ++at;
  if (mod == 1) {
    const auto displacement = static_cast<std::int8_t>(*at);
    return out + static_cast<std::uintptr_t>(displacement * (p.is_evex ? static_cast<std::intptr_t>(bytes) : 1));
  }
  if (mod == 0 && has_base) return out;
  std::int32_t displacement = 0;
  std::memcpy(&displacement, at, sizeof displacement);
  return out + static_cast<std::uintptr_t>(std::intptr_t{displacement});
}

bool is_atomic(const unsigned char* code) {
  Prefixes p;
  if (!read_prefixes(code, p) || p.is_vector) return false;
  return p.is_locked || (p.map == 0 && (*code & 0xfe) == 0x86);
}

std::size_t load_of(const unsigned char* code) {
  Prefixes p;
  if (!read_prefixes(code, p) || (code[1] & 0xc0) == 0xc0) return 0;
  if (p.map == 0) return p.is_vector ? 0 : load_of_one_byte(code[0], code[1], p);
  if (p.map == 1) return load_of_two_bytes(code[0], p);
  return p.map == 2 && p.is_vector ? load_of_three_bytes(code[0], p) : 0;
}

std::size_t whole_load_of(const unsigned char* code) {
  Prefixes p;
  if (!read_prefixes(code, p) || p.masked || p.spreads || (code[1] & 0xc0) == 0xc0) return 0;
  const unsigned char opcode = *code;
  if (p.map == 2 && p.is_vector) return load_of_three_bytes(opcode, p);
  const bool moves = opcode == 0x10 || opcode == 0x28 || (opcode == 0x6f && p.pp != 0);
  const bool computes = opcode == 0x51 || (opcode >= 0x54 && opcode <= 0x5f && opcode != 0x5a && opcode != 0x5b);
  return p.map == 1 && (moves || computes) ? load_of_two_bytes(opcode, p) : 0;
}

bool gathers(const unsigned char* code) {
  Prefixes p;
  return read_prefixes(code, p) && p.is_vector && p.map == 2 && *code >= 0x90 && *code <= 0x93;
}

}  // namespace backstay::check
