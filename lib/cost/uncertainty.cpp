#include "cost/uncertainty.hpp"

namespace meshplan {

StepTimeInterval step_time_interval(const PlanCost& p) {
  return {p.step_time * (1 - kUncalibratedError), p.step_time * (1 + kUncalibratedError)};
}

}  // namespace meshplan
