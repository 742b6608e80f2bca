// How well the errors of some sources foretell those of the next.
#include <algorithm>
#include <cmath>
#include <map>

#include "cost/order.hpp"
#include "cost/uncertainty.hpp"
#include "errors.hpp"
#include "score.hpp"
#include "summary.hpp"

namespace meshplan::accuracy {

std::vector<Coverage> coverage_of(const Residuals& residuals) {
  std::vector<Coverage> all;
  for (std::size_t s = 0; s < residuals.sources.size(); ++s) {
    const MeasuredErrors errors = measured_errors(residuals, s);
    Coverage coverage{.source = residuals.sources[s]};
    std::vector<double> widths;
    double inside = 0;
    for (const TimeResidual& r : residuals.time) {
      if (r.source != s) continue;
      const StepTimeInterval around = interval_around(Seconds{1}, band_for(r, errors));
      const double measured = std::exp(r.log_ratio);
      inside += measured >= around.low.si() && measured <= around.high.si();
      widths.push_back((around.high - around.low).si());
    }
    if (widths.empty()) continue;
    coverage.runs = static_cast<std::int64_t>(widths.size());
    coverage.inside = inside / static_cast<double>(widths.size());
    coverage.median_width = median(widths);
    all.push_back(std::move(coverage));
  }
  return all;
}

namespace {

using Cut = std::vector<double>;

std::vector<Reliability> empty_bins(const Cut& cuts) {
  std::vector<Reliability> bins;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    bins.push_back({.low = cuts[i], .high = cuts[i + 1]});
  return bins;
}

std::size_t bin_of(const Cut& cuts, double p) {
  std::size_t i = 0;
  while (i + 2 < cuts.size() && p >= cuts[i + 1]) ++i;
  return i;
}

}  // namespace

std::vector<Reliability> order_reliability(const Residuals& residuals) {
  const Cut cuts{0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
  std::vector<Reliability> bins = empty_bins(cuts);
  std::vector<double> sources(bins.size(), 0);
  for (std::size_t s = 0; s < residuals.sources.size(); ++s) {
    const MeasuredErrors errors = measured_errors(residuals, s);
    std::vector<Reliability> own = empty_bins(cuts);
    for (const OrderedPair& pair : residuals.pairs) {
      if (pair.source != s) continue;
      const double scale = errors.order_floor + errors.order_spread * pair.differing;
      const double p = 1 / (1 + std::exp(-pair.log_ratio / scale));
      Reliability& bin = own[bin_of(cuts, p)];
      ++bin.count;
      bin.said += p;
      bin.came += pair.agrees;
    }
    for (std::size_t i = 0; i < bins.size(); ++i) {
      if (own[i].count == 0) continue;
      const auto n = static_cast<double>(own[i].count);
      sources[i] += 1;
      bins[i].count += own[i].count;
      bins[i].said += own[i].said / n;
      bins[i].came += own[i].came / n;
    }
  }
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (sources[i] == 0) continue;
    bins[i].said /= sources[i];
    bins[i].came /= sources[i];
  }
  return bins;
}

std::vector<Reliability> memory_reliability(const std::vector<Prediction>& predictions,
                                            const Residuals& residuals) {
  const Cut cuts{0, 0.05, 0.2, 0.5, 0.8, 0.95, 1};
  std::vector<Reliability> bins = empty_bins(cuts);
  std::map<std::size_t, MeasuredErrors> without;
  for (const auto& [p, source] : with_both_outcomes(predictions, residuals.sources)) {
    auto at = without.find(source);
    if (at == without.end()) at = without.emplace(source, measured_errors(residuals, source)).first;
    double probability = 0;
    for (const StageCost& stage : p->cost.stages)
      probability = std::max(probability, out_of_memory_probability(stage.memory, at->second));
    Reliability& bin = bins[bin_of(cuts, probability)];
    ++bin.count;
    bin.said += probability;
    bin.came += p->source->use != Use::kScore;
  }
  for (Reliability& bin : bins) {
    if (bin.count == 0) continue;
    bin.said /= static_cast<double>(bin.count);
    bin.came /= static_cast<double>(bin.count);
  }
  return bins;
}

}  // namespace meshplan::accuracy
