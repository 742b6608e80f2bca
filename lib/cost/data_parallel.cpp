#include "cost/data_parallel.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/units.hpp"
#include "comm/collectives.hpp"
#include "cost/block.hpp"
#include "kernels/kernels.hpp"
#include "layout/groups.hpp"
#include "model/quantisation.hpp"
#include "schedule/traits.hpp"
#include "spec/optimizers.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kTensorsPerLayer = 8;  // projections and norms of a decoder layer

// Of a rank's experts: grouped products hold each expert's two weights apart (Transformer Engine
// module/grouped_linear.py, weight0 and so on), as experts that run one by one do.
std::int64_t expert_tensors(const ModelSpec& m, const Strategy& s) {
  constexpr std::int64_t kEach = 2;
  if (!m.moe || has_adapters(s)) return 0;  // beside adapters they are frozen
  return ceil_div(num_moe_layers(m), s.pp) * ceil_div(m.moe->num_experts, s.ep) * kEach;
}

// [F-DP-4] Buckets of PyTorch's DistributedDataParallel: filled from the last weight to the first
// until they reach a size in the training dtype (torch/csrc/distributed/c10d/reducer.cpp,
// compute_bucket_assignment_by_size), so that a larger weight has its own.
double bucket_count(const ModelSpec& m, const Strategy& s) {
  if (s.runtime.bucket_mib <= 0) return 1;
  const double limit = s.runtime.bucket_mib * real(kMiB);
  const double each = real(storage_size(s.precision)) / real(s.tp);
  double count = 0, open = 0;
  const auto take = [&](std::int64_t rows, std::int64_t columns) {
    open += real(rows) * real(columns) * each;
    if (open < limit) return;
    ++count;
    open = 0;
  };
  const std::int64_t h = m.hidden_size, q = m.num_attention_heads * m.head_dim;
  const std::int64_t kv = m.num_query_groups * m.head_dim;
  if (!m.tied_embeddings) take(m.vocab_size, h);
  for (std::int64_t i = 0; i < ceil_div(m.num_layers, s.pp); ++i) {
    take(m.ffn_hidden_size, h);
    take(m.ffn_hidden_size * (m.gated_mlp ? 2 : 1), h);
    take(q, h);
    take(q + 2 * kv, h);
  }
  take(m.vocab_size, h);
  return std::max(1.0, count + (open > 0 ? 1 : 0));
}

// [F-DP-7] Tensors whose owners are scattered over the gradients' buffer: all of it is all-reduced,
// and what others own is copied from what they send (Megatron-Core
// optimizer/layer_wise_optimizer.py, allgather_params).
bool has_scattered_owners(const Strategy& s) {
  const Runtime& k = s.runtime;
  return s.optimizer == Optimizer::kMuon && k.layer_wise_optimizer && !k.layer_wise_param_layout;
}

bool reduces_at_once(const Strategy& s) {
  return s.zero == 1 && (s.runtime.whole_reduction || casts_reduction(s));
}

// Parameters that are reduced alike.
struct Reduced {
  std::int64_t parameters;
  Group group;
  const GroupShape& shard;
  const GroupShape* replica;  // of a shard group smaller than all replicas
  const GroupShape& all;      // all replicas
  std::int64_t shards;
  std::int64_t tensors;
  std::int64_t plain = 0;  // of `parameters`: no weights of products in 8 or 4 bits
  double buckets = 1;
};

