#include "cost/memory.hpp"

#include <algorithm>

#include "cost/block_ops.hpp"
#include "layout/groups.hpp"
#include "schedule/pipeline.hpp"

namespace meshplan {
namespace {

// The caching allocator's unusable share of what comes and goes within a step (activations and
// buffers); parameters and states are allocated once. Mean reserved over allocated of PyTorch
// training runs is 1 / 0.94 (SimuMax, config of its measured B200 and A100 runs).
constexpr double kFragmentation = 0.06;

// Bytes of one kind of state: all of them, or a shard of dense and expert parameters each.
Bytes state(const MemoryRates& rates, const MemoryRates::State& kind, const BlockParameters& p) {
  const Bytes each{kind.bytes_each};
  if (!kind.sharded) return each * p.dense + each * p.experts;
  return each * ceil_div(p.dense, rates.dense_shards) +
         each * ceil_div(p.experts, rates.expert_shards);
}

bool hold_embedding(std::span<const Chunk> mine) {
  return std::any_of(mine.begin(), mine.end(),
                     [](const Chunk& c) { return c.blocks.embedding() > 0; });
}

bool hold_head(std::span<const Chunk> mine) {
  return std::any_of(mine.begin(), mine.end(), [](const Chunk& c) { return c.blocks.head() > 0; });
}

// Weights that a device holds of its blocks once more: the embedding table on the rank of a tied
// head or of multi-token prediction, when that is not the embedding's own rank.
std::int64_t copied_table(const ModelSpec& m, const Strategy& s) {
  if (!m.tied_embeddings && m.mtp_layers == 0) return 0;
  return padded_vocab(m, s) / s.tp * m.hidden_size;
}

std::vector<Chunk> held_chunks(const Strategy& s, std::span<const Chunk> chunks,
                               std::int64_t rank) {
  std::vector<Chunk> mine;
  for (const std::size_t c : chunks_of_rank(s, rank)) mine.push_back(chunks[c]);
  return mine;
}

Bytes peak_saved(const Strategy& s, const BlockCosts& blocks, std::span<const Chunk> chunks,
                 std::int64_t rank) {
  std::vector<Bytes> saved, kept;
  for (const Chunk& chunk : chunks) {
    saved.push_back(saved_bytes(chunk, blocks, s.recompute));
    kept.push_back(kept_bytes(chunk, blocks, s.recompute));
  }
  return peak_activation(pipeline_shape(s), rank, saved, kept);
}

Bytes activation_bytes(const Strategy& s, const BlockCosts& blocks, std::span<const Chunk> chunks,
                       std::int64_t rank) {
  if (!s.offload.activations) return peak_saved(s, blocks, chunks, rank);
  return resident_activations(s, blocks, held_chunks(s, chunks, rank));
}

}  // namespace

Bytes saved_bytes(const Chunk& chunk, const BlockCosts& blocks, Recompute mode) {
  const Recompute rest = mode == Recompute::kFull ? Recompute::kNone : mode;
  Bytes bytes;
  for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
    const SavedActivations& saved = blocks.of(k, chunk.device).saved;
    bytes += saved.full * chunk.recomputed[k];
    bytes += saved.of(rest) * (chunk.blocks[k] - chunk.recomputed[k]);
  }
  return bytes;
}

Bytes kept_bytes(const Chunk& chunk, const BlockCosts& blocks, Recompute mode) {
  Bytes bytes;
  for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
    const Bytes kept = blocks.of(k, chunk.device).kept_for_weight;
    bytes += kept * (chunk.blocks[k] - chunk.recomputed[k]);
  }
  return std::min(bytes, saved_bytes(chunk, blocks, mode));
}

Bytes resident_activations(const Strategy& s, const BlockCosts& blocks,
                           std::span<const Chunk> mine) {
  // Two layers' worth stay on the device: one in use, one on its way.
  const Recompute rest = s.recompute == Recompute::kFull ? Recompute::kNone : s.recompute;
  Bytes most;
  for (const Chunk& chunk : mine) {
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      const SavedActivations& saved = blocks.of(k, chunk.device).saved;
      if (chunk.recomputed[k] > 0) most = std::max(most, saved.full);
      if (chunk.blocks[k] > chunk.recomputed[k]) most = std::max(most, saved.of(rest));
    }
  }
  return most * 2;
}

namespace {

// [F-MEM-2] Buckets that DeepSpeed's ZeRO-1 and 2 hold for good: two to reduce gradients in turn
// and one to gather weights, 5e8 elements each by default (runtime/zero/config.py
// reduce_bucket_size, allgather_bucket_size; stage_1_and_2.py, ipg_buffer).
Bytes bucket_bytes(const Strategy& s) {
  constexpr std::int64_t kBuckets = 3;
  const bool in_buckets = s.zero == 1 || s.zero == 2;
  if (!in_buckets || shard_group(s) == 1) return {};
  return Bytes{s.kernels.zero_bucket_size * kBuckets * storage_size(s.precision)};
}

}  // namespace

