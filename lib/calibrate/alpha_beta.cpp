#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "calibrate/curve.hpp"
#include "calibrate/statistics.hpp"

namespace meshplan {
namespace {

struct Line {
  double latency = 0;   // s
  double per_byte = 0;  // s

  [[nodiscard]] double at(double bytes) const { return latency + per_byte * bytes; }
};

// Weighted least squares of relative residuals; a coefficient below zero is held at zero.
Line solve(std::span<const TimedSize> samples, const std::vector<double>& weight) {
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(samples.size()), 2);
  Eigen::VectorXd right(rows.rows());
  // Columns of one magnitude: a latency is some us, a byte some ns per thousand.
  const double scale = samples.back().first.si();
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const auto& [bytes, time] = samples[static_cast<std::size_t>(i)];
    const double w = std::sqrt(weight[static_cast<std::size_t>(i)]);
    rows(i, 0) = w / time.si();
    rows(i, 1) = w * (bytes.si() / scale) / time.si();
    right(i) = w;
  }
  const Eigen::MatrixXd normal = rows.transpose() * rows;
  const Eigen::VectorXd both = normal.ldlt().solve(Eigen::VectorXd(rows.transpose() * right));
  const auto alone = [&](Eigen::Index column) {
    return std::max(0.0, rows.col(column).dot(right) / rows.col(column).squaredNorm());
  };
  if (both(0) < 0) return {0, alone(1) / scale};
  if (both(1) < 0) return {alone(0), 0};
  return {both(0), both(1) / scale};
}

// Latency from the smallest quarter of the sizes, rate from the largest: medians, which outliers do
// not move.
Line start(std::span<const TimedSize> sorted) {
  const std::size_t quarter = std::max<std::size_t>(sorted.size() / 4, 1);
  std::vector<double> latencies, rates;
  for (std::size_t i = 0; i < quarter; ++i) {
    const auto& [bytes, time] = sorted[sorted.size() - 1 - i];
    latencies.push_back(sorted[i].second.si());
    rates.push_back(time.si() / bytes.si());
  }
  return {median(std::move(latencies)), median(std::move(rates))};
}

}  // namespace

AlphaBeta fit_alpha_beta(std::span<const TimedSize> samples) {
  std::vector<TimedSize> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  PLAN_CHECK(!sorted.empty() && sorted.front().first < sorted.back().first);
  constexpr int kRounds = 50;
  constexpr double kLeastSpread = 1e-4;
  Line line = start(sorted);
  std::vector<double> weight(sorted.size(), 1.0), residuals(sorted.size());
  const auto measure = [&] {
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const double predicted = line.at(sorted[i].first.si());
      residuals[i] = std::log(std::max(predicted, 1e-300) / sorted[i].second.si());
    }
  };
  for (int round = 0; round < kRounds; ++round) {
    measure();
    const double spread = std::max(robust_spread(residuals), kLeastSpread);
    for (std::size_t i = 0; i < sorted.size(); ++i) weight[i] = biweight(residuals[i], spread);
    const Line next = solve(sorted, weight);
    const double change = std::abs(next.latency - line.latency) +
                          std::abs(next.per_byte - line.per_byte) * sorted.back().first.si();
    line = next;
    if (change < 1e-9 * line.at(sorted.back().first.si())) break;
  }
  measure();
  std::vector<double> errors;
  for (const double r : residuals) errors.push_back(std::abs(std::exp(r) - 1));
  const double bandwidth = line.per_byte > 0 ? 1 / line.per_byte : 0;
  return {Seconds{line.latency}, BytesPerSecond{bandwidth}, median(std::move(errors))};
}

}  // namespace meshplan
