#include "study/expert_spread.hpp"

#include "cost/step.hpp"
#include "spec/expert_load.hpp"

namespace meshplan {

std::optional<ExpertSpread> expert_spread(const ModelSpec& m, const ClusterSpec& c,
                                          const PlanCost& plan) {
  if (!m.moe || m.moe->rank_loads.empty()) return std::nullopt;
  ModelSpec usual = m, unlucky = m;
  for (RankLoad& load : usual.moe->rank_loads) load.p99 = load.median;
  for (RankLoad& load : unlucky.moe->rank_loads) load.median = load.p99;
  const PlanCost best = cost_of(usual, c, plan.strategy);
  const PlanCost worst = cost_of(unlucky, c, plan.strategy);
  ExpertSpread spread;
  spread.load = expert_load(*m.moe, plan.strategy);
  spread.step_median = best.step_time;
  spread.step_p99 = worst.step_time;
  spread.peak_median = best.memory().peak;
  spread.peak_p99 = worst.memory().peak;
  return spread;
}

}  // namespace meshplan
