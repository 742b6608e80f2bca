#pragma once
// Why not this strategy: term by term against a better one, and key by key.
#include <optional>
#include <string>
#include <vector>

#include "cost/plan_cost.hpp"
#include "cost/step.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// The given strategy with some of its keys taken from the better plan.
struct KeyChange {
  std::vector<std::string> keys;  // those that differ, of keys that only make sense together
  Strategy strategy;              // with them, complete where it is legal
  Verdict verdict;
};

struct Difference {
  PlanCost best;
  Strategy given;                  // complete where it is legal
  Verdict verdict;                 // of the given strategy, with remedies
  std::optional<PlanCost> cost;    // of the given strategy, whether it fits or not; none if illegal
  TimeTerms terms;                 // given - best: here terms may be negative
  Seconds step_time;               // their sum
  std::vector<KeyChange> changes;  // what helps most first; illegal ones last
};

// [F-DIFF-1] Step time of two plans: d = sum of (given term - best term), for the terms of
// TimeTerms, which add up to the step time. Definition.
[[nodiscard]] TimeTerms difference_of(const TimeTerms& given, const TimeTerms& best);

// `given` as the user wrote it: what it leaves open is derived.
[[nodiscard]] Difference difference(const ModelSpec& m, const ClusterSpec& c, const PlanCost& best,
                                    const Strategy& given);

}  // namespace meshplan
