#include "minimise.hpp"

#include <algorithm>

namespace meshplan::accuracy {
namespace {

// Differences below this are rounding.
constexpr double kWorthwhile = 1e-9;

}  // namespace

double minimise(std::vector<Coordinate>& at, const Objective& objective, StepSizes sizes) {
  std::vector<double> steps(at.size(), sizes.coarsest);
  double best = objective.value;
  const auto improve = [&](std::size_t k, double direction) {
    Coordinate& c = at[k];
    const double x = std::clamp(c.value + direction * steps[k] * (c.high - c.low), c.low, c.high);
    if (x == c.value) return false;
    const double value = objective.with(k, x);
    if (value >= best - kWorthwhile) return false;
    objective.accept();
    best = value;
    c.value = x;
    return true;
  };
  const auto coarse = [&](double step) { return step >= sizes.finest; };
  while (std::any_of(steps.begin(), steps.end(), coarse)) {
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (!coarse(steps[k])) continue;
      if (!improve(k, 1) && !improve(k, -1)) steps[k] /= 2;
    }
  }
  return best;
}

}  // namespace meshplan::accuracy
