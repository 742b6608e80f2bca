#include <algorithm>

#include "comm/collectives.hpp"
#include "cost/block.hpp"
#include "cost/host_time.hpp"
#include "kernels/kernels.hpp"
#include "layout/groups.hpp"
#include "model/quantisation.hpp"

namespace meshplan {
namespace {

// A kind of group, its shape, and what it moves.
struct ShardGroup {
  Group kind;
  GroupShape shape;
};

struct ShardGroups {
  ShardGroup shard, replica, expert;
};

// [F-ZERO-3] Weights gathered one by one into a list of all ranks' parts: shard_launches per rank
// and weight matrix of a layer (four: the small tensors stay whole, param_persistence_threshold).
Seconds gather_host_time(const BlockContext& x, std::int64_t ranks) {
  constexpr double kWeightsPerLayer = 4;
  const Runtime& k = x.strategy.runtime;
  return x.cluster.device.launch_gap *
         (kWeightsPerLayer * static_cast<double>(ranks) * k.shard_launches * host_factor(k));
}

void push_sharded(const BlockContext& x, BlockCost& cost, Pass pass, Collective op, double bytes,
                  const ShardGroup& group, Dtype dtype, Seconds& window) {
  const GroupShape& g = group.shape;
  if (g.size <= 1 || bytes <= 0) return;
  const Bytes n = ceil_bytes(bytes);
  const Seconds each = collective_time(x.cluster, op, n, g).total;
  const Seconds hidden = std::min(each, window);
  window -= hidden;
  const Seconds exposed = each - hidden + hidden * (x.cluster.device.overlap_slowdown - 1) +
                          gather_host_time(x, g.size);
  (pass == Pass::kForward ? cost.forward : cost.backward_input).dp += exposed;
  cost.communication.push_back(
      {CommDimension::kDp, op, g.size, g.level, n, 1, each, exposed, group.kind, dtype, false});
}

// [F-OFF-7] A shard on the host crosses the link before it is gathered, in fp32 where that is what
// the host updates (PyTorch FSDP2, _fsdp_param.py all_gather_inputs; DeepSpeed has a 16-bit copy
// there), and a reduced gradient goes back beside it; what of it the computation does not cover is
// waited for.
void push_host_copy(const BlockContext& x, BlockCost& cost, Pass pass, Seconds& window) {
  const Strategy& s = x.strategy;
  const BlockParameters& p = cost.parameters;
  const auto shards = [&](std::int64_t dense, std::int64_t experts) {
    return real(dense) / real(shard_group(s)) + real(experts) / real(expert_dp(s));
  };
  const bool in_fp32 = s.master_weights && s.runtime.fp32_shards;
  const double weight = in_fp32 ? 4 : real(storage_size(s.precision));
  const double in =
      weight * shards(p.dense, p.experts) + shards(p.frozen_bytes, p.frozen_expert_bytes);
  const double out =
      pass == Pass::kForward ? 0 : real(size_of(s.grad_dtype)) * shards(p.dense, p.experts);
  const Seconds copy = ceil_bytes(std::max(in, out)) / x.cluster.device.host_link;
  const Seconds hidden = std::min(copy, window);
  window -= hidden;
  (pass == Pass::kForward ? cost.forward : cost.backward_input).launch += copy - hidden;
}

// [F-ZERO-4] Weights that are sharded one by one are copied out of what was gathered, and their
// gradients, of the weights' dtype, into what is reduced; both on the stream of the computation
// (PyTorch torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather_copy_out,
// split_with_sizes_copy; foreach_reduce_scatter_copy_in, chunk_cat).
void add_parameter_copies(const BlockContext& x, const ShardGroups& groups, BlockCost& cost) {
  const Strategy& s = x.strategy;
  if (!s.runtime.per_parameter_shards) return;
  const DeviceSpec& d = x.cluster.device;
  const double weight = gathered_weight_bytes(s, d), own = size_of(activation_dtype(s.precision));
  const auto add = [&](const ShardGroup& group, std::int64_t trained, std::int64_t frozen_bytes) {
    if (group.shape.size <= 1 || trained + frozen_bytes <= 0) return;
    const double gathered = weight * real(trained) + real(frozen_bytes);
    const double gradients = (own + size_of(s.grad_dtype)) * real(trained);
    if (s.zero == 3) {
      cost.forward.compute += memory_time(d, 2 * gathered, 1);
      cost.backward_input.compute += memory_time(d, 2 * gathered, 1);
    }
    cost.backward_input.compute += memory_time(d, gradients, trained > 0 ? 1 : 0);
  };
  add(groups.shard, cost.parameters.dense, cost.parameters.frozen_bytes);
  add(groups.expert, cost.parameters.experts, cost.parameters.frozen_expert_bytes);
}

// [F-ZERO-1] ZeRO-3 gathers a block's weights before its forward and again before its backward
// pass and reduce-scatters its gradients, every microbatch; prefetching hides each behind the
// neighbouring block's computation (Rajbhandari et al. 1910.02054 sec. 7; PyTorch FSDP,
// 2304.11277 sec. 3.3). ZeRO-2 reduce-scatters gradients every microbatch. With a shard group
// smaller than all replicas (HSDP) the shards are all-reduced across replicas.
void add_sharded_traffic(const BlockContext& x, const ShardGroups& groups, BlockCost& cost) {
  const Strategy& s = x.strategy;
  add_parameter_copies(x, groups, cost);
  const Dtype weight = activation_dtype(s.precision);
  const Dtype grad = s.grad_dtype;
  // While the device waits for the host to issue kernels, messages go on.
  const auto time_beside = [](const PassTime& pass) { return pass.compute + pass.launch; };
  Seconds forward = s.overlap.param_gather ? time_beside(cost.forward) : Seconds{};
  Seconds backward = s.overlap.grad_reduce || s.overlap.param_gather
                         ? time_beside(cost.backward_input) + time_beside(cost.backward_weight)
                         : Seconds{};
  const BlockParameters& p = cost.parameters;
  const auto both = [&](Pass pass, Collective op, Dtype dtype, bool weights, Seconds& window) {
    const double plain = size_of(dtype);
    const double each = weights ? gathered_weight_bytes(s, x.cluster.device) : plain;
    const std::int64_t dense = weights ? p.frozen_bytes : 0;
    const std::int64_t experts = weights ? p.frozen_expert_bytes : 0;
    const bool table = p.embedding + p.head > 0;  // the ends have no products in few bits
    const auto bytes = [&](std::int64_t all, std::int64_t in_bf16, std::int64_t frozen) {
      return each * static_cast<double>(all - in_bf16) + plain * static_cast<double>(in_bf16) +
             static_cast<double>(frozen);
    };
    push_sharded(x, cost, pass, op, bytes(p.dense, table ? p.dense : p.dense_in_bf16, dense),
                 groups.shard, dtype, window);
    push_sharded(x, cost, pass, op, bytes(p.experts, p.experts_in_bf16, experts), groups.expert,
                 dtype, window);
  };
  if (has_host_weights(s)) {
    push_host_copy(x, cost, Pass::kForward, forward);
    if (s.loss == Loss::kDpo) push_host_copy(x, cost, Pass::kForward, forward);
    push_host_copy(x, cost, Pass::kBackwardInput, backward);
  }
  if (s.zero == 3) {
    both(Pass::kForward, Collective::kAllGather, weight, true, forward);
    if (s.loss == Loss::kDpo) both(Pass::kForward, Collective::kAllGather, weight, true, forward);
    both(Pass::kBackwardInput, Collective::kAllGather, weight, true, backward);
  }
  both(Pass::kBackwardInput, Collective::kReduceScatter, grad, false, backward);
  const double shard = static_cast<double>(shard_group(s));
  push_sharded(x, cost, Pass::kBackwardInput, Collective::kAllReduce,
               size_of(grad) * static_cast<double>(cost.parameters.dense) / shard, groups.replica,
               grad, backward);
}

}  // namespace

BlockCosts with_sharded_traffic(BlockCosts plain, const ModelSpec& m, const ClusterSpec& c,
                                const Strategy& s) {
  if (s.zero < 2) return plain;
  const BlockContext x{m, c, s, local_shape(m, s)};
  const auto group = [&](Group kind) { return ShardGroup{kind, group_shape(s, c, kind)}; };
  const ShardGroups groups{group(Group::kZeroShard), group(Group::kZeroReplica),
                           group(Group::kExpertDp)};
  for (BlockCost& cost : plain) add_sharded_traffic(x, groups, cost);
  return plain;
}

}  // namespace meshplan
