#include "cost/block.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"
#include "cost/block_offload.hpp"
#include "cost/block_times.hpp"
#include "cost/deferral.hpp"
#include "cost/host_time.hpp"
#include "model/encoder.hpp"
#include "model/hyper_connections.hpp"
#include "model/kinds.hpp"
#include "model/parameters.hpp"
#include "model/parts.hpp"

namespace meshplan {

bool pipeline_crosses_nodes(const Strategy& s, const ClusterSpec& c) {
  if (s.runtime.contended_launches == 0 || s.pp == 1) return false;
  const GroupShape g = group_shape(s, c, Group::kPpNeighbour);
  std::size_t node = 0;  // the innermost level that connects a whole node
  while (c.levels[node].span != 0 && c.levels[node].span < c.gpus_per_node) ++node;
  return g.level > node;
}

BlockParameters layer_parameters_of_device(const ModelSpec& m, const Strategy& s,
                                           const LayerSpec& layer) {
  const LayerParameters p = layer_parameters(m, layer);
  const std::int64_t split =
      ceil_div(p.attention_linear + p.mlp_linear, s.tp) +
      std::visit([&](const auto& kind) { return copied_parameters(kind, m, s.tp); }, layer.mixer);
  const std::int64_t copied = p.attention_other + p.router + p.norms;
  const std::int64_t experts = ceil_div(p.experts, s.ep * s.etp);
  if (!is_frozen(s)) return {split + copied, experts};
  const int plain = storage_size(s.precision);
  const double each = frozen_bytes_each(s.lora.frozen_dtype, plain);
  return {0, 0, split + copied + experts,
          static_cast<std::int64_t>(std::ceil(each * static_cast<double>(split))) + plain * copied,
          static_cast<std::int64_t>(std::ceil(each * static_cast<double>(experts)))};
}

namespace {

BlockCost finish(const BlockContext& x, const BlockOps& ops, BlockCost cost) {
  add_times(ops, x, cost);
  return cost;
}

// [F-OPT-4] Muon's five Newton-Schulz iterations of an r x c matrix, r <= c: X X^T, its square, and
// both times X, 2 r^2 c + 2 r^3 + 2 r^2 c operations each (Jordan et al. 2024, Muon; Moonlight,
// 2502.16982 eq. 2).
double orthogonalisation_flops(std::int64_t rows, std::int64_t columns) {
  constexpr double kIterations = 5;
  const auto r = static_cast<double>(std::min(rows, columns));
  const auto c = static_cast<double>(std::max(rows, columns));
  return kIterations * (4 * r * r * c + 2 * r * r * r);
}

// [F-OPT-7] Of the whole matrices that tensor-parallel ranks share, which each of them puts
// together and multiplies (Megatron-Core optimizer/emerging_optimizers.py, muon_tp_mode
// duplicated).
void add_orthogonalisation(const KernelOp& op, BlockParameters& p) {
  const std::int64_t n = op.gemm->n, k = op.gemm->k;
  const double each = orthogonalisation_flops(op.splits_inputs ? n : n * op.split,
                                              op.splits_inputs ? k * op.split : k);
  const auto number = static_cast<double>(op.weights / (n * k));
  const double all = each * number;
  if (op.use == WeightUse::kTrainedExpert) {
    p.expert_orthogonalisation += all, p.expert_matrices += number;
    p.largest_expert = std::max(p.largest_expert, n * k);
    return;
  }
  p.orthogonalisation += all, p.matrices += number;
  p.largest_matrix = std::max(p.largest_matrix, n * k);
  p.largest_orthogonalisation = std::max(p.largest_orthogonalisation, each);
}

// The weights of a layer's products, with the shapes of those that have gradients; the output
// layer's count for themselves. Adapters are parameters that no count of the model's has.
void add_weights(const BlockOps& ops, BlockCosts& all, BlockCost& cost) {
  for (const KernelOp& op : ops.kernels) {
    if (op.weights == 0 || op.name == kLogitsName) continue;
    switch (op.use) {
      case WeightUse::kTrained:
      case WeightUse::kTrainedExpert:
        cost.weight_shapes |= all.place_of(op.gemm->n, op.gemm->k);
        add_orthogonalisation(op, cost.parameters);
        [[fallthrough]];
      case WeightUse::kFrozen:
        cost.weights += op.weights;
        break;
      case WeightUse::kAdapter:
        cost.parameters.dense += op.weights;
        break;
      case WeightUse::kExpertAdapter:
        cost.parameters.experts += op.weights;
        break;
    }
  }
}

// [F-LORA-4] The largest of the matrices that are stored in few bits, in 16.
Bytes dequantised_weight(const BlockContext& x, const BlockOps& ops) {
  const Strategy& s = x.strategy;
  const FrozenDtype dtype = s.lora.frozen_dtype;
  const bool multiplied = dtype == FrozenDtype::kFp8 && s.precision == Precision::kFp8;
  if (!is_frozen(s) || dtype == FrozenDtype::kTraining || multiplied) return {};
  std::int64_t most = 0;
  for (const KernelOp& op : ops.kernels) {
    if (op.use == WeightUse::kFrozen && op.gemm) most = std::max(most, op.gemm->n * op.gemm->k);
  }
  return Bytes{most * x.shape.bytes};
}

// The embedding's and the head's parameters, which adapters leave alone.
BlockParameters end_parameters(const BlockContext& x, std::int64_t count) {
  if (!is_frozen(x.strategy)) return {count, 0};
  const std::int64_t each = casts_unquantised(x.strategy) ? 4 : storage_size(x.strategy.precision);
  return {0, 0, count, count * each, 0};
}

// Each part of the encoder is trained or frozen for itself.
void add_encoder(const BlockContext& x, BlockParameters& p) {
  const EncoderParameters encoder = encoder_parameters_of_device(x.model, x.strategy);
  const auto add = [&](FrozenPart part, std::int64_t count) {
    if (trains(x.strategy, part)) {
      p.dense += count;
    } else {
      p.frozen += count, p.frozen_bytes += count * storage_size(x.strategy.precision);
    }
  };
  add(FrozenPart::kVisionModel, encoder.vision_model);
  add(FrozenPart::kVisionProjection, encoder.vision_projection);
}

BlockOps layer_ops(const BlockContext& x, const LayerSpec& layer) {
  BlockOps ops;
  append_layer(x, layer, ops);
  return ops;
}

BlockOps embedding_ops(const BlockContext& x) {
  BlockOps ops;
  append_embedding(x, ops);
  return ops;
}

BlockOps head_ops(const BlockContext& x) {
  BlockOps ops;
  append_head(x, ops);
  return ops;
}

BlockOps mtp_ops(const BlockContext& x) {
  BlockOps ops;
  append_mtp_projection(x, ops);
  append_layer(x, mtp_layer(x.model), ops);
  append_head(x, ops);
  return ops;
}

// [F-EP-4] With overlap.ep the forward of one microbatch runs layer by layer beside the backward of
// another, which frees a layer for each that the forward adds: one layer more than without. The
// forward that runs ahead replaces the one that a rank otherwise starts a step with (Megatron-Core
// combined_1f1b.py; schedules.py, get_pp_rank_microbatches).
Bytes saved_ahead(const BlockContext& x, const SavedActivations& saved) {
  const Strategy& s = x.strategy;
  return s.overlap.ep && s.ep > 1 ? saved.of(s.recompute) : Bytes{};
}

SavedActivations always_saved(double bytes) {
  return {ceil_bytes(bytes), ceil_bytes(bytes), ceil_bytes(bytes)};
}

BlockCost layer_cost(const BlockContext& x, const LayerSpec& layer, BlockCosts& all) {
  const BlockOps ops = layer_ops(x, layer);
  BlockCost cost;
  cost.saved = layer_activations(x, layer);
  if (x.strategy.runtime.host_checkpoints) {
    cost.host_checkpoint = cost.saved.full;
    cost.saved.full = Bytes{};
  }
  cost.graph_inputs = ceil_bytes(layer_graph_inputs(x, layer));
  cost.saved_for_weight_gradient = Bytes{cost.saved.none.count() / 2};
  const Bytes more =
      saved_ahead(x, cost.saved) + dequantised_weight(x, ops) + 2 * cost.host_checkpoint;
  cost.working_set = ceil_bytes(layer_working_bytes(x, layer)) + more;
  const GraphedBytes graphed = layer_graphed_bytes(x, layer);
  cost.graph_saved = ceil_bytes(graphed.saved);
  cost.graph_working = ceil_bytes(graphed.working);
  cost.working_beside = ceil_bytes(graphed.beside) + more;
  cost.repeated_set = x.strategy.runtime.op_recompute
                          ? cost.saved.none - cost.saved.selective
                          : ceil_bytes(layer_saved_bytes(x, layer).together);
  cost.parameters = layer_parameters_of_device(x.model, x.strategy, layer);
  add_weights(ops, all, cost);
  return with_offloaded_modules(x, layer, with_host_checkpoint(x, finish(x, ops, cost)));
}

std::int64_t table_share(const BlockContext& x) { return x.shape.vocab * x.shape.hidden; }

// Recomputation wraps layers alone (torchtitan parallelize_llama.py, apply_ac; Megatron-Core
// transformer_block.py).
BlockOps never_repeated(BlockOps ops) {
  for (KernelOp& op : ops.kernels) op.selective = 0;
  for (CommOp& op : ops.comm) op.selective = false;
  return ops;
}

BlockCost embedding_cost(const BlockContext& x) {
  const BlockOps ops = never_repeated(embedding_ops(x));
  BlockCost cost;
  cost.saved = always_saved(embedding_saved_bytes(x));
  std::int64_t count = table_share(x);
  if (x.model.position_embedding == PositionEmbedding::kLearned) {
    count += x.model.max_seq_length * x.shape.hidden;
  }
  if (x.model.embedding_norm) count += 2 * x.shape.hidden;
  cost.parameters = end_parameters(x, count);
  add_encoder(x, cost.parameters);
  if (!is_frozen(x.strategy)) cost.parameters.embedding = table_share(x);
  return finish(x, ops, cost);
}

BlockCost head_cost(const BlockContext& x) {
  const BlockOps ops = never_repeated(head_ops(x));
  BlockCost cost;
  cost.saved = always_saved(head_saved_bytes(x));
  cost.working_set = ceil_bytes(head_working_bytes(x));
  cost.parameters = end_parameters(x, (x.model.norm == Norm::kLayerNorm ? 2 : 1) * x.shape.hidden +
                                          contraction_parameters(x.model) +
                                          (x.model.tied_embeddings ? 0 : table_share(x)));
  if (cost.parameters.dense > 0 && !x.model.tied_embeddings) {
    cost.parameters.head = table_share(x);
  }
  cost = finish(x, ops, cost);
  if (const std::int64_t deferred = deferred_microbatches(x.strategy); deferred > 0) {
    const double share = real(deferred) / real(num_microbatches(x.strategy));
    cost.deferred_weight = cost.backward_weight * share;
    cost.backward_weight = cost.backward_weight * (1 - share);
  }
  return cost;
}

BlockCost mtp_cost(const BlockContext& x, BlockCosts& all) {
  const LayerSpec layer = mtp_layer(x.model);
  const BlockOps ops = mtp_ops(x);
  BlockCost cost;
  cost.saved = layer_activations(x, layer);
  const Bytes joined = Bytes{4 * x.shape.bytes} * x.shape.hidden * x.shape.norm_tokens;
  cost.saved_for_weight_gradient = Bytes{(cost.saved.none + joined).count() / 2};
  // Its loss waits for the head's, whose backward pass comes first.
  const Bytes kept = joined + ceil_bytes(head_saved_bytes(x));
  cost.saved.none += kept;
  cost.saved.selective += kept;
  cost.saved.full += kept;
  cost.working_set = ceil_bytes(std::max(layer_working_bytes(x, layer), head_working_bytes(x)));
  cost.repeated_set = ceil_bytes(layer_saved_bytes(x, layer).together);
  BlockParameters& p = cost.parameters = layer_parameters_of_device(x.model, x.strategy, layer);
  const BlockParameters joint =
      end_parameters(x, ceil_div(2 * x.shape.hidden * x.shape.hidden, x.strategy.tp) +
                            3 * x.shape.hidden + contraction_parameters(x.model));
  p.dense += joint.dense, p.frozen += joint.frozen, p.frozen_bytes += joint.frozen_bytes;
  add_weights(ops, all, cost);
  if (x.model.mtp_shared) {  // every pass is a block: each holds its share of the one layer
    for (std::int64_t* part :
         {&p.dense, &p.experts, &p.frozen, &p.frozen_bytes, &p.frozen_expert_bytes}) {
      *part = ceil_div(*part, x.model.mtp_layers);
    }
  }
  return finish(x, ops, cost);
}

}  // namespace

// [F-ACT-MEM-1] Mixer and feed-forward together; recomputed fully, the layer keeps its input.
SavedActivations layer_activations(const BlockContext& x, const LayerSpec& layer) {
  const KeptBytes saved = layer_saved_bytes(x, layer);
  return {ceil_bytes(saved.all), ceil_bytes(saved.all - saved.selective),
          ceil_bytes(residual_bytes(x))};
}

namespace {

BlockCosts costs_in(const BlockContext& x) {
  const ModelSpec& m = x.model;
  const BlockTable table = block_table(m, x.strategy);
  const Strategy wide = unquantised(x.strategy);
  const BlockContext in_bf16{m, x.cluster, wide, x.shape};
  BlockCosts costs(table.size());
  costs.embedding() = embedding_cost(x);
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    const bool is_wide = table.in_bf16[i];
    BlockCost& cost = costs[kFirstLayerBlock + i];
    cost = layer_cost(is_wide ? in_bf16 : x, table.layers[i], costs);
    if (!is_wide) continue;
    cost.parameters.dense_in_bf16 = cost.parameters.dense;
    cost.parameters.experts_in_bf16 = cost.parameters.experts;
    cost.weights = 0;
  }
  if (m.mtp_layers > 0) costs.mtp() = mtp_cost(x, costs);
  costs.head() = head_cost(x);
  return costs;
}

// [F-DPO-1] The reference model's forward pass of every microbatch, without a backward pass: the
// same once more (Rafailov et al. 2305.18290 eq. 7; TRL dpo_trainer.py, compute_ref_log_probs).
void add_reference_pass(BlockCosts& costs) {
  for (BlockCost& cost : costs) {
    cost.forward = cost.forward * 2;
    const std::size_t n = cost.communication.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (!cost.communication[i].forward) continue;
      CommEntry again = cost.communication[i];
      again.forward = again.selective = again.repeated = false;  // recomputation does not repeat it
      cost.communication.push_back(again);
    }
  }
}

}  // namespace

BlockCosts block_costs(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockContext x{m, c, s, timed_shape(m, s)};
  BlockCosts costs = costs_in(x);
  const LocalShape most = local_shape(m, s);
  if (most.whole != x.shape.whole) take_memory(costs_in({m, c, s, most}), costs);
  if (s.loss == Loss::kDpo) add_reference_pass(costs);
  return with_sharded_traffic(std::move(costs), m, c, s);
}

std::vector<BlockOps> block_ops(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  const BlockContext x{m, c, s, timed_shape(m, s)};
  const BlockTable table = block_table(m, s);
  const Strategy wide = unquantised(s);
  const BlockContext in_bf16{m, c, wide, x.shape};
  std::vector<BlockOps> all;
  all.push_back(embedding_ops(x));
  for (std::size_t i = 0; i < table.layers.size(); ++i) {
    all.push_back(layer_ops(table.in_bf16[i] ? in_bf16 : x, table.layers[i]));
  }
  all.push_back(m.mtp_layers > 0 ? mtp_ops(x) : BlockOps{});
  all.push_back(head_ops(x));
  return all;
}

}  // namespace meshplan
