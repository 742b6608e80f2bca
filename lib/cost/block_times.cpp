// What the operations of a block take, pass by pass.
#include "cost/block_times.hpp"

#include <algorithm>
#include <cmath>

#include "cost/host_time.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {
namespace {

// [F-GAP-1] Ranks come to a collective at times of their own and wait for the last: the mean of n
// exponential delays is 1 / (1 + 1/2 + ... + 1/n) of their largest. Device profiles state the wait
// of four ranks.
double wait_for_last(std::int64_t ranks) {
  const auto excess = [](std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 2; i <= n; ++i) sum += 1 / static_cast<double>(i);
    return sum;
  };
  constexpr std::int64_t kStated = 4, kExact = 64;
  const double beyond = std::log(std::max(1.0, static_cast<double>(ranks) / kExact));
  return (excess(std::min(ranks, kExact)) + beyond) / excess(kStated);
}

}  // namespace

Seconds pass_time(const CommOp& op, const DeviceSpec& device) {
  const bool waits = op.hidden < op.time_each;
  return pass_time(op, waits ? device.collective_gap * wait_for_last(op.group.size) : Seconds{});
}

namespace {

Seconds& exposed_field(PassTime& t, CommDimension d) {
  switch (d) {
    case CommDimension::kCp:
      return t.cp;
    case CommDimension::kEp:
      return t.ep;
    case CommDimension::kDp:
      return t.dp;
    case CommDimension::kTp:
    case CommDimension::kPp:
    case CommDimension::kEmbedding:
    case CommDimension::kLoss:
      return t.tp;
  }
  return t.tp;
}

PassTime& pass_of(BlockCost& cost, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return cost.forward;
    case Pass::kBackwardInput:
      return cost.backward_input;
    case Pass::kBackwardWeight:
      return cost.backward_weight;
  }
  return cost.forward;
}

Seconds clamp_positive(Seconds t) { return std::max(t, Seconds{}); }

// [F-EP-18] What both passes of a layer take by themselves where dispatch is overlapped: nothing
// hides its messages, and the host catches up before the device.
PassTime unpaired_passes(BlockOps ops, const BlockContext& x, double slowest) {
  for (CommOp& op : ops.comm) {
    if (op.dimension == CommDimension::kEp) op.hidden = op.slowdown = {};
  }
  PassTime both;
  for (const bool forward : {true, false}) {
    PassTime pass;
    for (const KernelOp& op : ops.kernels) {
      if ((op.pass == Pass::kForward) == forward) pass.compute += pass_time(op, slowest);
    }
    for (const CommOp& op : ops.comm) {
      if ((op.pass == Pass::kForward) != forward) continue;
      exposed_field(pass, op.dimension) += pass_time(op, x.cluster.device);
    }
    pass.launch = clamp_positive(host_time(ops, x, forward) - pass.total());
    if (forward) pass.launch = std::max(pass.launch, awaited_host_time(ops, x, slowest));
    both += pass;
  }
  return both;
}

}  // namespace

void add_times(const BlockOps& ops, const BlockContext& x, BlockCost& cost) {
  const double slowest = slowest_of(x.cluster.device, num_gpus(x.strategy));
  for (const KernelOp& op : ops.kernels) {
    const Seconds time = pass_time(op, slowest);
    pass_of(cost, op.pass).compute += time;
    if (op.pass == Pass::kForward && op.repeated) {
      cost.recompute_full.compute += time;
      cost.recompute_full_flops += Flops{op.flops};
    }
    if (op.kind == KernelKind::kAttention) {
      (op.pass == Pass::kForward ? cost.attention_forward : cost.attention_backward) += time;
    }
    cost.recompute_selective.compute += time * op.selective;
    cost.recompute_selective_flops += Flops{op.flops * op.selective};
  }
  for (const CommOp& op : ops.comm) {
    const Seconds exposed = pass_time(op, x.cluster.device);
    exposed_field(pass_of(cost, op.pass), op.dimension) += exposed;
    if (op.selective) exposed_field(cost.recompute_selective, op.dimension) += exposed;
    const bool repeated = op.pass == Pass::kForward && op.repeated;
    if (repeated) exposed_field(cost.recompute_full, op.dimension) += exposed;
    cost.communication.push_back({op.dimension, op.operation, op.group.size, op.group.level,
                                  op.bytes, op.count, op.time_each, exposed, op.kind, op.dtype,
                                  op.pass == Pass::kForward, op.bidirectional, op.selective,
                                  repeated});
  }
  const Seconds host_forward = host_time(ops, x, true), host_backward = host_time(ops, x, false);
  const Seconds device_forward = cost.forward.total();
  const Seconds device_backward = cost.backward_input.total() + cost.backward_weight.total();
  const bool paired = x.strategy.overlap.ep && has_dispatch(ops);
  const Seconds awaited = paired ? Seconds{} : awaited_host_time(ops, x, slowest);
  Seconds late_forward = host_forward - device_forward;
  Seconds late_backward = host_backward - device_backward;
  // [F-HOST-8] Where one microbatch's forward and another's backward pass are issued layer by layer
  // together, what one of them leaves of the host's time serves the other.
  if (paired) {
    const Seconds slack_forward = std::min(late_forward, Seconds{});
    late_forward += std::min(late_backward, Seconds{});
    late_backward += slack_forward;
  }
  cost.forward.launch = std::max(clamp_positive(late_forward), awaited);
  cost.backward_input.launch = clamp_positive(late_backward);
  if (paired) {
    const PassTime alone = unpaired_passes(ops, x, slowest);
    PassTime more;
    more.ep = alone.ep - cost.forward.ep - cost.backward_input.ep - cost.backward_weight.ep;
    more.launch = alone.launch - cost.forward.launch - cost.backward_input.launch;
    // What overlap slows more than it hides is no faster alone: no step undercuts its paired
    // passes.
    if (more.total() > Seconds{}) cost.unpaired = more;
  }
  // With recomputation the backward pass issues both; the slower of host and device wins once.
  const Seconds both =
      clamp_positive(host_forward + host_backward - cost.recompute_full.total() - device_backward);
  cost.recompute_full.launch = std::max(clamp_positive(both - cost.backward_input.launch), awaited);
  if (x.strategy.recompute_modules.empty()) return;
  const Seconds all = host_backward + repeated_host_time(ops, x) - device_backward -
                      cost.recompute_selective.total();
  const bool waits = repeats(x, RecomputeModule::kMoe, false);
  cost.recompute_selective.launch =
      std::max(clamp_positive(all - cost.backward_input.launch), waits ? awaited : Seconds{});
}

}  // namespace meshplan
