#include "cost/memory.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "cost/block.hpp"
#include "cost/user_buffers.hpp"
#include "layout/groups.hpp"
#include "model/quantisation.hpp"
#include "schedule/traits.hpp"
#include "spec/optimizers.hpp"

namespace meshplan {
namespace {

// Bytes of one kind of state: all of them, or a shard of dense and expert parameters each.
Bytes state(const MemoryRates& rates, const MemoryRates::State& kind, const BlockParameters& p) {
  const auto times = [](double each, std::int64_t n) {
    return each == 0 ? Bytes{} : ceil_bytes(each * static_cast<double>(n));
  };
  const double each = kind.bytes_each;
  const std::int64_t dense = kind.frozen ? p.frozen_bytes : 0;
  const std::int64_t experts = kind.frozen ? p.frozen_expert_bytes : 0;
  if (!kind.sharded) {
    return times(each, p.dense) + times(each, p.experts) + Bytes{dense + experts} +
           times(kind.of_embedding, p.embedding) + times(kind.of_head, p.head);
  }
  const auto of_dense = [&](std::int64_t n) { return ceil_div(n, rates.dense_shards); };
  const auto of_experts = [&](std::int64_t n) { return ceil_div(n, rates.expert_shards); };
  if (kind.whole_matrices) {
    const std::int64_t tables = p.embedding + p.head, matrices = p.dense - tables;
    const std::int64_t own = std::max(of_dense(matrices), std::min(matrices, p.largest_matrix));
    const std::int64_t own_experts = std::max(of_experts(p.experts), p.largest_expert);
    if (kind.whole_tables) {  // on the fullest rank the larger one
      const bool head = p.head > p.embedding;
      return times(each + (head ? kind.of_head : kind.of_embedding),
                   std::max(p.head, p.embedding)) +
             times(each, own) + times(each, own_experts);
    }
    return times(each, own + of_dense(tables)) + times(each, own_experts) +
           times(kind.of_embedding, of_dense(p.embedding)) + times(kind.of_head, of_dense(p.head));
  }
  return times(each, of_dense(p.dense)) + times(each, of_experts(p.experts)) +
         Bytes{of_dense(dense) + of_experts(experts)} +
         times(kind.of_embedding, of_dense(p.embedding)) + times(kind.of_head, of_dense(p.head));
}

// Weights that a device holds of its blocks once more: the embedding table on the rank of a tied
// head or of multi-token prediction, when that is not the embedding's own rank.
std::int64_t copied_table(const ModelSpec& m, const Strategy& s) {
  if (!m.tied_embeddings && m.mtp_layers == 0) return 0;
  return padded_vocab(m, s) / s.tp * m.hidden_size;
}

}  // namespace

double unrounded_bytes(const MemoryRates& rates, const MemoryRates::State& kind,
                       const BlockParameters& p) {
  const auto part = [&](std::int64_t parameters, std::int64_t shards) {
    return static_cast<double>(parameters) / static_cast<double>(kind.sharded ? shards : 1);
  };
  const double trained =
      (part(p.dense, rates.dense_shards) + part(p.experts, rates.expert_shards)) * kind.bytes_each +
      part(p.embedding, rates.dense_shards) * kind.of_embedding +
      part(p.head, rates.dense_shards) * kind.of_head;
  if (!kind.frozen) return trained;
  return trained + part(p.frozen_bytes, rates.dense_shards) +
         part(p.frozen_expert_bytes, rates.expert_shards);
}

SavedRates saved_rates(const BlockCosts& blocks, Recompute mode, std::size_t device) {
  const Recompute rest = mode == Recompute::kFull ? Recompute::kNone : mode;
  SavedRates rates(blocks.size());
  for (std::size_t k = 0; k < rates.size(); ++k) {
    const BlockCost& block = blocks.of(k, device);
    rates[k] = {block.saved.full, block.saved.of(rest), block.saved_for_weight_gradient};
  }
  return rates;
}

void set_offloaded(const BlockCosts& blocks, const Chunk& mine, const Strategy& s,
                   RankMemory& rank) {
  if (!s.offload.activations) return;
  // Two layers' worth stay on the device, one in use and one on its way, or those that are not
  // copied and one. Copies to the host are done when the forward pass is, and come back one by one
  // behind the head's backward pass. What the head keeps is used at once and not worth a copy.
  const Recompute rest = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  Bytes most, ends, all;
  std::int64_t layers = 0;
  for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
    const SavedActivations& saved = blocks.of(k, mine.device).saved;
    if (k >= mtp_block(mine.blocks.size())) {
      ends += saved.full * mine.blocks[k];
      continue;
    }
    if (mine.recomputed[k] > 0) most = std::max(most, saved.full);
    if (mine.blocks[k] > mine.recomputed[k]) most = std::max(most, saved.of(rest));
    if (k < kFirstLayerBlock) continue;
    layers += mine.blocks[k];
    all += saved.full * mine.recomputed[k] + saved.of(rest) * (mine.blocks[k] - mine.recomputed[k]);
  }
  const double share = s.offload.share_of_layers(layers);
  rank.resident = most * 2 + ends, rank.copied_back = most;
  rank.on_host = rank.activations;
  if (share >= 1) return;
  const Bytes here = std::max(ceil_bytes(all.si() * (1 - share)), most) + ends;
  rank.resident = std::min(here + most, rank.activations);
  rank.copied_back = std::max(rank.resident - here, Bytes{});
  rank.on_host = std::min(ceil_bytes(all.si() * share), rank.activations);
}