// [F-DP-1] Gradients of p parameters: all-reduce (ZeRO-0); reduce-scatter, and an all-gather of
// the updated weights (ZeRO-1); under ZeRO-2 the reduce-scatters ran with the backward passes and
// only the gather is left; under ZeRO-3 nothing is. A shard group smaller than all replicas adds
// an all-reduce of the shards across replicas. (Rajbhandari et al. 1910.02054 sec. 7;
// Megatron-Core distributed/distrib_optimizer.py.) With whole_reduction ZeRO-1 all-reduces too
// (nanotron optim/gradient_accumulator.py, sync_gradients_across_dp), and with cast_reduction, in
// 16 bits [F-DP-9]. [F-DP-10] With fp32_reduction the gradients of ZeRO-0 and 1 travel in fp32.
// [F-DP-3] With whole_tensor_shards every owner's tensors are reduced to it and
// broadcast from it: min(n, tensors) of both, each along a chain of all n ranks (InternEvo
// solver/optimizer/hybrid_zero_optim.py).
void append_reductions(const ClusterSpec& c, const Strategy& s, const Reduced& p, RankEnd& end) {
  if (p.parameters == 0) return;
  const Dtype dtype = reduction_dtype(s);
  const double grad = real(p.parameters) * size_of(dtype);
  const double weight = real(p.parameters - p.plain) * gathered_weight_bytes(s, c.device) +
                        real(p.plain) * storage_size(s.precision);
  const auto add = [&](Reductions& to, Collective op, double bytes, Group group, Dtype type,
                       const GroupShape& g, double times = 1) {
    if (g.size <= 1) return;
    const Seconds each = collective_time(c, op, ceil_bytes(bytes), g).total;
    to.all[to.count++] = {op, bytes, times, group, type, g.size, g.level, each};
  };
  if (s.zero == 0) {
    const Group group = p.replica != nullptr ? Group::kDpCp : p.group;
    add(end.gradients, Collective::kAllReduce, grad / p.buckets, group, dtype, p.all, p.buckets);
    return;
  }
  if (s.zero == 1 && s.runtime.whole_tensor_shards && p.replica == nullptr) {
    const double owners = real(std::max<std::int64_t>(1, std::min(p.shards, p.tensors)));
    add(end.gradients, Collective::kBroadcast, grad / owners, p.group, dtype, p.shard, owners);
    add(end.weights, Collective::kBroadcast, weight / owners, p.group,
        activation_dtype(s.precision), p.shard, owners);
    return;
  }
  if (reduces_at_once(s) || (s.zero == 1 && has_scattered_owners(s))) {
    add(end.gradients, Collective::kAllReduce, grad, Group::kDpCp, dtype, p.all);
  } else if (s.zero == 1) {
    add(end.gradients, Collective::kReduceScatter, grad, p.group, dtype, p.shard);
    if (p.replica != nullptr) {
      add(end.gradients, Collective::kAllReduce, grad / real(p.shards), Group::kZeroReplica, dtype,
          *p.replica);
    }
  }
  if (s.zero <= 2) {
    add(end.weights, Collective::kAllGather, weight, p.group, activation_dtype(s.precision),
        p.shard);
  }
}

// [F-DP-2] Megatron-Core's buckets of max(40 M, 1 M x dp) parameters: of an overlapped reduction at
// least the last bucket stays exposed, of an overlapped gather the first
// (distributed_data_parallel_config.py). The share of `r` that one is.
double last_bucket(const Strategy& s, const Reduction& r, double bytes_each) {
  const double bucket = std::max(40e6, 1e6 * real(s.dp * s.cp)) * bytes_each;
  return std::min(1.0, bucket / std::max(r.bytes * r.times, 1.0));
}

bool has_own_buckets(const Strategy& s) { return s.zero == 0 && s.runtime.bucket_mib > 0; }

Seconds last_of(const Strategy& s, const Reduction& r, double bytes_each) {
  return has_own_buckets(s) ? r.each : r.each * r.times * last_bucket(s, r, bytes_each);
}

// What is seen of so much communication of which `hidden` runs beside kernels.
Seconds seen_of(const ClusterSpec& c, Seconds whole, Seconds hidden) {
  return whole - hidden + hidden * (c.device.overlap_slowdown - 1);
}

