#include "grid.h"

#include <stdexcept>
#include <string>

#include "../mpi_check.h"

namespace clover3d {

using program::check_mpi;

Block own_block(MPI_Comm comm, const Triple& cells, const Triple& ranks) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const Triple chosen = ranks == Triple{} ? program::choose_ranks(size, cells, halo) : ranks;
  if (chosen == Triple{})
    throw std::invalid_argument(std::to_string(cells[x_axis]) + " x " + std::to_string(cells[y_axis]) + " x " +
                                std::to_string(cells[z_axis]) + " cells cannot be cut into " + std::to_string(size) +
                                " blocks of at least 2 cells along each axis: use fewer ranks, another number of ranks "
                                "or more cells");
  if (chosen[x_axis] * chosen[y_axis] * chosen[z_axis] != size)
    throw std::invalid_argument("the blocks are not as many as the ranks");
  return program::block_of(rank, chosen, cells);
}

Triple values_of(const Triple& cells, const Stagger& stagger) {
  return {cells[0] + stagger[0], cells[1] + stagger[1], cells[2] + stagger[2]};
}

Layout::Layout(const Block& block) : cells(block.size()), last{} {
  for (std::size_t a = 0; a < 3; ++a) last[a] = block.upper[a] == block.cells[a] ? 1 : 0;
  const auto with_halo = [this](std::size_t a) { return cells[a] + 1 + 2 * halo; };
  stride = {1, with_halo(0), std::ptrdiff_t{with_halo(0)} * with_halo(1)};
  points = static_cast<std::size_t>(stride[z_axis]) * static_cast<std::size_t>(with_halo(2));
}

Triple Layout::owned(const Stagger& stagger) const {
  Triple out = cells;
  for (std::size_t a = 0; a < 3; ++a) out[a] += stagger[a] * last[a];
  return out;
}

}  // namespace clover3d
