#include "sparse.h"

#include <algorithm>
#include <numeric>

namespace heat {

Offsets make_offsets(Wire& wire, Global owned) {
  const Global before = wire.sum_before(owned);
  Offsets offsets = wire.gather(before);
  offsets.push_back(wire.maximum(before + owned));
  return offsets;
}

int owner_of(const Offsets& offsets, Global number) {
  return static_cast<int>(std::upper_bound(offsets.begin(), offsets.end(), number) - offsets.begin()) - 1;
}

namespace {

template <std::size_t V>
void append_row(Rows<V>& rows, Global number, const Rows<V>& from, std::size_t row) {
  const auto begin = static_cast<std::ptrdiff_t>(from.starts[row]),
             end = static_cast<std::ptrdiff_t>(from.starts[row + 1]);
  rows.numbers.push_back(number);
  rows.columns.insert(rows.columns.end(), from.columns.begin() + begin, from.columns.begin() + end);
  rows.values.insert(rows.values.end(), from.values.begin() + begin, from.values.begin() + end);
  rows.starts.push_back(rows.columns.size());
}

/// Rows as lists that travel, one for each rank.
template <std::size_t V>
struct Parcels {
  explicit Parcels(int size)
      : numbers(static_cast<std::size_t>(size)),
        lengths(numbers.size()),
        columns(numbers.size()),
        values(numbers.size()) {}

  void add(int to, const Rows<V>& rows, std::size_t row) {
    const auto r = static_cast<std::size_t>(to);
    numbers[r].push_back(rows.numbers[row]);
    lengths[r].push_back(static_cast<int>(rows.starts[row + 1] - rows.starts[row]));
    for (std::size_t e = rows.starts[row]; e < rows.starts[row + 1]; ++e) {
      columns[r].push_back(rows.columns[e]);
      values[r].insert(values[r].end(), rows.values[e].begin(), rows.values[e].end());
    }
  }

  /// What the others sent to this rank, as rows.
  std::vector<Rows<V>> exchange(Wire& wire) {
    const auto n = wire.exchange(numbers);
    const auto l = wire.exchange(lengths);
    const auto c = wire.exchange(columns);
    const auto v = wire.exchange(values);
    std::vector<Rows<V>> from(n.size());
    for (std::size_t r = 0; r < n.size(); ++r) {
      from[r].numbers = n[r];
      from[r].columns = c[r];
      for (int length : l[r]) from[r].starts.push_back(from[r].starts.back() + static_cast<std::size_t>(length));
      from[r].values.resize(c[r].size());
      for (std::size_t e = 0; e < v[r].size(); ++e) from[r].values[e / V][e % V] = v[r][e];
    }
    return from;
  }

  Lists<Global> numbers;
  Lists<int> lengths;
  Lists<Global> columns;
  Lists<double> values;
};

/// A part of one row.
template <std::size_t V>
struct Part {
  const Rows<V>* rows;
  std::size_t row;
};

template <std::size_t V>
void append_sum(Rows<V>& rows, Global number, const std::vector<Part<V>>& parts) {
  if (parts.size() == 1) return append_row(rows, number, *parts[0].rows, parts[0].row);
  std::vector<std::pair<Global, const std::array<double, V>*>> entries;
  for (const Part<V>& part : parts) {
    for (std::size_t e = part.rows->starts[part.row]; e < part.rows->starts[part.row + 1]; ++e) {
      entries.push_back({part.rows->columns[e], &part.rows->values[e]});
    }
  }
  // Stable: the parts of an entry are added in the order of `parts`.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [column, value] : entries) {
    if (rows.columns.size() == rows.starts.back() || rows.columns.back() != column) {
      rows.columns.push_back(column);
      rows.values.push_back(*value);
    } else {
      for (std::size_t v = 0; v < V; ++v) rows.values.back()[v] += (*value)[v];
    }
  }
  rows.numbers.push_back(number);
  rows.starts.push_back(rows.columns.size());
}

}  // namespace