// Working set at the worst moment: temporaries of the widest block (with everything a recomputed
// layer saves), gathered ZeRO-3 weights and an unsharded gradient, messages. Of multi-token
// prediction when its own logits, and those of the head before it, are given back ([F-MEM-13]).
BufferBytes buffer_bytes(const MemoryRates& rates, const BlockCosts& blocks, const Chunk& mine,
                         Recompute mode) {
  const Recompute rest = mode == Recompute::kFull ? Recompute::kNone : mode;
  const Bytes logits = rates.head_goes_first ? blocks.head().saved.full : Bytes{};
  Bytes widest, gathered, last, of_ends, beside, in_graphs;
  for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
    if (mine.blocks[k] == 0) continue;
    const BlockCost& block = blocks.of(k, mine.device);
    Bytes set = block.working_set;
    if (mine.recomputed[k] > 0) set += block.saved.none - block.saved.full;
    if (mine.recomputed[k] == 0 && mode == Recompute::kSelective) set += block.repeated_set;
    const BlockParameters& p = block.parameters;
    const bool layer = k >= kFirstLayerBlock && k < mtp_block(mine.blocks.size());
    if (k == head_block(mine.blocks.size())) {
      of_ends = std::max(of_ends, set);
    } else if (k == mtp_block(mine.blocks.size())) {
      of_ends = std::max({of_ends, blocks.head().working_set, set - logits * 2});
    } else {
      widest = std::max(widest, set);
      beside = std::max(beside, set - block.working_set + block.working_beside);
      in_graphs = std::max(in_graphs, block.graph_working);
    }
    if (layer) {
      const Bytes saved = mine.recomputed[k] > 0 ? block.saved.full : block.saved.of(rest);
      last = std::max(last, set + saved - state(rates, rates.gradients, p));
    }
    if (rates.gathered_each == 0) continue;
    const bool dense = rates.dense_shards > 1, experts = rates.expert_shards > 1;
    const std::int64_t trained = (dense ? p.dense : 0) + (experts ? p.experts : 0);
    const std::int64_t frozen =
        (dense ? p.frozen_bytes : 0) + (experts ? p.frozen_expert_bytes : 0);
    // Of what is frozen the block in use and the next one.
    const std::int64_t wide =
        layer ? (dense ? p.dense_in_bf16 : 0) + (experts ? p.experts_in_bf16 : 0) : trained;
    const Bytes weights = ceil_bytes(static_cast<double>(trained - wide) * rates.gathered_layer) +
                          Bytes{wide} * rates.gathered_each;
    gathered = std::max(gathered, weights + Bytes{frozen} * 2);
  }
  const Bytes others = gathered + rates.messages;
  if (mine.blocks.embedding() > 0) {
    last -= state(rates, rates.gradients, blocks.embedding().parameters);
  }
  BufferBytes bytes{of_ends + others, widest + others, gathered, rates.messages, last + others, {}};
  if (mine.blocks.head() > 0) {
    bytes.deferred = rates.deferred;
    bytes.ends += bytes.deferred.beside_loss, bytes.layers += bytes.deferred.behind_loss;
  }
  if (rates.late_gradients && mine.blocks.head() > 0) {
    BlockParameters ends = blocks.head().parameters;
    if (rates.copied_frozen == 0) ends.dense += rates.copied_table;
    bytes.head_gradients = state(rates, rates.gradients, ends);
    bytes.layers += bytes.head_gradients;
  }
  bytes.beside_graphs = bytes.layers - widest + beside, bytes.in_graphs = in_graphs;
  return bytes;
}

