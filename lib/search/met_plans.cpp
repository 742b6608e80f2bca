#include "search/met_plans.hpp"

#include <algorithm>

namespace meshplan {

void MetPlans::add(const Strategy& s, Seconds step_time) {
  const std::array<std::int64_t, kKeys> values{s.tp,
                                               s.pp,
                                               s.cp,
                                               s.ep,
                                               s.zero,
                                               static_cast<std::int64_t>(s.recompute),
                                               static_cast<std::int64_t>(s.schedule),
                                               s.offload.optimizer ? 1 : 0,
                                               s.offload.activations ? 1 : 0,
                                               s.sequence_parallel ? 1 : 0};
  for (std::size_t k = 0; k < kKeys; ++k) {
    const auto known = std::find_if(best_[k].begin(), best_[k].end(), [&](const auto& of_value) {
      return of_value.first == values[k];
    });
    if (known == best_[k].end()) {
      best_[k].push_back({values[k], {s, step_time}});
    } else if (step_time < known->second.step_time) {
      known->second = {s, step_time};
    }
  }
}

std::vector<MetPlan> MetPlans::all() const {
  std::vector<MetPlan> plans;
  for (const auto& of_key : best_) {
    for (const auto& [value, plan] : of_key) plans.push_back(plan);
  }
  return plans;
}

}  // namespace meshplan
