#include "multigrid.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace heat {

namespace {

// Small enough to be factorised by everyone without being felt: a third of a million multiplications at most.
constexpr Global coarsest_rows = 100;
// Where even rows as few as this cannot be reached, because aggregates do not cross ranks, more are taken.
constexpr Global most_coarsest_rows = 2000;
constexpr int most_levels = 12;

/// What is strong in a row, for aggregates and smoothing: off the diagonal, negative, and not small against both
/// diagonals. The limit lies below the smallest coupling of trilinear elements of constant conductivity, 1/32. It sinks
/// from level to level, as in Vanek et al.
double strength_limit(std::size_t level) { return 0.025 * std::pow(0.5, static_cast<double>(level)); }

class Strength {
 public:
  Strength(const Matrix& matrix, std::vector<double> diagonal, double limit)
      : matrix_(matrix), diagonal_(std::move(diagonal)), limit_(limit) {}
  [[nodiscard]] bool operator()(int row, std::int64_t entry) const {
    const auto e = static_cast<std::size_t>(entry);
    const int column = matrix_.columns[e];
    return column != row && -matrix_.values[e] > limit_ * std::sqrt(diagonal(row) * diagonal(column));
  }
  [[nodiscard]] double diagonal(int i) const { return diagonal_[static_cast<std::size_t>(i)]; }

 private:
  const Matrix& matrix_;
  std::vector<double> diagonal_;  ///< of owned rows and ghosts
  double limit_;
};

/// Groups of rows of this rank.
class Aggregates {
 public:
  std::vector<Global> of_row;
  Global count = 0;

  Aggregates(const Matrix& matrix, const Strength& strong)
      : of_row(static_cast<std::size_t>(matrix.rows()), none), matrix_(matrix), strong_(strong) {
    for (int i = 0; i < matrix.rows(); ++i) begin_whole_one(i);
    join_neighbours();
    for (int i = 0; i < matrix.rows(); ++i) gather_what_is_left(i);
  }

 private:
  static constexpr Global none = -1;
  const Matrix& matrix_;
  const Strength& strong_;

  [[nodiscard]] Global& at(int row) { return of_row[static_cast<std::size_t>(row)]; }

  /// Calls `visit` with (column, value, whether strong) for each other row of this rank in row i.
  template <class Visit>
  void for_neighbours(int i, Visit visit) const {
    const auto row = static_cast<std::size_t>(i);
    for (std::int64_t e = matrix_.starts[row]; e < matrix_.starts[row + 1]; ++e) {
      const int column = matrix_.columns[static_cast<std::size_t>(e)];
      if (column != i && column < matrix_.rows())
        visit(column, matrix_.values[static_cast<std::size_t>(e)], strong_(i, e));
    }
  }

  /// A row and all that is strong in it, if nothing of it is taken.
  void begin_whole_one(int i) {
    bool is_free = at(i) == none, has_neighbour = false;
    for_neighbours(i, [&](int column, double, bool strong) {
      if (!strong) return;
      has_neighbour = true;
      is_free = is_free && at(column) == none;
    });
    if (is_free && has_neighbour) take(i);
  }
  void take(int i) {
    at(i) = count;
    for_neighbours(i, [&](int column, double, bool strong) {
      if (strong && at(column) == none) at(column) = count;
    });
    ++count;
  }
  /// A row goes where its strongest neighbour went in the first pass. One without any strong neighbour counts the weak.
  void join_neighbours() {
    const std::vector<Global> before = of_row;
    for (int i = 0; i < matrix_.rows(); ++i) {
      if (at(i) != none) continue;
      std::pair<bool, double> best{false, 0};
      for_neighbours(i, [&](int column, double value, bool strong) {
        const Global aggregate = before[static_cast<std::size_t>(column)];
        if (aggregate == none || std::pair(strong, std::abs(value)) <= best) return;
        best = {strong, std::abs(value)};
        at(i) = aggregate;
      });
    }
  }
  void gather_what_is_left(int i) {
    if (at(i) != none) return;
    // Where nothing is strong (short time steps: the mass outweighs), any neighbours will do.
    at(i) = count;
    for_neighbours(i, [&](int column, double, bool) {
      if (at(column) == none) at(column) = count;
    });
    ++count;
  }
};

void append_row(Rows<1>& rows, Global number, std::vector<std::pair<Global, double>>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [column, value] : entries) {
    if (rows.columns.size() == rows.starts.back() || rows.columns.back() != column) {
      rows.columns.push_back(column);
      rows.values.push_back({value});
    } else {
      rows.values.back()[0] += value;
    }
  }
  rows.numbers.push_back(number);
  rows.starts.push_back(rows.columns.size());
}