template <std::size_t V>
Rows<V> collect(Wire& wire, const Offsets& offsets, const Rows<V>& parts) {
  const auto rank = static_cast<std::size_t>(wire.rank());
  const Global first = offsets[rank];
  std::vector<std::vector<Part<V>>> found(static_cast<std::size_t>(offsets[rank + 1] - first));
  Parcels<V> parcels(wire.size());
  for (std::size_t row = 0; row < parts.numbers.size(); ++row) {
    const int owner = owner_of(offsets, parts.numbers[row]);
    if (owner == wire.rank()) {
      found[static_cast<std::size_t>(parts.numbers[row] - first)].push_back({&parts, row});
    } else {
      parcels.add(owner, parts, row);
    }
  }
  const std::vector<Rows<V>> arrived = parcels.exchange(wire);
  for (const Rows<V>& from : arrived) {
    for (std::size_t row = 0; row < from.numbers.size(); ++row) {
      found[static_cast<std::size_t>(from.numbers[row] - first)].push_back({&from, row});
    }
  }
  Rows<V> rows;
  for (std::size_t i = 0; i < found.size(); ++i) append_sum(rows, first + static_cast<Global>(i), found[i]);
  return rows;
}

template Rows<1> collect(Wire&, const Offsets&, const Rows<1>&);
template Rows<2> collect(Wire&, const Offsets&, const Rows<2>&);

int Ghosts::local_of(Global number) const {
  if (number >= first && number < first + owned) return static_cast<int>(number - first);
  return owned + static_cast<int>(std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin());
}

std::size_t Ghosts::bytes() const {
  std::size_t sum = bytes_of(numbers) + bytes_of(neighbours);
  for (const Neighbour& n : neighbours) sum += bytes_of(n.send);
  return sum;
}

Ghosts make_ghosts(Wire& wire, const Offsets& offsets, const std::vector<Global>& used) {
  const auto rank = static_cast<std::size_t>(wire.rank());
  Ghosts ghosts;
  ghosts.first = offsets[rank];
  ghosts.owned = static_cast<int>(offsets[rank + 1] - offsets[rank]);
  for (Global number : used) {
    if (number < offsets[rank] || number >= offsets[rank + 1]) ghosts.numbers.push_back(number);
  }
  std::sort(ghosts.numbers.begin(), ghosts.numbers.end());
  ghosts.numbers.erase(std::unique(ghosts.numbers.begin(), ghosts.numbers.end()), ghosts.numbers.end());

  Lists<Global> wanted(offsets.size() - 1);
  for (Global number : ghosts.numbers) wanted[static_cast<std::size_t>(owner_of(offsets, number))].push_back(number);
  const Lists<Global> asked = wire.exchange(wanted);
  int next = ghosts.owned;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (wanted[r].empty() && asked[r].empty()) continue;
    Neighbour n{static_cast<int>(r), next, static_cast<int>(wanted[r].size()), {}};
    for (Global number : asked[r]) n.send.push_back(static_cast<int>(number - ghosts.first));
    next += n.count;
    ghosts.neighbours.push_back(std::move(n));
  }
  return ghosts;
}

template <class T>
void append_ghosts(Wire& wire, const Ghosts& ghosts, std::vector<T>& values) {
  Lists<T> to(static_cast<std::size_t>(wire.size()));
  for (const Neighbour& n : ghosts.neighbours) {
    for (int i : n.send) to[static_cast<std::size_t>(n.rank)].push_back(values[static_cast<std::size_t>(i)]);
  }
  for (const auto& list : wire.exchange(to)) values.insert(values.end(), list.begin(), list.end());
}

template void append_ghosts(Wire&, const Ghosts&, std::vector<double>&);
template void append_ghosts(Wire&, const Ghosts&, std::vector<Global>&);

void append_ghost_rows(Wire& wire, const Ghosts& ghosts, Rows<1>& rows) {
  Parcels<1> parcels(wire.size());
  for (const Neighbour& n : ghosts.neighbours) {
    for (int i : n.send) parcels.add(n.rank, rows, static_cast<std::size_t>(i));
  }
  for (const Rows<1>& from : parcels.exchange(wire)) {
    for (std::size_t row = 0; row < from.numbers.size(); ++row) append_row(rows, from.numbers[row], from, row);
  }
}

std::size_t Matrix::bytes() const { return bytes_of(starts) + bytes_of(columns) + bytes_of(values); }

template <std::size_t V>
Matrix localise(const Rows<V>& rows, const Ghosts& columns) {
  Matrix m;
  m.starts.assign(rows.starts.begin(), rows.starts.end());
  m.columns.reserve(rows.columns.size());
  m.values.reserve(rows.columns.size());
  for (Global column : rows.columns) m.columns.push_back(columns.local_of(column));
  for (const auto& value : rows.values) m.values.push_back(value[0]);
  return m;
}

template Matrix localise(const Rows<1>&, const Ghosts&);
template Matrix localise(const Rows<2>&, const Ghosts&);

}  // namespace heat
