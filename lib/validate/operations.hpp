#pragma once
// A plan as what a machine can measure: every collective and kernel that its step consists of.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/operations.hpp"
#include "cost/plan_cost.hpp"
#include "probe/operation.hpp"

namespace meshplan {

// One operation of a step, as predicted.
struct PlannedOperation {
  std::string part;  // "tp", "dp", ... for communication; "compute" or "optimizer" for kernels
  std::string name;  // "all-gather", "qkv forward"
  // What to measure, as the plan runs it, in groups of the plan's own ranks.
  // Nothing where no micro-benchmark repeats it; `why_not` then says so.
  std::optional<Operation> operation;
  std::string why_not;
  double count_per_step = 0;
  Seconds predicted;                // one call
  Seconds exposed;                  // what all its calls add to the predicted step time
  std::optional<GroupShape> group;  // of a collective, on the planned cluster
  std::vector<std::int64_t> ranks;  // of the group of rank 0 (of the first pair of stages)
  // The plan's ranks lie as in no group that can be described: `operation` has the nearest one.
  bool approximate = false;
  std::int64_t groups_at_once = 0;  // sibling groups, this one included
  std::optional<KernelKey> kernel;  // what its measured time stands for
  std::optional<CollectiveKey> collective;
};

// Collectives first, then kernels, each from the plan's own lists (PlanCost::communication and
// step_kernels): what is predicted is what is measured. `plan` is cost_of() of its strategy.
[[nodiscard]] std::vector<PlannedOperation> planned_operations(const ModelSpec& m,
                                                               const ClusterSpec& c,
                                                               const PlanCost& plan);

}  // namespace meshplan