// Working set at the worst moment: temporaries of the widest block (with everything a recomputed
// layer saves), gathered ZeRO-3 weights and an unsharded gradient, messages.
BufferBytes buffer_bytes(const MemoryRates& rates, const BlockCosts& blocks,
                         std::span<const Chunk> mine, Recompute mode) {
  const Recompute rest = mode == Recompute::kFull ? Recompute::kNone : mode;
  Bytes widest, gathered, last;
  for (const Chunk& chunk : mine) {
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      if (chunk.blocks[k] == 0) continue;
      const BlockCost& block = blocks.of(k, chunk.device);
      Bytes set = block.working_set;
      if (chunk.recomputed[k] > 0) set += block.saved.none - block.saved.full;
      widest = std::max(widest, set);
      const BlockParameters& p = block.parameters;
      if (k != kEmbeddingBlock && k != head_block(chunk.blocks.size())) {
        const Bytes saved = chunk.recomputed[k] > 0 ? block.saved.full : block.saved.of(rest);
        last = std::max(last, set + saved - state(rates, rates.gradients, p));
      }
      const std::int64_t dense = rates.dense_shards > 1 ? p.dense : 0;
      const std::int64_t experts = rates.expert_shards > 1 ? p.experts : 0;
      gathered = std::max(gathered, Bytes{dense + experts});
    }
  }
  const Bytes others = gathered * rates.gathered_each + rates.messages;
  if (hold_embedding(mine)) last -= state(rates, rates.gradients, blocks.embedding().parameters);
  return {widest + others, last + others};
}

BlockParameters held_parameters(const MemoryRates& rates, const BlockCosts& blocks,
                                std::span<const Chunk> mine) {
  BlockParameters sum;
  for (const Chunk& chunk : mine) {
    for (std::size_t k = 0; k < chunk.blocks.size(); ++k) {
      const BlockParameters& p = blocks.of(k, chunk.device).parameters;
      sum.dense += p.dense * chunk.blocks[k];
      sum.experts += p.experts * chunk.blocks[k];
    }
  }
  const bool copies = hold_head(mine) && !hold_embedding(mine);
  if (copies) sum.dense += rates.copied_table;
  return sum;
}

BlockParameters rank_parameters(const ModelSpec& m, const Strategy& s, const BlockCosts& blocks,
                                std::span<const Chunk> chunks, std::int64_t rank) {
  return held_parameters(memory_rates(m, s), blocks, held_chunks(s, chunks, rank));
}

namespace {

MemoryRates state_rates(const Strategy& s) {
  const Kernels& k = s.kernels;
  MemoryRates rates;
  rates.dense_shards = shard_group(s), rates.expert_shards = expert_dp(s);
  const bool low_precision = storage_size(s.precision) == 2;
  std::int64_t optimizer = 2 * size_of(s.optimizer_dtype);
  if (low_precision && s.master_weights) {
    optimizer += 4;
    if (k.fp32_grad_copies && s.grad_dtype != Dtype::kFp32) rates.update = {4, s.zero >= 1};
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
  rates.weights = {storage_size(s.precision) * (flat_copy ? 2 : 1), s.zero == 3};
  rates.gradients = {size_of(s.grad_dtype) + (both ? 2 : 0), s.zero >= 2};
  rates.optimizer = {optimizer, s.zero >= 1};
  rates.optimizer_on_host = s.offload.optimizer;
  rates.late_gradients = k.late_gradients && num_microbatches(s) == 1;
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
  const Kernels& k = s.kernels;
  return num_microbatches(s) > 1 ? k.held_gathers : k.held_gathers_one_microbatch;
}

}  // namespace

MemoryRates memory_rates(const ModelSpec& m, const Strategy& s) {
  MemoryRates rates = state_rates(s);
  rates.copied_table = copied_table(m, s);
  // The block in use and the prefetched next one, and one gradient before it is scattered.
  if (s.zero == 3) rates.gathered_each = 2 * storage_size(s.precision) + size_of(s.grad_dtype);
  const LocalShape l = local_shape(m, s);
  const Bytes message = Bytes{l.bytes} * l.hidden * l.norm_tokens;
  if (s.pp > 1) rates.messages += message * 4;  // two receives and two sends in flight
  // [F-MEM-4] DeepSpeed's pipeline engine keeps every microbatch's stage output until its backward
  // pass (runtime/pipe/engine.py, pipe_buffers["outputs"], as many as
  // TrainSchedule.num_pipe_buffers of pipe/schedule.py: the stages from here on, at most the
  // microbatches); Megatron-Core frees it after sending.
  if (s.pp > 1 && !s.kernels.deallocate_pipeline_outputs) {
    rates.messages += message * std::min(s.pp, num_microbatches(s));
  }
  const Bytes gathered = Bytes{l.bytes} * l.hidden * l.tokens;
  if (s.sequence_parallel) rates.messages += gathered;
  rates.messages += gathered * held_by_streams(s);
  rates.messages += bucket_bytes(s);
  return rates;
}

StateBytes state_bytes(const MemoryRates& rates, const BlockParameters& p) {
  StateBytes bytes;
  bytes.weights = state(rates, rates.weights, p);
  bytes.gradients = state(rates, rates.gradients, p);
  if (rates.late_gradients) bytes.late = bytes.gradients;
  if (rates.optimizer_on_host) return bytes;
  bytes.optimizer = state(rates, rates.optimizer, p);
  bytes.update = state(rates, rates.update, p);
  return bytes;
}

StateBytes state_bytes(const Strategy& s, const BlockParameters& p) {
  return state_bytes(state_rates(s), p);
}

Bytes offloaded_bytes(const MemoryRates& rates, const BlockParameters& p) {
  return rates.optimizer_on_host ? state(rates, rates.optimizer, p) : Bytes{};
}

Bytes offloaded_bytes(const Strategy& s, const BlockParameters& p) {
  return offloaded_bytes(state_rates(s), p);
}

Bytes host_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                 const BlockCosts& blocks) {
  if (!s.offload.optimizer && !s.offload.activations) return {};
  const std::vector<Chunk> chunks = chunk_plan(m, s);
  Bytes most;
  for (std::int64_t r = 0; r < s.pp; ++r) {
    Bytes bytes = offloaded_bytes(s, rank_parameters(m, s, blocks, chunks, r));
    if (s.offload.activations) bytes += peak_saved(s, blocks, chunks, r);
    most = std::max(most, bytes);
  }
  return most * c.gpus_per_node;
}

