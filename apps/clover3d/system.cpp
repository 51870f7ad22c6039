#include "system.h"

#include "stencils.h"

namespace clover3d {

System::System(MPI_Comm comm, const Domain& domain, const Triple& ranks)
    : comm_(comm),
      block_(own_block(comm, domain.cells, ranks)),
      layout_(block_),
      mesh_(domain),
      halos_(comm, block_, layout_) {
  for (auto& array : arrays_) array.assign(layout_.points, 0);
  const double* dx = line(x_axis, Mesh::Kind::width);
  const double* dy = line(y_axis, Mesh::Kind::width);
  const double* dz = line(z_axis, Mesh::Kind::width);
  double* volume = data(Field::volume);
  const Three area = three(Field::xarea);
  const auto [nx, ny, nz] = layout_.cells;
  const Triple end = {nx + 1 + halo, ny + 1 + halo, nz + 1 + halo};
  for_box(layout_, {-halo, -halo, -halo}, end, [=](int i, int j, int k, Cell c) {
    area[0][c] = dy[j] * dz[k];
    area[1][c] = dx[i] * dz[k];
    area[2][c] = dx[i] * dy[j];
    volume[c] = (dx[i] * dz[k]) * dy[j];
  });
}

void System::start(const std::function<State(double x, double y, double z)>& at) {
  const auto at_points = [&](Mesh::Kind kind, const Triple& end, const auto& set) {
    const double* x = line(x_axis, kind);
    const double* y = line(y_axis, kind);
    const double* z = line(z_axis, kind);
    for (int k = 0; k < end[z_axis]; ++k) {
      for (int j = 0; j < end[y_axis]; ++j) {
        for (int i = 0; i < end[x_axis]; ++i) set(layout_.at(i, j, k), at(x[i], y[j], z[k]));
      }
    }
  };
  at_points(Mesh::Kind::centre, layout_.cells, [this](Cell c, const State& here) {
    data(Field::density0)[c] = here.density;
    data(Field::energy0)[c] = here.energy;
  });
  at_points(Mesh::Kind::vertex, owned_nodes(), [this](Cell c, const State& here) {
    for (int a = 0; a < 3; ++a) data(along(Field::xvel0, a))[c] = here.velocity[static_cast<std::size_t>(a)];
  });
}

void System::exchange(Loop loop) {
  if (!begins(loop)) return;
  std::vector<Exchanged> fields;
  for (const auto& use : all_loops()[static_cast<std::size_t>(loop)].uses)
    fields.push_back({data(use.field), stagger_of(use.field), odd_axis_of(use.field)});
  halos_.exchange(fields);
}

void System::reset() {
  if (!begins(Loop::reset)) return;
  const auto copy = [this](Field from_field, Field to_field) {
    const double* from = data(from_field);
    double* to = data(to_field);
    for_box(layout_, {0, 0, 0}, layout_.owned(stagger_of(to_field)), [=](int, int, int, Cell c) { to[c] = from[c]; });
  };
  copy(Field::density1, Field::density0);
  copy(Field::energy1, Field::energy0);
  for (int axis = 0; axis < 3; ++axis) copy(along(Field::xvel1, axis), along(Field::xvel0, axis));
}

}  // namespace clover3d
