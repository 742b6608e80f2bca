#include "calibrate/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace meshplan {

double quantile(std::vector<double> values, double q) {
  PLAN_CHECK(!values.empty() && q >= 0 && q <= 1);
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double robust_spread(std::span<const double> residuals) {
  std::vector<double> sizes;
  sizes.reserve(residuals.size());
  for (const double r : residuals) sizes.push_back(std::abs(r));
  return 1.4826 * median(std::move(sizes));
}

double biweight(double residual, double spread) {
  constexpr double kTuning = 4.685;
  if (spread <= 0) return residual == 0 ? 1 : 0;
  const double u = residual / (kTuning * spread);
  return std::abs(u) >= 1 ? 0 : (1 - u * u) * (1 - u * u);
}

}  // namespace meshplan
