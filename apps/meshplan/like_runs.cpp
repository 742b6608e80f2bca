#include "like_runs.hpp"

#include "calibrate/seen_runs.hpp"
#include "cost/step.hpp"

namespace meshplan {

void add_like_runs(const ModelSpec& m, const ClusterSpec& c, PlanCost& plan) {
  if (c.seen_runs.empty()) return;
  const auto step_time = [&](const ClusterSpec& moved) {
    return cost_of(m, moved, plan.strategy).step_time.si();
  };
  const SeenEffect effect =
      effect_of(c.seen_runs, time_derivatives(c, plan.strategy.precision, step_time));
  plan.like_runs = {effect.factor, effect.widening};
}

void add_like_runs(const ModelSpec& m, const ClusterSpec& c, std::vector<PlanCost>& plans) {
  for (PlanCost& plan : plans) add_like_runs(m, c, plan);
}

}  // namespace meshplan
