// What an element is, where it lies in memory, and which part of a global array it is.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace backstay {

/// Lengths, one per dimension, slowest first (C order). At most `max_dimensions`; empty means a scalar.
using Extents = std::vector<std::int64_t>;
inline constexpr std::size_t max_dimensions = 7;

/// The type of one element, as it is described in the checkpoint file.
struct Type {
  enum class Kind : std::uint8_t {
    integer,           ///< two's complement, 1, 2, 4 or 8 bytes
    unsigned_integer,  ///< 1, 2, 4 or 8 bytes
    floating,          ///< IEEE, 2, 4 or 8 bytes; 16 is x87 extended in a 16-byte slot
    complex,           ///< two floats of half the size: the compound {r, i} that h5py uses
    boolean,           ///< 1 byte, 0 or 1: the enum {FALSE, TRUE} that h5py uses
    text,              ///< UTF-8 text of `size` bytes, no terminator
    opaque,            ///< `size` bytes that only the program understands
    compound,          ///< a struct described by `members`
  };
  struct Member;

  Kind kind = Kind::opaque;
  std::size_t size = 1;         ///< bytes of one element in memory, padding included
  std::vector<Member> members;  ///< for compound only, in order of offset

  bool operator==(const Type&) const = default;
};

struct Type::Member {
  std::string name;
  std::size_t offset = 0;  ///< bytes from the start of the struct
  Extents shape;           ///< of a member that is a fixed array; empty otherwise
  Type type;

  bool operator==(const Member&) const = default;
};

/// Which part of something larger a region is; decides what a restart on other ranks may do with it.
struct Placement {
  enum class Kind : std::uint8_t {
    rank_private,      ///< belongs to this rank; comes back only on the same number of ranks
    replicated,        ///< the same on every rank; comes back on any number of ranks
    block,             ///< the box [lower, upper) of a global array; any number of ranks
    distributed_list,  ///< a piece of a list whose order is rank order; its total is re-split
  };
  Kind kind = Kind::rank_private;
  Extents global;  ///< block: shape of the global array
  Extents lower;   ///< block: first index, inclusive
  Extents upper;   ///< block: last index, exclusive

  bool operator==(const Placement&) const = default;
};

/// The box [lower, upper) of a global array of shape `global`. The region's shape must be upper - lower.
inline Placement block(Extents global, Extents lower, Extents upper) {
  return {Placement::Kind::block, std::move(global), std::move(lower), std::move(upper)};
}
/// A part of a 1-D collection; on restart with other ranks the total is split evenly, in rank order.
inline Placement distributed_list() { return {Placement::Kind::distributed_list, {}, {}, {}}; }
/// The same value on every rank. This is what a scalar without a placement is.
inline Placement replicated() { return {Placement::Kind::replicated, {}, {}, {}}; }
/// This rank's own. This is what a vector, a pointer, a pool or a cell list without a placement is.
inline Placement rank_private() { return {}; }

/// Memory of a region at one moment: `shape` elements at `data`, `strides` bytes apart.
/// The runs of a ragged view (filled slots) are listed in `run_lengths` instead: row i holds
/// `run_lengths[i]` elements at data + i * strides[0], and `shape` is {sum of run_lengths}.
struct View {
  std::byte* data = nullptr;
  Extents shape;
  Extents strides;                        ///< bytes, one per dimension; may not be negative
  std::vector<std::int64_t> run_lengths;  ///< ragged views only
  bool valid = true;                      ///< false: the memory cannot take the wanted shape
};

/// Everything backstay needs to know of a region. Built by the `protect` templates; C and Python fill it by hand.
struct RegionSpec {
  std::string name;  ///< UTF-8; '/' makes groups in the file
  Type type;
  std::string units;  ///< as in UDUNITS ("m s-1"); may be empty
  Placement placement;
  bool is_static = false;  ///< see Session::protect_static()
  /// Ranges [begin, end) of the bytes of an element that hold no value. They are saved as zeros where the region is
  /// replicated, so that equal values are equal bytes. Those inside a long double need not be named.
  std::vector<std::pair<std::size_t, std::size_t>> padding;

  /// Another region that goes with this one: unprotect() takes both. Empty: none.
  std::string companion;

  /// The memory as it is now. Called on the application's thread at each capture.
  std::function<View()> view;
  /// Makes the memory hold `shape` elements before they are put back, and gives it; `valid = false` where that is
  /// impossible. Regions protected before are back by then. Empty: the memory is fixed, and `view` tells its shape.
  std::function<View(const Extents& shape)> reshape;
  /// Optional, beside `reshape`: the memory that it gave holds now what was to be put back into it.
  std::function<void()> delivered;

  /// Instead of view/reshape: the region as a stream of bytes.
  std::function<std::string()> save;
  std::function<void(std::span<const std::byte>)> load;
  /// Optional, beside `load`: called instead of it on a restart with another number of ranks, with
  /// the bytes of every old rank, in rank order.
  std::function<void(const std::vector<std::span<const std::byte>>&, int rank, int size)> redistribute;
};

