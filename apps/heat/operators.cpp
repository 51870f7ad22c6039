#include "operators.h"

#include <algorithm>
#include <utility>

#include "mesh.h"
#include "numbering.h"
#include "wire.h"

namespace heat {

namespace {

Corners corners_of(const Element& element, int cells) {
  Corners corners;
  for (std::size_t c = 0; c < 8; ++c) corners[c] = place_of(element[c], cells);
  return corners;
}

/// What each entry of the matrices has: of M, and of K.
enum : std::size_t { mass, conduction };

/// Zeros wherever two vertices of this rank share one of its elements. Row i belongs to vertex i of the numbering.
Rows<2> empty_rows(const Numbering& n) {
  std::vector<std::vector<std::size_t>> elements_at(n.vertices.size());
  for (std::size_t e = 0; e < n.nodes.size(); ++e) {
    for (int node : n.nodes[e]) elements_at[static_cast<std::size_t>(node)].push_back(e);
  }
  Rows<2> rows;
  rows.numbers = n.numbers;
  std::vector<Global> columns;
  for (const auto& elements : elements_at) {
    columns.clear();
    for (std::size_t e : elements) {
      for (int node : n.nodes[e]) columns.push_back(n.numbers[static_cast<std::size_t>(node)]);
    }
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    rows.columns.insert(rows.columns.end(), columns.begin(), columns.end());
    rows.starts.push_back(rows.columns.size());
  }
  rows.values.resize(rows.columns.size());
  return rows;
}

/// The entry of these two vertices of the numbering.
std::array<double, 2>& entry(Rows<2>& rows, int row, int column) {
  const auto i = static_cast<std::size_t>(row);
  const auto begin = rows.columns.begin() + static_cast<std::ptrdiff_t>(rows.starts[i]);
  const auto end = rows.columns.begin() + static_cast<std::ptrdiff_t>(rows.starts[i + 1]);
  const auto found = std::lower_bound(begin, end, rows.numbers[static_cast<std::size_t>(column)]);
  return rows.values[static_cast<std::size_t>(found - rows.columns.begin())];
}

void add_elements(Rows<2>& rows, const Numbering& n, const std::vector<Element>& elements, const Problem& problem) {
  for (std::size_t e = 0; e < elements.size(); ++e) {
    const ElementMatrices m = integrate(corners_of(elements[e], problem.cells), problem);
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < 8; ++b) {
        auto& values = entry(rows, n.nodes[e][a], n.nodes[e][b]);
        values[mass] += m.mass[a][b];
        values[conduction] += m.conduction[a][b];
      }
    }
  }
}

void add_cooling(Rows<2>& rows, const Numbering& n, const std::vector<Element>& elements,
                 const std::vector<OuterFace>& outer, const Problem& problem) {
  for (const OuterFace& face : outer) {
    std::array<Point, 4> corners;
    std::array<int, 4> nodes;
    bool is_floor = true;
    for (std::size_t c = 0; c < 4; ++c) {
      const auto corner = static_cast<std::size_t>(faces[face.face][c]);
      const Global vertex = elements[face.element][corner];
      is_floor = is_floor && is_on_floor(vertex, problem.cells);
      corners[c] = place_of(vertex, problem.cells);
      nodes[c] = n.nodes[face.element][corner];
    }
    if (!is_floor) continue;
    const auto m = face_mass(corners);
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = 0; b < 4; ++b) entry(rows, nodes[a], nodes[b])[conduction] += problem.cooling * m[a][b];
    }
  }
}

/// M + factor K, and what else is kept of M and K: the row sums of M, and K.
Rows<1> implicit_rows(Rows<2> rows, double factor, Operators& operators) {
  Rows<1> implicit;
  implicit.numbers = std::move(rows.numbers);
  implicit.starts = std::move(rows.starts);
  implicit.columns = std::move(rows.columns);
  for (std::size_t i = 0; i < implicit.numbers.size(); ++i) {
    double sum = 0;
    for (std::size_t e = implicit.starts[i]; e < implicit.starts[i + 1]; ++e) sum += rows.values[e][mass];
    operators.heat_of.push_back(sum);
  }
  for (const auto& value : rows.values) {
    implicit.values.push_back({value[mass] + factor * value[conduction]});
    operators.conduction.push_back(value[conduction]);
  }
  return implicit;
}

/// Where the matrix ends: the numbers of the mesh turn into those of its vectors.
void place_vertices(Operators& operators, const Numbering& n, const std::vector<Element>& elements, int cells) {
  operators.vertices.assign(n.vertices.begin(), n.vertices.begin() + n.owned);
  for (Global v : operators.vertices) operators.points.push_back(place_of(v, cells));
  operators.element_nodes = n.nodes;
  for (auto& nodes : operators.element_nodes) {
    for (int& node : nodes) node = operators.levels[0].ghosts.local_of(n.numbers[static_cast<std::size_t>(node)]);
  }
  for (const Element& e : elements) operators.source_quadrature.push_back(source_quadrature(corners_of(e, cells)));
}

}  // namespace

Operators make_operators(MPI_Comm comm, const Problem& problem) {
  Wire wire(comm);
  const std::vector<Element> elements = elements_of(box_of(wire.rank(), wire.size(), problem.cells), problem.cells);
  const std::vector<OuterFace> outer = outer_faces(elements);
  const Numbering numbering = make_numbering(wire, elements, outer);

  Rows<2> parts = empty_rows(numbering);
  add_elements(parts, numbering, elements, problem);
  add_cooling(parts, numbering, elements, outer, problem);
  Operators operators;
  Rows<1> rows = implicit_rows(collect(wire, numbering.offsets, parts), problem.theta * problem.dt, operators);
  operators.levels = make_levels(wire, numbering.offsets, std::move(rows), numbering.numbers, operators.coarse);
  place_vertices(operators, numbering, elements, problem.cells);
  operators.received = wire.received();
  wire.close();
  return operators;
}

std::size_t Operators::bytes() const {
  std::size_t sum = coarse.bytes() + bytes_of(conduction) + bytes_of(heat_of) + bytes_of(vertices) + bytes_of(points) +
                    bytes_of(element_nodes) + bytes_of(source_quadrature);
  for (const Level& level : levels) sum += level.bytes();
  return sum;
}

}  // namespace heat
