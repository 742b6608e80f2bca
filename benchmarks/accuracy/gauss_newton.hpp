#pragma once
// Robust least squares in a box, for errors that are dear to compute and only piecewise smooth.
// calibrate/parameters.hpp fits positive numbers on a logarithmic scale; constants here may be
// zero.
#include <Eigen/Dense>
#include <functional>

namespace meshplan::accuracy {

// A run's part of what is minimised: Cauchy's loss ln(1 + (e / scale)^2) of e = ln(predicted /
// measured), which lets a run that stalled weigh little (Rousseeuw and Leroy 1987, sec. 1.2 on why
// squares do not).
[[nodiscard]] double robust_loss(double error, double scale);

// Sum of weights[i] * robust_loss(errors[i]) + ridge[k] * (x[k] - anchor[k])^2 over x in the unit
// box.
struct RobustProblem {
  // n errors at x.
  std::function<Eigen::VectorXd(const Eigen::VectorXd& x)> errors;
  // n x m derivatives at x, where the errors are `e`.
  std::function<Eigen::MatrixXd(const Eigen::VectorXd& x, const Eigen::VectorXd& e)> jacobian;
  Eigen::VectorXd weights;  // n
  Eigen::VectorXd anchor;   // m
  Eigen::VectorXd ridge;    // m
  double scale = 0.1;

  [[nodiscard]] double value(const Eigen::VectorXd& x, const Eigen::VectorXd& e) const;
};

// Gauss-Newton steps, damped (Levenberg 1944, Marquardt 1963), the errors weighted anew at each
// (Holland and Welsch 1977), until none of `most` helps. Returns the best x seen.
[[nodiscard]] Eigen::VectorXd gauss_newton(const RobustProblem& problem, Eigen::VectorXd start,
                                           int most = 12);

}  // namespace meshplan::accuracy
