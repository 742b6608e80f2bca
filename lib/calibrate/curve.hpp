#pragma once
// Measured times of one operation against message size -> a curve that prediction reads
// (curve_time, comm/measured.hpp), its two-number summary, and how far to trust it.
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

struct CurveFit {
  std::vector<TimedSize> points;  // every measured size and some between; times never fall
  AlphaBeta summary;
  FitErrors errors;
  std::vector<TimedSize> outliers;  // sizes whose median was left out, in the order of size
};

// Samples in any order, several of one size allowed. Fails on times or sizes out of the ranges
// below, on fewer than kFewestSizes different sizes, on more than kMostSizes or kMostTimes, and on
// samples that follow no curve at all.
[[nodiscard]] Result<CurveFit> fit_curve(std::span<const TimedSize> samples);
inline constexpr std::size_t kFewestSizes = 4;
// Ten sizes to the octave from 8 B to 1 TiB are 370; every time is kept in the profile.
inline constexpr std::int64_t kMostSizes = 512, kMostTimes = 20'000;
// What a cluster file holds (spec/cluster.cpp, base/quantity.cpp).
inline constexpr std::pair kSampleBytes{Bytes{1}, Bytes{9'000'000'000'000'000}};
inline constexpr std::pair kSampleTime{Seconds{1e-9}, Seconds{3600}};

// Relative errors at sizes that a fit was kept from: every second size by a fit of the others, then
// the other way round. The smallest and the largest size are never held out: nothing would stand
// beyond them. Empty with fewer than six sizes.
[[nodiscard]] std::vector<double> held_out_errors(std::span<const TimedSize> samples);

// [F-CAL-4] latency + bytes / bandwidth by relative least squares, robust to outliers; both >= 0.
// Bandwidth 0: the time does not grow with the size. At least two different sizes.
[[nodiscard]] AlphaBeta fit_alpha_beta(std::span<const TimedSize> samples);

}  // namespace meshplan
