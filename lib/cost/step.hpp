#pragma once
// One strategy's verdict: is it legal, does it fit, how long is a step.
#include <optional>

#include "cost/block.hpp"
#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct EvaluateOptions {
  bool ignore_memory = false;  // cost a plan that does not fit all the same
  bool with_remedies = true;   // fill Infeasible::remedies (evaluates variants)
};

// dp == 0 stands for "what the cluster leaves". Everything a caller may do with one strategy:
// validates, fills in derived fields, and evaluates.
[[nodiscard]] Verdict evaluate(const ModelSpec& m, const ClusterSpec& c, Strategy s,
                               const EvaluateOptions& options = {});

// Costs of a legal, complete strategy whether it fits or not.
[[nodiscard]] PlanCost cost_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s);

// The same from block costs that the caller keeps (they depend on fewer keys than the strategy).
[[nodiscard]] PlanCost cost_of(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                               const BlockCosts& blocks);

// Fills dp, etp, zero_group, stage_layers and recompute_layers where they are left to be derived.
[[nodiscard]] Strategy complete(Strategy s, const ModelSpec& m, const ClusterSpec& c);

}  // namespace meshplan