BlockParameters held_parameters(const MemoryRates& rates, const BlockCosts& blocks,
                                const Chunk& mine) {
  BlockParameters sum;
  for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
    const BlockParameters& p = blocks.of(k, mine.device).parameters;
    sum.dense += p.dense * mine.blocks[k];
    sum.experts += p.experts * mine.blocks[k];
    sum.frozen += p.frozen * mine.blocks[k];
    sum.frozen_bytes += p.frozen_bytes * mine.blocks[k];
    sum.frozen_expert_bytes += p.frozen_expert_bytes * mine.blocks[k];
    sum.embedding += p.embedding * mine.blocks[k];
    sum.head += p.head * mine.blocks[k];
    sum.dense_in_bf16 += p.dense_in_bf16 * mine.blocks[k];
    sum.experts_in_bf16 += p.experts_in_bf16 * mine.blocks[k];
    const auto number = static_cast<double>(mine.blocks[k]);
    sum.orthogonalisation += p.orthogonalisation * number;
    sum.expert_orthogonalisation += p.expert_orthogonalisation * number;
    sum.matrices += p.matrices * number;
    sum.expert_matrices += p.expert_matrices * number;
    if (mine.blocks[k] == 0) continue;
    sum.largest_matrix = std::max(sum.largest_matrix, p.largest_matrix);
    sum.largest_expert = std::max(sum.largest_expert, p.largest_expert);
    sum.largest_orthogonalisation =
        std::max(sum.largest_orthogonalisation, p.largest_orthogonalisation);
  }
  const bool copies = mine.blocks.head() > 0 && mine.blocks.embedding() == 0;
  if (copies && rates.copied_frozen > 0) {
    sum.frozen += rates.copied_table, sum.frozen_bytes += rates.copied_frozen;
  } else if (copies) {
    sum.dense += rates.copied_table, sum.embedding += rates.copied_table;
  }
  return sum;
}

Bytes host_checkpoint_bytes(const BlockCosts& blocks, const Chunk& mine) {
  Bytes sum;
  for (std::size_t k = 0; k < mine.recomputed.size(); ++k) {
    if (mine.blocks[k] == 0) continue;
    sum += blocks[k].host_checkpoint * mine.recomputed[k] + blocks[k].offloaded * mine.blocks[k];
  }
  return sum;
}

void set_stored(const MemoryRates& rates, const BlockCosts& blocks, const Chunk& mine,
                Recompute mode, RankMemory& rank) {
  rank.parameters = held_parameters(rates, blocks, mine);
  rank.states = state_bytes(rates, rank.parameters);
  rank.buffers = buffer_bytes(rates, blocks, mine, mode);
  rank.host_checkpoints = host_checkpoint_bytes(blocks, mine);
  rank.kept = kept_buffers(rates, blocks, mine);
  rank.user_buffers = rates.user_buffers;
  rank.inputs = rates.stage_inputs - (mine.blocks.embedding() > 0 ? rates.chunk_inputs : Bytes{});
}