Seconds exposed_time(const ClusterSpec& c, const Strategy& s, const Reductions& all,
                     bool overlapped, Seconds window, double bytes_each,
                     std::vector<CommEntry>* table, Seconds before = {}) {
  Seconds exposed;
  for (std::size_t i = 0; i < all.count; ++i) {
    const Reduction& r = all.all[i];
    const Seconds whole = r.each * r.times;
    Seconds left = whole;
    if (overlapped) {
      const Seconds tail = last_of(s, r, bytes_each);
      const Seconds hidden = std::min(whole - tail, window), early = std::min(tail, before);
      window -= hidden, before -= early;
      left = seen_of(c, whole, hidden + early);
    }
    exposed += left;
    if (table == nullptr) continue;
    table->push_back({CommDimension::kDp, r.op, r.size, r.level, ceil_bytes(r.bytes), r.times,
                      r.each, left, r.group, r.dtype, false});
  }
  return exposed;
}

// [F-DP-8] A rank's first chunk is updated first, and its weights are gathered while the others are
// updated: of the first bucket, which every step waits for, so much as (v - 1) / v of the update
// hides (Megatron-Core optimizer/optimizer.py, ChainedOptimizer.step_with_ready_grads).
Seconds update_beside(const Strategy& s, Seconds update) {
  const bool early = s.overlap.param_gather_with_optimizer_step && gathers_beside(s) && s.zero == 1;
  return early ? update * (real(s.vp - 1) / real(s.vp)) : Seconds{};
}

LeastReduced least_reduced(const Strategy& s, const Reductions& all, const Reductions& most,
                           bool overlapped, double bytes_each) {
  LeastReduced least;
  for (std::size_t i = 0; i < all.count; ++i) {
    const Reduction& r = all.all[i];
    const Seconds whole = r.each * r.times;
    least.whole += whole;
    if (!overlapped) continue;
    if (has_own_buckets(s)) {
      least.hideable += whole - r.each;
      continue;
    }
    Seconds bucket;
    for (std::size_t k = 0; k < most.count; ++k) {
      const Reduction& m = most.all[k];
      if (m.op == r.op && m.group == r.group) {
        bucket = m.each * m.times * last_bucket(s, m, bytes_each);
      }
    }
    least.hideable += std::max(whole - bucket, Seconds{});
  }
  return least;
}

// Parameters whose optimizer states a rank holds: its shard, or all without ZeRO.
std::int64_t updated_parameters(const Strategy& s, const BlockParameters& p) {
  if (s.zero == 0) return p.dense + p.experts;
  return ceil_div(p.dense, shard_group(s)) + ceil_div(p.experts, expert_dp(s));
}

// [F-OPT-5] Muon's momentum of sharded states is gathered in 16 bits, so that one rank has a whole
// matrix (Moonlight, 2502.16982 alg. 1), unless it has one owner. [F-OPT-7] What tensor-parallel
// ranks share is gathered in fp32 (Megatron-Core optimizer/emerging_optimizers.py,
// newton_schulz_tp).
Seconds matrix_gathers(const ClusterSpec& c, const Strategy& s, const StepEndGroups& groups,
                       const BlockParameters& p) {
  Seconds time;
  const bool sharded = s.zero >= 1 && groups.shard.size > 1;
  if (sharded && !s.runtime.layer_wise_optimizer) {
    time += collective_time(c, Collective::kAllGather, Bytes{2 * p.dense}, groups.shard).total;
  }
  if (s.tp > 1) {
    const std::int64_t own = (p.dense - p.embedding - p.head) / (sharded ? groups.shard.size : 1);
    time += collective_time(c, Collective::kAllGather, Bytes{4 * own * s.tp}, groups.tensor).total;
  }
  return time;
}

}  // namespace

bool reduces_beside(const Strategy& s) { return s.overlap.grad_reduce && !reduces_at_once(s); }

// [F-DP-6] Of the weights of ZeRO-1 and 2; those of ZeRO-3 are traffic of its layers.
bool gathers_beside(const Strategy& s) {
  return s.overlap.param_gather && !s.runtime.late_weight_gather;
}

