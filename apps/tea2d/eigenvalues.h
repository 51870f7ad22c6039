// Between what the eigenvalues of the matrix lie, as conjugate gradients see it on their way.
#pragma once

#include <vector>

namespace tea2d {

struct Interval {
  double lower = 0;
  double upper = 0;
};

/// The smallest and the largest eigenvalue of a symmetric tridiagonal matrix, to a few units in the last place.
/// `beside` has one element less than `diagonal`, which has one at least. Bisection with Sturm sequences (Golub and Van
/// Loan, Matrix Computations, section 8.4).
Interval extreme_eigenvalues(const std::vector<double>& diagonal, const std::vector<double>& beside);

/// What conjugate gradients went by: alpha[i] = r.r / p.Ap of iteration i, beta[i] = r.r after it / r.r before it.
struct CgSteps {
  std::vector<double> alpha, beta;
};

/// Of the Lanczos matrix of these iterations, widened: it has no eigenvalue outside of those of A.
Interval estimated_eigenvalues(const CgSteps& steps);

}  // namespace tea2d
