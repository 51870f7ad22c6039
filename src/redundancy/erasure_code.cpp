#include "redundancy/erasure_code.h"

#include <isa-l/erasure_code.h>

#include <algorithm>

namespace backstay::redundancy {

ShardMap::ShardMap(std::size_t inputs, std::size_t outputs, const std::vector<std::uint8_t>& coefficients)
    : inputs_(inputs), outputs_(outputs), tables_(32 * inputs * outputs) {
  auto given = coefficients;  // ISA-L wants memory that it could write
  ec_init_tables(static_cast<int>(inputs), static_cast<int>(outputs), given.data(), tables_.data());
}

void ShardMap::apply(std::span<const ByteView> inputs, std::span<const MutableByteView> outputs) const {
  if (outputs.empty() || outputs[0].empty()) return;
  std::vector<unsigned char*> in, out;
  // ISA-L reads only, through pointers that could write.
  for (const auto& shard : inputs)
    in.push_back(const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(shard.data())));
  for (const auto& shard : outputs) out.push_back(reinterpret_cast<unsigned char*>(shard.data()));
  auto* tables = const_cast<unsigned char*>(tables_.data());
  ec_encode_data(static_cast<int>(outputs[0].size()), static_cast<int>(inputs_), static_cast<int>(outputs_), tables,
                 in.data(), out.data());
}

Result<ErasureCode> ErasureCode::make(int k, int p) {
  if (k < 1 || p < 1 || k + p > 255)
    return fail(Code::invalid_argument, "a Reed-Solomon group of ", k, " data and ", p,
                " parity shards is not possible: at least one of each, and 255 together");
  return ErasureCode(k, p);
}

ErasureCode::ErasureCode(int k, int p) : k_(k), p_(p), matrix_(static_cast<std::size_t>((k + p) * k)) {
  gf_gen_cauchy1_matrix(matrix_.data(), k + p, k);
  std::uint8_t* parity = matrix_.data() + k * k;
  for (int column = 0; column < k; ++column) {
    const std::uint8_t scale = gf_inv(parity[column]);
    for (int row = 0; row < p; ++row) {
      std::uint8_t& entry = parity[row * k + column];
      entry = gf_mul(entry, scale);
    }
  }
}

ShardMap ErasureCode::map(std::span<const int> from, std::span<const int> to) const {
  const auto k = static_cast<std::size_t>(k_);
  const auto row = [&](int shard) { return matrix_.begin() + static_cast<std::ptrdiff_t>(k) * shard; };
  // shards[from] = M data, so data = inverse(M) shards[from], and shards[to] = rows[to] inverse(M) shards[from].
  std::vector<std::uint8_t> chosen, inverse(k * k), product(to.size() * k, 0);
  for (const int shard : from) chosen.insert(chosen.end(), row(shard), row(shard) + k_);
  gf_invert_matrix(chosen.data(), inverse.data(), k_);  // every k rows of this code are independent
  for (std::size_t i = 0; i < to.size(); ++i)
    for (std::size_t j = 0; j < k; ++j)
      for (std::size_t m = 0; m < k; ++m)
        product[i * k + j] ^= gf_mul(row(to[i])[static_cast<std::ptrdiff_t>(m)], inverse[m * k + j]);
  return {k, to.size(), product};
}

}  // namespace backstay::redundancy
