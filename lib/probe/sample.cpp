#include "probe/sample.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.hpp"

namespace meshplan {
namespace {

// Linear interpolation between the sorted values; `share` from 0 to 1.
Seconds quantile(const std::vector<Seconds>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

std::optional<double> lag_of(std::size_t slowest, const std::vector<std::vector<Seconds>>& times) {
  std::vector<Seconds> others;
  for (std::size_t r = 0; r < times.size(); ++r) {
    if (r != slowest) others.push_back(median_of(times[r]));
  }
  const Seconds usual = median_of(std::move(others));
  if (usual <= Seconds{0}) return std::nullopt;
  return std::max(0.0, median_of(times[slowest]) / usual - 1);
}

}  // namespace

std::vector<bool> counting_repetitions(const std::vector<std::vector<double>>& times,
                                       const std::vector<std::vector<double>>& disturbed) {
  constexpr auto kFewest = static_cast<std::size_t>(kFewestQuiet);
  PLAN_CHECK(!times.empty());
  std::vector<bool> counts(times.front().size(), true);
  std::vector<double> slowest(counts.size(), 0);
  for (std::size_t r = 0; r < times.size(); ++r) {
    for (std::size_t i = 0; i < std::min(counts.size(), times[r].size()); ++i) {
      slowest[i] = std::max(slowest[i], times[r][i]);
      if (r < disturbed.size() && i < disturbed[r].size() && disturbed[r][i] > 0) counts[i] = false;
    }
  }
  const auto quiet = static_cast<std::size_t>(std::count(counts.begin(), counts.end(), true));
  if (quiet >= std::min(kFewest, counts.size())) return counts;
  std::vector<double> sorted = slowest;
  std::sort(sorted.begin(), sorted.end());
  const double limit = sorted[std::min(std::max(kFewest, sorted.size() / 4), sorted.size()) - 1];
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = slowest[i] <= limit;
  return counts;
}

Seconds median_of(std::vector<Seconds> values) {
  if (values.empty()) return Seconds{0};
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

void summarise(const std::vector<std::vector<Seconds>>& times_of_ranks, Sample& sample) {
  PLAN_CHECK(!times_of_ranks.empty() && !times_of_ranks.front().empty());
  const std::size_t ranks = times_of_ranks.size(), n = times_of_ranks.front().size();
  std::vector<std::int64_t> slowest(ranks, 0);
  sample.times.clear();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t worst = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      PLAN_CHECK(times_of_ranks[r].size() == n);
      if (times_of_ranks[r][i] > times_of_ranks[worst][i]) worst = r;
    }
    ++slowest[worst];
    sample.times.push_back(times_of_ranks[worst][i]);
  }
  sample.slowest_rank = std::max_element(slowest.begin(), slowest.end()) - slowest.begin();
  sample.lag = lag_of(static_cast<std::size_t>(sample.slowest_rank), times_of_ranks);

  std::vector<Seconds> sorted = sample.times;
  std::sort(sorted.begin(), sorted.end());
  sample.median = quantile(sorted, 0.5);
  const Seconds range = quantile(sorted, 0.75) - quantile(sorted, 0.25);
  sample.spread = sample.median > Seconds{0} ? range / sample.median : 0;
  // A clock's grain makes the range of tiny times zero: then a tenth of the median is the measure.
  const Seconds far = 3 * std::max(range, sample.median * 0.1);
  sample.outliers = std::count_if(sorted.begin(), sorted.end(), [&](Seconds t) {
    return std::abs((t - sample.median).si()) >= far.si() && far > Seconds{0};
  });
}

std::vector<Straggler> stragglers(const std::vector<Sample>& samples) {
  constexpr double kTolerated = 0.05;
  std::map<std::int64_t, std::vector<double>> lags;
  std::size_t measured = 0;
  for (const Sample& s : samples) {
    if (group_of(s.operation) != nullptr || !s.lag) continue;
    ++measured;
    if (*s.lag > std::max(kTolerated, s.spread)) lags[s.slowest_rank].push_back(*s.lag);
  }
  std::vector<Straggler> found;
  for (auto& [rank, all] : lags) {
    if (2 * all.size() < measured) continue;
    std::sort(all.begin(), all.end());
    found.push_back({rank, all.size(), measured, all[all.size() / 2]});
  }
  return found;
}

std::int64_t repetitions_of(const Sample& s) {
  return s.taken > 0 ? s.taken : static_cast<std::int64_t>(s.times.size());
}

bool is_noisy(const Sample& s) { return s.spread > 0.5; }

std::int64_t nodes_of(const RankGroup& g, const Machine& m) {
  const auto ranks = static_cast<std::int64_t>(m.ranks.size());
  std::map<std::int64_t, std::set<std::int64_t>> nodes_of_group;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t group = place_of(g, rank, ranks).group;
    if (group >= 0) nodes_of_group[group].insert(m.ranks[static_cast<std::size_t>(rank)].node);
  }
  std::size_t most = 0;
  for (const auto& [group, nodes] : nodes_of_group) most = std::max(most, nodes.size());
  return static_cast<std::int64_t>(most);
}

}  // namespace meshplan
