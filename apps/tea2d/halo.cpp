#include "halo.h"

#include <array>
#include <stdexcept>
#include <string>

namespace tea2d {

HaloExchange::HaloExchange(MPI_Comm comm, const Block& block, const Layout& layout) : comm_(comm) {
  for (int axis = 0; axis < 2; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    for (int side = 0; side < 2; ++side) {
      const int neighbour = block.neighbour(axis, side == 0 ? -1 : 1);
      if (neighbour < 0) continue;
      const auto first_of = [&](int layer) { return axis == x_axis ? layout.at(layer, 0) : layout.at(0, layer); };
      const auto length = static_cast<std::size_t>(layout.size[1 - a]);
      // What arrives on this side was sent from the other side of the neighbour.
      sides_.push_back({neighbour, 2 * axis + side, 2 * axis + 1 - side, first_of(side == 0 ? 0 : layout.size[a] - 1),
                        first_of(side == 0 ? -1 : layout.size[a]), axis == x_axis ? layout.stride : 1,
                        std::vector<double>(length), std::vector<double>(length)});
    }
  }
  requests_.resize(2 * sides_.size());
}

void HaloExchange::exchange(double* field) {
  std::size_t r = 0;
  for (Side& side : sides_) {
    check_mpi(MPI_Irecv(side.in.data(), static_cast<int>(side.in.size()), MPI_DOUBLE, side.neighbour, side.tag_in,
                        comm_, &requests_[r++]),
              "MPI_Irecv");
  }
  for (Side& side : sides_) {
    const double* from = field + side.send;
    for (double& value : side.out) {
      value = *from;
      from += side.stride;
    }
    check_mpi(MPI_Isend(side.out.data(), static_cast<int>(side.out.size()), MPI_DOUBLE, side.neighbour, side.tag_out,
                        comm_, &requests_[r++]),
              "MPI_Isend");
  }
  check_mpi(MPI_Waitall(static_cast<int>(r), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  for (const Side& side : sides_) {
    double* to = field + side.receive;
    for (const double value : side.in) {
      *to = value;
      to += side.stride;
    }
  }
}

}  // namespace tea2d