// Adafactor's sums over rows and columns are next to nothing whatever the width.
constexpr std::int64_t kAnyWidth = 4096;

// Per parameter of the shard: gradient read for the norm and again for the update, fp32 weight and
// two moments read and written, model weight written; the whole gradient buffer is zeroed. Eager
// optimizers pass every tensor about three times as often.
double optimizer_traffic(const Strategy& s, const BlockParameters& p) {
  const double moments = 2 * optimizer_states(s, kAnyWidth).each;
  const double grad = size_of(s.grad_dtype);
  const bool copy = storage_size(s.precision) == 2 && s.master_weights;
  // [F-MEM-14] Remainders and weights in 16 bits are read and written both.
  const double masters = holds_param_remainders(s) ? 4 + 4 : 8 + 2;
  const double weights = copy ? masters : 2.0 * storage_size(s.precision);
  const double passes = s.runtime.fused_optimizer ? 1 : 3;
  const double update = real(updated_parameters(s, p)) * (moments + weights + 3 * grad) * passes;
  // ZeRO-2 and 3 free what they reduce; without replicas there is nothing to shard and to free.
  const bool frees_dense = s.zero >= 2 && shard_group(s) > 1;
  const bool frees_experts = s.zero >= 2 && expert_dp(s) > 1;
  const double zeroing =
      (frees_dense ? 0 : real(p.dense)) * grad + (frees_experts ? 0 : real(p.experts)) * grad;
  // [F-OPT-8] One rank alone has no number of ranks to scale its gradients by; by tokens it scales
  // all of them once (Megatron-Core distributed/finalize_model_grads.py, scale_gradients).
  const bool scales = s.runtime.calculate_per_token_loss && s.dp * s.cp == 1;
  const double scaling = scales ? 2 * grad * real(p.dense + p.experts) : 0;
  // [F-DP-9] Sums read and a copy written, the copy divided by the number of ranks, what came of it
  // read and sums written, and these once more to themselves: 4 + 2, 2 + 2, 2 + 4, 4 + 4 bytes
  // (DeepSpeed runtime/engine.py, allreduce_bucket, allreduce_and_copy).
  const double casts = casts_reduction(s) ? 24 * real(p.dense + p.experts) : 0;
  // [F-OPT-9] Norms of all gradients before their reduction (Megatron-Core
  // distributed/param_and_grad_buffer.py, check_grads).
  const bool checks = s.runtime.check_for_nan_in_loss_and_grad;
  const double norms = checks ? grad * real(p.dense + p.experts) : 0;
  const double copies =
      has_scattered_owners(s) && s.zero == 1 ? 2.0 * storage_size(s.precision) * real(p.dense) : 0;
  return update + zeroing + scaling + casts + norms + copies;
}

Seconds optimizer_time(const DeviceSpec& d, const Strategy& s, const BlockParameters& p) {
  constexpr double kKernels = 12;  // norm, clip, update and copy over a few tensor lists
  const Seconds update =
      memory_time(d, KernelKind::kOptimizer, false, optimizer_traffic(s, p), kKernels);
  if (s.optimizer != Optimizer::kMuon) return update;
  // [F-OPT-4] In bf16; sharded states leave each matrix to one rank (Moonlight, 2502.16982 alg. 1).
  const Precision precision =
      peak_rate(d, Precision::kBf16).si() > 0 ? Precision::kBf16 : Precision::kFp16;
  const double rate =
      peak_rate(d, precision).si() * d.gemm.sustained[static_cast<std::size_t>(precision)];
  const bool shards = s.zero > 0;
  double flops = p.orthogonalisation / (shards ? real(shard_group(s)) : 1);
  if (s.runtime.layer_wise_optimizer) flops = std::max(flops, p.largest_orthogonalisation);
  flops += p.expert_orthogonalisation / (shards ? real(expert_dp(s)) : 1);
  return update + Seconds{flops / rate};
}

