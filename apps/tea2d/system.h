// The linear system of one step, (1 - dt div k grad) u = u0, on the block of each rank: arrays, and the loops over
// them.
//
// A is the five-point matrix of the left side for cells of one size. Heat enters through faces only, with the
// coefficient dt area / (span volume) (rho_a + rho_b) / (2 rho_a rho_b), and none through the faces of the rectangle: A
// is symmetric, its smallest eigenvalue is 1, and that of a constant.
#pragma once

#include <mpi.h>

#include <functional>
#include <span>
#include <utility>

#include "grid.h"
#include "halo.h"
#include "loops.h"

namespace tea2d {

struct Material {
  double density;
  double energy;  ///< a unit of mass
};

/// The rectangle in cells, with its length along x and y.
struct Domain {
  Pair cells{};
  std::array<double, 2> length{};
};

/// Collective: the constructor and every loop. All loops but start() do what loops_of() says; they are told to watch(),
/// and do nothing where it says so.
class System {
 public:
  /// `comm` stays the caller's and must outlive this. `ranks`: blocks along each axis; {} chooses.
  System(MPI_Comm comm, const Domain& domain, double dt, const Form& form, Pair ranks = {});

  /// Sets density and energy from the centres of the cells.
  void start(const std::function<Material(double x, double y)>& at);
  /// See program::LoopWatch.
  void watch(std::function<bool(Loop)> before, std::function<void(std::span<double>)> returned = {}) {
    watch_.watch(std::move(before), std::move(returned));
  }

  void coefficients();  ///< and the diagonal
  double load();        ///< u = u0 = density energy; gives u0 . u0
  double residual();    ///< r = u0 - A u; gives r . r
  void store();         ///< energy = u / density, at the end of a step
  double total();       ///< of u over the area

  // Conjugate gradients.
  void start_direction();        ///< p = r
  double apply();                ///< w = A p; gives p . w
  double advance(double alpha);  ///< u += alpha p, r -= alpha w; gives r . r
  void turn(double beta);        ///< p = r + beta p

  // Chebyshev.
  void start_correction(double scale);              ///< sd = scale r
  void correct();                                   ///< u += sd, r -= A sd
  void turn_correction(double keep, double scale);  ///< sd = keep sd + scale r
  double norm();                                    ///< r . r

  // The preconditioner, z = M^-1 r: Chebyshev for A z = r, whose residual is in w.
  void start_inner(double scale);              ///< w = r, z = sd = scale w
  void inner_residual();                       ///< w -= A sd
  void inner_turn(double keep, double scale);  ///< sd = keep sd + scale w, z += sd
  double preconditioned_product();             ///< r . z
  void start_preconditioned();                 ///< p = z
  void turn_preconditioned(double beta);       ///< p = z + beta p

  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] Method method() const { return form_.method; }
  [[nodiscard]] const Form& form() const { return form_; }
  /// With the halo, which need not be right between loops, but that of the constant fields. Null where the form does
  /// not use it.
  [[nodiscard]] double* data(Field field) { return arrays_[static_cast<std::size_t>(field)].data(); }

 private:
  struct EvenMesh;
  struct StoredMesh;
  struct EvenMatrix;
  struct StoredMatrix;
  [[nodiscard]] bool begins(Loop loop) const { return watch_.begins(loop); }
  [[nodiscard]] EvenMesh even_mesh() const;
  void make_mesh();
  template <class Body>
  auto with_mesh(const Body& body);
  template <class Body>
  void with_matrix(const Body& body);
  template <class Mesh>
  void set_coefficients(const Mesh& mesh);
  void set_diagonal();
  /// product = A sd, in the stored form.
  void multiply();
  template <class Term>
  double sum(const Term& term);

  MPI_Comm comm_;
  Domain domain_;
  double dt_;
  Form form_;
  Block block_;
  Layout layout_;
  HaloExchange halos_;
  std::array<std::vector<double>, field_count> arrays_;
  program::LoopWatch<Loop> watch_;
};

}  // namespace tea2d
