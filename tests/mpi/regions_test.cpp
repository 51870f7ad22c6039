// Every kind of region, there and back: through a real checkpoint and a session that starts with other memory.
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <random>

#include "support.h"

struct Particle {
  double x[3];
  float charge;
  std::int32_t cell;
  bool operator==(const Particle&) const = default;
};
struct Opaque {
  std::int16_t a;
  double b;
};
template <>
struct backstay::describe<Particle> {
  static constexpr auto members =
      std::make_tuple(backstay::member("x", &Particle::x), backstay::member("charge", &Particle::charge),
                      backstay::member("cell", &Particle::cell));
};

namespace backstay::mpi_test {
namespace {

/// Protects with `protect`, takes one checkpoint of what `before` made, and resumes in a new session after `forget`.
void there_and_back(const std::function<void(Session&)>& protect, const std::function<void()>& forget,
                    const Options& more = {}) {
  const SharedDirectory dir;
  {
    Session session(MPI_COMM_WORLD, with(usual(dir.path()), more));
    protect(session);
    EXPECT_EQ(session.checkpoint(now), Outcome::taken);
    session.wait();
    EXPECT_EQ(session.status().failed, 0U) << session.status().last_error;
  }
  forget();
  Session session(MPI_COMM_WORLD, with(usual(dir.path()), more));
  protect(session);
  const Resumed found = session.resume();
  EXPECT_TRUE(found.resumed);
  EXPECT_EQ(found.line, 1U);
  EXPECT_EQ(found.saved_ranks, size_of());
  const Verified verified = session.verify();
  EXPECT_TRUE(verified.damage.empty()) << verified.damage.front();
  EXPECT_GT(verified.segments, 0U);
}

template <class T>
T sample(int seed) {
  const int number = seed * 7 + 3 + rank_of();
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(number);
  else
    return T(static_cast<typename T::value_type>(number), static_cast<typename T::value_type>(-1));
}

template <class T>
void scalar_comes_back() {
  SCOPED_TRACE(static_cast<int>(sizeof(T)));
  T scalar = sample<T>(1);
  std::vector<T> list{sample<T>(2), sample<T>(3), sample<T>(4)};
  const T scalar_was = scalar;
  const auto list_was = list;
  there_and_back(
      [&](Session& s) {
        s.protect("scalar", scalar);
        s.protect("list", list);
      },
      [&] {
        scalar = T{};
        list.clear();
      });
  EXPECT_EQ(scalar, scalar_was);
  EXPECT_EQ(list, list_was);
}

template <class... T>
void all_come_back() {
  (scalar_comes_back<T>(), ...);
}

TEST(regions, integers_come_back) {
  all_come_back<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                std::uint64_t>();
}
TEST(regions, floats_and_complex_numbers_come_back) {
  all_come_back<float, double, long double, std::complex<float>, std::complex<double>, std::complex<long double>>();
}
TEST(regions, characters_and_truth_come_back) {
  char letter = 'x';
  bool yes = true;
  enum class Phase : std::uint8_t { start, end } phase = Phase::end;
  there_and_back(
      [&](Session& s) {
        s.protect("letter", letter);
        s.protect("yes", yes);
        s.protect("phase", phase);
      },
      [&] {
        letter = ' ';
        yes = false;
        phase = Phase::start;
      });
  EXPECT_EQ(letter, 'x');
  EXPECT_TRUE(yes);
  EXPECT_EQ(phase, Phase::end);
}

TEST(regions, the_bits_of_nan_payloads_and_negative_zeros_come_back) {
  std::vector<std::uint64_t> bits{0x7ff8dead00000001, 0xfff0000000000001, 0x8000000000000000, 0x7ff0000000000000, 1};
  std::vector<double> values(bits.size());
  std::memcpy(values.data(), bits.data(), bits.size() * 8);
  std::uint32_t word = 0x7fa00001;
  float signalling = 0;
  std::memcpy(&signalling, &word, 4);
  there_and_back(
      [&](Session& s) {
        s.protect("values", values);
        s.protect("signalling", signalling);
      },
      [&] {
        values.assign(3, 0);
        signalling = 0;
      });
  ASSERT_EQ(values.size(), bits.size());
  EXPECT_EQ(std::memcmp(values.data(), bits.data(), bits.size() * 8), 0);
  EXPECT_EQ(std::memcmp(&signalling, &word, 4), 0);
}

TEST(regions, structs_come_back_described_or_opaque) {
  std::vector<Particle> particles(static_cast<std::size_t>(5 + rank_of()));
  for (std::size_t i = 0; i < particles.size(); ++i)
    particles[i] = {{static_cast<double>(i), 1.5, -2}, static_cast<float>(rank_of()), static_cast<std::int32_t>(i)};
  const auto were = particles;
  Opaque opaque{7, 2.5};
  Particle one = particles[1];
  there_and_back(
      [&](Session& s) {
        s.protect("particles", particles, distributed_list());
        s.protect("opaque", opaque);
        s.protect("one", one, rank_private());
      },
      [&] {
        particles.clear();
        opaque = {};
        one = {};
      });
  EXPECT_EQ(particles, were);
  EXPECT_EQ(opaque.a, 7);
  EXPECT_EQ(opaque.b, 2.5);
  EXPECT_EQ(one, were[1]);
}

TEST(regions, text_and_random_engines_come_back) {
  std::string words = "Grüße, 世界, of rank " + std::to_string(rank_of());
  std::string nothing;
  const std::string were = words;
  std::mt19937_64 engine(42 + static_cast<unsigned>(rank_of()));
  engine.discard(1000);
  std::normal_distribution<double> normal;
  (void)normal(engine);  // one value waits inside
  auto engine_was = engine;
  auto normal_was = normal;
  there_and_back(
      [&](Session& s) {
        s.protect("words", words);
        s.protect("nothing", nothing);
        s.protect("engine", engine);
        s.protect("normal", normal);
      },
      [&] {
        words = "?";
        nothing = "something";
        engine.seed(1);
        normal.reset();
      });
  EXPECT_EQ(words, were);
  EXPECT_EQ(nothing, "");
  EXPECT_EQ(engine, engine_was);
  EXPECT_EQ(normal(engine), normal_was(engine_was));
}

TEST(regions, fixed_arrays_come_back) {
  double matrix[3][4];
  std::array<int, 5> five{1, 2, 3, 4, rank_of()};
  std::iota(&matrix[0][0], &matrix[0][0] + 12, rank_of());
  there_and_back(
      [&](Session& s) {
        s.protect("matrix", matrix, rank_private(), "m s-1");
        s.protect("five", five);
      },
      [&] {
        std::memset(matrix, 0, sizeof matrix);
        five = {};
      });
  EXPECT_EQ(matrix[2][3], rank_of() + 11);
  EXPECT_EQ(five[4], rank_of());
}

TEST(regions, the_inside_of_a_haloed_array_comes_back_and_the_halo_is_left_alone) {
  const Extents shape{6, 7, 8};
  std::vector<double> field(6 * 7 * 8);
  std::iota(field.begin(), field.end(), 1000.0 * rank_of());
  const auto were = field;
  there_and_back([&](Session& s) { s.protect("field", inside(field.data(), shape, {1, 2, 1})); },
                 [&] { std::fill(field.begin(), field.end(), -1); });
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 7; ++j)
      for (int k = 0; k < 8; ++k) {
        const auto at = static_cast<std::size_t>((i * 7 + j) * 8 + k);
        const bool halo = i < 1 || i > 4 || j < 2 || j > 4 || k < 1 || k > 6;
        ASSERT_EQ(field[at], halo ? -1 : were[at]) << i << " " << j << " " << k;
      }
}

TEST(regions, seven_dimensions_come_back_transposed_and_strided) {
  const Extents shape{2, 1, 3, 2, 2, 1, 3};
  std::vector<std::int32_t> plain(72), spread(144, -5);
  std::iota(plain.begin(), plain.end(), rank_of());
  Extents strides(7);  // Fortran order, every second element
  std::int64_t stride = 2;
  for (std::size_t d = 0; d < 7; ++d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  for (std::size_t i = 0; i < spread.size(); i += 2) spread[i] = static_cast<std::int32_t>(i) * 3 + rank_of();
  const auto plain_was = plain, spread_was = spread;
  there_and_back(
      [&](Session& s) {
        s.protect("plain", array(plain.data(), shape));
        s.protect("spread", array(spread.data(), shape, strides));
      },
      [&] {
        std::fill(plain.begin(), plain.end(), 0);
        for (std::size_t i = 0; i < spread.size(); i += 2) spread[i] = 0;
      });
  EXPECT_EQ(plain, plain_was);
  EXPECT_EQ(spread, spread_was);
}

TEST(regions, the_used_part_of_a_pool_and_its_count_come_back) {
  std::vector<float> pool(100, -1.0F);
  int count = 10 + rank_of();
  std::iota(pool.begin(), pool.begin() + count, 0.5F);
  const int was = count;
  there_and_back([&](Session& s) { s.protect("pool", used(pool.data(), count, 100)); },
                 [&] {
                   std::fill(pool.begin(), pool.end(), -2);
                   count = 0;
                 });
  EXPECT_EQ(count, was);
  EXPECT_EQ(pool[static_cast<std::size_t>(was) - 1], 0.5F + static_cast<float>(was - 1));
  EXPECT_EQ(pool[static_cast<std::size_t>(was)], -2.0F);
}

TEST(regions, the_filled_slots_of_a_cell_list_come_back) {
  constexpr int cells = 6, slots = 4;
  std::vector<int> ids(cells * slots, -1), counts{0, 4, 1, 0, 3, rank_of() % 5};
  for (int c = 0; c < cells; ++c)
    for (int i = 0; i < counts[static_cast<std::size_t>(c)]; ++i)
      ids[static_cast<std::size_t>(c * slots + i)] = 100 * c + i;
  const auto ids_were = ids;
  const auto counts_were = counts;
  there_and_back([&](Session& s) { s.protect("ids", filled_slots(ids.data(), counts.data(), cells, slots)); },
                 [&] {
                   std::fill(ids.begin(), ids.end(), -1);
                   std::fill(counts.begin(), counts.end(), 2);
                 });
  EXPECT_EQ(counts, counts_were);
  EXPECT_EQ(ids, ids_were);
}

TEST(regions, a_vector_comes_back_with_the_size_it_had_at_each_checkpoint) {
  const SharedDirectory dir;
  std::vector<std::int64_t> list;
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    session.protect("list", list);
    for (std::int64_t n : {3, 4000, 17}) {
      list.assign(static_cast<std::size_t>(n + rank_of()), n);
      session.checkpoint(now);
    }
  }
  list.assign(99, 0);
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  session.protect("list", list);
  EXPECT_TRUE(session.resume());
  EXPECT_EQ(list, std::vector<std::int64_t>(static_cast<std::size_t>(17 + rank_of()), 17));
}

TEST(regions, callbacks_come_back) {
  std::map<int, std::string> table{{1, "one"}, {rank_of() + 2, "mine"}};
  const auto were = table;
  const auto save = [&] {
    std::string out;
    for (const auto& [key, text] : table) out += std::to_string(key) + ' ' + text + '\n';
    return out;
  };
  const auto load = [&](std::span<const std::byte> bytes) {
    std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    int key = 0;
    for (std::string text; in >> key >> text;) table[key] = text;
  };
  there_and_back([&](Session& s) { s.protect("table", Callbacks{save, load, {}}); }, [&] { table.clear(); });
  EXPECT_EQ(table, were);
}

TEST(regions, arrays_of_no_elements_come_back) {
  std::vector<double> none, sometimes(rank_of() % 2 == 0 ? 0 : 5, 1.0);
  const auto were = sometimes;
  double dummy = 4;
  there_and_back(
      [&](Session& s) {
        s.protect("none", none);
        s.protect("sometimes", sometimes, distributed_list());
        s.protect("flat", array(&dummy, {3, 0, 2}));
        s.protect("nowhere", array(static_cast<float*>(nullptr), {0}));
      },
      [&] {
        none.assign(3, 1);
        sometimes.assign(2, 9);
      });
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(sometimes, were);
  EXPECT_EQ(dummy, 4);
}

TEST(regions, names_with_spaces_slashes_and_other_alphabets_come_back) {
  const std::vector<std::string> names{"wind speed",   "fluid/momentum/x",   "größe", "密度", "a\"quoted\\one",
                                       "#%&'()*;<>?|", std::string(200, 'n')};
  std::vector<int> values(names.size());
  std::iota(values.begin(), values.end(), 10 * rank_of());
  const auto were = values;
  there_and_back(
      [&](Session& s) {
        for (std::size_t i = 0; i < names.size(); ++i) s.protect(names[i], values[i]);
      },
      [&] { std::fill(values.begin(), values.end(), -1); });
  EXPECT_EQ(values, were);
}

TEST(regions, blocks_of_a_global_array_come_back) {
  const int size = size_of(), rank = rank_of();
  std::vector<double> u(static_cast<std::size_t>(3 * 5), rank);
  there_and_back(
      [&](Session& s) { s.protect("u", u, block({3 * size, 5}, {3 * rank, 0}, {3 * rank + 3, 5}), "m s-1"); },
      [&] { std::fill(u.begin(), u.end(), -1); });
  EXPECT_EQ(u, std::vector<double>(15, rank));
}

TEST(regions, an_unprotected_region_is_not_saved) {
  const SharedDirectory dir;
  int kept = 1, dropped = 2;
  {
    Session session(MPI_COMM_WORLD, usual(dir.path()));
    session.protect("kept", kept);
    session.protect("dropped", dropped);
    session.unprotect("dropped");
    session.checkpoint(now);
  }
  kept = dropped = 0;
  Session session(MPI_COMM_WORLD, usual(dir.path()));
  session.protect("kept", kept);
  EXPECT_TRUE(session.resume());
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(dropped, 0);
}

TEST(regions, a_large_region_comes_back_whatever_the_threads) {
  if (size_of() > 2) GTEST_SKIP() << "two ranks show it, and eight take too much memory";
  std::vector<double> big(std::size_t{5} << 20);  // 40 MiB: more than one thread copies
  std::iota(big.begin(), big.end(), static_cast<double>(rank_of()));
  there_and_back([&](Session& s) { s.protect("big", big); }, [&] { std::fill(big.begin(), big.end(), 0.0); },
                 {{"threads", "3"}});
  EXPECT_EQ(big.front(), rank_of());
  EXPECT_EQ(big.back(), static_cast<double>((5 << 20) - 1 + rank_of()));
}

}  // namespace
}  // namespace backstay::mpi_test
