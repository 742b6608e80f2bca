#include "calibrate/curve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "base/text.hpp"
#include "calibrate/statistics.hpp"
#include "comm/measured.hpp"

namespace meshplan {
namespace {

// Median time per size, on logarithmic axes: a factor is a factor at 8 B and at 1 GiB.
struct LogCurve {
  std::vector<double> x, y;    // log2 of bytes, ln of seconds
  std::vector<double> weight;  // 0: an outlier
  std::vector<std::int64_t> bytes;

  [[nodiscard]] std::size_t size() const { return x.size(); }
};

LogCurve medians_of(std::span<const TimedSize> samples) {
  std::map<std::int64_t, std::vector<double>> by_size;
  for (const auto& [bytes, time] : samples) by_size[bytes.count()].push_back(time.si());
  LogCurve curve;
  for (auto& [bytes, times] : by_size) {
    curve.bytes.push_back(bytes);
    curve.x.push_back(std::log2(static_cast<double>(bytes)));
    curve.y.push_back(std::log(median(std::move(times))));
    curve.weight.push_back(1);
  }
  return curve;
}

// Symmetric matrix of which row i holds the elements (i, i), (i, i + 1) and (i, i + 2); all further
// ones are zero.
using Band = std::vector<std::array<double, 3>>;

// Solves the system of a matrix that is not indefinite by L D L^T without pivots (Golub and Van
// Loan, Matrix Computations, 4th ed., sec. 4.3.5). What nothing determines is zero.
std::vector<double> solution_of(Band a, std::vector<double> b) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i) {
    const double inverse = a[i][0] > 0 ? 1 / a[i][0] : 0;
    const double first = a[i][1] * inverse, second = a[i][2] * inverse;
    if (i + 1 < n) {
      a[i + 1][0] -= first * a[i][1];
      a[i + 1][1] -= first * a[i][2];
      b[i + 1] -= first * b[i];
    }
    if (i + 2 < n) {
      a[i + 2][0] -= second * a[i][2];
      b[i + 2] -= second * b[i];
    }
    a[i] = {inverse, first, second};
  }
  for (std::size_t i = n; i-- > 0;) {
    b[i] *= a[i][0];
    if (i + 1 < n) b[i] -= a[i][1] * b[i + 1];
    if (i + 2 < n) b[i] -= a[i][2] * b[i + 2];
  }
  return b;
}

// [F-CAL-2] Smoothing (Whittaker 1923) on uneven abscissas: the z that minimises
// sum w (y - z)^2 + stiffness x sum (change of slope)^2.
std::vector<double> smooth(const LogCurve& c, double stiffness) {
  Band system(c.size());
  std::vector<double> right(c.size());
  for (std::size_t i = 0; i < c.size(); ++i) {
    system[i][0] += c.weight[i];
    right[i] = c.weight[i] * c.y[i];
  }
  // Where every weight of an end is zero its line is still determined by the penalty alone.
  const double penalty = std::max(stiffness, 1e-9);
  for (std::size_t i = 1; i + 1 < c.size(); ++i) {
    const double before = c.x[i] - c.x[i - 1], after = c.x[i + 1] - c.x[i];
    const std::array row{1 / before, -1 / before - 1 / after, 1 / after};
    for (std::size_t j = 0; j < row.size(); ++j) {
      for (std::size_t k = j; k < row.size(); ++k) {
        system[i - 1 + j][k - j] += penalty * row[j] * row[k];
      }
    }
  }
  return solution_of(std::move(system), std::move(right));
}

// [F-CAL-3] Nearest non-falling sequence in weighted least squares: neighbours that fall are pooled
// until none does (Ayer et al. 1955).
std::vector<double> non_falling(const std::vector<double>& y, const std::vector<double>& weight) {
  struct Block {
    double mean, weight;
    std::size_t count;
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < y.size(); ++i) {
    blocks.push_back({y[i], std::max(weight[i], 1e-6), 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean > blocks.back().mean) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& kept = blocks.back();
      const double sum = kept.weight + last.weight;
      kept = {(kept.mean * kept.weight + last.mean * last.weight) / sum, sum,
              kept.count + last.count};
    }
  }
  std::vector<double> result;
  for (const Block& block : blocks) result.insert(result.end(), block.count, block.mean);
  return result;
}

// Line through the nearest neighbours of point i that count, at i; beside an end the one there is.
double from_neighbours(const LogCurve& c, std::size_t i) {
  std::size_t left = i, right = i;
  while (left > 0 && (left == i || c.weight[left] == 0)) --left;
  while (right + 1 < c.size() && (right == i || c.weight[right] == 0)) ++right;
  if (left == i) return c.y[right];
  if (right == i) return c.y[left];
  return c.y[left] + (c.y[right] - c.y[left]) * (c.x[i] - c.x[left]) / (c.x[right] - c.x[left]);
}