/// The constant on each aggregate, smoothed: (I - omega D^-1 F) applied to it, where F has the strong entries of the
/// matrix and row sums of zero, so that constants stay what they are.
Rows<1> smoothed_prolongation(Wire& wire, const Level& fine, const Strength& strong,
                              const std::vector<Global>& aggregates) {
  double bound = 0;  // of the eigenvalues of D^-1 F: Gershgorin
  const auto for_strong = [&](int i, auto visit) {
    for (std::int64_t e = fine.matrix.starts[static_cast<std::size_t>(i)];
         e < fine.matrix.starts[static_cast<std::size_t>(i) + 1]; ++e) {
      if (strong(i, e))
        visit(fine.matrix.columns[static_cast<std::size_t>(e)], fine.matrix.values[static_cast<std::size_t>(e)]);
    }
  };
  for (int i = 0; i < fine.matrix.rows(); ++i) {
    double sum = 0;
    for_strong(i, [&](int, double value) { sum += std::abs(value); });
    bound = std::max(bound, 2 * sum / strong.diagonal(i));
  }
  bound = wire.maximum(bound);
  const double omega = bound > 0 ? 4.0 / 3 / bound : 0;

  Rows<1> rows;
  std::vector<std::pair<Global, double>> entries;
  for (int i = 0; i < fine.matrix.rows(); ++i) {
    entries.clear();
    double own = 1;
    for_strong(i, [&](int column, double value) {
      const double weight = -omega * value / strong.diagonal(i);
      entries.push_back({aggregates[static_cast<std::size_t>(column)], weight});
      own -= weight;
    });
    entries.push_back({aggregates[static_cast<std::size_t>(i)], own});
    append_row(rows, fine.ghosts.first + i, entries);
  }
  return rows;
}

/// Adds rows of numbers below `columns` into one, without looking at the others.
class Accumulator {
 public:
  explicit Accumulator(std::size_t columns) : place_(columns, -1) {}
  void add(int column, double value) {
    int& place = place_[static_cast<std::size_t>(column)];
    if (place < 0) {
      place = static_cast<int>(columns_.size());
      columns_.push_back(column);
      values_.push_back(0);
    }
    values_[static_cast<std::size_t>(place)] += value;
  }
  /// Appends the sum, its columns ascending and named by `names`, and begins anew.
  void move_to(Rows<1>& rows, Global number, const std::vector<Global>& names) {
    std::sort(columns_.begin(), columns_.end());
    for (int column : columns_) {
      int& place = place_[static_cast<std::size_t>(column)];
      rows.columns.push_back(names[static_cast<std::size_t>(column)]);
      rows.values.push_back({values_[static_cast<std::size_t>(place)]});
      place = -1;
    }
    columns_.clear();
    values_.clear();
    rows.numbers.push_back(number);
    rows.starts.push_back(rows.columns.size());
  }

 private:
  std::vector<int> place_;  ///< in `values_`, of each column; -1: not there
  std::vector<int> columns_;
  std::vector<double> values_;
};

