#include "cost/host_time.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "cost/block.hpp"

namespace meshplan {
namespace {

// Host time of a checkpoint, in kernels: the modules of a mixture of experts on 8 H100 that are
// measured one by one cost 0.35 to 0.75 ms a layer of host time beyond their kernels, the mean of
// which this is (Megatron-Bridge, skills/nemo-mbridge-perf-activation-recompute/card.yaml).
constexpr double kCheckpointLaunches = 8;

}  // namespace

bool has_dispatch(const BlockOps& ops) {
  return std::any_of(ops.comm.begin(), ops.comm.end(),
                     [](const CommOp& op) { return op.dimension == CommDimension::kEp; });
}

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

namespace {

// A kernel or collective of a forward pass, or several that are issued one after the other.
struct Issued {
  bool before;  // the wait; the next layer's then
  std::size_t place;
  Seconds host, device;
  double kernels;
};

// In the order in which they are issued after the wait.
std::vector<Issued> issued_after_wait(const BlockOps& ops, const BlockContext& x, double slowest) {
  const Runtime& k = x.strategy.runtime;
  const Seconds gap = x.cluster.device.launch_gap * host_factor(k);
  const std::size_t wait = ops.host_wait->place;
  std::vector<Issued> all;
  for (const CommOp& op : ops.comm) {
    if (op.pass != Pass::kForward) continue;
    const Seconds host = op.graphed ? Seconds{} : gap * (op.count * k.collective_launches);
    all.push_back({op.place < wait, op.place, host, pass_time(op, x.cluster.device),
                   std::max(1.0, op.count)});
  }
  for (std::size_t i = 0; i < ops.kernels.size(); ++i) {
    const KernelOp& op = ops.kernels[i];
    if (op.pass != Pass::kForward) continue;
    const Seconds host = op.graphed ? Seconds{} : gap * op.launches;
    all.push_back({i < wait, i, host, pass_time(op, slowest), std::max(1.0, op.launches)});
  }
  std::stable_sort(all.begin(), all.end(), [](const Issued& a, const Issued& b) {
    return std::pair(a.before, a.place) < std::pair(b.before, b.place);
  });
  return all;
}

}  // namespace

// [F-HOST-2] The host waits until the device tells how many tokens each expert got, and finds its
// queue drained: from there to the wait of the next layer each kernel starts once it is issued and
// the one before has ended. The device is idle for the time by which the host was behind at most
// (Megatron-Core moe/token_dispatcher.py, cuda_sync_point).
Seconds awaited_host_time(const BlockOps& ops, const BlockContext& x, double slowest) {
  if (!ops.host_wait) return {};
  Seconds host, device = ops.host_wait->queued, behind;
  for (const Issued& op : issued_after_wait(ops, x, slowest)) {
    behind = std::max(behind, host + op.host * (1 / op.kernels) - device);
    host += op.host, device += op.device;
    behind = std::max(behind, host - device + op.device * (1 / op.kernels));
  }
  return behind;
}

}  // namespace meshplan