namespace {

Seconds host_update_time(const Strategy& s, const BlockParameters& p) {
  constexpr double kHostBandwidth = 18.5e9, kAdamBytes = 28;
  return Seconds{real(updated_parameters(s, p)) * kAdamBytes / kHostBandwidth};
}

}  // namespace

// [F-OFF-1] Gradients of the shard to the host and weights back over the host link, in fp32 where
// the device keeps fp32 weights; the host's Adam passes 28 bytes per parameter (DeepSpeed CPU-Adam,
// 2101.06840 sec. 5) at a device's share of its memory bandwidth. 18.5 GB/s: Megatron-Bridge's
// measured Qwen3-30B-A3B on H100 takes 3.19 s longer with 1.9 G parameters a device on the host, of
// which its overlapped copies hide 0.31 (skills/nemo-mbridge-perf-cpu-offloading/card.yaml).
Seconds optimizer_offload_time(const DeviceSpec& d, const Strategy& s, const BlockParameters& p) {
  const std::int64_t shard = updated_parameters(s, p);
  const bool in_fp32 = s.master_weights && !s.offload.master_weights;
  const double each = in_fp32 ? 8 : real(size_of(s.grad_dtype) + storage_size(s.precision));
  // Weights that are on the host themselves are copied in the course of the step ([F-OFF-7]).
  const double copies = has_host_weights(s) ? 0 : real(shard) * each / d.host_link.si();
  const double update = host_update_time(s, p).si();
  return Seconds{s.offload.overlap_copies ? std::max(copies, update) : copies + update};
}

Seconds page_time(const DeviceSpec& d, Bytes states, Bytes peak) {
  const Bytes over = std::min(states, peak + states - d.memory);
  return over > Bytes{} ? 2.0 * (over / d.host_link) : Seconds{};
}

Seconds activation_offload_time(const DeviceSpec& d, Bytes saved, Seconds forward,
                                Seconds backward) {
  const Seconds copy = saved / d.host_link;
  return std::max(copy - forward, Seconds{}) + std::max(copy - backward, Seconds{});
}

StepEndGroups step_end_groups(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  StepEndGroups groups;
  groups.hybrid = s.zero_group > 0 && s.zero_group < s.dp * s.cp;
  groups.all = group_shape(s, c, Group::kDpCp);
  groups.shard = s.zero_group > 0 ? group_shape(s, c, Group::kZeroShard) : groups.all;
  if (groups.hybrid) groups.replica = group_shape(s, c, Group::kZeroReplica);
  if (m.moe) groups.experts = group_shape(s, c, Group::kExpertDp);
  if (s.optimizer == Optimizer::kMuon) groups.tensor = group_shape(s, c, Group::kTp);
  return groups;
}

namespace {

// [F-OPT-10] Muon goes matrix by matrix in PyTorch's operators: four to normalise and cast, three
// an iteration, one cast back and two scales, weight decay, two interpolations and the sum
// (Emerging-Optimizers muon_utils.py, newton_schulz; orthogonalized_optimizer.py, step).
Seconds orthogonalisation_host_time(const ClusterSpec& c, const Strategy& s,
                                    const BlockParameters& p) {
  if (s.optimizer != Optimizer::kMuon) return {};
  constexpr double kOperators = 4 + 3 * 5 + 3 + 4;
  const bool shards = s.zero > 0;
  const double matrices = p.matrices / (shards ? real(shard_group(s)) : 1) +
                          p.expert_matrices / (shards ? real(expert_dp(s)) : 1);
  return c.device.launch_gap *
         (std::min(kPlainHostFactor, s.runtime.host_factor) * kOperators * matrices);
}

}  // namespace

