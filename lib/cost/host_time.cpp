#include "cost/host_time.hpp"

#include <algorithm>

#include "cost/block.hpp"

namespace meshplan {
namespace {

// Host time of a checkpoint, in kernels: the modules of a mixture of experts on 8 H100 that are
// measured one by one cost 0.35 to 0.75 ms a layer of host time beyond their kernels
// (Megatron-Bridge, skills/nemo-mbridge-perf-activation-recompute/card.yaml).
constexpr double kCheckpointLaunches = 12;

bool has_dispatch(const BlockOps& ops) {
  return std::any_of(ops.comm.begin(), ops.comm.end(),
                     [](const CommOp& op) { return op.dimension == CommDimension::kEp; });
}

}  // namespace

// [F-HOST-1] A pass takes at least what the host needs to issue its kernels one after the other and
// to wait where it needs to know what the device found ([F-EP-11], [F-EP-12]), and with overlapped
// dispatch ([F-HOST-4]) to call the four nodes that a layer becomes.
Seconds host_time(const BlockOps& ops, const BlockContext& x, bool forward) {
  const Strategy& s = x.strategy;
  double collective = s.runtime.collective_launches;
  if (pipeline_crosses_nodes(s, x.cluster)) {
    collective += s.runtime.contended_launches * static_cast<double>(s.tp);
  }
  double launches = 0;
  Seconds waits;
  for (const KernelOp& op : ops.kernels) {
    if (!op.graphed && (op.pass == Pass::kForward) == forward) launches += op.launches;
  }
  for (const CommOp& op : ops.comm) {
    if (op.graphed || (op.pass == Pass::kForward) != forward) continue;
    launches += op.count * collective;
    waits += op.awaited * op.count;
  }
  constexpr double kNodes = 4;  // attention, dispatch, experts, combine
  if (s.overlap.ep && has_dispatch(ops)) launches += kNodes * s.runtime.node_launches;
  return waits + x.cluster.device.launch_gap * (launches * host_factor(s.runtime));
}

// [F-REC-1] Selective recomputation issues what it repeats in the backward pass, and each part that
// it repeats by itself is a checkpoint: an autograd function of its own that saves, sets and
// restores the states of the random number generators and issues its backward pass itself
// (Megatron-Core tensor_parallel/random.py, CheckpointFunction, CheckpointWithoutOutput).
Seconds repeated_host_time(const BlockOps& ops, const BlockContext& x) {
  const Runtime& k = x.strategy.runtime;
  double launches = kCheckpointLaunches * ops.checkpoints;
  for (const KernelOp& op : ops.kernels) {
    launches += op.graphed ? 0 : op.selective * op.launches;
  }
  Seconds waits;
  for (const CommOp& op : ops.comm) {
    if (!op.selective || op.graphed) continue;
    launches += op.count * k.collective_launches;
    waits += op.awaited * op.count;
  }
  return waits + x.cluster.device.launch_gap * (launches * host_factor(k));
}

// [F-HOST-2] The host learns from the device how many tokens each expert got and only then issues
// the experts' products, one by one: there it is never ahead, and they take at least as long as
// their launches (Megatron-Core moe/token_dispatcher.py, tokens_per_expert on the host).
Seconds awaited_host_time(const BlockOps& ops, const BlockContext& x, double slowest) {
  const Runtime& k = x.strategy.runtime;
  Seconds device, host;
  for (const KernelOp& op : ops.kernels) {
    if (!op.awaited) continue;
    device += pass_time(op, slowest);
    if (!op.graphed) host += x.cluster.device.launch_gap * (op.launches * host_factor(k));
  }
  return std::max(host - device, Seconds{});
}

}  // namespace meshplan