std::vector<Global> distinct(std::vector<Global> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

/// Columns as places in `names`, which are sorted.
std::vector<int> places(const std::vector<Global>& columns, const std::vector<Global>& names) {
  std::vector<int> result;
  result.reserve(columns.size());
  for (Global c : columns) {
    result.push_back(static_cast<int>(std::lower_bound(names.begin(), names.end(), c) - names.begin()));
  }
  return result;
}

/// P^T A P. `prolongation`: the rows of this rank and then those of the ghosts of `fine`.
Rows<1> galerkin(Wire& wire, const Level& fine, const Rows<1>& prolongation, const Offsets& coarse_offsets) {
  const std::vector<Global> names = distinct(prolongation.columns);
  const std::vector<int> columns = places(prolongation.columns, names);
  const Matrix& a = fine.matrix;
  Accumulator sum(names.size());

  Rows<1> ap;
  for (int i = 0; i < a.rows(); ++i) {
    for (auto e = static_cast<std::size_t>(a.starts[static_cast<std::size_t>(i)]);
         e < static_cast<std::size_t>(a.starts[static_cast<std::size_t>(i) + 1]); ++e) {
      const auto row = static_cast<std::size_t>(a.columns[e]);
      for (std::size_t p = prolongation.starts[row]; p < prolongation.starts[row + 1]; ++p) {
        sum.add(columns[p], a.values[e] * prolongation.values[p][0]);
      }
    }
    sum.move_to(ap, fine.ghosts.first + i, names);
  }

  // The entries of the owned rows of P, column after column.
  std::vector<std::vector<std::pair<int, double>>> transposed(names.size());
  for (int i = 0; i < a.rows(); ++i) {
    const auto row = static_cast<std::size_t>(i);
    for (std::size_t p = prolongation.starts[row]; p < prolongation.starts[row + 1]; ++p) {
      transposed[static_cast<std::size_t>(columns[p])].push_back({i, prolongation.values[p][0]});
    }
  }
  const std::vector<int> ap_columns = places(ap.columns, names);
  Rows<1> parts;
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (transposed[c].empty()) continue;
    for (const auto& [i, weight] : transposed[c]) {
      const auto row = static_cast<std::size_t>(i);
      for (std::size_t e = ap.starts[row]; e < ap.starts[row + 1]; ++e) {
        sum.add(ap_columns[e], weight * ap.values[e][0]);
      }
    }
    sum.move_to(parts, names[c], names);
  }
  return collect(wire, coarse_offsets, parts);
}

/// The matrix of the level, its diagonal and the bound of its eigenvalues.
Level make_level(Wire& wire, const Offsets& offsets, const Rows<1>& rows, const std::vector<Global>& also_used) {
  Level level;
  std::vector<Global> used = rows.columns;
  used.insert(used.end(), also_used.begin(), also_used.end());
  level.ghosts = make_ghosts(wire, offsets, used);
  level.matrix = localise(rows, level.ghosts);
  double bound = 0;
  for (int i = 0; i < level.matrix.rows(); ++i) {
    double diagonal = 0, sum = 0;
    for (auto e = static_cast<std::size_t>(level.matrix.starts[static_cast<std::size_t>(i)]);
         e < static_cast<std::size_t>(level.matrix.starts[static_cast<std::size_t>(i) + 1]); ++e) {
      sum += std::abs(level.matrix.values[e]);
      if (level.matrix.columns[e] == i) diagonal = level.matrix.values[e];
    }
    level.inverse_diagonal.push_back(1 / diagonal);
    bound = std::max(bound, sum / diagonal);
  }
  level.largest = wire.maximum(bound);
  return level;
}

