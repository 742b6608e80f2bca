#pragma once
// How far a predicted step time may be off.
#include "cost/plan_cost.hpp"

namespace meshplan {

struct StepTimeInterval {
  Seconds low;
  Seconds high;

  bool operator==(const StepTimeInterval&) const = default;
};

// Relative error assumed while no residuals of a calibration are known: the mean absolute error of
// published analytic planners on measured multi-node runs is 14.4 % to 18.2 % out of the box
// (SimuMax 14.4 %, Calculon 15.3 %, llm-analysis 18.2 % over the 109 multi-node A100 iterations
// that the vTrain authors published).
inline constexpr double kUncalibratedError = 0.15;

// [F-UNC-1] Interval of the step time: [t (1 - e), t (1 + e)], e = kUncalibratedError.
// t predicted step time. Source: see kUncalibratedError.
[[nodiscard]] StepTimeInterval step_time_interval(const PlanCost& p);

}  // namespace meshplan
