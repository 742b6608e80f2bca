// The order of plans.
#include <algorithm>
#include <functional>

#include "frameworks/preset.hpp"
#include "schedule/traits.hpp"
#include "search/candidate.hpp"

namespace meshplan {
namespace {

// Features that a plan should have a reason for: of two equal plans the plainer one goes first.
int unusual_features(const Strategy& s) {
  int n = 0;
  n += traits_of(s.schedule).widely_available ? 0 : 1;
  n += s.recompute == Recompute::kNone ? 0 : 1;
  n += s.offload.optimizer ? 1 : 0;
  n += s.offload.activations ? 1 : 0;
  n += s.zero >= 2 ? 1 : 0;
  n += s.zero_group > 0 ? 1 : 0;
  n += s.cp > 1 && s.cp_kind != CpKind::kRing ? 1 : 0;
  n += s.order == kDefaultOrder ? 0 : 1;
  n += std::adjacent_find(s.stage_layers.begin(), s.stage_layers.end(), std::not_equal_to<>()) ==
               s.stage_layers.end()
           ? 0
           : 1;
  return n;
}

}  // namespace

bool ranks_before(const Found& a, const Found& b, Objective o) {
  if (o == Objective::kMemory && a.peak != b.peak) return a.peak < b.peak;
  if (a.step_time != b.step_time) return a.step_time < b.step_time;
  const int unusual_a = unusual_features(a.strategy), unusual_b = unusual_features(b.strategy);
  if (unusual_a != unusual_b) return unusual_a < unusual_b;
  const auto degree = [](const Strategy& s) { return s.tp * s.pp * s.cp * s.ep; };
  if (degree(a.strategy) != degree(b.strategy)) return degree(a.strategy) < degree(b.strategy);
  return to_text(a.strategy) < to_text(b.strategy);
}

}  // namespace meshplan