RankEnd rank_end(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                 const StepEndGroups& groups, const BlockParameters& p) {
  RankEnd end;
  const std::int64_t tensors = ceil_div(m.num_layers, s.pp) * kTensorsPerLayer;
  append_reductions(c, s,
                    {p.dense, Group::kZeroShard, groups.shard,
                     groups.hybrid ? &groups.replica : nullptr, groups.all, shard_group(s), tensors,
                     p.embedding + p.head + p.dense_in_bf16, s.zero == 0 ? bucket_count(m, s) : 1},
                    end);
  if (m.moe) {
    append_reductions(c, s,
                      {p.experts, Group::kExpertDp, groups.experts, nullptr, groups.experts,
                       expert_dp(s), tensors, p.experts_in_bf16},
                      end);
  }
  end.optimizer = optimizer_time(c.device, s, p);
  if (s.optimizer == Optimizer::kMuon) end.optimizer += matrix_gathers(c, s, groups, p);
  // [F-OPT-2] An eager optimizer step issues its kernels tensor by tensor: about eight tensors a
  // decoder layer (projections and norms). A gather into lists also cuts every tensor into every
  // rank's part and copies each.
  const bool shards = s.zero >= 1 && (shard_group(s) > 1 || (m.moe && expert_dp(s) > 1));
  const double lists = shards && s.zero == 1 ? real(groups.all.size) * s.runtime.shard_launches : 0;
  const double launches = real(tensors + expert_tensors(m, s)) *
                          (s.runtime.optimizer_launches + lists) * s.runtime.host_factor;
  end.optimizer = std::max(end.optimizer,
                           c.device.launch_gap * launches + orthogonalisation_host_time(c, s, p));
  end.offload = optimizer_offload_time(c.device, s, p);
  end.on_host = host_update_time(s, p);
  return end;
}

Seconds never_hidden_gradients(const Strategy& s, const Reduction& r) {
  return reduces_beside(s) ? last_of(s, r, size_of(reduction_dtype(s))) : r.each * r.times;
}

Seconds never_hidden_weights(const Strategy& s, const Reduction& r) {
  return gathers_beside(s) ? last_of(s, r, storage_size(s.precision)) : r.each * r.times;
}

double microbatches_beside(const Strategy& s) {
  if (s.vp <= 1 || traits_of(s.schedule).layout != ChunkLayout::kRounds) return 1;
  return std::max(1.0, real(std::min(s.pp, num_microbatches(s))) * real(s.vp - 1) / real(s.vp));
}

StepEnd step_end(const ClusterSpec& c, const Strategy& s, const RankEnd& rank, Seconds forward,
                 Seconds backward, std::vector<CommEntry>* table) {
  StepEnd end;
  const double others = microbatches_beside(s);
  backward *= others;
  forward *= others;
  end.exposed = exposed_time(c, s, rank.gradients, reduces_beside(s), backward,
                             size_of(reduction_dtype(s)), table);
  end.exposed += exposed_time(c, s, rank.weights, gathers_beside(s), forward,
                              storage_size(s.precision), table, update_beside(s, rank.optimizer));
  // The device's share is updated first (Megatron-Core hybrid_optimizer.py, step).
  const Seconds host = has_host_weights(s) ? rank.on_host : rank.offload;
  end.offload = host * s.offload.host_share();
  end.optimizer = rank.optimizer * s.offload.device_share();
  return end;
}

LeastRankEnd least_rank_end(const Strategy& s, const RankEnd& rank, const RankEnd& most) {
  // What an update hides is not told here.
  if (s.overlap.param_gather_with_optimizer_step && s.overlap.param_gather) {
    return {least_reduced(s, rank.gradients, most.gradients, reduces_beside(s),
                          size_of(reduction_dtype(s))),
            {}};
  }
  return {
      least_reduced(s, rank.gradients, most.gradients, reduces_beside(s),
                    size_of(reduction_dtype(s))),
      least_reduced(s, rank.weights, most.weights, gathers_beside(s), storage_size(s.precision))};
}

Seconds least_exposed(const ClusterSpec& c, const LeastReduced& r, Seconds window) {
  if (c.device.overlap_slowdown > 2) return r.whole;  // to hide something takes more
  return seen_of(c, r.whole, std::min(r.hideable, window));
}

}  // namespace meshplan