namespace {

MemoryRates state_rates(const Strategy& s, std::int64_t hidden_size) {
  const Runtime& k = s.runtime;
  MemoryRates rates;
  rates.dense_shards = shard_group(s), rates.expert_shards = expert_dp(s);
  const bool low_precision = storage_size(s.precision) == 2;
  const OptimizerStates kept = optimizer_states(s, hidden_size);
  double optimizer = is_paged(s.optimizer) ? 0 : kept.each;
  if (low_precision && s.master_weights) {
    // [F-MEM-14] Transformer Engine's Adam makes the fp32 weight of the bf16 one and the 16 bits
    // that that lacks, and reads 16-bit gradients (pytorch/optimizers/fused_adam.py, since 2.1;
    // Megatron-Core distrib_optimizer.py, decoupled_grad).
    const double master = holds_param_remainders(s) ? 2 : 4;
    optimizer += master;
    rates.master = {.bytes_each = master, .sharded = s.zero >= 1};
    if (k.fp32_grad_copies && s.grad_dtype != Dtype::kFp32 && !engine_holds_masters(s)) {
      rates.update = {.bytes_each = 4, .sharded = s.zero >= 1};
    }
  }
  // DeepSpeed's BF16 optimizer keeps the bf16 gradients beside their fp32 sums
  // (runtime/bf16_optimizer.py); nanotron adds them to the sums after the whole backward pass
  // (optim/gradient_accumulator.py).
  const bool both =
      k.grads_beside_sums && s.precision == Precision::kBf16 && s.grad_dtype == Dtype::kFp32;
  // nanotron gathers the updated weights through one flat copy (distributed.py,
  // all_gather_coalesced), too large for any block that the allocator holds free.
  const bool flat_copy = k.flat_weight_gather && s.zero == 1 && rates.dense_shards > 1;
  // [F-MEM-3] DeepSpeed's ZeRO-1 and 2 in fp16 flatten the shard's gradients and cast them to fp32
  // for the update (runtime/zero/stage_1_and_2.py, step): 2 + 4 bytes in blocks that nothing else
  // fits, so the caching allocator keeps them.
  const bool splits = s.zero == 1 || s.zero == 2;
  if (k.flat_grad_copies && splits && s.precision == Precision::kFp16) optimizer += 6;
  // [F-DPO-2] The reference model's weights beside the trained ones; of frozen weights there is one
  // copy, whose adapters are left out for the reference (TRL dpo_trainer.py, null_ref_context).
  const bool reference = s.loss == Loss::kDpo && !is_frozen(s);
  const int copies = (flat_copy ? 2 : 1) + (reference ? 1 : 0);
  rates.weights = {.bytes_each = real(storage_size(s.precision) * copies),
                   .sharded = s.zero == 3,
                   .frozen = true};
  // [F-MEM-19] And the copy that is reduced: no free block is large enough for it, so the allocator
  // has a segment for it whatever lies in others.
  const int beside = (both ? 2 : 0) + (casts_reduction(s) ? 2 : 0);
  rates.gradients = {.bytes_each = real(size_of(s.grad_dtype) + beside), .sharded = s.zero >= 2};
  rates.optimizer = {.bytes_each = optimizer, .sharded = s.zero >= 1};
  // [F-OFF-7] The device has what a gather makes of the shards, one block after the other.
  if (has_host_weights(s)) {
    rates.parked = {.bytes_each = rates.weights.bytes_each + rates.gradients.bytes_each,
                    .sharded = true,
                    .frozen = true};
    rates.weights = rates.gradients = {};
  }
  MemoryRates::State& states = is_paged(s.optimizer) ? rates.paged : rates.optimizer;
  states.sharded = s.zero >= 1;
  states.of_embedding = kept.embedding, states.of_head = kept.head;
  states.whole_matrices = s.optimizer == Optimizer::kMuon && k.layer_wise_optimizer;
  states.whole_tables = states.whole_matrices && !k.layer_wise_param_layout;
  if (is_paged(s.optimizer)) states.bytes_each = kept.each;
  rates.late_gradients = k.late_gradients && num_microbatches(s) == 1;
  rates.head_goes_first = !traits_of(s.schedule).splits_backward;
  if (k.optimizer_in_backward) rates.gradients = rates.update = {}, rates.late_gradients = false;
  // Until the next step's zero_grad sets them to none.
  rates.update_stays = rates.update.bytes_each > 0;
  // [F-MEM-16] Adam of many tensors at a time, but in a kernel per operation, makes the square root
  // of all second moments before it divides by it (torch/optim/adamw.py, _multi_tensor_adamw).
  if (!k.fused_optimizer && s.optimizer == Optimizer::kAdam && !k.optimizer_in_backward) {
    rates.update.bytes_each += size_of(s.optimizer_dtype), rates.update.sharded = s.zero >= 1;
  }
  return rates;
}

// [F-MEM-6] A tensor that a collective uses on a stream of its own goes back to the allocator only
// when the device has come so far (Tensor.record_stream; c10/cuda/CUDACachingAllocator.cpp), and
// the host runs ahead of it. nanotron's asynchronous tensor parallelism gathers whole inputs so;
// where no pipeline message makes the host wait, about 46 of them are held: the median over the
// runs with tp >= 4, pp = 1 of its published sweep, 46 with 16 layers of 2,048 and with 32 of
// 4,096, whatever tp is, and 20 in steps of one microbatch.
std::int64_t held_by_streams(const Strategy& s) {
  if (!s.sequence_parallel || s.pp > 1 || s.tp < 4) return 0;
  const Runtime& k = s.runtime;
  return num_microbatches(s) > 1 ? k.held_gathers : k.held_gathers_one_microbatch;
}

}  // namespace

