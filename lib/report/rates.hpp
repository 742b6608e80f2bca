#pragma once
// Ratios of a plan's terms that people compare plans by.
#include <optional>

#include "base/units.hpp"
#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

struct Rates {
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  FlopsPerSecond model_flops_per_gpu;
  std::optional<double> usd_per_step;  // only where the cluster states a price

  bool operator==(const Rates&) const = default;
};

// [F-RATE-1] tokens per second: T / t; per device: T / (t n).
// T tokens of one step, t step time, n devices. Definition.
//
// [F-RATE-2] model FLOP/s per device: F / (t n); F model FLOPs of one step.
// Narayanan et al. 2021 (2104.04473), sec. 5 ("achieved teraFLOP/s per GPU"), without
// recomputation.
//
// [F-USD-1] price of one step in USD: n t c / 3600; c USD per device and hour. Definition.
[[nodiscard]] Rates rates(const PlanCost& p, const ClusterSpec& c);

// Share of the step spent in communication that nothing hides, all dimensions together.
[[nodiscard]] Seconds exposed_communication(const TimeTerms& t);

}  // namespace meshplan
