#pragma once
// What happens once per step on a pipeline rank: gradient reduction, parameter gather, optimizer.
#include <vector>

#include "cost/block.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

struct StepEnd {
  Seconds exposed;  // data-parallel communication that nothing hides
  Seconds optimizer;
  Seconds offload;  // host copies and host optimizer, not hidden
  std::vector<CommEntry> communication;
};

// `p`: parameters of the rank's device; backward and forward: one microbatch over all its chunks,
// behind which overlapped reductions and gathers hide. Interleaved schedules finish (and start)
// their chunks apart, so that the last (first) pp microbatches of the other chunks hide them too:
// pp (v - 1) / v microbatches instead of one.
[[nodiscard]] StepEnd step_end(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                               const BlockParameters& p, Seconds forward, Seconds backward);

// Copies and host optimizer of an offloaded optimizer [F-OFF-1].
[[nodiscard]] Seconds optimizer_offload_time(const DeviceSpec& d, const Strategy& s,
                                             const BlockParameters& p);

// [F-OFF-2] Offloaded activations leave for the host behind the forward pass of their microbatch
// and come back behind its backward pass; what the host link cannot move in that time is exposed:
// max(0, bytes / link - forward) + max(0, bytes / link - backward) per microbatch.
// (Transformer Engine cpu_offload.py copies on streams of their own, one layer ahead.)
[[nodiscard]] Seconds activation_offload_time(const DeviceSpec& d, Bytes saved, Seconds forward,
                                              Seconds backward);

// Bytes that the optimizer step reads and writes on a device, zeroing of gradients included.
[[nodiscard]] double optimizer_traffic(const Strategy& s, const BlockParameters& p);

// [F-OPT-1] Adam on n parameters of a device: bytes read and written, over the memory bandwidth.
[[nodiscard]] Seconds optimizer_time(const DeviceSpec& d, const Strategy& s,
                                     const BlockParameters& p);

}  // namespace meshplan
