// Any text as a plans file. Every strategy of an accepted file is legal and can be costed.
#include <cmath>

#include "cost/step.hpp"
#include "fuzz/fuzz.hpp"
#include "io/plans_file.hpp"

MESHPLAN_FUZZ_TARGET(plans) {
  using namespace meshplan;
  const Result<PlansFile> file = parse_plans(fuzz::as_text(data, size), "plans.json");
  fuzz::require_value_or_errors(file);
  if (!file.ok()) return 0;
  constexpr std::size_t kMost = 4;  // enough of them
  for (std::size_t i = 0; i < file->plans.size() && i < kMost; ++i) {
    const Strategy& s = file->plans[i].strategy;
    fuzz::require(!has_errors(validate(s, file->model, file->cluster)));
    // A task per layer and microbatch would take the fuzzer's time.
    if (file->model.num_layers > 200 || s.pp * s.vp > 200) continue;
    const PlanCost cost = cost_of(file->model, file->cluster, s);
    fuzz::require(std::isfinite(cost.step_time.si()) && cost.step_time.si() >= 0);
  }
  return 0;
}
