#include "cost/data_parallel.hpp"

#include <algorithm>

#include "comm/collectives.hpp"
#include "cost/block_ops.hpp"
#include "cost/kernels.hpp"
#include "layout/groups.hpp"

namespace meshplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

struct Reduction {
  Collective op;
  double bytes;  // of one
  Group group;
  Dtype dtype;
  double count = 1;
};

constexpr std::int64_t kTensorsPerLayer = 8;  // projections and norms of a decoder layer

// [F-DP-1] Gradients of p parameters: all-reduce (ZeRO-0); reduce-scatter, and an all-gather of
// the updated weights (ZeRO-1); under ZeRO-2 the reduce-scatters ran with the backward passes and
// only the gather is left; under ZeRO-3 nothing is. A shard group smaller than all replicas adds
// an all-reduce of the shards across replicas. (Rajbhandari et al. 1910.02054 sec. 7;
// Megatron-Core distributed/distrib_optimizer.py.)
// [F-DP-3] With whole_tensor_shards every owner's tensors are reduced to it and broadcast from it:
// min(n, tensors) of both, each along a chain of all n ranks (InternEvo
// solver/optimizer/hybrid_zero_optim.py).
void append_reductions(const Strategy& s, std::int64_t parameters, Group shard, Group replica,
                       std::int64_t shards, std::int64_t tensors, std::vector<Reduction>& gradients,
                       std::vector<Reduction>& weights) {
  if (parameters == 0) return;
  const double grad = real(parameters) * size_of(s.grad_dtype);
  const double weight = real(parameters) * storage_size(s.precision);
  const Dtype stored = activation_dtype(s.precision);
  if (s.zero == 0) {
    const Group group = replica == shard ? shard : Group::kDpCp;
    gradients.push_back({Collective::kAllReduce, grad, group, s.grad_dtype});
    return;
  }
  if (s.zero == 1 && s.kernels.whole_tensor_shards && replica == shard) {
    const double owners = real(std::max<std::int64_t>(1, std::min(shards, tensors)));
    gradients.push_back({Collective::kBroadcast, grad / owners, shard, s.grad_dtype, owners});
    weights.push_back({Collective::kBroadcast, weight / owners, shard, stored, owners});
    return;
  }
  if (s.zero == 1) {
    gradients.push_back({Collective::kReduceScatter, grad, shard, s.grad_dtype});
    if (replica != shard) {
      gradients.push_back({Collective::kAllReduce, grad / real(shards), replica, s.grad_dtype});
    }
  }
  if (s.zero <= 2) weights.push_back({Collective::kAllGather, weight, shard, stored});
}

// [F-DP-2] Megatron-Core's buckets of max(40 M, 1 M x dp) parameters: of an overlapped reduction at
// least the last bucket stays exposed, of an overlapped gather the first
// (distributed_data_parallel_config.py).
Seconds exposed_time(const ClusterSpec& c, const Strategy& s, const std::vector<Reduction>& all,
                     bool overlapped, Seconds window, double bytes_each, StepEnd& end) {
  Seconds exposed;
  for (const Reduction& r : all) {
    const GroupShape g = group_shape(s, c, r.group);
    if (g.size <= 1) continue;
    const Bytes bytes = ceil_bytes(r.bytes);
    const Seconds each = collective_time(c, r.op, bytes, g).total;
    const Seconds all_of_them = each * r.count;
    Seconds left = all_of_them;
    if (overlapped) {
      const double bucket = std::max(40e6, 1e6 * real(s.dp * s.cp)) * bytes_each;
      const Seconds tail = all_of_them * std::min(1.0, bucket / std::max(r.bytes * r.count, 1.0));
      const Seconds hidden = std::min(all_of_them - tail, window);
      window -= hidden;
      left = all_of_them - hidden + hidden * (c.device.overlap_slowdown - 1);
    }
    exposed += left;
    end.communication.push_back({CommDimension::kDp, r.op, g.size, g.level, bytes, r.count, each,
                                 left, r.group, r.dtype, false});
  }
  return exposed;
}

}  // namespace

