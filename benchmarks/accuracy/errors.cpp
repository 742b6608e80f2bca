#include "errors.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.hpp"
#include "cost/uncertainty.hpp"
#include "minimise.hpp"

namespace meshplan::accuracy {
namespace {

constexpr double kInside = 0.8;  // of the runs; what step_time_interval promises
constexpr double kTail = (1 - kInside) / 2;
constexpr double kNarrowest = 0.02;  // half of a band: repeats of one run differ by that much
// A source with fewer runs counts in part, by runs.
constexpr double kFullSource = 5;
// What all regimes together say counts as this many sources of each.
constexpr double kPriorSources = 2;

using Weighted = std::vector<std::pair<double, double>>;

bool is_in(const std::optional<std::size_t>& without, std::size_t source) {
  return !without || *without != source;
}

// Residuals of the sources that take part, with the weight of each: a source's add up to one, less
// if it has few.
template <class T, class Wanted>
std::vector<std::pair<const T*, double>> weighted(const std::vector<T>& all, const Wanted& wanted) {
  std::map<std::size_t, double> counts;
  for (const T& r : all) {
    if (wanted(r)) counts[r.source] += 1;
  }
  std::vector<std::pair<const T*, double>> chosen;
  for (const T& r : all) {
    if (!wanted(r)) continue;
    const double n = counts[r.source];
    chosen.emplace_back(&r, std::min(1.0, n / kFullSource) / n);
  }
  return chosen;
}

template <class T>
Weighted log_ratios(const std::vector<std::pair<const T*, double>>& chosen) {
  Weighted values;
  for (const auto& [r, weight] : chosen) values.emplace_back(r->log_ratio, weight);
  return values;
}

double total_weight(const Weighted& values) {
  double sum = 0;
  for (const auto& [value, weight] : values) sum += weight;
  return sum;
}

std::int64_t count_sources(const std::vector<std::pair<const TimeResidual*, double>>& chosen) {
  std::map<std::size_t, int> seen;
  for (const auto& [r, weight] : chosen) seen[r->source] = 1;
  return static_cast<std::int64_t>(seen.size());
}

ErrorBand band_of(const Weighted& values) {
  ErrorBand band;
  band.centre = weighted_quantile(values, 0.5);
  band.below = std::max(kNarrowest, band.centre - weighted_quantile(values, kTail));
  band.above = std::max(kNarrowest, weighted_quantile(values, 1 - kTail) - band.centre);
  return band;
}

// Between the regime's own and everybody's; where few sources make the regime's own wider, its own.
ErrorBand shrunk(const ErrorBand& own, double sources, const ErrorBand& everybody) {
  const double share = sources / (sources + kPriorSources);
  const auto between = [&](double a, double b) {
    return std::max(a, std::exp(share * std::log(a) + (1 - share) * std::log(b)));
  };
  ErrorBand band = own;
  band.centre = share * own.centre + (1 - share) * everybody.centre;
  band.below = between(own.below, everybody.below);
  band.above = between(own.above, everybody.above);
  return band;
}

// Distance from the band's centre, in its half width on that side.
double score(const ErrorBand& band, double log_ratio) {
  const double away = log_ratio - band.centre;
  return away > 0 ? away / band.above : -away / band.below;
}

void set_regimes(MeasuredErrors& errors, const Residuals& all, std::optional<std::size_t> without) {
  const auto taking_part = [&](const TimeResidual& r) { return is_in(without, r.source); };
  const auto everyone = weighted(all.time, taking_part);
  const ErrorBand pooled = band_of(log_ratios(everyone));
  for (std::size_t g = 0; g < kNumRegimes; ++g) {
    const auto members = weighted(all.time, [&](const TimeResidual& r) {
      return taking_part(r) && r.regime == static_cast<Regime>(g);
    });
    ErrorBand band = pooled;
    if (!members.empty()) {
      const Weighted values = log_ratios(members);
      band = shrunk(band_of(values), total_weight(values), pooled);
    }
    band.sources = count_sources(members);
    band.runs = static_cast<std::int64_t>(members.size());
    errors.step_time[g] = band;
  }
}

// Where no other source has a run's device (or framework), scores are this much larger.
template <class Same>
double unseen_factor(const MeasuredErrors& errors, const Residuals& all,
                     std::optional<std::size_t> without, const Same& same) {
  const auto seen_elsewhere = [&](const TimeResidual& r) {
    return std::any_of(all.time.begin(), all.time.end(), [&](const TimeResidual& o) {
      return o.source != r.source && is_in(without, o.source) && same(o, r);
    });
  };
  std::map<const TimeResidual*, bool> seen;
  for (const TimeResidual& r : all.time) seen[&r] = seen_elsewhere(r);
  const auto scores = [&](bool wanted) {
    Weighted values;
    for (const auto& [r, weight] : weighted(all.time, [&](const TimeResidual& o) {
           return is_in(without, o.source) && seen.at(&o) == wanted;
         }))
      values.emplace_back(
          score(errors.step_time[static_cast<std::size_t>(r->regime)], r->log_ratio), weight);
    return values;
  };
  const Weighted known = scores(true), unknown = scores(false);
  if (known.empty() || unknown.empty()) return 1;
  const double ratio = weighted_quantile(unknown, kInside) / weighted_quantile(known, kInside);
  const double sources = total_weight(unknown);
  return std::max(1.0, std::exp(std::log(ratio) * sources / (sources + kPriorSources)));
}

void set_seen(MeasuredErrors& errors, const Residuals& all, std::optional<std::size_t> without) {
  for (const TimeResidual& r : all.time) {
    if (!is_in(without, r.source)) continue;
    const auto add = [](auto& list, const auto& item) {
      if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
    };
    add(errors.devices, r.device);
    add(errors.frameworks, r.framework);
    errors.most_gpus = std::max(errors.most_gpus, r.gpus);
  }
  std::sort(errors.devices.begin(), errors.devices.end());
  std::sort(errors.frameworks.begin(), errors.frameworks.end());
}

// Bands before they are widened to what sources left out need.
MeasuredErrors raw_time_errors(const Residuals& all, std::optional<std::size_t> without) {
  MeasuredErrors errors;
  set_seen(errors, all, without);
  set_regimes(errors, all, without);
  errors.unseen_device = unseen_factor(
      errors, all, without,
      [](const TimeResidual& a, const TimeResidual& b) { return a.device == b.device; });
  errors.unseen_framework = unseen_factor(
      errors, all, without,
      [](const TimeResidual& a, const TimeResidual& b) { return a.framework == b.framework; });
  return errors;
}

// The same residuals without one source.
Residuals time_without(const Residuals& all, std::optional<std::size_t> without) {
  Residuals rest{.sources = all.sources, .time = {}, .memory = {}, .pairs = {}};
  for (const TimeResidual& r : all.time) {
    if (is_in(without, r.source)) rest.time.push_back(r);
  }
  return rest;
}

// Bands are widened until those made without a source hold that source's runs, in the mean over
// sources (cross-conformal prediction, Vovk 2015, with sources for folds).
double widening(const Residuals& taking_part) {
  Weighted scores;
  for (std::size_t s = 0; s < taking_part.sources.size(); ++s) {
    const auto own =
        weighted(taking_part.time, [&](const TimeResidual& r) { return r.source == s; });
    const bool others = own.size() < taking_part.time.size();
    if (own.empty() || !others) continue;
    const MeasuredErrors errors = raw_time_errors(taking_part, s);
    for (const auto& [r, weight] : own)
      scores.emplace_back(score(band_for(*r, errors), r->log_ratio),
                          1 / static_cast<double>(own.size()));
  }
  if (scores.empty()) return 1;
  return weighted_quantile(std::move(scores), kInside);
}

MemoryErrors memory_errors(const Residuals& all, bool whole_device,
                           std::optional<std::size_t> without) {
  std::map<std::size_t, std::vector<Censored>> by_source;
  for (const MemoryResidual& r : all.memory) {
    if (is_in(without, r.source) && r.whole_device == whole_device)
      by_source[r.source].push_back(r.log_ratio);
  }
  MemoryErrors errors;
  if (by_source.empty()) return errors;
  Weighted values;
  for (const auto& [source, seen] : by_source) {
    const auto n = static_cast<double>(seen.size());
    for (const auto& [value, share] : most_likely(seen))
      values.emplace_back(value, share * std::min(1.0, n / kFullSource));
    errors.runs += static_cast<std::int64_t>(seen.size());
  }
  for (std::size_t i = 0; i < kMemoryQuantiles; ++i)
    errors.quantiles[i] = weighted_quantile(
        values, (static_cast<double>(i) + 0.5) / static_cast<double>(kMemoryQuantiles));
  // Two runs are no source of their own.
  errors.sources = std::llround(std::max(1.0, total_weight(values)));
  return errors;
}

// [F-UNC-4]'s two numbers by largest likelihood.
void set_order(MeasuredErrors& errors, const Residuals& all, std::optional<std::size_t> without) {
  const auto pairs =
      weighted(all.pairs, [&](const OrderedPair& p) { return is_in(without, p.source); });
  std::vector<Coordinate> at{{0.05, 0.002, 0.5}, {0.2, 0, 2}};
  const auto loss = [&](double lowest, double spread) {
    double sum = 0;
    for (const auto& [p, weight] : pairs) {
      const double z = p->log_ratio / (lowest + spread * p->differing);
      sum += weight * (std::log1p(std::exp(-z)) + (p->agrees ? 0 : z));
    }
    return sum;
  };
  if (!pairs.empty()) {
    Objective objective;
    objective.value = loss(at[0].value, at[1].value);
    objective.with = [&](std::size_t k, double x) {
      return k == 0 ? loss(x, at[1].value) : loss(at[0].value, x);
    };
    objective.accept = [] {};
    minimise(at, objective);
  }
  errors.order_floor = at[0].value;
  errors.order_spread = at[1].value;
  std::map<std::size_t, int> sources;
  for (const auto& [p, weight] : pairs) sources[p->source] = 1;
  errors.order_sources = static_cast<std::int64_t>(sources.size());
  errors.order_pairs = static_cast<std::int64_t>(pairs.size());
}

}  // namespace

ErrorBand band_for(const TimeResidual& r, const MeasuredErrors& errors) {
  return error_band(r.regime, extrapolation_of(r.device, r.framework, r.gpus, errors), errors);
}

double weighted_quantile(Weighted values, double p) {
  PLAN_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const double wanted = p * total_weight(values) * (1 - 1e-9);
  double sum = 0;
  for (const auto& [value, weight] : values) {
    sum += weight;
    if (sum >= wanted) return value;
  }
  return values.back().first;
}

MeasuredErrors measured_errors(const Residuals& residuals, std::optional<std::size_t> without) {
  const Residuals rest = time_without(residuals, without);
  MeasuredErrors errors = raw_time_errors(rest, std::nullopt);
  const double wider = widening(rest);
  for (ErrorBand& band : errors.step_time) {
    band.below *= wider;
    band.above *= wider;
  }
  errors.device_memory = memory_errors(residuals, true, without);
  errors.allocator_memory = memory_errors(residuals, false, without);
  set_order(errors, residuals, without);
  return errors;
}

}  // namespace meshplan::accuracy
