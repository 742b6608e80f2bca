#pragma once
// What bench measures on a machine, in the order in which it is worth most: wherever the time runs
// out, what was measured covers all operations, groups and sizes evenly.
#include <set>
#include <string>
#include <vector>

#include "probe/sample.hpp"

namespace meshplan {

enum class OperationKind {
  kCollective,
  kGemm,
  kAttention,
  kMemory,
  kCopy,
  kLaunch,
  kOverlap,
};  // in the order of Operation's alternatives

struct AgendaOptions {
  std::set<OperationKind> kinds;  // empty: all that the machine has
  Bytes largest{kGiB};            // message
};

// The groups whose collectives training uses, as far as the machine has them: inside a node, one
// rank of each node alone and all such groups at once, two of each node, strided inside a node, all
// ranks.
[[nodiscard]] std::vector<RankGroup> group_shapes(const Machine& m);

// Nothing that communicates for a single rank; no kernels without an accelerator. Of ranks that
// share one device only collectives, as a test of function: their times are time slices.
[[nodiscard]] std::vector<Operation> agenda(const Machine& m, const AgendaOptions& options);

// Matrix shapes of transformer layers, each in all three layouts, then a sweep of the inner
// dimension; by worth.
[[nodiscard]] std::vector<GemmOperation> gemm_agenda(Precision p);

// Large products and long attention, which draw the most power: what to run until its rate lasts.
[[nodiscard]] bool fills_device(const Operation& op);

[[nodiscard]] OperationKind kind_of(const Operation& op);

MESHPLAN_NAMES(OperationKind, {{OperationKind::kCollective, "collective"},
                               {OperationKind::kGemm, "gemm"},
                               {OperationKind::kAttention, "attention"},
                               {OperationKind::kMemory, "memory"},
                               {OperationKind::kCopy, "copy"},
                               {OperationKind::kLaunch, "launch"},
                               {OperationKind::kOverlap, "overlap"}});

}  // namespace meshplan