// Marks sizes whose median lies far off the curve of the others. A stiff curve rounds off the steps
// where a library changes its algorithm, so less than kStep off is never an outlier.
void find_outliers(LogCurve& c) {
  constexpr double kStiffness = 0.3, kStep = 0.4;  // ln 1.5
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> z = smooth(c, kStiffness);
    std::vector<double> residuals(c.size());
    for (std::size_t i = 0; i < c.size(); ++i) residuals[i] = c.y[i] - z[i];
    const double spread = std::max(robust_spread(residuals), kStep / 4.685);
    bool changed = false;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const double weight = biweight(residuals[i], spread);
      changed = changed || std::abs(weight - c.weight[i]) > 1e-3;
      c.weight[i] = weight;
    }
    if (!changed) break;
  }
  const LogCurve weighed = c;
  const std::vector<double> shape = smooth(weighed, kStiffness);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool off = std::abs(c.y[i] - shape[i]) > kStep &&
                     std::abs(c.y[i] - from_neighbours(weighed, i)) > kStep;
    c.weight[i] = off ? 0 : 1;
  }
}

LogCurve without(const LogCurve& c, std::size_t i) {
  LogCurve rest = c;
  const auto at = static_cast<std::ptrdiff_t>(i);
  rest.x.erase(rest.x.begin() + at);
  rest.y.erase(rest.y.begin() + at);
  rest.weight.erase(rest.weight.begin() + at);
  rest.bytes.erase(rest.bytes.begin() + at);
  return rest;
}

// The stiffness whose curves predict left-out points best; the least one where it makes no
// difference.
double best_stiffness(const LogCurve& c) {
  constexpr std::array kCandidates{0.0, 0.01, 0.03, 0.1, 0.3, 1.0};
  constexpr double kGain = 0.98, kMost = 0.5;
  double best = 0, least = 1e300;
  if (c.size() < 6) return best;
  for (const double candidate : kCandidates) {
    double sum = 0;
    for (std::size_t i = 1; i + 1 < c.size(); ++i) {
      if (c.weight[i] == 0) continue;
      const LogCurve rest = without(c, i);
      const std::vector<double> z = smooth(rest, candidate);
      const double share = (c.x[i] - c.x[i - 1]) / (c.x[i + 1] - c.x[i - 1]);
      sum += std::min(kMost, std::abs(c.y[i] - (z[i - 1] + share * (z[i] - z[i - 1]))));
    }
    if (sum < least * kGain) {
      least = sum;
      best = candidate;
    }
  }
  return best;
}

// [F-CAL-5] Slope of a cubic piece at an inner point: the harmonic mean of the secants beside it,
// weighted by their lengths, so that the curve between two points stays between their values.
double inner_slope(const LogCurve& c, const std::vector<double>& z, std::size_t i) {
  const double before = c.x[i] - c.x[i - 1], after = c.x[i + 1] - c.x[i];
  const double rise = (z[i] - z[i - 1]) / before, next = (z[i + 1] - z[i]) / after;
  if (rise * next <= 0) return 0;
  const double w = 2 * after + before, v = after + 2 * before;
  return (w + v) / (w / rise + v / next);
}

// The curve as points at most half an octave apart. Readers draw straight lines between points;
// with the measured sizes alone these would cut the corners of every bend.
std::vector<TimedSize> densified(const LogCurve& c, const std::vector<double>& z) {
  constexpr double kOctave = 0.5;
  std::vector<TimedSize> points;
  for (std::size_t i = 0; i < c.size(); ++i) {
    points.emplace_back(Bytes{c.bytes[i]}, Seconds{std::exp(z[i])});
    if (i + 1 == c.size()) break;
    const double width = c.x[i + 1] - c.x[i], secant = (z[i + 1] - z[i]) / width;
    const double slope = i == 0 ? secant : inner_slope(c, z, i);
    const double end = i + 2 == c.size() ? secant : inner_slope(c, z, i + 1);
    const auto pieces = static_cast<int>(std::ceil(width / kOctave - 1e-9));
    for (int k = 1; k < pieces; ++k) {
      const double u = static_cast<double>(k) / pieces, v = 1 - u;
      const double value = z[i] * (1 + 2 * u) * v * v + slope * width * u * v * v +
                           z[i + 1] * u * u * (3 - 2 * u) - end * width * u * u * v;
      const Bytes bytes{std::llround(std::exp2(c.x[i] + u * width))};
      if (bytes <= points.back().first || bytes.count() >= c.bytes[i + 1]) continue;
      points.emplace_back(bytes, Seconds{std::exp(value)});
    }
  }
  return points;
}

