// The coordinates: one-dimensional arrays along each axis, whole on every rank.
#pragma once

#include <string>
#include <vector>

#include "grid.h"

namespace clover3d {

class Mesh {
 public:
  enum class Kind {
    centre,        ///< of each cell
    width,         ///< of each cell
    vertex,        ///< below each cell, and the last one
    vertex_width,  ///< from the centre below a vertex to that above it
  };
  /// "cellx", "celldx", "vertexx", "vertexdx" and so on.
  struct Line {
    Kind kind;
    int axis;
    std::string name;
    double* data;  ///< the first value inside of the box; `halo` values lie before it, and more than that behind
    int length;    ///< inside of the box
  };

  explicit Mesh(const Domain& domain);
  Mesh(Mesh&&) = default;  // a copy would have the lines of the original

  [[nodiscard]] const std::vector<Line>& lines() const { return lines_; }
  /// Counted from cell or vertex `lower` of the box.
  [[nodiscard]] const double* along(int axis, Kind kind, int lower) const {
    return lines_[static_cast<std::size_t>(4 * axis + static_cast<int>(kind))].data + lower;
  }

 private:
  std::vector<std::vector<double>> values_;
  std::vector<Line> lines_;
};

}  // namespace clover3d