// Per channel and peer NCCL holds 8 x 512 x 8 x 16 bytes (LL), 120 x 640 x 8 x 8 (LL128) and 4 MiB
// (Simple): 9.19 MiB (nccl src/init.cc, src/include/device.h). A communicator connects its ring and
// the two peers of its trees on 24 channels inside a node, 16 across nodes: 662 and 441 MiB (688 MB
// measured in nccl issue 964; 7 to 10 GB for the ten groups of a Megatron job with experts in verl
// issue 6266). Frameworks also create the world group, and the model-parallel group for gradient
// norms; pipeline neighbours use two channels each way and only the Simple buffer.
Bytes communicator_bytes(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  constexpr std::int64_t kPerConnection = 8LL * 512 * 8 * 16 + 120LL * 640 * 8 * 8 + 4 * kMiB;
  constexpr std::int64_t kInsideNode = 24, kAcrossNodes = 16, kRingAndTree = 3;
  Bytes bytes;
  const auto add_sized = [&](std::int64_t ranks, bool inside) {
    if (ranks <= 1) return;
    bytes += Bytes{(inside ? kInsideNode : kAcrossNodes) * kRingAndTree * kPerConnection};
  };
  const auto add = [&](Group kind) {
    const GroupShape g = group_shape(s, c, kind);
    add_sized(g.size, g.level == 0);
  };
  const bool one_node = num_gpus(s) <= c.gpus_per_node;
  add_sized(num_gpus(s), one_node);
  add(Group::kTp);
  add(Group::kCp);
  add(Group::kDpCp);
  if (s.zero_group > 0) add(Group::kZeroReplica);
  if (m.moe) {
    add(Group::kEp);
    if (s.etp > 1) add(Group::kEtp);
    add(Group::kExpertDp);
  }
  if (s.pp > 1) {
    const std::int64_t peers = 2, channels = 2, directions = 2;
    bytes += Bytes{peers * channels * directions * 4 * kMiB};
    add_sized(s.tp * s.pp, s.tp * s.pp * s.dp * s.cp <= c.gpus_per_node);
    if (m.tied_embeddings) add(Group::kEmbedding);
  }
  return bytes;
}

MemoryBreakdown memory_breakdown(const ClusterSpec& c, const StateBytes& states, Bytes activations,
                                 const BufferBytes& buffers, Bytes communicators) {
  MemoryBreakdown memory;
  memory.weights = states.weights;
  memory.gradients = states.gradients;
  memory.optimizer = states.optimizer;
  memory.activations = activations;
  memory.buffers = std::max(buffers.most, states.update - activations);
  if (states.late > Bytes{0}) {
    const Bytes beyond =
        std::max({activations + buffers.most - states.late, buffers.last_layer, Bytes{0}});
    memory.buffers = std::min(memory.buffers, beyond);
    memory.activations = beyond - memory.buffers;
  }
  memory.communicators = communicators;
  memory.context = c.device.context;
  memory.fragmentation = ceil_bytes(kFragmentation * (activations + buffers.most).si());
  memory.reserved = memory.communicators + memory.context + memory.fragmentation;
  memory.peak = memory.weights + memory.gradients + memory.optimizer + memory.activations +
                memory.buffers + memory.reserved;
  memory.capacity = c.device.memory;
  return memory;
}

MemoryBreakdown rank_memory(const ModelSpec& m, const ClusterSpec& c, const Strategy& s,
                            const BlockCosts& blocks, std::span<const Chunk> chunks,
                            std::int64_t rank) {
  const std::vector<Chunk> mine = held_chunks(s, chunks, rank);
  const MemoryRates rates = memory_rates(m, s);
  return memory_breakdown(c, state_bytes(rates, held_parameters(rates, blocks, mine)),
                          activation_bytes(s, blocks, chunks, rank),
                          buffer_bytes(rates, blocks, mine, s.recompute),
                          communicator_bytes(m, c, s));
}

}  // namespace meshplan