struct Smoothed {
  std::vector<TimedSize> points;
  LogCurve medians;
};

Smoothed smoothed(std::span<const TimedSize> samples) {
  LogCurve c = medians_of(samples);
  find_outliers(c);
  const std::vector<double> z = non_falling(smooth(c, best_stiffness(c)), c.weight);
  return {densified(c, z), std::move(c)};
}

double relative_error(const std::vector<TimedSize>& curve, const TimedSize& sample) {
  return std::abs(curve_time(curve, sample.first) / sample.second - 1);
}

Diagnostics bad_samples(std::span<const TimedSize> samples, std::size_t sizes) {
  for (const auto& [bytes, time] : samples) {
    if (bytes < kSampleBytes.first || bytes > kSampleBytes.second) {
      return {
          error("a sample has " + std::to_string(bytes.count()) + " bytes, not from 1 B to 9 PB")};
    }
    if (!(time.si() > 0) || !std::isfinite(time.si())) {
      return {error("the time of " + std::to_string(bytes.count()) + " bytes is not above zero")};
    }
    if (time < kSampleTime.first || time > kSampleTime.second) {
      return {error("the time of " + std::to_string(bytes.count()) +
                    " bytes is not from a nanosecond to an hour")};
    }
  }
  if (sizes > kMostSizes || samples.size() > kMostTimes) {
    return {error("a curve is of at most " + with_thousands(kMostSizes) + " different sizes and " +
                      with_thousands(kMostTimes) + " times, got " +
                      with_thousands(static_cast<std::int64_t>(sizes)) + " and " +
                      with_thousands(static_cast<std::int64_t>(samples.size())),
                  "measure in factors of two")};
  }
  if (sizes < kFewestSizes) {
    return {error("a curve needs at least " + std::to_string(kFewestSizes) +
                      " different sizes, got " + std::to_string(sizes),
                  "measure a range of sizes, for example from 1 KiB to 1 GiB in factors of two")};
  }
  return {};
}

}  // namespace

std::vector<double> held_out_errors(std::span<const TimedSize> samples) {
  const LogCurve all = medians_of(samples);
  std::vector<double> errors;
  if (all.size() < 6) return errors;
  for (const std::size_t parity : {std::size_t{0}, std::size_t{1}}) {
    const auto held_out = [&](std::size_t i) {
      return i % 2 == parity && i > 0 && i + 1 < all.size();
    };
    std::vector<TimedSize> kept;
    for (const TimedSize& sample : samples) {
      const auto at = std::lower_bound(all.bytes.begin(), all.bytes.end(), sample.first.count());
      if (!held_out(static_cast<std::size_t>(at - all.bytes.begin()))) kept.push_back(sample);
    }
    const std::vector<TimedSize> curve = smoothed(kept).points;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!held_out(i)) continue;
      errors.push_back(relative_error(curve, {Bytes{all.bytes[i]}, Seconds{std::exp(all.y[i])}}));
    }
  }
  return errors;
}

Result<CurveFit> fit_curve(std::span<const TimedSize> samples) {
  const std::size_t sizes = medians_of(samples).size();
  if (Diagnostics bad = bad_samples(samples, sizes); !bad.empty()) return bad;
  Smoothed fit = smoothed(samples);
  CurveFit result{std::move(fit.points), fit_alpha_beta(samples), {}, {}};
  std::vector<double> residuals;
  std::int64_t left_out = 0;
  for (const TimedSize& sample : samples) {
    const LogCurve& m = fit.medians;
    const auto at = std::lower_bound(m.bytes.begin(), m.bytes.end(), sample.first.count());
    const bool counts = m.weight[static_cast<std::size_t>(at - m.bytes.begin())] > 0;
    left_out += counts ? 0 : 1;
    if (counts) residuals.push_back(relative_error(result.points, sample));
  }
  constexpr double kNoCurve = 0.5;
  if (residuals.size() * 2 < samples.size() || median(residuals) > kNoCurve) {
    return error("the times follow no curve: they contradict each other",
                 "measure again on a quiet machine");
  }
  for (std::size_t i = 0; i < fit.medians.size(); ++i) {
    if (fit.medians.weight[i] > 0) continue;
    result.outliers.emplace_back(Bytes{fit.medians.bytes[i]}, Seconds{std::exp(fit.medians.y[i])});
  }
  result.errors = {.residual_median = median(residuals),
                   .residual_p90 = quantile(residuals, 0.9),
                   .samples = static_cast<std::int64_t>(samples.size()),
                   .outliers = left_out};
  if (const std::vector<double> held_out = held_out_errors(samples); !held_out.empty()) {
    result.errors.held_out_median = median(held_out);
    result.errors.held_out_p90 = quantile(held_out, 0.9);
  }
  return result;
}

}  // namespace meshplan
