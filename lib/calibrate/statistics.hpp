#pragma once
// Order statistics that one wild value does not move.
#include <span>
#include <vector>

namespace meshplan {

// The q-th quantile (0..1) of at least one value, linear between neighbours.
[[nodiscard]] double quantile(std::vector<double> values, double q);
[[nodiscard]] double median(std::vector<double> values);

// Spread of residuals around zero: 1.4826 x median |r|, the standard deviation if they were normal
// (Huber 1981, Robust Statistics, sec. 5.1).
[[nodiscard]] double robust_spread(std::span<const double> residuals);

// [F-CAL-1] Tukey's biweight: (1 - (r / c s)^2)^2 inside c s, nothing outside; c = 4.685 keeps 95 %
// of least squares' efficiency on normal errors (Holland and Welsch 1977).
[[nodiscard]] double biweight(double residual, double spread);

}  // namespace meshplan