// Per parameter of the shard: gradient read for the norm and again for the update, fp32 weight and
// two moments read and written, model weight written; the whole gradient buffer is zeroed. Eager
// optimizers pass every tensor about three times as often.
double optimizer_traffic(const Strategy& s, const BlockParameters& p) {
  const std::int64_t dense = s.zero >= 1 ? ceil_div(p.dense, shard_group(s)) : p.dense;
  const std::int64_t experts = s.zero >= 1 ? ceil_div(p.experts, expert_dp(s)) : p.experts;
  const double moments = 2.0 * 2 * size_of(s.optimizer_dtype);
  const double grad = size_of(s.grad_dtype);
  const bool copy = storage_size(s.precision) == 2 && s.master_weights;
  const double weights = copy ? 8 + 2 : 2.0 * storage_size(s.precision);
  const double passes = s.kernels.fused_optimizer ? 1 : 3;
  const double update = real(dense + experts) * (moments + weights + 3 * grad) * passes;
  const double zeroing = s.zero >= 2 ? 0 : real(p.dense + p.experts) * grad;
  return update + zeroing;
}

Seconds optimizer_time(const DeviceSpec& d, const Strategy& s, const BlockParameters& p) {
  constexpr double kKernels = 12;  // norm, clip, update and copy over a few tensor lists
  return memory_time(d, KernelKind::kOptimizer, false, optimizer_traffic(s, p), kKernels);
}

// [F-OFF-1] Gradients of the shard to the host and weights back over the host link; the host's Adam
// passes 28 bytes per parameter at a device's share of its memory bandwidth, taken as 25 GB/s
// (DeepSpeed CPU-Adam, 2101.06840 sec. 5).
Seconds optimizer_offload_time(const DeviceSpec& d, const Strategy& s, const BlockParameters& p) {
  const std::int64_t shard = ceil_div(p.dense, shard_group(s)) + ceil_div(p.experts, expert_dp(s));
  const double copies = real(shard) * (size_of(s.grad_dtype) + storage_size(s.precision));
  constexpr double kHostBandwidth = 25e9, kAdamBytes = 28;
  return Seconds{copies / d.host_link.si() + real(shard) * kAdamBytes / kHostBandwidth};
}

Seconds activation_offload_time(const DeviceSpec& d, Bytes saved, Seconds forward,
                                Seconds backward) {
  const Seconds copy = saved / d.host_link;
  return std::max(copy - forward, Seconds{}) + std::max(copy - backward, Seconds{});
}

StepEnd step_end(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                 const BlockParameters& p, Seconds forward, Seconds backward) {
  StepEnd end;
  std::vector<Reduction> gradients, weights;
  const bool hybrid = s.zero_group > 0 && s.zero_group < s.dp * s.cp;
  const std::int64_t layers = ceil_div(m.num_layers, s.pp);
  const std::int64_t tensors = layers * kTensorsPerLayer;
  append_reductions(s, p.dense, Group::kZeroShard, hybrid ? Group::kZeroReplica : Group::kZeroShard,
                    shard_group(s), tensors, gradients, weights);
  if (m.moe) {
    append_reductions(s, p.experts, Group::kExpertDp, Group::kExpertDp, expert_dp(s), tensors,
                      gradients, weights);
  }
  if (s.vp > 1 && s.schedule == Schedule::kInterleaved) {
    const double others = real(std::min(s.pp, num_microbatches(s))) * real(s.vp - 1) / real(s.vp);
    backward *= std::max(1.0, others);
    forward *= std::max(1.0, others);
  }
  end.exposed =
      exposed_time(c, s, gradients, s.overlap.grad_reduce, backward, size_of(s.grad_dtype), end);
  end.exposed +=
      exposed_time(c, s, weights, s.overlap.param_gather, forward, storage_size(s.precision), end);
  end.optimizer = optimizer_time(c.device, s, p);
  // [F-OPT-2] An eager optimizer step issues its kernels tensor by tensor: about eight tensors a
  // decoder layer (projections and norms).
  const double launches =
      real(tensors) * s.kernels.optimizer_launches * (s.zero >= 1 ? 2 : 1) * s.kernels.host_factor;
  end.optimizer = std::max(end.optimizer, c.device.launch_gap * launches);
  if (s.offload.optimizer) {
    end.offload = optimizer_offload_time(c.device, s, p);
    end.optimizer = Seconds{};
  }
  return end;
}

}  // namespace meshplan
