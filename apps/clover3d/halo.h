// Fills the halo of a block: from its neighbours, and at the walls of the box by reflection.
#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "grid.h"
#include "loops.h"

namespace clover3d {

struct Exchanged {
  double* data;  ///< layout.points values
  Stagger stagger;
  int odd_axis;  ///< see odd_axis_of()
};

/// All of the halo, edges and corners too: axis by axis, each with the halos of those before.
class HaloExchange {
 public:
  /// `comm` stays the caller's and must outlive this.
  HaloExchange(MPI_Comm comm, const Block& block, const Layout& layout) : comm_(comm), block_(block), layout_(layout) {}
  /// Collective.
  void exchange(std::span<const Exchanged> fields);

 private:
  struct Box {
    Triple lower, upper;
  };
  [[nodiscard]] Box layers(const Stagger& stagger, std::size_t axis, int lower) const;
  void exchange_along(int axis, std::span<const Exchanged> fields);
  void reflect(const Exchanged& field, int axis, int side) const;
  void pack(std::span<const Exchanged> fields, std::size_t axis, int side);
  void unpack(std::span<const Exchanged> fields, std::size_t axis, int side) const;

  MPI_Comm comm_;
  Block block_;
  Layout layout_;
  std::array<std::vector<double>, 2> out_, in_;  ///< to and from the neighbour below and above
};

}  // namespace clover3d
