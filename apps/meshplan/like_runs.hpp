#pragma once
// What the runs that a profile was learnt from say of a plan.
#include <vector>

#include "cost/plan_cost.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// [F-CAL-12] Nothing where the cluster's numbers were not learnt from runs. Terms, and so the order
// that a search finds, stay as the model has them.
void add_like_runs(const ModelSpec& m, const ClusterSpec& c, PlanCost& plan);
void add_like_runs(const ModelSpec& m, const ClusterSpec& c, std::vector<PlanCost>& plans);

}  // namespace meshplan
