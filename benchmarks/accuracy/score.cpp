#include "score.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"

namespace meshplan::accuracy {
namespace {

// 1-based ranks; equal values share the mean of their ranks.
std::vector<double> mean_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    const double shared = static_cast<double>(first + last) / 2 + 1;
    for (std::size_t i = first; i <= last; ++i) ranks[order[i]] = shared;
    first = last + 1;
  }
  return ranks;
}

std::optional<double> pearson(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = mean(x);
  const double mean_y = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

int sign(double x) { return (x > 0) - (x < 0); }

}  // namespace

double relative_error(double predicted, double measured) {
  PLAN_CHECK(measured > 0);
  return predicted / measured - 1;
}

double quantile(std::vector<double> values, double p) {
  PLAN_CHECK(!values.empty() && p >= 0 && p <= 1);
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double mean(std::span<const double> values) {
  PLAN_CHECK(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

ErrorStats error_stats(std::span<const double> signed_errors) {
  std::vector<double> absolute;
  for (const double e : signed_errors) absolute.push_back(std::abs(e));
  return {.median_abs = median(absolute),
          .mean_abs = mean(absolute),
          .p90_abs = quantile(absolute, 0.9),
          .bias = mean(signed_errors),
          .median_bias = median({signed_errors.begin(), signed_errors.end()})};
}

double regret(std::span<const ChoicePair> group) {
  PLAN_CHECK(!group.empty());
  double chosen = group.front().predicted;
  double best = group.front().measured;
  for (const ChoicePair& run : group) {
    chosen = std::min(chosen, run.predicted);
    best = std::min(best, run.measured);
  }
  std::vector<double> measured;
  for (const ChoicePair& run : group) {
    if (run.predicted == chosen) measured.push_back(run.measured);
  }
  return relative_error(mean(measured), best);
}

std::optional<double> kendall_tau(std::span<const ChoicePair> group) {
  double agreement = 0, pairs_x = 0, pairs_y = 0;  // pairs that are not tied on that side
  for (std::size_t i = 0; i < group.size(); ++i) {
    for (std::size_t j = i + 1; j < group.size(); ++j) {
      const int x = sign(group[i].predicted - group[j].predicted);
      const int y = sign(group[i].measured - group[j].measured);
      agreement += x * y;
      pairs_x += x != 0;
      pairs_y += y != 0;
    }
  }
  if (pairs_x == 0 || pairs_y == 0) return std::nullopt;
  return agreement / std::sqrt(pairs_x * pairs_y);
}

std::optional<double> spearman(std::span<const ChoicePair> group) {
  if (group.empty()) return std::nullopt;
  std::vector<double> predicted, measured;
  for (const ChoicePair& run : group) {
    predicted.push_back(run.predicted);
    measured.push_back(run.measured);
  }
  return pearson(mean_ranks(predicted), mean_ranks(measured));
}

}  // namespace meshplan::accuracy
