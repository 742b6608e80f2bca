#pragma once
// What the busiest expert-parallel rank costs a plan, usually and in bad layers.
#include <optional>

#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

struct ExpertSpread {
  RankLoad load;  // of the busiest of the plan's ep ranks, over the mean
  // The plan's step, and one of which every layer is as unlucky as one in a hundred.
  Seconds step_median, step_p99;
  // Of the fullest device; the plan itself counts the 99th percentile.
  Bytes peak_median, peak_p99;
};

// None where the loads of the experts are not known one by one.
[[nodiscard]] std::optional<ExpertSpread> expert_spread(const ModelSpec& m, const ClusterSpec& c,
                                                        const PlanCost& plan);

}  // namespace meshplan
