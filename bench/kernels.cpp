// The two kernels of capture against their limits, in one process on one core (and, where said, two threads):
// copy + CRC against memcpy, and strided capture and put back against a loop of memcpy over the rows.
//
//   kernels [runs]
//
// Prints a line a case: its name, the median over `runs` (at least 9) of time / time of the limit measured right
// beside it, and the speed. All memory is touched before. The case "in cache" is the slow one, shown for honesty: the
// copy goes past the cache, which a memcpy between two buffers that both lie there need not.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "region/pack.h"

namespace {

using backstay::Bytes;
using backstay::View;
using Work = std::function<void()>;

std::uint32_t sink = 0;  // printed at the end, so that no CRC is optimised away

double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Runs both in turn, and the other way round in every second run; the ratios are of neighbours in time.
void compare(const std::string& name, std::size_t bytes, int runs, const Work& work, const Work& limit) {
  std::vector<double> ratios;
  std::vector<double> times;
  for (int run = 0; run < runs; ++run) {
    const double before = run % 2 == 0 ? seconds(limit) : 0;
    const double mine = seconds(work);
    const double reference = run % 2 == 0 ? before : seconds(limit);
    ratios.push_back(mine / reference);
    times.push_back(mine);
  }
  std::printf("%-44s %5.2f x limit  %6.2f GB/s\n", name.c_str(), median(ratios),
              static_cast<double>(bytes) / median(times) * 1e-9);
}

Bytes touched(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 2654435761U >> 24);
  return bytes;
}

/// `count` arrays of `size` bytes, copied one by one.
void dense_copies(const std::string& name, std::size_t size, std::size_t count, int runs) {
  const Bytes source = touched(size * count);
  Bytes target = touched(size * count);
  const auto for_each_array = [&](auto copy) {
    for (std::size_t at = 0; at < source.size(); at += size) copy(target.data() + at, source.data() + at);
  };
  const auto plain = [&] { for_each_array([&](auto* to, auto* from) { std::memcpy(to, from, size); }); };
  const auto summed = [&] {
    for_each_array([&](auto* to, auto* from) { sink += backstay::copy_crc32c(to, {from, size}); });
  };
  compare("copy + CRC of " + name, source.size(), runs, summed, plain);
}

void threaded_capture(std::size_t mib, int runs) {
  Bytes source = touched(mib << 20);
  Bytes target = touched(mib << 20);
  const View view{source.data(), {static_cast<std::int64_t>(source.size())}, {1}, {}, true};
  compare(
      "capture of " + std::to_string(mib) + " MiB, 2 threads", source.size(), runs,
      [&] { sink += backstay::region::capture(view, 1, target.data(), 2); },
      [&] { std::memcpy(target.data(), source.data(), source.size()); });
}

/// `count` cubes of n^3 doubles with three halo layers on each side, one after the other in memory.
struct Cubes {
  std::int64_t n;
  std::int64_t count;
  Bytes memory;
  Bytes packed;

  Cubes(std::int64_t edge, std::int64_t cubes)
      : n(edge), count(cubes), memory(touched(cube_size() * cubes)), packed(touched(packed_size() * cubes)) {}
  [[nodiscard]] std::int64_t width() const { return (n + 6) * 8; }
  [[nodiscard]] std::size_t cube_size() const { return static_cast<std::size_t>((n + 6) * (n + 6) * width()); }
  [[nodiscard]] std::size_t packed_size() const { return static_cast<std::size_t>(n * n * n * 8); }
  std::byte* packed_cube(std::int64_t c) { return packed.data() + c * static_cast<std::int64_t>(packed_size()); }
  std::byte* row(std::int64_t c, std::int64_t i, std::int64_t j) {
    const std::int64_t cube = c * static_cast<std::int64_t>(cube_size());
    return memory.data() + cube + ((i + 3) * (n + 6) + j + 3) * width() + 3 * 8;
  }
  View inside(std::int64_t c) { return {row(c, 0, 0), {n, n, n}, {(n + 6) * width(), width(), 8}, {}, true}; }

  /// The limit: copy(row in memory, row in the packed bytes) for each row.
  template <class Copy>
  void by_rows(Copy copy) {
    for (std::int64_t c = 0; c < count; ++c) {
      std::byte* to = packed_cube(c);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j, to += n * 8) copy(row(c, i, j), to);
      }
    }
  }
};

void strided_copies(int runs, std::int64_t edge, std::int64_t count) {
  Cubes cubes(edge, count);
  const auto row = static_cast<std::size_t>(edge * 8);
  const std::size_t total = cubes.packed.size();
  const std::string name = std::to_string(count) + " cubes of " + std::to_string(edge) + "^3, halo 3";
  compare(
      "capture of " + name, total, runs,
      [&] {
        for (std::int64_t c = 0; c < count; ++c) {
          sink += backstay::region::capture(cubes.inside(c), 8, cubes.packed_cube(c));
        }
      },
      [&] { cubes.by_rows([&](std::byte* memory, std::byte* packed) { std::memcpy(packed, memory, row); }); });
  compare(
      "put back of " + name, total, runs,
      [&] {
        for (std::int64_t c = 0; c < count; ++c) {
          sink += backstay::region::put_back({cubes.packed_cube(c), cubes.packed_size()}, cubes.inside(c), 8);
        }
      },
      [&] { cubes.by_rows([&](std::byte* memory, std::byte* packed) { std::memcpy(memory, packed, row); }); });
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = std::max(9, argc > 1 ? std::atoi(argv[1]) : 15);
  dense_copies("1 MiB, in cache", 1 << 20, 1, runs);
  for (const std::size_t mib : {16, 64, 256}) {
    dense_copies(std::to_string(mib) + " MiB in 1 array", mib << 20, 1, runs);
    dense_copies(std::to_string(mib) + " MiB in 64 arrays", (mib << 20) / 64, 64, runs);
  }
  for (const std::size_t mib : {64, 256}) threaded_capture(mib, runs);
  strided_copies(runs, 16, 1024);
  strided_copies(runs, 64, 32);
  strided_copies(runs, 128, 8);
  std::printf("(checksum of checksums %08x)\n", static_cast<unsigned>(sink));
}
