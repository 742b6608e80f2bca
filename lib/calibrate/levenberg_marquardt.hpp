#pragma once
// Least squares in a box, plain or robust, for errors that are dear to compute and only piecewise
// smooth. Eigen's and MINPACK's know neither a box nor weights that follow the errors.
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace meshplan {

// Cauchy's loss ln(1 + (error / scale)^2), which lets a run that stalled weigh little (Rousseeuw
// and Leroy 1987, sec. 1.2 on why squares do not).
[[nodiscard]] double robust_loss(double error, double scale);

// [F-CAL-9] sum of weights[i] * loss(errors[i]) + ridge[k] * (x[k] - anchor[k])^2 over the m
// coordinates x of a box.
struct LeastSquares {
  using Vector = std::vector<double>;
  // n errors at x.
  std::function<Vector(const Vector& x)> errors;
  // The errors' derivatives at x, where they are `e`: a column of n for each of the m coordinates.
  std::function<std::vector<Vector>(const Vector& x, const Vector& e)> derivatives;
  Vector weights;          // n
  Vector anchor, ridge;    // m
  Vector lowest, highest;  // m
  // Of robust_loss; the loss is the square where there is none.
  std::optional<double> scale{};

  [[nodiscard]] double value(const Vector& x, const Vector& e) const;
};

struct FitSteps {
  int most = 12;             // that help
  double worthwhile = 1e-5;  // what a step must gain, of the value
  double least_change = 0;   // of a coordinate: smaller steps end the search
  double most_change = std::numeric_limits<double>::infinity();  // of a coordinate, in one step
};

// Gauss-Newton steps, damped (Levenberg 1944, Marquardt 1963), the errors weighted anew at each
// (Holland and Welsch 1977), until none helps. Returns the best x seen.
[[nodiscard]] std::vector<double> levenberg_marquardt(const LeastSquares& problem,
                                                      std::vector<double> start,
                                                      const FitSteps& steps = {});

}  // namespace meshplan
