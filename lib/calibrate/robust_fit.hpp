#pragma once
// Robust least squares in a box, for errors that are dear to compute and only piecewise smooth.
// parameters.hpp fits positive numbers on a logarithmic scale; what is fitted here may be zero.
#include <functional>
#include <vector>

namespace meshplan {

// Cauchy's loss ln(1 + (error / scale)^2), which lets a run that stalled weigh little (Rousseeuw
// and Leroy 1987, sec. 1.2 on why squares do not).
[[nodiscard]] double robust_loss(double error, double scale);

// [F-CAL-9] sum of weights[i] * robust_loss(errors[i]) + ridge[k] * (x[k] - anchor[k])^2 over the m
// coordinates x of the unit box.
struct RobustProblem {
  using Vector = std::vector<double>;
  // n errors at x.
  std::function<Vector(const Vector& x)> errors;
  // The errors' derivatives at x, where they are `e`: a column of n for each of the m coordinates.
  std::function<std::vector<Vector>(const Vector& x, const Vector& e)> derivatives;
  Vector weights;        // n
  Vector anchor, ridge;  // m
  double scale = 0.1;

  [[nodiscard]] double value(const Vector& x, const Vector& e) const;
};

// Gauss-Newton steps, damped (Levenberg 1944, Marquardt 1963), the errors weighted anew at each
// (Holland and Welsch 1977), until none helps, at most `most`. Returns the best x seen.
[[nodiscard]] std::vector<double> robust_fit(const RobustProblem& problem,
                                             std::vector<double> start, int most = 12);

}  // namespace meshplan