MemoryRates memory_rates(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  MemoryRates rates = state_rates(s, m.hidden_size);
  rates.copied_table = copied_table(m, s);
  if (is_frozen(s)) rates.copied_frozen = rates.copied_table * storage_size(s.precision);
  // The block in use and the prefetched next one, and one gradient before it is scattered.
  if (s.zero == 3) {
    rates.gathered_each = 2 * storage_size(s.precision) + size_of(s.grad_dtype);
    rates.gathered_layer = 2 * gathered_weight_bytes(s, c.device) + size_of(s.grad_dtype);
  }
  // [F-MEM-12] Where weights are updated in the backward pass there is one gradient at a time, the
  // largest that of the output layer or the embedding; of shards it is counted with their block.
  if (s.runtime.optimizer_in_backward && rates.gathered_each == 0) {
    rates.messages += Bytes{ceil_div(m.vocab_size, s.tp) * m.hidden_size * size_of(s.grad_dtype)};
  }
  const LocalShape l = local_shape(m, s);
  const Bytes message = Bytes{l.bytes} * l.residual * l.norm_tokens;
  if (s.pp > 1) rates.messages += message * 4;  // two receives and two sends in flight
  // [F-MEM-4] DeepSpeed's pipeline engine keeps every microbatch's stage output until its backward
  // pass (runtime/pipe/engine.py, pipe_buffers["outputs"], as many as
  // TrainSchedule.num_pipe_buffers of pipe/schedule.py: the stages from here on, at most the
  // microbatches); Megatron-Core frees it after sending.
  if (s.pp > 1 && !s.runtime.deallocate_pipeline_outputs) {
    rates.messages += message * std::min(s.pp, num_microbatches(s));
  }
  const Bytes gathered = Bytes{l.bytes} * l.hidden * l.tokens;
  // Where layers gather into a buffer of their own, that is counted for itself ([F-MEM-8]).
  const bool kept_apart = s.runtime.kept_gather_buffer && !s.runtime.transformer_engine;
  // So do the user buffers of dense layers ([F-UB-1]; pytorch/module/layernorm_linear.py,
  // fill_userbuffers_buffer_for_all_gather); the tokens of experts are gathered without.
  const bool in_user_buffers = has_user_buffers(s) && !m.moe;
  if (s.sequence_parallel && !kept_apart && !in_user_buffers) rates.messages += gathered;
  rates.messages += gathered * held_by_streams(s);
  rates.deferred = deferred_bytes(s, l);
  add_kept(m, c.device, s, l, rates);
  return rates;
}

StateBytes state_bytes(const MemoryRates& rates, const BlockParameters& p) {
  StateBytes bytes;
  bytes.weights = state(rates, rates.weights, p);
  bytes.gradients = state(rates, rates.gradients, p);
  if (rates.late_gradients) bytes.late = bytes.gradients;
  bytes.optimizer = state(rates, rates.optimizer, p);
  bytes.update = state(rates, rates.update, p);
  bytes.master = state(rates, rates.master, p);
  if (rates.paged.bytes_each > 0) bytes.paged = state(rates, rates.paged, p);
  if (rates.parked.bytes_each > 0) bytes.parked = state(rates, rates.parked, p);
  if (rates.update_stays) bytes.stays = bytes.update;
  return bytes;
}

StateBytes on_device(StateBytes states, const Offload& offload) {
  const double share = offload.device_share();
  if (share == 1) return states;
  // [F-OFF-6] Without the precision-aware optimizer Megatron-Core's distributed optimizer has fp32
  // shards of weights and gradients on the device, which the hybrid one copies (Megatron-Core
  // optimizer/__init__.py, distrib_optimizer.py, cpu_offloading/hybrid_optimizer.py).
  if (!offload.master_weights) {
    states.optimizer = states.master + ceil_bytes((states.optimizer - states.master).si() * share);
    return states;
  }
  for (Bytes* state : {&states.optimizer, &states.update, &states.stays}) {
    *state = ceil_bytes(state->si() * share);
  }
  return states;
}

StateBytes state_bytes(const Strategy& s, const BlockParameters& p, std::int64_t hidden_size) {
  return on_device(state_bytes(state_rates(s, hidden_size), p), s.offload);
}

Bytes host_bytes(const RankMemory& rank, const Offload& offload) {
  Bytes bytes = rank.states.paged + rank.states.parked + rank.host_checkpoints;
  if (offload.optimizer) {
    Offload all = offload;  // the host has fp32 weights of its own in any case
    all.master_weights = true;
    bytes += rank.states.optimizer - on_device(rank.states, all).optimizer;
  }
  if (offload.activations) bytes += rank.on_host;
  return bytes;
}

}  // namespace meshplan
