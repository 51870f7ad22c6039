// Reed-Solomon arithmetic as parity groups use it, against ISA-L's own kernel on the same blocks, in one process.
//   arithmetic [repeats]
// One JSON object a line on stdout: "speed" is ours / ISA-L's (1: as fast), the median of turns in which both ran, one
// behind the other, each on 64 MiB of data and more. All memory is touched before.
#include <isa-l/erasure_code.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "redundancy/erasure_code.h"

namespace {
using backstay::Bytes;
using backstay::ByteView;
using backstay::MutableByteView;
using backstay::redundancy::ErasureCode;

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Bytes> touched(int count, std::size_t size) {
  std::vector<Bytes> out(static_cast<std::size_t>(count), Bytes(size));
  std::size_t i = 0;
  for (auto& block : out)
    for (auto& byte : block) byte = static_cast<std::byte>(i++ * 2654435761U >> 24);
  return out;
}

void compare(int k, int p, std::size_t block, int repeats) {
  const auto data = touched(k, block);
  auto parity = touched(p, block);
  const auto rounds = std::max<std::size_t>(1, (std::size_t{64} << 20) / (block * static_cast<std::size_t>(k)));

  const auto code = ErasureCode::make(k, p);
  std::vector<int> from(static_cast<std::size_t>(k)), to(static_cast<std::size_t>(p));
  std::iota(from.begin(), from.end(), 0);
  std::iota(to.begin(), to.end(), k);
  const auto map = code->map(from, to);
  const std::vector<ByteView> in(data.begin(), data.end());
  const std::vector<MutableByteView> out(parity.begin(), parity.end());

  std::vector<unsigned char> matrix(static_cast<std::size_t>((k + p) * k)),
      tables(static_cast<std::size_t>(32 * k * p));
  gf_gen_cauchy1_matrix(matrix.data(), k + p, k);
  ec_init_tables(k, p, matrix.data() + k * k, tables.data());
  std::vector<unsigned char*> theirs_in, theirs_out;
  for (const auto& x : data)
    theirs_in.push_back(const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(x.data())));
  for (auto& x : parity) theirs_out.push_back(reinterpret_cast<unsigned char*>(x.data()));

  const auto ours = [&] {
    for (std::size_t i = 0; i < rounds; ++i) map.apply(in, out);
  };
  const auto theirs = [&] {
    for (std::size_t i = 0; i < rounds; ++i)
      ec_encode_data(static_cast<int>(block), k, p, tables.data(), theirs_in.data(), theirs_out.data());
  };
  std::vector<double> ratios, times;
  for (int turn = 0; turn < repeats; ++turn) {
    const double before = turn % 2 == 0 ? seconds(theirs) : 0;
    times.push_back(seconds(ours));
    ratios.push_back((turn % 2 == 0 ? before : seconds(theirs)) / times.back());
  }
  std::sort(ratios.begin(), ratios.end());
  std::sort(times.begin(), times.end());
  const auto middle = static_cast<std::size_t>(repeats / 2);
  const double bytes = static_cast<double>(rounds) * static_cast<double>(block) * k;
  std::printf(
      "{\"what\": \"arithmetic\", \"k\": %d, \"p\": %d, \"block_kib\": %zu, \"speed\": %.4f, \"gb_per_s\": %.2f}\n", k,
      p, block >> 10, ratios[middle], bytes / times[middle] * 1e-9);
}
}  // namespace

int main(int argc, char** argv) {
  const int repeats = std::max(9, argc > 1 ? std::atoi(argv[1]) : 25);
  const int shapes[][2] = {{7, 1}, {6, 2}, {14, 2}, {28, 4}};
  for (const auto& [k, p] : shapes)
    for (const std::size_t block : {std::size_t{64} << 10, std::size_t{512} << 10}) compare(k, p, block, repeats);
  return 0;
}
