#pragma once
// Runs what the plans consist of on the machine at hand and puts what was measured in place of what
// was predicted.
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "probe/backend.hpp"
#include "validate/subset.hpp"

namespace meshplan {

struct PlanToValidate {
  std::int64_t rank = 0;  // among all plans, from 1
  Strategy strategy;      // complete and legal
};

struct ValidateRequest {
  std::vector<PlanToValidate> plans;
  double tolerance = 0.15;  // relative deviation of a step time that passes
  MeasureOptions measure;
  std::optional<Seconds> budget;        // nothing new is started after it
  std::function<bool()> interrupted{};  // nor after the user asked for an end
};

// One operation of a plan: what was predicted, what was run, and how long that took.
struct OperationCheck {
  PlannedOperation planned;
  Subset subset;                    // fidelity kPredicted and the reason where a measurement failed
  std::optional<Seconds> measured;  // one call of what was run
  double spread = 0;                // interquartile range over the median
  double share = 0;                 // of the predicted step time
  std::vector<std::string> notes;   // noisy, throttled

  // Measured over predicted time of what was run; 1 where nothing was.
  [[nodiscard]] double ratio() const;
  // One call as planned: measured, carried over by the ratio, or predicted.
  [[nodiscard]] Seconds believed() const { return planned.predicted * ratio(); }
};

struct PlanCheck {
  std::int64_t rank = 0;      // as the search ranked it
  std::int64_t new_rank = 0;  // among the validated plans, by the step time with measurements
  Strategy strategy;
  Seconds predicted;  // step time
  Seconds step_time;  // the same step assembly over what was measured
  // [F-VAL-1] Shares of the predicted step time outside of the pipeline's bubble, which consists of
  // other ranks' same operations: measured as planned; extrapolated; neither. They add up to 1.
  double coverage = 0;
  double extrapolated = 0;
  double unmeasured = 0;
  // [F-VAL-3] What the host's launches add to the predicted step: without them the device would be
  // done so much earlier. And how much of what the measurements change on the device they keep out
  // of the step time: above zero where operations that were measured slower hide behind them.
  Seconds host;
  Seconds hidden;
  std::vector<OperationCheck> operations;

  [[nodiscard]] double deviation() const { return step_time / predicted - 1; }
  // Whether the host hides enough of the measurements for the deviation to mislead.
  [[nodiscard]] bool is_host_bound() const;
};

struct Validation {
  double tolerance = 0;
  std::vector<PlanCheck> plans;  // in the order of the request
  std::int64_t samples = 0;      // operations that were measured
  std::int64_t not_reached = 0;  // because the time was up, or the user or a failure ended it
  Diagnostics failures;          // of the machine; what was measured before them counts

  [[nodiscard]] bool within_tolerance() const;
};

// The same plans with nothing measured: what would be run, and what would stay predicted.
[[nodiscard]] Validation outline(const ModelSpec& m, const ClusterSpec& c,
                                 const ValidateRequest& request, const Backend& backend);

// Called before each measurement with the share that is done, 0..1, and what comes next.
using ValidateProgress = std::function<void(double, const Operation&)>;

// Each operation that several plans share is measured once, those with the largest share of a step
// first. A failure ends the measuring if the machine is lost, else only the operation is left out.
[[nodiscard]] Validation validate_plans(const ModelSpec& m, const ClusterSpec& c,
                                        const ValidateRequest& request, Backend& backend,
                                        const ValidateProgress& progress = {});

}  // namespace meshplan
