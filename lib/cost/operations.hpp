#pragma once
// The kernels that one step of one pipeline rank runs, with how often: the same lists that its
// predicted time is the sum of. Its collectives are PlanCost::communication.
#include <cstdint>
#include <optional>
#include <vector>

#include "cost/block.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct KernelCall {
  KernelOp op;
  double count_per_step = 0;  // recomputation included
  Seconds per_step;           // what they add to the step, which waits for the slowest device
};

// Kernels of a complete strategy (cost/step.hpp) on the devices of pipeline rank `rank`, alike ones
// merged, in the order of the blocks; the optimizer step last, where it runs on the device as one
// fused kernel. What they add makes up the rank's compute, recompute and optimizer terms.
[[nodiscard]] std::vector<KernelCall> step_kernels(const ModelSpec& m, const ClusterSpec& c,
                                                   const Strategy& s, std::int64_t rank);

// What one of the rank's decoder layers computes for one microbatch, the mean over them: forward,
// and backward with what is recomputed there. `attention_layers` are those with fused attention.
struct LayerTime {
  Seconds forward, backward;
  std::int64_t attention_layers = 0, chunks = 0;
};
[[nodiscard]] LayerTime mean_layer(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                                   std::int64_t rank);

// How measurements name the kernel; nothing where micro-benchmarks have no kernel like it.
[[nodiscard]] std::optional<KernelKey> exact_key(const KernelOp& op);

}  // namespace meshplan
