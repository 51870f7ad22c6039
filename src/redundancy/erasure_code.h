// Reed-Solomon arithmetic over GF(2^8), by ISA-L. Pure: no ranks, no files.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace backstay::redundancy {

/// One linear map of shards: each output is a combination of all inputs, byte by byte.
class ShardMap {
 public:
  ShardMap(std::size_t inputs, std::size_t outputs, const std::vector<std::uint8_t>& coefficients);
  [[nodiscard]] std::size_t inputs() const { return inputs_; }
  [[nodiscard]] std::size_t outputs() const { return outputs_; }
  /// All shards have the same length. inputs.size() == inputs(), outputs.size() == outputs().
  void apply(std::span<const ByteView> inputs, std::span<const MutableByteView> outputs) const;

 private:
  std::size_t inputs_;
  std::size_t outputs_;
  std::vector<std::uint8_t> tables_;  // 32 bytes a coefficient, as ISA-L wants them
};

/// A systematic code: shards 0..k-1 are data, k..k+p-1 parity; any k of the k+p give back all. The matrix is a Cauchy
/// matrix whose columns are scaled so that the first parity is the XOR of the data (RAID 5 is the case p = 1);
/// scaling by numbers other than 0 keeps every square part of it invertible.
class ErasureCode {
 public:
  /// Code::invalid_argument unless k >= 1, p >= 1 and k + p <= 255.
  static Result<ErasureCode> make(int k, int p);
  [[nodiscard]] int k() const { return k_; }
  [[nodiscard]] int p() const { return p_; }
  /// From k shards to others: `from` are k different shards, `to` any. Encoding is data -> parity.
  [[nodiscard]] ShardMap map(std::span<const int> from, std::span<const int> to) const;

 private:
  ErasureCode(int k, int p);
  int k_;
  int p_;
  std::vector<std::uint8_t> matrix_;  // (k+p) x k: what each shard is of the data
};

}  // namespace backstay::redundancy
