#pragma once
// The parts of a step that a measurement may tell apart, and what the cost model says of each.
#include <optional>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "base/units.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

enum class StepTerm {
  kForward,          // forward passes of all microbatches, exposed communication inside included
  kBackward,         // backward passes, recomputation included
  kForwardBackward,  // everything from the first pass to the last
  kCompute,          // kernels but for the optimizer's
  kOptimizer,
  kDataParallel,  // communication that nothing hides, by dimension
  kTensorParallel,
  kContextParallel,
  kExpertParallel,
  kPipeline,
  kBubble,        // idle, waiting for other pipeline ranks
  kPipelineWait,  // both, where a measurement does not tell them apart
  kLaunch,        // the device waits for the host
  kCopies,        // between host and device, not hidden
  kDataLoading,
  kCheckpointing,
  kStalls,  // steps that are outliers, spread over all
};
MESHPLAN_NAMES(StepTerm, {{StepTerm::kForward, "forward"},
                          {StepTerm::kBackward, "backward"},
                          {StepTerm::kForwardBackward, "forward-backward"},
                          {StepTerm::kCompute, "compute"},
                          {StepTerm::kOptimizer, "optimizer"},
                          {StepTerm::kDataParallel, "data-parallel"},
                          {StepTerm::kTensorParallel, "tensor-parallel"},
                          {StepTerm::kContextParallel, "context-parallel"},
                          {StepTerm::kExpertParallel, "expert-parallel"},
                          {StepTerm::kPipeline, "pipeline"},
                          {StepTerm::kBubble, "bubble"},
                          {StepTerm::kPipelineWait, "pipeline-wait"},
                          {StepTerm::kLaunch, "launch"},
                          {StepTerm::kCopies, "copies"},
                          {StepTerm::kDataLoading, "data-loading"},
                          {StepTerm::kCheckpointing, "checkpointing"},
                          {StepTerm::kStalls, "stalls"}});

// Seconds of one step. Ranks may differ: of the fastest and of the slowest.
struct TermTime {
  Seconds least, most;
  bool operator==(const TermTime&) const = default;
};

// Nothing for what the cost model does not describe: data loading, checkpointing, stalls.
[[nodiscard]] std::optional<TermTime> predicted_term(const PlanCost& plan, StepTerm term);

struct MeasuredTerm {
  StepTerm term = StepTerm::kForward;
  TermTime time;
  std::string source;  // what measured it: the timers' names
};

}  // namespace meshplan
