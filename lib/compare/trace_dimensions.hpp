#pragma once
// Which part of the plan a collective of a trace belongs to.
#include <optional>
#include <vector>

#include "compare/device_trace.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

// The dimension of every group of a trace and, for collectives whose group is not said, of every
// kind of collective. In order: the ranks of the group where the trace lists them (layout/groups),
// what the process group calls itself, the size and kind of what the plan does; nothing where none
// of these tells.
class TraceDimensions {
 public:
  TraceDimensions(const PlanCost& plan, const DeviceTrace& trace);
  [[nodiscard]] std::optional<CommDimension> of(const DeviceOp& op) const;

 private:
  const PlanCost& plan_;
  const DeviceTrace& trace_;
  std::vector<std::optional<CommDimension>> by_group_;  // what ranks or names tell
};

// The dimension whose groups carry what a dimension of the plan sends: the embedding's gradients go
// between replicas of it, the loss's sums between tensor-parallel ranks.
[[nodiscard]] CommDimension whose_ranks(CommDimension d);

// The pipeline rank of a rank of the run; 0 where it is not known.
[[nodiscard]] std::int64_t pipeline_rank_of(const Strategy& s, std::int64_t rank);

}  // namespace meshplan
