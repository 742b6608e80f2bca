#include "search/bounds.hpp"

#include <algorithm>

#include "cost/chunks.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "schedule/traits.hpp"
#include "search/division_bound.hpp"

namespace meshplan {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

// Sums in another order than the cost model's differ in the last digits.
constexpr double kRounding = 1 - 1e-10;

// Parameters of the whole model on the ranks of one pipeline.
BlockParameters pipeline_parameters(const SearchContext& x, const BlockCosts& blocks) {
  const BlockCounts all = x.prefix.with_ends(x.model);
  BlockParameters sum;
  for (std::size_t k = 0; k < all.size(); ++k) {
    sum.dense += blocks[k].parameters.dense * all[k];
    sum.experts += blocks[k].parameters.experts * all[k];
  }
  return sum;
}

// A rank that holds no more than the average one, shards rounded down.
BlockParameters average_rank(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  const std::int64_t copies = traits_of(s.schedule).copies();
  BlockParameters p = pipeline_parameters(x, blocks);
  p.dense = std::max<std::int64_t>(0, p.dense * copies / s.pp - shard_group(s));
  p.experts = std::max<std::int64_t>(0, p.experts * copies / s.pp - expert_dp(s));
  return p;
}

}  // namespace

double flops_bound(const SearchContext& x, const Strategy& s) {
  const ModelSpec& m = x.model;
  const LayerPrefix& prefix = x.prefix;
  double matrices = real(m.vocab_size) * real(m.hidden_size);
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(prefix.table.size()); ++k) {
    const LayerParameters p = layer_parameters(m, prefix.table.layer(k).kind);
    // Tokens per expert are rounded down to a whole number, at worst to a half.
    matrices += real(prefix.all()[k]) *
                (real(p.attention_linear + p.mlp_linear) + 0.5 * real(p.experts_active));
  }
  const DeviceSpec& d = x.cluster.device;
  double rate = 0;
  for (const Precision p : {s.precision, Precision::kBf16, Precision::kFp16}) {
    rate = std::max(rate, peak_rate(d, p).si() * d.gemm.sustained[static_cast<std::size_t>(p)]);
  }
  if (rate <= 0) return 0;
  const double tokens = real(s.global_batch) * real(s.seq_len);
  const double biases = 0.99;  // parameters that no product multiplies
  const double all = 6 * matrices * biases * tokens / (real(num_gpus(s)) * rate);
  // One microbatch passes forward and input-gradient products of all layers one after the other.
  const double one = all * real(s.pp) / real(num_microbatches(s)) * (2.0 / 3);
  return std::max(all, one) * kRounding;
}

double parts_bound(const Strategy& s, const PartTime& layers) {
  return std::max(layers.all * real(num_microbatches(s)) / real(s.pp), layers.chain) * kRounding;
}

double work_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  return step_lower_bound(x.prefix.with_ends(x.model), s, blocks).si() * kRounding;
}

double pipeline_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                      double limit) {
  return division_bound(x.model, s, blocks, x.prefix, limit) * kRounding;
}

double recompute_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  Seconds again;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(x.prefix.table.size()); ++k) {
    const Seconds full = blocks[k].recompute_full.total();
    const Seconds selective = blocks[k].recompute_selective.total();
    again += (s.recompute == Recompute::kFull ? full : std::min(full, selective)) *
             real(x.prefix.all()[k]);
  }
  const double work = step_lower_bound(x.prefix.with_ends(x.model), s, blocks).si();
  return (work + again.si() * real(num_microbatches(s)) / real(s.pp)) * kRounding;
}

double end_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  const BlockParameters p = average_rank(x, s, blocks);
  const DeviceSpec& d = x.cluster.device;
  const Seconds end =
      s.offload.optimizer ? optimizer_offload_time(d, s, p) : optimizer_time(d, s, p);
  return end.si() * kRounding;
}

double complete_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                      double cutoff) {
  const std::vector<Chunk> chunks = chunk_plan(x.model, s);
  const Recompute mode = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  std::vector<ChunkCost> costs;
  std::vector<ChunkTime> times;
  for (const Chunk& chunk : chunks) {
    costs.push_back(chunk_cost(chunk, blocks, mode));
    times.push_back(costs.back().time);
  }
  Seconds bound =
      s.pp > 1
          ? makespan_lower_bound(pipeline_shape(s), times)
          : (costs[0].time.forward + costs[0].time.backward_input + costs[0].time.backward_weight) *
                real(num_microbatches(s));
  Seconds optimizer, exposed{cutoff};
  for (std::int64_t r = 0; r < s.pp; ++r) {
    const BlockParameters p = rank_parameters(x.model, s, blocks, chunks, r);
    optimizer = std::max(optimizer, optimizer_time(x.cluster.device, s, p));
  }
  if (!s.offload.optimizer) bound += optimizer;
  if (bound.si() * kRounding > cutoff) return bound.si() * kRounding;
  const StepEndGroups groups = step_end_groups(x.model, x.cluster, s);
  const double share = traits_of(s.schedule).share();
  Seconds offload;
  for (std::int64_t r = 0; r < s.pp; ++r) {
    Seconds forward, backward;
    for (const std::size_t c : chunks_of_rank(s, r)) {
      forward += times[c].forward * share;
      backward += (times[c].backward_input + times[c].backward_weight) * share;
    }
    const BlockParameters p = rank_parameters(x.model, s, blocks, chunks, r);
    const StepEnd end =
        step_end(x.cluster, s, rank_end(x.model, x.cluster, s, groups, p), forward, backward);
    exposed = std::min(exposed, end.exposed);
    offload = std::max(offload, end.offload);
  }
  return (bound + exposed + offload).si() * kRounding;
}

Bytes states_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                   Bytes communicators) {
  const StateBytes states = state_bytes(s, average_rank(x, s, blocks));
  const Bytes sum = states.weights + states.gradients + states.optimizer;
  return x.request.ignore_activations ? sum : sum + communicators + x.cluster.device.context;
}

}  // namespace meshplan