CoarseFactor factorise(Wire& wire, const Offsets& offsets, const Rows<1>& rows) {
  CoarseFactor f;
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
    f.starts.push_back(static_cast<int>(offsets[r]));
    f.counts.push_back(static_cast<int>(offsets[r + 1] - offsets[r]));
  }
  const auto n = static_cast<std::size_t>(offsets.back());
  std::vector<double> mine;
  for (std::size_t i = 0; i < rows.numbers.size(); ++i) {
    std::vector<double> dense(static_cast<std::size_t>(rows.numbers[i]) + 1);
    for (std::size_t e = rows.starts[i]; e < rows.starts[i + 1]; ++e) {
      if (rows.columns[e] <= rows.numbers[i]) dense[static_cast<std::size_t>(rows.columns[e])] = rows.values[e][0];
    }
    mine.insert(mine.end(), dense.begin(), dense.end());
  }
  f.lower = wire.gather_lists(mine);
  const auto row = [&](std::size_t i) { return f.lower.data() + i * (i + 1) / 2; };
  for (std::size_t i = 0; i < n; ++i) {
    double* a = row(i);
    for (std::size_t j = 0; j <= i; ++j) {
      const double* b = row(j);
      double sum = a[j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[k] * b[k];
      if (j == i && !(sum > 0)) throw std::runtime_error("the matrix of the coarsest level is not positive definite");
      a[j] = j == i ? std::sqrt(sum) : sum / b[j];
    }
  }
  return f;
}

bool is_coarsest(const std::vector<Level>& levels, const Offsets& offsets, Global finer_rows) {
  const Global rows = offsets.back();
  if (rows <= coarsest_rows) return true;
  const bool has_stalled = finer_rows > 0 && 3 * rows > 2 * finer_rows;
  if ((!has_stalled || rows > most_coarsest_rows) && levels.size() < most_levels) return false;
  if (rows > 5 * most_coarsest_rows) throw std::runtime_error("the multigrid hierarchy does not get coarse");
  return true;
}

}  // namespace

std::vector<Level> make_levels(Wire& wire, Offsets offsets, Rows<1> rows, const std::vector<Global>& also_used,
                               CoarseFactor& factor) {
  std::vector<Level> levels;
  levels.push_back(make_level(wire, offsets, rows, also_used));
  for (Global finer_rows = 0; !is_coarsest(levels, offsets, finer_rows);) {
    Level& fine = levels.back();
    std::vector<double> diagonal;
    for (double d : fine.inverse_diagonal) diagonal.push_back(1 / d);
    append_ghosts(wire, fine.ghosts, diagonal);
    const Strength strong(fine.matrix, std::move(diagonal), strength_limit(levels.size() - 1));
    Aggregates aggregates(fine.matrix, strong);
    finer_rows = std::exchange(offsets, make_offsets(wire, aggregates.count)).back();
    for (Global& a : aggregates.of_row) a += offsets[static_cast<std::size_t>(wire.rank())];
    append_ghosts(wire, fine.ghosts, aggregates.of_row);

    Rows<1> prolongation = smoothed_prolongation(wire, fine, strong, aggregates.of_row);
    const Rows<1> own = prolongation;
    append_ghost_rows(wire, fine.ghosts, prolongation);
    rows = galerkin(wire, fine, prolongation, offsets);
    Level coarse = make_level(wire, offsets, rows, distinct(own.columns));
    fine.prolongation = localise(own, coarse.ghosts);
    levels.push_back(std::move(coarse));
  }
  factor = factorise(wire, offsets, rows);
  return levels;
}

std::size_t Level::bytes() const {
  return matrix.bytes() + ghosts.bytes() + bytes_of(inverse_diagonal) + prolongation.bytes();
}

void CoarseFactor::solve(std::vector<double>& x) const {
  const std::size_t n = x.size();
  const auto row = [&](std::size_t i) { return lower.data() + i * (i + 1) / 2; };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) x[i] -= row(i)[k] * x[k];
    x[i] /= row(i)[i];
  }
  for (std::size_t i = n; i-- > 0;) {
    x[i] /= row(i)[i];
    for (std::size_t k = 0; k < i; ++k) x[k] -= row(i)[k] * x[i];
  }
}

}  // namespace heat
