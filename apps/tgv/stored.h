// The solver whose right-hand side lies in arrays, one for each of its quantities, and whose loops are declared.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "loops.h"
#include "solver.h"

namespace tgv {

/// What a code that is made by a generator computes (OpenSBLI, say): loops over all points, each with few arrays, 65
/// arrays in all. All loops do what all_loops() says; they are told to watch(), and do nothing where it says so. A loop
/// that reads neighbours fills the halo first, so that a run can go on before any of them with nothing but the insides
/// of the arrays.
class StoredSolver final : public AnySolver {
 public:
  StoredSolver(MPI_Comm comm, const Flow& flow, double cfl, Triple ranks = {});
  void advance() override;
  Totals totals() override;

  /// See program::LoopWatch.
  void watch(std::function<bool(Loop)> before, std::function<void(std::span<double>)> returned = {}) {
    watch_.watch(std::move(before), std::move(returned));
  }
  /// With the halo.
  [[nodiscard]] double* data(Field field);

 private:
  template <class Body>
  void for_points(const Body& body) const;
  /// The same as `loop`, if it is to run.
  template <class Body>
  void for_points(Loop loop, const Body& body) const {
    if (watch_.begins(loop)) for_points(body);
  }
  /// `count` fields from `first` on.
  template <std::size_t count>
  std::array<double*, count> several(Field first) {
    std::array<double*, count> out{};
    for (std::size_t i = 0; i < count; ++i) out[i] = data(behind(first, i));
    return out;
  }
  void fill_halos(std::initializer_list<Field> fields);

  void find_rates();
  void find_primitives();
  void find_dilatation();
  void find_gradient(Loop loop, Field of, Field first);
  void find_bends(Loop loop, Field of, Field first);
  template <int axis>
  void find_fluxes();
  void convect();
  void find_forces();
  void find_friction();
  void diffuse();
  void change(const Stage& stage, bool first);
  void advance_fields(double weight);

  std::array<std::vector<double>, field_count - 5> arrays_;  ///< those behind the five of fields_
  program::LoopWatch<Loop> watch_;
};

}  // namespace tgv
