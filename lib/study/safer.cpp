#include "study/safer.hpp"

#include <algorithm>

#include "cost/uncertainty.hpp"
#include "study/pareto.hpp"

namespace meshplan {
namespace {

// Budgets tried before it is said that nothing is as safe: each is at least 1 % below the last.
constexpr int kRounds = 8;

}  // namespace

Bytes safe_budget(const MemoryBreakdown& m, double risk) {
  MemoryBreakdown scaled = m;
  double low = m.peak.si(), high = m.peak.si() * 16;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    scaled.capacity = ceil_bytes(middle);
    (out_of_memory_probability(scaled) > risk ? low : high) = middle;
  }
  // `high` bytes make this peak safe enough, so the device's bytes a peak smaller by that ratio.
  return Bytes{static_cast<std::int64_t>(m.capacity.si() * m.peak.si() / high)};
}

Result<std::optional<SaferPlan>> safer_plan(const ModelSpec& m, const ClusterSpec& c,
                                            const SearchRequest& request,
                                            const SearchResult& result, double risk) {
  if (result.plans.empty() || request.ignore_activations) return std::optional<SaferPlan>{};
  const PlanCost& best = result.plans.front();
  if (out_of_memory_probability(best.memory()) <= risk) return std::optional<SaferPlan>{};
  SearchRequest one = request;
  one.top = 1;
  one.plans_only = true;
  SaferPlan safer;
  safer.risk = risk;
  ClusterSpec limited = c;
  Bytes budget = safe_budget(best.memory(), risk);
  for (int round = 0; round < kRounds && budget > c.device.context; ++round) {
    limited.device.memory = budget;
    const Result<SearchResult> found = search(m, limited, one);
    if (!found || found->plans.empty()) break;  // too little for any plan, or for a device
    safer.exact = safer.exact && found->proof.exact;
    PlanCost plan = on_whole_device(m, c, found->plans.front().strategy);
    safer.out_of_memory = out_of_memory_probability(plan.memory());
    if (safer.out_of_memory <= risk) {
      safer.slowdown = plan.step_time / best.step_time;
      safer.plan = std::move(plan);
      break;
    }
    budget = std::min(safe_budget(plan.memory(), risk),
                      Bytes{static_cast<std::int64_t>(budget.si() * 0.99)});
  }
  return std::optional<SaferPlan>{std::move(safer)};
}

}  // namespace meshplan
