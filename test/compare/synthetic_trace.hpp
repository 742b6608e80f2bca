#pragma once
// Traces of PyTorch's profiler as a plan's step would write them: the tasks of its timeline (those
// of 'meshplan report --trace'), filled with the kernels and collectives that they consist of. A
// test then changes them in one known way.
#include <functional>
#include <string>
#include <vector>

#include "compare/device_trace.hpp"
#include "cost/operations.hpp"
#include "cost/step.hpp"
#include "cost/timeline.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"

namespace meshplan {

// One kernel, copy or gap; what computes follows what computes, the rest runs beside it.
struct SyntheticOp {
  std::string name;                 // as CUDA would print it; empty: nothing runs
  double duration = 0;              // us
  std::vector<std::int64_t> sizes;  // m, n, k of a product
  bool backward = false;
  bool beside = false;     // on a stream of its own, from the same moment as the next one
  std::string collective;  // of communication: PyTorch's name, and whose
  std::string group;       // description of its process group
  std::int64_t group_size = 0;
  std::string operation;    // of the estimate, for tests to find
  bool host_loads = false;  // a gap in which the host loads data
};

struct SyntheticStep {
  std::vector<SyntheticOp> ops;  // in the order of the step
  std::int64_t allocations = 0;  // of the host, each of `allocation_us`
  double allocation_us = 0;
};

// What a rank of this pipeline rank does. Hidden communication runs beside kernels, exposed
// communication between them.
[[nodiscard]] SyntheticStep synthetic_step(const ModelSpec& m, const ClusterSpec& c,
                                           const PlanCost& plan, std::int64_t pipeline_rank);

// `steps` of them as the profiler's JSON.
[[nodiscard]] std::string kineto_text(const SyntheticStep& step, std::int64_t rank,
                                      std::int64_t world, int steps);

}  // namespace meshplan