namespace detail {
template <class T>
struct is_complex : std::false_type {};
template <class T>
struct is_complex<std::complex<T>> : std::true_type {};

/// What holds an address, and not the data that it leads to.
template <class T>
struct points_elsewhere : std::bool_constant<std::is_pointer_v<T> || std::is_member_pointer_v<T>> {};
template <class T, std::size_t N>
struct points_elsewhere<std::span<T, N>> : std::true_type {};
template <class C, class Traits>
struct points_elsewhere<std::basic_string_view<C, Traits>> : std::true_type {};
template <class T>
struct points_elsewhere<std::reference_wrapper<T>> : std::true_type {};
template <class T, std::size_t N>
struct points_elsewhere<std::array<T, N>> : points_elsewhere<T> {};

/// RegionSpec::padding of elements of type T; empty where the compiler cannot tell.
template <class T>
std::vector<std::pair<std::size_t, std::size_t>> padding_of() {
  std::vector<std::pair<std::size_t, std::size_t>> out;
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  if constexpr (!std::has_unique_object_representations_v<T>) {
    alignas(T) std::array<unsigned char, sizeof(T)> bytes;
    std::memset(bytes.data(), 0xff, bytes.size());
    __builtin_clear_padding(reinterpret_cast<T*>(bytes.data()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != 0) continue;
      if (out.empty() || out.back().second != i) out.emplace_back(i, i);
      ++out.back().second;
    }
  }
#endif
#endif
  return out;
}
}  // namespace detail

/// Specialise to describe a struct, so that it is an HDF5 compound in the file:
///   template <> struct backstay::describe<Particle> {
///     static constexpr auto members = std::make_tuple(backstay::member("x", &Particle::x), ...);
///   };
template <class T>
struct describe {};

template <class S, class M>
struct MemberOf {
  const char* name;
  M S::* pointer;
};
template <class S, class M>
constexpr MemberOf<S, M> member(const char* name, M S::* pointer) {
  return {name, pointer};
}

template <class T>
concept Described = requires { describe<T>::members; };

/// The Type of T: an arithmetic type, std::complex, a described struct, or any trivially copyable type (opaque).
template <class T>
Type type_of();

namespace detail {
template <class S, class M>
Type::Member member_of(const MemberOf<S, M>& m) {
  // The offset is taken from a live object: a null-pointer offsetof is undefined for pointers to members.
  alignas(S) static const std::array<std::byte, sizeof(S)> storage{};
  const S* object = reinterpret_cast<const S*>(storage.data());
  const auto* field = reinterpret_cast<const std::byte*>(&(object->*(m.pointer)));
  Type::Member out;
  out.name = m.name;
  out.offset = static_cast<std::size_t>(field - storage.data());
  using Element = std::remove_all_extents_t<M>;
  if constexpr (std::is_array_v<M>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (out.shape.push_back(static_cast<std::int64_t>(std::extent_v<M, I>)), ...);
    }(std::make_index_sequence<std::rank_v<M>>{});
  }
  out.type = type_of<Element>();
  return out;
}
}  // namespace detail

template <class T>
Type type_of() {
  using K = Type::Kind;
  static_assert(std::is_trivially_copyable_v<T>, "protect this type with save and load callbacks");
  static_assert(!detail::points_elsewhere<T>::value,
                "this would save addresses, not the data: protect what they lead to");
  Type t;
  t.size = sizeof(T);
  if constexpr (std::is_same_v<T, bool>) {
    t.kind = K::boolean;
  } else if constexpr (std::is_enum_v<T>) {
    return type_of<std::underlying_type_t<T>>();
  } else if constexpr (std::is_integral_v<T>) {
    t.kind = std::is_signed_v<T> ? K::integer : K::unsigned_integer;
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) <= 8 || (std::is_same_v<std::remove_cv_t<T>, long double> &&
                                     std::numeric_limits<long double>::digits == 64),
                  "files have no such number: protect it as bytes, with save and load callbacks");
    t.kind = K::floating;
  } else if constexpr (detail::is_complex<T>::value) {
    t.kind = K::complex;
  } else if constexpr (Described<T>) {
    t.kind = K::compound;
    std::apply([&](const auto&... m) { (t.members.push_back(detail::member_of(m)), ...); }, describe<T>::members);
  } else {
    t.kind = K::opaque;
  }
  return t;
}

namespace detail {
/// Lengths that no memory can have are refused later, with a sentence: here they may only not overflow a signed number.
inline Extents dense_strides(const Extents& shape, std::int64_t element) {
  Extents strides(shape.size());
  auto stride = static_cast<std::uint64_t>(element);
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[d]);
  }
  return strides;
}
/// A stride of elements in bytes; what does not fit is the largest number, which protect() refuses.
inline std::int64_t stride_in_bytes(std::int64_t stride, std::size_t element) {
  std::int64_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(stride, static_cast<std::int64_t>(element), &bytes);
  return overflows ? std::numeric_limits<std::int64_t>::max() : bytes;
}
inline View dense_view(void* data, Extents shape, std::size_t element) {
  View v;
  v.data = static_cast<std::byte*>(data);
  v.strides = dense_strides(shape, static_cast<std::int64_t>(element));
  v.shape = std::move(shape);
  return v;
}
}  // namespace detail

}  // namespace backstay
