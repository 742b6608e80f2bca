#include "spec/expert_load.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/check.hpp"

namespace meshplan {
namespace {

// Enough for the 99th percentile of the usual few hundred experts; fewer for many experts.
std::size_t num_placements(std::size_t experts) {
  constexpr std::size_t kWork = 1 << 20, kMost = 4000, kLeast = 256;
  return std::clamp(kWork / experts, kLeast, kMost);
}

// Uniform below `n` from a generator whose numbers the standard fixes; the bias is below 2^-40.
std::size_t draw_below(std::mt19937_64& engine, std::size_t n) {
  const std::uint64_t high = engine() >> 32;
  return static_cast<std::size_t>((high * n) >> 32);
}

void shuffle(std::vector<double>& values, std::mt19937_64& engine) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[draw_below(engine, i)]);
  }
}

// The smallest value that at least this share of the sorted values does not exceed.
double quantile(const std::vector<double>& sorted, double share) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()) - 1e-9));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

// Largest sum of `each` neighbours over the mean, from sums of the first 0, 1, ... values.
double busiest(const std::vector<double>& sums, std::size_t each) {
  double most = 0;
  for (std::size_t i = each; i < sums.size(); i += each) {
    most = std::max(most, sums[i] - sums[i - each]);
  }
  return most / static_cast<double>(each);
}

}  // namespace

std::vector<double> zipf_loads(std::int64_t experts, std::int64_t top_k, double s) {
  const auto n = static_cast<std::size_t>(experts);
  std::vector<double> loads(n);
  for (std::size_t i = 0; i < n; ++i) loads[i] = std::pow(static_cast<double>(i + 1), -s);
  const double cap = static_cast<double>(experts) / static_cast<double>(top_k);
  // The first `capped` are at the cap; scaling the others up may push the next one over it.
  std::size_t capped = 0;
  for (bool again = true; again;) {
    const double rest =
        std::accumulate(loads.begin() + static_cast<std::ptrdiff_t>(capped), loads.end(), 0.0);
    const double left = static_cast<double>(n) - cap * static_cast<double>(capped);
    const double scale = rest > 0 ? left / rest : 0;
    for (std::size_t i = capped; i < n; ++i) loads[i] *= scale;
    again = false;
    while (capped < n && loads[capped] > cap) loads[capped++] = cap, again = true;
  }
  return loads;
}

std::vector<double> relative_loads(std::span<const double> counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  PLAN_CHECK(sum > 0);
  const double mean = sum / static_cast<double>(counts.size());
  std::vector<double> loads(counts.begin(), counts.end());
  for (double& load : loads) load /= mean;
  std::sort(loads.begin(), loads.end(), std::greater<>());
  return loads;
}

std::vector<RankLoad> rank_loads(std::span<const double> loads) {
  const std::size_t n = loads.size();
  PLAN_CHECK(n > 0);
  std::vector<std::size_t> each;  // experts per rank
  for (std::size_t e = 1; e <= n; ++e) {
    if (n % e == 0) each.push_back(e);
  }
  const std::size_t placements = num_placements(n);
  std::vector<std::vector<double>> samples(each.size(), std::vector<double>(placements));
  std::vector<double> placed(loads.begin(), loads.end());
  std::vector<double> sums(n + 1);
  constexpr std::uint64_t kSeed = 20240229;
  std::mt19937_64 engine(kSeed);
  for (std::size_t i = 0; i < placements; ++i) {
    shuffle(placed, engine);
    std::partial_sum(placed.begin(), placed.end(), sums.begin() + 1);
    for (std::size_t k = 0; k < each.size(); ++k) samples[k][i] = busiest(sums, each[k]);
  }
  std::vector<RankLoad> result;
  for (std::size_t k = each.size(); k-- > 0;) {
    if (each[k] == n) {
      result.push_back({});  // one rank has the mean, exactly
      continue;
    }
    std::sort(samples[k].begin(), samples[k].end());
    constexpr double kMedian = 0.5, kHigh = 0.99;
    result.push_back({static_cast<std::int64_t>(n / each[k]),
                      std::max(1.0, quantile(samples[k], kMedian)),
                      std::max(1.0, quantile(samples[k], kHigh))});
  }
  return result;
}

void derive_loads(MoeSpec& moe) {
  std::vector<double> loads;
  if (!moe.load_histogram.empty()) {
    loads = relative_loads(moe.load_histogram);
  } else if (moe.load_zipf) {
    loads = zipf_loads(moe.num_experts, moe.top_k, *moe.load_zipf);
  } else {
    return;
  }
  moe.imbalance = std::max(1.0, loads.front());
  moe.rank_loads = rank_loads(loads);
}

RankLoad rank_load(const MoeSpec& moe, std::int64_t ranks) {
  for (const RankLoad& load : moe.rank_loads) {
    if (load.ranks == ranks) return load;
  }
  const double most =
      std::min(moe.imbalance, static_cast<double>(std::max<std::int64_t>(1, ranks)));
  return {ranks, most, most};
}

RankLoad expert_load(const MoeSpec& moe, const Strategy& s) {
  RankLoad load = rank_load(moe, s.ep);
  const double most = s.runtime.expert_capacity_factor;
  if (most <= 0) return load;
  for (double* part : {&load.median, &load.p99}) {
    *part = s.runtime.pad_to_capacity ? most : std::min(*part, most);
  }
  return load;
}

}  // namespace meshplan
