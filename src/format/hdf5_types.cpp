#include "format/hdf5_types.h"

#include <algorithm>
#include <array>
#include <set>

#include "format/hdf5_writer.h"

namespace backstay::format {
namespace {

/// Datatype classes of the specification, section IV.A.2.d.
enum class Class : std::uint8_t {
  fixed_point = 0,
  floating_point = 1,
  text = 3,
  opaque = 5,
  compound = 6,
  enumeration = 8,
  variable_length = 9,
  array = 10,
};

constexpr std::uint64_t null_padded = 1, utf8 = 1;

/// Where the parts of a float are, in bits from the lowest.
struct Float {
  std::size_t size;
  unsigned precision, exponent_at, exponent_bits, mantissa_bits, bias;
  bool hidden_one;  ///< the mantissa's leading one is not stored
};
constexpr std::array<Float, 4> floats{{{2, 16, 10, 5, 10, 15, true},
                                       {4, 32, 23, 8, 23, 127, true},
                                       {8, 64, 52, 11, 52, 1023, true},
                                       {16, 80, 64, 15, 64, 16383, false}}};

Result<void> put_type(Writer& out, const Type& type);

void put_start(Writer& out, Class c, std::uint64_t bits, std::uint64_t size) {
  constexpr unsigned version = 3;
  out.u8(version << 4 | static_cast<unsigned>(c)).number(bits, 3).u32(size);
}

Failure no_such_size(const char* kind, std::size_t size) {
  return fail(Code::invalid_argument, "HDF5 has no ", kind, " of ", size, " bytes");
}

void put_integer(Writer& out, std::size_t size, bool is_signed) {
  put_start(out, Class::fixed_point, is_signed ? 1U << 3 : 0U, size);
  out.u16(0).u16(8 * size);
}

Result<void> put_float(Writer& out, std::size_t size) {
  const auto* f = std::find_if(floats.begin(), floats.end(), [&](const Float& x) { return x.size == size; });
  if (f == floats.end()) return no_such_size("floating-point number", size);
  const unsigned normalization = f->hidden_one ? 2 : 0;
  const unsigned sign_at = f->precision - 1;
  put_start(out, Class::floating_point, normalization << 4 | sign_at << 8, size);
  out.u16(0).u16(f->precision).u8(f->exponent_at).u8(f->exponent_bits).u8(0).u8(f->mantissa_bits).u32(f->bias);
  return {};
}

void put_boolean(Writer& out) {
  put_start(out, Class::enumeration, 2, 1);
  put_integer(out, 1, true);
  out.name("FALSE").name("TRUE").u8(0).u8(1);
}

std::size_t element_count(const Extents& shape) {
  std::size_t count = 1;
  for (auto n : shape) count *= static_cast<std::size_t>(n);
  return count;
}

Result<void> check_array(const Type::Member& member) {
  bool fits = member.shape.size() <= max_dimensions;
  std::uint64_t bytes = std::max<std::uint64_t>(member.type.size, 1);
  for (auto n : member.shape) {
    fits = fits && n > 0 && static_cast<std::uint64_t>(n) <= 0xffffffff / bytes;
    if (fits) bytes *= static_cast<std::uint64_t>(n);
  }
  if (fits) return {};
  return fail(Code::invalid_argument, "member '", member.name,
              "' is an array that HDF5 cannot describe: it takes 1 to ", max_dimensions,
              " dimensions, none of them zero, and less than 4 GiB");
}

/// `members` are in order of offset.
Result<void> check_members(const Type& type, const std::vector<Type::Member>& members) {
  if (members.empty()) return fail(Code::invalid_argument, "a struct without members cannot be described in HDF5");
  std::set<std::string_view> names;
  std::size_t end = 0;
  for (const auto& m : members) {
    if (m.name.empty() || m.name.find('\0') != std::string::npos || !names.insert(m.name).second) {
      return fail(Code::invalid_argument, "member name '", m.name, "' is empty, holds a zero byte or is used twice");
    }
    BACKSTAY_TRY(check_array(m));
    const std::size_t bytes = m.type.size * element_count(m.shape);
    if (m.offset < end || m.offset > type.size || bytes > type.size - m.offset) {
      return fail(Code::invalid_argument, "member '", m.name, "' (", bytes, " bytes at ", m.offset,
                  ") overlaps another or sticks out of its struct of ", type.size, " bytes");
    }
    end = m.offset + bytes;
  }
  return {};
}

Result<void> put_member_type(Writer& out, const Type::Member& member) {
  if (!member.shape.empty()) {
    put_start(out, Class::array, 0, member.type.size * element_count(member.shape));
    out.u8(member.shape.size());
    for (auto n : member.shape) out.u32(static_cast<std::uint64_t>(n));
  }
  auto done = put_type(out, member.type);
  if (!done) return fail(done.failure().code, "member '", member.name, "': ", done.failure().what);
  return {};
}

Result<void> put_compound(Writer& out, const Type& type) {
  auto members = type.members;
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  BACKSTAY_TRY(check_members(type, members));
  put_start(out, Class::compound, members.size(), type.size);
  std::size_t offset_bytes = 1;  // as few as hold the size of the struct
  while (offset_bytes < 4 && type.size >> (8 * offset_bytes) != 0) ++offset_bytes;
  for (const auto& m : members) {
    out.name(m.name).number(m.offset, offset_bytes);
    BACKSTAY_TRY(put_member_type(out, m));
  }
  return {};
}

Result<void> put_complex(Writer& out, std::size_t size) {
  const Type half{Type::Kind::floating, size / 2, {}};
  if (size % 2 != 0) return no_such_size("complex number", size);
  return put_compound(out, {Type::Kind::compound, size, {{"r", 0, {}, half}, {"i", size / 2, {}, half}}});
}

Result<void> put_type(Writer& out, const Type& type) {
  using K = Type::Kind;
  const auto size = type.size;
  if (size == 0 || size > 0xffffffff) return no_such_size("element", size);
  switch (type.kind) {
    case K::integer:
    case K::unsigned_integer:
      if (size != 1 && size != 2 && size != 4 && size != 8) return no_such_size("integer", size);
      put_integer(out, size, type.kind == K::integer);
      return {};
    case K::floating:
      return put_float(out, size);
    case K::complex:
      return put_complex(out, size);
    case K::boolean:
      if (size != 1) return no_such_size("boolean", size);
      put_boolean(out);
      return {};
    case K::text:
      put_start(out, Class::text, null_padded | utf8 << 4, size);
      return {};
    case K::opaque:
      put_start(out, Class::opaque, 0, size);  // no tag: h5py reads only opaque data without one
      return {};
    case K::compound:
      return put_compound(out, type);
  }
  return fail(Code::invalid_argument, "a type of unknown kind ", static_cast<int>(type.kind));
}

}  // namespace

Result<Bytes> encode_type(const Type& type) {
  Writer out;
  BACKSTAY_TRY(put_type(out, type));
  return out.take();
}

Bytes encode_heap_text_type() {
  constexpr std::uint64_t is_text = 1;
  Writer out;
  put_start(out, Class::variable_length, is_text | utf8 << 8, 16);
  put_integer(out, 1, false);
  return out.take();
}

}  // namespace backstay::format
