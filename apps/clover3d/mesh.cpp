#include "mesh.h"

#include <array>

namespace clover3d {

Mesh::Mesh(const Domain& domain) {
  static const std::array<std::string, 3> letters = {"x", "y", "z"};
  for (int axis = 0; axis < 3; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const int cells = domain.cells[a];
    const double width = domain.length[a] / cells;
    const auto add = [&](Kind kind, const std::string& name, int length, double first, double step) {
      std::vector<double>& values = values_.emplace_back();
      for (int i = -halo; i < cells + 1 + halo; ++i) values.push_back(first + step * i);
      lines_.push_back({kind, axis, name, values.data() + halo, length});
    };
    add(Kind::centre, "cell" + letters[a], cells, width / 2, width);
    add(Kind::width, "celld" + letters[a], cells, width, 0);
    add(Kind::vertex, "vertex" + letters[a], cells + 1, 0, width);
    add(Kind::vertex_width, "vertexd" + letters[a], cells + 1, width, 0);
  }
}

}  // namespace clover3d
