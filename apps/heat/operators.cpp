#include "operators.h"

#include <algorithm>
#include <utility>

#include "mesh.h"
#include "numbering.h"
#include "wire.h"

namespace heat {

namespace {

/// This rank's part of the mesh, numbered and in place.
struct Part {
  int cells;
  std::vector<Element> elements;
  std::vector<OuterFace> outer;
  Numbering numbering;
  std::vector<Point> places;  ///< of the vertices of the numbering

  [[nodiscard]] Corners corners_of(std::size_t element) const {
    Corners corners;
    for (std::size_t c = 0; c < 8; ++c) {
      corners[c] = places[static_cast<std::size_t>(numbering.nodes[element][c])];
    }
    return corners;
  }
};

Part make_part(Wire& wire, int cells) {
  Part part{cells, elements_of(box_of(wire.rank(), wire.size(), cells), cells), {}, {}, {}};
  part.outer = outer_faces(part.elements);
  part.numbering = make_numbering(wire, part.elements, part.outer);
  for (Global v : part.numbering.vertices) part.places.push_back(place_of(v, cells));
  return part;
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

void add_elements(Rows<2>& rows, const Part& part, const Problem& problem) {
  for (std::size_t e = 0; e < part.elements.size(); ++e) {
    const ElementMatrices m = integrate(part.corners_of(e), problem);
    const auto& nodes = part.numbering.nodes[e];
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < 8; ++b) {
        auto& values = entry(rows, nodes[a], nodes[b]);
        values[mass] += m.mass[a][b];
        values[conduction] += m.conduction[a][b];
      }
    }
  }
}

void add_cooling(Rows<2>& rows, const Part& part, double cooling) {
  for (const OuterFace& face : part.outer) {
    std::array<Point, 4> corners;
    std::array<int, 4> nodes;
    bool is_floor = true;
    for (std::size_t c = 0; c < 4; ++c) {
      const auto corner = static_cast<std::size_t>(faces[face.face][c]);
      nodes[c] = part.numbering.nodes[face.element][corner];
      corners[c] = part.places[static_cast<std::size_t>(nodes[c])];
      is_floor = is_floor && is_on_floor(part.elements[face.element][corner], part.cells);
    }
    if (!is_floor) continue;
    const auto m = face_mass(corners);
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = 0; b < 4; ++b) entry(rows, nodes[a], nodes[b])[conduction] += cooling * m[a][b];
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

/// What the mesh leaves behind, now in the numbers of the matrix: its ghosts are others than those of the mesh.
void keep_mesh(Operators& operators, const Part& part) {
  const Numbering& n = part.numbering;
  operators.vertices.assign(n.vertices.begin(), n.vertices.begin() + n.owned);
  operators.points.assign(part.places.begin(), part.places.begin() + n.owned);
  operators.element_nodes = n.nodes;
  for (auto& nodes : operators.element_nodes) {
    for (int& node : nodes) node = operators.levels[0].ghosts.local_of(n.numbers[static_cast<std::size_t>(node)]);
  }
  for (std::size_t e = 0; e < part.elements.size(); ++e) {
    operators.source_quadrature.push_back(source_quadrature(part.corners_of(e)));
  }
}

}  // namespace

Operators make_operators(MPI_Comm comm, const Problem& problem) {
  int ranks = 1;
  check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  require_cells_for(ranks, problem.cells);  // before anybody waits for one that it does not hold for
  Wire wire(comm);
  const Part part = make_part(wire, problem.cells);
  const Offsets& offsets = part.numbering.offsets;
  Rows<2> parts = empty_rows(part.numbering);
  add_elements(parts, part, problem);
  add_cooling(parts, part, problem.cooling);
  Operators operators;
  Rows<1> rows = implicit_rows(collect(wire, offsets, parts), problem.theta * problem.dt, operators);
  operators.levels = make_levels(wire, offsets, std::move(rows), part.numbering.numbers, operators.coarse);
  keep_mesh(operators, part);
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
