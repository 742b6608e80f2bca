#include "censored.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace meshplan::accuracy {
namespace {

constexpr double kBeyond = 1e-3;  // past the outermost limits
constexpr int kMostSteps = 5000;
constexpr double kSettled = 1e-9;  // change of any share

// Every exact value, and one point between each two limits that follow each other.
std::vector<double> places(std::span<const Censored> seen) {
  std::vector<double> limits, points;
  for (const Censored& c : seen) {
    if (c.exact()) points.push_back(c.low);
    for (const double limit : {c.low, c.high}) {
      if (!c.exact() && std::isfinite(limit)) limits.push_back(limit);
    }
  }
  std::sort(limits.begin(), limits.end());
  for (std::size_t i = 0; i + 1 < limits.size(); ++i) {
    if (limits[i] < limits[i + 1]) points.push_back((limits[i] + limits[i + 1]) / 2);
  }
  if (!limits.empty()) {
    points.push_back(limits.front() - kBeyond);
    points.push_back(limits.back() + kBeyond);
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

struct Range {
  std::size_t first, end;  // of the points that an observation allows
};

std::vector<Range> allowed(std::span<const Censored> seen, const std::vector<double>& points) {
  std::vector<Range> all;
  for (const Censored& c : seen) {
    const auto first = c.exact() ? std::lower_bound(points.begin(), points.end(), c.low)
                                 : std::upper_bound(points.begin(), points.end(), c.low);
    const auto end = std::upper_bound(points.begin(), points.end(), c.high);
    all.push_back({static_cast<std::size_t>(first - points.begin()),
                   static_cast<std::size_t>(end - points.begin())});
    PLAN_CHECK(all.back().first < all.back().end);
  }
  return all;
}

// One step: each observation is spread over what it allows, by the shares so far.
std::vector<double> redistributed(const std::vector<Range>& seen,
                                  const std::vector<double>& shares) {
  std::vector<double> below(shares.size() + 1, 0), factor(shares.size() + 1, 0);
  for (std::size_t i = 0; i < shares.size(); ++i) below[i + 1] = below[i] + shares[i];
  for (const Range& r : seen) {
    const double inside = below[r.end] - below[r.first];
    if (inside <= 0) continue;
    factor[r.first] += 1 / inside;
    factor[r.end] -= 1 / inside;
  }
  std::vector<double> next(shares.size());
  double sum = 0, total = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    sum += factor[i];
    next[i] = shares[i] * std::max(sum, 0.0);
    total += next[i];
  }
  for (double& share : next) share /= total;
  return next;
}

}  // namespace

std::vector<std::pair<double, double>> most_likely(std::span<const Censored> seen) {
  PLAN_CHECK(!seen.empty());
  const std::vector<double> points = places(seen);
  const std::vector<Range> ranges = allowed(seen, points);
  std::vector<double> shares(points.size(), 1 / static_cast<double>(points.size()));
  for (int step = 0; step < kMostSteps; ++step) {
    const std::vector<double> next = redistributed(ranges, shares);
    double change = 0;
    for (std::size_t i = 0; i < shares.size(); ++i)
      change = std::max(change, std::abs(next[i] - shares[i]));
    shares = next;
    if (change < kSettled) break;
  }
  std::vector<std::pair<double, double>> result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (shares[i] > 0) result.emplace_back(points[i], shares[i]);
  }
  return result;
}

}  // namespace meshplan::accuracy
