// What is in the samples: every type and placement, each value a plain function of rank and number of ranks. Version 1
// was written with this; a later version gets a header of its own, because this one must not change.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backstay/backstay.hpp"

namespace golden {

struct Particle {
  std::int64_t id;
  double position[3];
  float charge;
  bool operator==(const Particle&) const = default;
};
struct Unknown {
  std::int32_t a;
  std::int32_t b;
  bool operator==(const Unknown&) const = default;
};

inline double signalling_nan() {
  const std::uint64_t bits = 0x7ff4000000c0ffee;
  double x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

struct Regions {
  int rank, size;
  std::int8_t i1 = -1;
  std::int16_t i2 = -2;
  std::int32_t i4 = -4;
  std::int64_t i8 = std::numeric_limits<std::int64_t>::min();
  std::uint8_t u1 = 255;
  std::uint16_t u2 = 65535;
  std::uint32_t u4 = 4294967295U;
  std::uint64_t u8 = std::numeric_limits<std::uint64_t>::max();
  float f4 = 0.1F;
  double f8 = signalling_nan();
  std::complex<float> c8{1, -2};
  std::complex<double> c16{0.1, -0.2};
  bool truth = true;
  Unknown unknown{7, 8};
  std::string text, empty_text;
  std::mt19937_64 random;
  std::vector<double> field, nothing;  // a block of a global array; no elements
  std::vector<Particle> particles;     // a distributed list, uneven
  std::vector<std::uint16_t> large;    // private, more than 64 KiB: on pages of its own
  std::int32_t cube[2][3][4];

  /// What was written on this rank.
  Regions(int r, int n)
      : rank(r),
        size(n),
        text("Rank " + std::to_string(r) + ": größe, 密度"),
        random(static_cast<std::uint64_t>(100 + r)) {
    for (int i = 0; i < 4 * 5; ++i) field.push_back(1000.0 * r + i);
    for (int i = 0; i < r + 2; ++i) particles.push_back({10 * r + i, {0.5 * i, -1, 1e300}, static_cast<float>(r)});
    if (n == 1)  // once is enough, and samples are to be small
      for (int i = 0; i < 33000; ++i) large.push_back(static_cast<std::uint16_t>(i));
    for (int i = 0; i < 24; ++i) cube[i / 12][i / 4 % 3][i % 4] = 100 * r + i;
  }
  /// Forgets everything but who it is.
  void forget();
  void protect(backstay::Session& session);
  /// Bit for bit; the name of the first region that differs, or nothing.
  [[nodiscard]] std::string difference(const Regions& o) const;
};

inline void Regions::forget() {
  *this = Regions(rank, size);
  i1 = 0, i2 = 0, i4 = 0, i8 = 0, u1 = 0, u2 = 0, u4 = 0, u8 = 0, f4 = 0, f8 = 0, c8 = 0, c16 = 0, truth = false;
  unknown = {};
  text = "?";
  empty_text = "?";
  random.seed(1);
  field.assign(20, -1);
  nothing.assign(2, -1);
  particles.clear();
  large.clear();
  std::memset(cube, 0, sizeof cube);
}

inline void Regions::protect(backstay::Session& session) {
  session.protect("numbers/i1", i1);
  session.protect("numbers/i2", i2);
  session.protect("numbers/i4", i4);
  session.protect("numbers/i8", i8);
  session.protect("numbers/u1", u1);
  session.protect("numbers/u2", u2);
  session.protect("numbers/u4", u4);
  session.protect("numbers/u8", u8);
  session.protect("numbers/f4", f4, backstay::replicated(), "m s-1");
  session.protect("numbers/f8", f8);
  session.protect("numbers/c8", c8);
  session.protect("numbers/c16", c16);
  session.protect("truth", truth);
  session.protect("unknown struct", unknown);
  session.protect("text", text);
  session.protect("empty text", empty_text);
  session.protect("random", random);
  session.protect("field", field, backstay::block({4 * size, 5}, {4 * rank, 0}, {4 * rank + 4, 5}), "kg m-3");
  session.protect("nothing", nothing);
  session.protect("particles", particles, backstay::distributed_list());
  session.protect("large", large);
  session.protect("cube", cube, backstay::rank_private());
}

inline std::string Regions::difference(const Regions& o) const {
  if (i1 != o.i1 || i2 != o.i2 || i4 != o.i4 || i8 != o.i8) return "a signed number";
  if (u1 != o.u1 || u2 != o.u2 || u4 != o.u4 || u8 != o.u8) return "an unsigned number";
  if (std::memcmp(&f4, &o.f4, 4) != 0 || std::memcmp(&f8, &o.f8, 8) != 0) return "a float";
  if (c8 != o.c8 || c16 != o.c16 || truth != o.truth) return "a complex number or the truth";
  if (unknown != o.unknown) return "the unknown struct";
  if (text != o.text || empty_text != o.empty_text) return "a text";
  if (random != o.random) return "the random engine";
  if (field != o.field || nothing != o.nothing || large != o.large) return "a vector";
  if (particles != o.particles) return "the particles";
  return std::memcmp(cube, o.cube, sizeof cube) == 0 ? "" : "the cube";
}

/// A private field of which the first and the last row are read first, a block of a global array of which the last two
/// elements are, and one of which none is.
struct InParts {
  int rank, size;
  double field[5][4];
  std::vector<std::int32_t> block, gone;

  InParts(int r, int n) : rank(r), size(n), block(6), gone(6) {
    for (int i = 0; i < 20; ++i) field[i / 4][i % 4] = 100 * rank + i;
    for (std::size_t i = 0; i < 6; ++i) block[i] = 100 * rank + static_cast<int>(i);
  }
  void protect(backstay::Session& session) {
    const auto mine = backstay::block({6 * size}, {6 * rank}, {6 * rank + 6});
    session.protect("field", backstay::array(&field[0][0], {5, 4}));
    session.protect("block", block, mine);
    session.protect("gone", gone, mine);
  }
  void protect_and_run(backstay::Session& session) {
    using backstay::reads, backstay::writes;
    protect(session);
    const auto fill =
        session.declare("fill", {writes("field").in({{1, 4}, {0, 4}}), writes("block").in({{0, 4}}), writes("gone")});
    const auto use = session.declare("use", {reads("field"), reads("block"), reads("gone")});
    session.checkpoint();
    session.compute(fill, [] {});
    session.compute(use, [] {});
    session.wait();
  }
  std::string difference_after_resume(backstay::Session& session) {
    InParts expected = *this;
    for (int i = 0; i < 20; ++i)
      if (i / 4 % 4 != 0) expected.field[i / 4][i % 4] = -1;
    for (std::size_t i = 0; i < 4; ++i) expected.block[i] = -1;
    expected.gone.assign(6, -1);
    for (int i = 0; i < 20; ++i) field[i / 4][i % 4] = -1;
    block.assign(6, -1);
    gone.assign(6, -1);
    protect(session);
    if (!session.resume()) return "no line was found";
    if (std::memcmp(field, expected.field, sizeof field) != 0) return "field is not as it was";
    if (block != expected.block) return "block is not as it was";
    return gone == expected.gone ? "" : "gone has come back";
  }
};

}  // namespace golden

template <>
struct backstay::describe<golden::Particle> {
  static constexpr auto members = std::make_tuple(backstay::member("id", &golden::Particle::id),
                                                  backstay::member("position", &golden::Particle::position),
                                                  backstay::member("charge", &golden::Particle::charge));
};
