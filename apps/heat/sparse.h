// Sparse matrices shared out by rows: as global rows while they are put together, as local ones to multiply with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mesh.h"
#include "wire.h"

namespace heat {

/// Rank r owns the numbers from offsets[r] up to and without offsets[r + 1].
using Offsets = std::vector<Global>;
Offsets make_offsets(Wire& wire, Global owned);
int owner_of(const Offsets& offsets, Global number);

/// Rows with global numbers, each entry with V values (of V matrices with one pattern).
template <std::size_t V>
struct Rows {
  std::vector<Global> numbers;
  std::vector<std::size_t> starts{0};  ///< of each row in `columns`, and the end of the last
  std::vector<Global> columns;         ///< ascending within a row
  std::vector<std::array<double, V>> values;
};

/// Collective. The rows that this rank owns, in order, from the parts of all: a rank adds its own part first and then
/// those of the others in rank order, so the bits do not depend on timing.
template <std::size_t V>
Rows<V> collect(Wire& wire, const Offsets& offsets, const Rows<V>& parts);

struct Neighbour {
  int rank = 0;
  int first = 0;  ///< of its values here, in a vector of owned values and ghosts
  int count = 0;
  std::vector<int> send;  ///< owned values that it needs
};

/// Numbers of other ranks that this one uses. A vector has `owned` values and then those of the ghosts, ascending.
struct Ghosts {
  int owned = 0;
  Global first = 0;  ///< global number of the first owned one
  std::vector<Global> numbers;
  std::vector<Neighbour> neighbours;  ///< ascending by rank

  [[nodiscard]] std::size_t total() const { return static_cast<std::size_t>(owned) + numbers.size(); }
  [[nodiscard]] int local_of(Global number) const;  ///< which must be owned or a ghost
  [[nodiscard]] std::size_t bytes() const;
};

/// Collective. `used`: in any order, repeated or owned ones among them.
Ghosts make_ghosts(Wire& wire, const Offsets& offsets, const std::vector<Global>& used);
/// Collective, during the set-up. `values`: the owned ones; the ghosts' are added behind them.
template <class T>
void append_ghosts(Wire& wire, const Ghosts& ghosts, std::vector<T>& values);
/// Collective. Adds the rows of the ghosts to `rows`, which are those of the owned numbers.
void append_ghost_rows(Wire& wire, const Ghosts& ghosts, Rows<1>& rows);

/// A matrix in local numbers.
struct Matrix {
  std::vector<std::int64_t> starts{0};
  std::vector<int> columns;
  std::vector<double> values;

  [[nodiscard]] int rows() const { return static_cast<int>(starts.size()) - 1; }
  [[nodiscard]] std::size_t bytes() const;
};

/// With the first values of each entry.
template <std::size_t V>
Matrix localise(const Rows<V>& rows, const Ghosts& columns);

template <class T>
std::size_t bytes_of(const std::vector<T>& x) {
  return x.size() * sizeof(T);
}

}  // namespace heat
