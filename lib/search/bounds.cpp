#include "search/bounds.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "cost/chunks.hpp"
#include "cost/data_parallel.hpp"
#include "cost/memory.hpp"
#include "model/packing.hpp"
#include "model/parameters.hpp"
#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// The whole model as one rank of a pipeline.
Chunk whole_model(const SearchContext& x, const Strategy& s) {
  const LayerPrefix& prefix = x.prefix(s);
  Chunk whole(prefix.table.size());
  whole.blocks = prefix.with_ends(x.model);
  return whole;
}

// A rank that holds no more than the average one, shards rounded down.
BlockParameters average_rank(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  const std::int64_t copies = traits_of(s.schedule).copies();
  BlockParameters p = held_parameters(MemoryRates{}, blocks, whole_model(x, s));
  p.dense = std::max<std::int64_t>(0, p.dense * copies / s.pp - shard_group(s));
  p.experts = std::max<std::int64_t>(0, p.experts * copies / s.pp - expert_dp(s));
  for (std::int64_t* bytes : {&p.frozen_bytes, &p.frozen_expert_bytes}) {
    *bytes =
        std::max<std::int64_t>(0, *bytes * copies / s.pp - std::max(shard_group(s), expert_dp(s)));
  }
  p.embedding = p.head = p.dense_in_bf16 = p.experts_in_bf16 = 0;
  p.largest_matrix = p.largest_expert = 0, p.largest_orthogonalisation = 0;
  const double share = real(copies) / real(s.pp);
  p.orthogonalisation *= share, p.expert_orthogonalisation *= share;
  p.matrices *= share, p.expert_matrices *= share;
  return p;
}

// Every microbatch passes every block; the fullest rank does at least its even share of that. Ends
// of the step only add.
double even_share(const Strategy& s, const ChunkTime& all) {
  const Seconds work = all.forward + all.backward_input + all.backward_weight;
  return rounded_down(work * (real(num_microbatches(s)) / real(s.pp)));
}

}  // namespace

double flops_bound(const ModelSpec& m, const ClusterSpec& c, const LayerPrefix& prefix,
                   const Strategy& s) {
  double matrices = real(m.vocab_size) * real(m.hidden_size);
  const double capacity = s.runtime.expert_capacity_factor;
  const double taken = capacity > 0 ? std::min(capacity, 1.0) : 1;
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(prefix.table.size()); ++k) {
    const LayerParameters p = layer_parameters(m, prefix.table.layer(k));
    // Tokens per expert are rounded down to a whole number, at worst to a half, or dropped.
    matrices += real(prefix.all()[k]) *
                (real(p.attention_linear + p.mlp_linear) + 0.5 * taken * real(p.experts_active));
  }
  const DeviceSpec& d = c.device;
  double rate = 0;
  for (const Precision p : {s.precision, Precision::kBf16, Precision::kFp16}) {
    rate = std::max(rate, peak_rate(d, p).si() * d.gemm.sustained[static_cast<std::size_t>(p)]);
  }
  if (rate <= 0) return 0;
  const double tokens = computed_tokens(m, s);
  const double biases = 0.99;  // parameters that no product multiplies
  // Forward, input gradient and, unless weights are frozen, weight gradient.
  const double products = is_frozen(s) ? 2 : 3;
  const double all = 2 * products * matrices * biases * tokens / (real(num_gpus(s)) * rate);
  // One microbatch passes forward and input-gradient products of all layers one after the other.
  const double one = all * real(s.pp) / real(num_microbatches(s)) * (2 / products);
  return rounded_down(Seconds{std::max(all, one)});
}

double parts_bound(const Strategy& s, const PartTime& layers) {
  return rounded_down(
      Seconds{std::max(layers.all * real(num_microbatches(s)) / real(s.pp), layers.chain)});
}

double work_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  return even_share(s, chunk_cost(whole_model(x, s), blocks, Recompute::kNone).time);
}

double sharded_work_bound(SearchContext& x, const Strategy& s, std::size_t base) {
  const double one = x.of_sharded(s, base, [&](const BlockCosts& blocks) {
    const ChunkTime all = chunk_cost(whole_model(x, s), blocks, Recompute::kNone).time;
    return (all.forward + all.backward_input + all.backward_weight).si();
  });
  return rounded_down(Seconds{one} * (real(num_microbatches(s)) / real(s.pp)));
}

double pipeline_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                      double limit) {
  return rounded_down(Seconds{x.least_pipeline_time(s, blocks, limit)});
}

double recompute_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  Chunk whole = whole_model(x, s);
  for (std::size_t k = kFirstLayerBlock; k < mtp_block(whole.blocks.size()); ++k) {
    const bool least = blocks[k].recompute_full.total() < blocks[k].recompute_selective.total();
    if (s.recompute == Recompute::kFull || least) whole.recomputed[k] = whole.blocks[k];
  }
  return even_share(s, chunk_cost(whole, blocks, s.recompute).time);
}

double end_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks) {
  const BlockParameters p = average_rank(x, s, blocks);
  const DeviceSpec& d = x.cluster.device;
  const Seconds end = optimizer_offload_time(d, s, p) * s.offload.host_share() +
                      optimizer_time(d, s, p) * s.offload.device_share();
  // A pipeline of more microbatches a turn leaves more of them alone.
  const Seconds alone =
      s.overlap.ep ? unpaired_passes(blocks, whole_model(x, s).blocks).total() : Seconds{};
  return rounded_down(end + alone);
}

Bytes states_bound(const SearchContext& x, const Strategy& s, const BlockCosts& blocks,
                   Bytes communicators) {
  const StateBytes states = state_bytes(s, average_rank(x, s, blocks));
  const Bytes sum = states.weights + states.gradients + states.optimizer;
  return x.request.ignore_activations ? sum : sum + communicators + x.cluster.device.context;
}

}  // namespace meshplan
