#include "halo.h"

#include <algorithm>

#include "../mpi_check.h"

namespace clover3d {

using program::check_mpi;

namespace {

/// Calls `body` with the position of the first value of each row of the box, and the length of the row.
template <class Box, class Body>
void for_rows(const Layout& layout, const Box& box, const Body& body) {
  for (int k = box.lower[z_axis]; k < box.upper[z_axis]; ++k) {
    for (int j = box.lower[y_axis]; j < box.upper[y_axis]; ++j)
      body(layout.at(box.lower[x_axis], j, k), box.upper[x_axis] - box.lower[x_axis]);
  }
}

}  // namespace

void HaloExchange::exchange(std::span<const Exchanged> fields) {
  for (int axis = 0; axis < 3; ++axis) exchange_along(axis, fields);
}

/// `halo` layers from `lower` on; along the axes before this one with the halos, which are there already.
HaloExchange::Box HaloExchange::layers(const Stagger& stagger, std::size_t axis, int lower) const {
  Box box{{0, 0, 0}, layout_.owned(stagger)};
  for (std::size_t before = 0; before < axis; ++before) {
    box.lower[before] -= halo;
    box.upper[before] += halo;
  }
  box.lower[axis] = lower;
  box.upper[axis] = lower + halo;
  return box;
}

void HaloExchange::exchange_along(int axis, std::span<const Exchanged> fields) {
  const auto a = static_cast<std::size_t>(axis);
  const std::array<int, 2> neighbours = {block_.neighbour(axis, -1), block_.neighbour(axis, 1)};
  std::array<MPI_Request, 4> requests{};
  int r = 0;
  for (int side = 0; side < 2; ++side) {
    const auto s = static_cast<std::size_t>(side);
    if (neighbours[s] < 0) continue;
    pack(fields, a, side);
    in_[s].resize(out_[s].size());
    const int count = static_cast<int>(in_[s].size());
    // What arrives on this side was sent from the other side of the neighbour.
    check_mpi(MPI_Irecv(in_[s].data(), count, MPI_DOUBLE, neighbours[s], 2 * axis + 1 - side, comm_,
                        &requests[static_cast<std::size_t>(r++)]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(out_[s].data(), count, MPI_DOUBLE, neighbours[s], 2 * axis + side, comm_,
                        &requests[static_cast<std::size_t>(r++)]),
              "MPI_Isend");
  }
  check_mpi(MPI_Waitall(r, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  for (int side = 0; side < 2; ++side) {
    if (neighbours[static_cast<std::size_t>(side)] >= 0) unpack(fields, a, side);
  }
  // What is reflected may lie in the halo of the other side, where the block is thin.
  for (int side = 0; side < 2; ++side) {
    if (neighbours[static_cast<std::size_t>(side)] >= 0) continue;
    for (const Exchanged& field : fields) reflect(field, axis, side);
  }
}

void HaloExchange::pack(std::span<const Exchanged> fields, std::size_t axis, int side) {
  auto& buffer = out_[static_cast<std::size_t>(side)];
  buffer.clear();
  for (const Exchanged& field : fields) {
    const int first = side == 0 ? 0 : layout_.owned(field.stagger)[axis] - halo;
    for_rows(layout_, layers(field.stagger, axis, first), [&](std::ptrdiff_t row, int length) {
      buffer.insert(buffer.end(), field.data + row, field.data + row + length);
    });
  }
}

void HaloExchange::unpack(std::span<const Exchanged> fields, std::size_t axis, int side) const {
  const double* from = in_[static_cast<std::size_t>(side)].data();
  for (const Exchanged& field : fields) {
    const int first = side == 0 ? -halo : layout_.owned(field.stagger)[axis];
    for_rows(layout_, layers(field.stagger, axis, first), [&](std::ptrdiff_t row, int length) {
      std::copy_n(from, length, field.data + row);
      from += length;
    });
  }
}

/// A vertex on the wall is its own image; a cell's image is a cell.
void HaloExchange::reflect(const Exchanged& field, int axis, int side) const {
  const auto a = static_cast<std::size_t>(axis);
  const int on_vertices = field.stagger[a];
  const int owned = layout_.owned(field.stagger)[a];
  const double sign = field.odd_axis == axis ? -1 : 1;
  for (int layer = 0; layer < halo; ++layer) {
    const int to = side == 0 ? -1 - layer : owned + layer;
    const int from = side == 0 ? layer + on_vertices : owned - 1 - layer - on_vertices;
    Box box = layers(field.stagger, a, to);
    box.upper[a] = to + 1;
    const std::ptrdiff_t image = (from - to) * layout_.stride[a];
    for_rows(layout_, box, [&](std::ptrdiff_t row, int length) {
      for (std::ptrdiff_t c = row; c < row + length; ++c) field.data[c] = sign * field.data[c + image];
    });
  }
}

}  // namespace clover3d
