#pragma once
// Where a measured step loses time against the predicted one, in words, and what would change it.
#include <optional>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "compare/trace_comparison.hpp"

namespace meshplan {

enum class LossKind {
  kGradientReduction,  // data-parallel reductions that nothing hides
  kParameterGather,    // likewise gathers of parameters
  kTensorParallel,     // likewise, by dimension
  kContextParallel,
  kExpertParallel,
  kSlowLinks,     // communication itself takes longer than predicted
  kPipeline,      // waiting for other pipeline ranks
  kUnevenStages,  // one pipeline rank computes longer than its share
  kSlowDevice,    // one device is slower than others that do the same
  kLateRank,      // others wait for one rank in their collectives
  kUnfusedAttention,
  kAttention,  // fused, and slower than predicted
  kUnfusedNorm,
  kUnfusedElementwise,
  kUnfusedOptimizer,
  kOptimizer,
  kRecomputation,    // layers run forward more often than the strategy says
  kSmallMicrobatch,  // operations run more often and are smaller
  kPrecision,        // products in fp32 or TF32
  kProducts,         // all of them slower than predicted
  kProduct,          // one of them
  kRouting,
  kSlowDown,  // beside communication
  kHostBound,
  kAllocations,
  kDataLoading,
  kCopies,
  kPasses,  // forward and backward passes together: a log tells no more
  kStalls,  // steps far slower than the others
};
MESHPLAN_NAMES(LossKind, {{LossKind::kGradientReduction, "gradient-reduction"},
                          {LossKind::kParameterGather, "parameter-gather"},
                          {LossKind::kTensorParallel, "tensor-parallel"},
                          {LossKind::kContextParallel, "context-parallel"},
                          {LossKind::kExpertParallel, "expert-parallel"},
                          {LossKind::kSlowLinks, "slow-links"},
                          {LossKind::kPipeline, "pipeline"},
                          {LossKind::kUnevenStages, "uneven-stages"},
                          {LossKind::kSlowDevice, "slow-device"},
                          {LossKind::kLateRank, "late-rank"},
                          {LossKind::kUnfusedAttention, "unfused-attention"},
                          {LossKind::kAttention, "attention"},
                          {LossKind::kUnfusedNorm, "unfused-norm"},
                          {LossKind::kUnfusedElementwise, "unfused-elementwise"},
                          {LossKind::kUnfusedOptimizer, "unfused-optimizer"},
                          {LossKind::kOptimizer, "optimizer"},
                          {LossKind::kRecomputation, "recomputation"},
                          {LossKind::kSmallMicrobatch, "small-microbatch"},
                          {LossKind::kPrecision, "precision"},
                          {LossKind::kProducts, "products"},
                          {LossKind::kProduct, "product"},
                          {LossKind::kRouting, "routing"},
                          {LossKind::kSlowDown, "slow-down"},
                          {LossKind::kHostBound, "host-bound"},
                          {LossKind::kAllocations, "allocations"},
                          {LossKind::kDataLoading, "data-loading"},
                          {LossKind::kCopies, "copies"},
                          {LossKind::kPasses, "passes"},
                          {LossKind::kStalls, "stalls"}});

struct TimeLoss {
  LossKind kind = LossKind::kHostBound;
  std::string what;      // "gradient reduction is not overlapped"
  std::string evidence;  // "420 ms exposed, 50.0 ms predicted"
  std::string remedy;    // what to do, for people
  std::string changes;   // the same as keys of a strategy, where it has some
  Seconds lost;          // of a step, beyond what is predicted
  // By which the predicted step is shorter with the changes; nothing where there are none, or where
  // the changed plan is not legal or does not fit.
  std::optional<Seconds> gain;
};

// Most seconds lost first. What is lost must be a hundredth of the step at least. A cause is named
// once: what a missing fusion adds to element-wise kernels is no cause of its own.
[[nodiscard]] std::vector<TimeLoss> losses_of(const TraceComparison& t, const ModelSpec& m,
                                              const ClusterSpec& c, const PlanCost& plan);

// The same of what a log's timers tell. Its reductions are told to be overlapped where an option
// would do it; slower passes are named as such, since only a trace tells why.
[[nodiscard]] std::vector<TimeLoss> log_losses_of(const std::vector<MeasuredTerm>& terms,
                                                  Seconds measured_step, const ModelSpec& m,
                                                  const ClusterSpec& c, const PlanCost& plan);

}  // namespace meshplan
