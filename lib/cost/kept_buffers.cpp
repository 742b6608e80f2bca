// What stays allocated from step to step beside weights, gradients and optimizer states.
#include <algorithm>

#include "base/units.hpp"
#include "cost/memory.hpp"
#include "cost/user_buffers.hpp"
#include "model/quantisation.hpp"

namespace meshplan {
namespace {

// [F-MEM-2] Buckets that DeepSpeed's ZeRO-1 and 2 hold for good: two to reduce gradients in turn
// and one to gather weights, 5e8 elements each by default (runtime/zero/config.py
// reduce_bucket_size, allgather_bucket_size; stage_1_and_2.py, ipg_buffer).
Bytes bucket_bytes(const Strategy& s) {
  constexpr std::int64_t kBuckets = 3;
  const bool in_buckets = s.zero == 1 || s.zero == 2;
  if (!in_buckets || shard_group(s) == 1) return {};
  return Bytes{s.runtime.zero_bucket_size * kBuckets * storage_size(s.precision)};
}

// [F-MEM-7] Workspaces for cuBLAS. PyTorch makes one per thread that issues products, the forward
// and the backward pass's: 4096 KiB x 8 since Hopper, else 4096 KiB x 2 + 16 KiB x 8
// (aten/src/ATen/cuda/CublasHandlePool.cpp). Transformer Engine has one more, of 32 MiB since
// Hopper and 4 MiB before, and four for experts' products
// (pytorch/module/base.py, get_cublas_workspace_size_bytes, get_multi_stream_cublas_workspace).
// Products beside communication go to three streams, which share one of three times that size
// (cpp_extensions/gemm.py, get_cublas_workspace, _NUM_MAX_UB_STREAMS) [F-UB-1].
void add_workspaces(const ModelSpec& m, const DeviceSpec& d, const Strategy& s, KeptBuffers& kept) {
  const Runtime& k = s.runtime;
  if (is_amd(d.architecture)) return;
  const bool old = is_before_hopper(d.architecture);
  constexpr std::int64_t kThreads = 2, kStreams = 4, kBeside = 3;
  const std::int64_t chosen = old ? 2 * 4 * kMiB + 8 * 16 * kKiB : 8 * 4 * kMiB;
  const Bytes engine{(old ? 4 : 32) * kMiB};
  kept[Kept::kMathWorkspace] =
      Bytes{k.cublas_workspace_bytes > 0 ? k.cublas_workspace_bytes : chosen} * kThreads;
  if (k.transformer_engine || (k.engine_router && m.moe)) kept[Kept::kEngineWorkspace] = engine;
  if (has_user_buffers(s)) kept[Kept::kOverlapWorkspace] = engine * kBeside;
  if (k.transformer_engine && k.grouped_gemm && m.moe) {
    kept[Kept::kGroupedWorkspace] = engine * kStreams;
  }
}

}  // namespace

void add_kept(const ModelSpec& m, const DeviceSpec& d, const Strategy& s, const LocalShape& l,
              MemoryRates& rates) {
  const Runtime& k = s.runtime;
  add_workspaces(m, d, s, rates.kept);
  rates.user_buffers = user_buffer_bytes(l, s);
  rates.kept[Kept::kReductionBuckets] = bucket_bytes(s);
  // [F-MEM-8] The buffer that Megatron-LM's own layers gather their inputs into, the output layer
  // always; its own attention writes the scores of a microbatch into the same one
  // (core/transformer/dot_product_attention.py).
  if (k.kept_gather_buffer) {
    if (s.sequence_parallel) rates.head_input = Bytes{l.bytes} * l.hidden * l.tokens;
    // So does a dispatch that gathers tokens ([F-EP-14]), on every rank.
    if (m.moe && k.allgather_dispatcher && s.ep * s.etp > 1) {
      const std::int64_t ranks = s.ep * (s.sequence_parallel ? s.etp : 1);
      rates.kept[Kept::kGatheredInput] = Bytes{l.bytes} * l.hidden * l.norm_tokens * ranks;
    }
    if (!k.transformer_engine) {
      const auto heads = static_cast<std::int64_t>(m.num_attention_heads) / s.tp;
      const Bytes scores = Bytes{l.bytes} * s.micro_batch * heads * l.sequence * l.whole;
      rates.kept[Kept::kGatheredInput] =
          std::max({rates.kept[Kept::kGatheredInput], rates.head_input,
                    s.flash_attention ? Bytes{} : scores});
    }
  }
  // [F-MEM-11] A chunk's last input and its gradient stay until its next forward pass
  // (Megatron-Core transformer_block.py, set_input_tensor): published CI runs of 2 and 3 chunks a
  // rank hold 4 to 6 such messages between two steps, of 8 chunks 14 to 16.
  if (s.pp > 1 && k.kept_stage_inputs) {
    rates.chunk_inputs = Bytes{2 * l.bytes} * l.residual * l.norm_tokens;
    rates.stage_inputs = rates.chunk_inputs * s.vp;
  }
  const std::int64_t each = storage_size(s.precision);
  if (k.fused_grad_accumulation) {
    // [F-MEM-9] One of the output layer for each loss: the proxies of DeepSeek-V3 among the
    // published CI runs hold two.
    if (k.head_dummy_gradient && !is_frozen(s)) {
      rates.head_dummy = Bytes{each} * l.vocab * l.hidden * (m.mtp_layers > 0 ? 2 : 1);
    }
    if (k.transformer_engine && k.layer_dummy_gradients) rates.dummy_each = each;
  }
  // [F-MEM-10] Row- and column-wise, with their scales, kept for all microbatches of a step.
  if (is_quantised(s.precision) && k.transformer_engine) {
    const bool stored = is_frozen(s) && (s.lora.frozen_dtype == FrozenDtype::kFp8 ||
                                         s.lora.frozen_dtype == FrozenDtype::kNvfp4);
    const Quantisation q = quantisation(s, d);
    rates.low_each = k.fp8_param_gather || stored ? 0 : q.layouts * q.bytes;
  }
}

KeptBuffers kept_buffers(const MemoryRates& rates, const BlockCosts& blocks, const Chunk& mine) {
  KeptBuffers kept = rates.kept;
  const bool head = mine.blocks.head() > 0 || mine.blocks.mtp() > 0;
  if (head) {
    kept[Kept::kGatheredInput] = std::max(kept[Kept::kGatheredInput], rates.head_input);
    kept[Kept::kHeadDummy] = rates.head_dummy;
  }
  if (rates.dummy_each == 0 && rates.low_each == 0) return kept;
  WeightShapes shapes = 0;
  std::int64_t weights = 0;
  for (std::size_t k = 0; k < mine.blocks.size(); ++k) {
    if (mine.blocks[k] == 0) continue;
    const BlockCost& block = blocks.of(k, mine.device);
    shapes |= block.weight_shapes;
    weights += block.weights * mine.blocks[k];
  }
  kept[Kept::kLayerDummies] = Bytes{blocks.elements(shapes) * rates.dummy_each};
  kept[Kept::kLowWeights] = ceil_bytes(static_cast<double>(weights) * rates.low_each);
  return kept;
}

}  // namespace meshplan
