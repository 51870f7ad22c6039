#include "halo.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tgv {

HaloExchange::HaloExchange(MPI_Comm comm, const Block& block, const Layout& layout, int max_fields)
    : comm_(comm), layout_(layout) {
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (block.ranks[a] == 1) {
      own_axes_.push_back(axis);
      continue;
    }
    for (int side = 0; side < 2; ++side) {
      Face face;
      face.axis = axis;
      face.side = side;
      face.neighbour = block.neighbour(axis, side == 0 ? -1 : 1);
      face.send = layers(axis, side == 0 ? 0 : layout.size[a] - halo);
      face.receive = layers(axis, side == 0 ? -halo : layout.size[a]);
      face.out.resize(count(face.send) * static_cast<std::size_t>(max_fields));
      face.in.resize(face.out.size());
      faces_.push_back(std::move(face));
    }
  }
  requests_.resize(2 * faces_.size());
}

HaloExchange::Box HaloExchange::layers(int axis, int lower) const {
  Box box{{0, 0, 0}, layout_.size};
  box.lower[static_cast<std::size_t>(axis)] = lower;
  box.size[static_cast<std::size_t>(axis)] = halo;
  return box;
}

std::size_t HaloExchange::count(const Box& box) {
  return static_cast<std::size_t>(box.size[0]) * static_cast<std::size_t>(box.size[1]) *
         static_cast<std::size_t>(box.size[2]);
}

void HaloExchange::exchange(std::span<double* const> fields, int axis) {
  const auto takes_part = [axis](int of) { return axis < 0 || axis == of; };
  std::size_t r = 0;
  for (Face& face : faces_) {
    if (!takes_part(face.axis)) continue;
    const int n = static_cast<int>(count(face.receive) * fields.size());
    // What arrives on this side was sent from the other side of the neighbour.
    check_mpi(
        MPI_Irecv(face.in.data(), n, MPI_DOUBLE, face.neighbour, 2 * face.axis + 1 - face.side, comm_, &requests_[r++]),
        "MPI_Irecv");
  }
  for (Face& face : faces_) {
    if (!takes_part(face.axis)) continue;
    const std::size_t n = count(face.send);
    for (std::size_t f = 0; f < fields.size(); ++f) pack(fields[f], face.send, face.out.data() + f * n);
    check_mpi(MPI_Isend(face.out.data(), static_cast<int>(n * fields.size()), MPI_DOUBLE, face.neighbour,
                        2 * face.axis + face.side, comm_, &requests_[r++]),
              "MPI_Isend");
  }
  for (double* field : fields) {
    for (int own : own_axes_) {
      if (takes_part(own)) wrap(field, own);
    }
  }
  check_mpi(MPI_Waitall(static_cast<int>(r), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  for (Face& face : faces_) {
    if (!takes_part(face.axis)) continue;
    const std::size_t n = count(face.receive);
    for (std::size_t f = 0; f < fields.size(); ++f) unpack(face.in.data() + f * n, face.receive, fields[f]);
  }
}

void HaloExchange::wrap(double* field, int axis) const {
  const auto a = static_cast<std::size_t>(axis);
  const std::ptrdiff_t period = layout_.size[a] * layout_.stride[a];
  for (int layer = 0; layer < halo; ++layer) {
    Box box = layers(axis, layer);
    box.size[a] = 1;
    const std::ptrdiff_t up = period;                       // point `layer` to the halo above
    const std::ptrdiff_t down = -halo * layout_.stride[a];  // point n - halo + layer to the halo below
    for (int k = box.lower[2]; k < box.lower[2] + box.size[2]; ++k) {
      for (int j = box.lower[1]; j < box.lower[1] + box.size[1]; ++j) {
        double* row = field + layout_.at(box.lower[0], j, k);
        for (int i = 0; i < box.size[0]; ++i) row[i + up] = row[i];
        for (int i = 0; i < box.size[0]; ++i) row[i + down] = row[i + down + period];
      }
    }
  }
}

void HaloExchange::pack(const double* field, const Box& box, double* buffer) const {
  for (int k = box.lower[2]; k < box.lower[2] + box.size[2]; ++k) {
    for (int j = box.lower[1]; j < box.lower[1] + box.size[1]; ++j) {
      buffer = std::copy_n(field + layout_.at(box.lower[0], j, k), box.size[0], buffer);
    }
  }
}

void HaloExchange::unpack(const double* buffer, const Box& box, double* field) const {
  for (int k = box.lower[2]; k < box.lower[2] + box.size[2]; ++k) {
    for (int j = box.lower[1]; j < box.lower[1] + box.size[1]; ++j) {
      std::copy_n(buffer, box.size[0], field + layout_.at(box.lower[0], j, k));
      buffer += box.size[0];
    }
  }
}

}  // namespace tgv
