// What each training framework does unless it is told otherwise. One row per framework; a value
// that a row does not name is the default of Strategy.
#include <array>

#include "base/check.hpp"
#include "spec/strategy.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

// The part of a strategy that a framework decides.
struct Preset {
  Framework framework;
  int zero = 1;
  bool master_weights = true;
  Dtype grad_dtype = Dtype::kFp32;
  Dtype optimizer_dtype = Dtype::kFp32;
  Overlap overlap{};
  Kernels kernels{};
};

constexpr Overlap kAllOverlap{.grad_reduce = true, .param_gather = true, .tp = true, .pp = true};
constexpr Overlap kShardedOverlap{.grad_reduce = true, .param_gather = true};
// Host costs that are fitted are listed in benchmarks/accuracy/constants.yaml. Eager codes whose
// published rows do not tell theirs have megatron's (nanotron's tell only its product with their
// other host costs); torchtitan's compiled blocks issue their kernels without it.
constexpr double kMegatronHost = 7.2;
constexpr Kernels kPlainPytorch{.fused_softmax = false,
                                .fused_norm = false,
                                .fused_rope = false,
                                .fused_activation = false,
                                .fused_dropout_add = false,
                                .fused_cross_entropy = false,
                                .fused_grad_accumulation = false,
                                .fused_optimizer = true,
                                .attention = AttentionKernel::kFlash2,
                                .host_factor = kMegatronHost,
                                .torch_cross_entropy = true,
                                .two_pass_layernorm = true};
// Elements of DeepSpeed's buckets (runtime/zero/config.py).
constexpr std::int64_t kDeepspeedBucket = 500'000'000;

constexpr Kernels deepspeed_kernels() {
  Kernels k = kPlainPytorch;
  k.flat_grad_copies = true;
  k.zero_bucket_size = kDeepspeedBucket;
  return k;
}

constexpr Kernels fsdp_kernels() {
  Kernels k = kPlainPytorch;
  k.late_gradients = true;
  return k;
}

constexpr std::array kPresets{
    // Megatron-LM megatron/training/arguments.py: distributed optimizer, --overlap-grad-reduce,
    // --overlap-param-gather, --tp-comm-overlap, overlapped pipeline sends; fp32 main gradients
    // (core/distributed/distributed_data_parallel_config.py, grad_reduce_in_fp32 with --bf16).
    // Dispatcher: what NVIDIA's recipes for mixtures of experts set (Megatron-Bridge
    // scripts/performance). Host costs: fitted to its mixtures of experts, whose layers issue some
    // hundred kernels each; CUDA graphs are host_factor 0.
    Preset{.framework = Framework::kMegatron,
           .overlap = kAllOverlap,
           .kernels = {.flex_dispatcher = true,
                       .host_factor = kMegatronHost,
                       .interleaved_p2p_overlap = true,
                       .fp32_grad_copies = true}},
    // Host costs: fitted to vTrain's launch-bound single-node rows, 3.3 ms for the two forward
    // passes and the backward pass of a recomputed layer whatever its size.
    // Megatron-DeepSpeed (BLOOM, 2211.05100 sec. 3.2): ZeRO-1 and an fp32 gradient accumulator
    // (DeepSpeed runtime/bf16_optimizer.py), nothing overlapped, fused softmax, norm and bias
    // kernels but element-wise rotary embedding.
    Preset{.framework = Framework::kMegatronDeepspeed,
           .overlap = {.tp_backward = false},
           .kernels = {.fused_rope = false,
                       .fused_cross_entropy = false,
                       .fused_grad_accumulation = false,
                       .attention = AttentionKernel::kFlash2,
                       .host_factor = 8.6,
                       .collective_launches = 1.05,
                       .deallocate_pipeline_outputs = false,
                       .two_pass_layernorm = true,
                       .cast_grad_accumulation = true,
                       .grads_beside_sums = true,
                       .flat_grad_copies = true,
                       .zero_bucket_size = kDeepspeedBucket}},
    // DeepSpeed runtime/zero/config.py: stage 3 overlaps and prefetches by default; gradients are
    // kept and reduced in the training dtype unless data_types.grad_accum_dtype says otherwise.
    Preset{.framework = Framework::kDeepspeed,
           .zero = 3,
           .grad_dtype = Dtype::kBf16,
           .overlap = kShardedOverlap,
           .kernels = deepspeed_kernels()},
    // PyTorch torch/distributed/fsdp: fully_shard gathers ahead and reduces beside the backward
    // pass; MixedPrecisionPolicy.reduce_dtype defaults to the parameter dtype.
    Preset{.framework = Framework::kFsdp,
           .zero = 3,
           .grad_dtype = Dtype::kBf16,
           .overlap = kShardedOverlap,
           .kernels = fsdp_kernels()},
    // torchtitan config/job_config.py (v0.2.2): mixed_precision_reduce float32; with compilation,
    // which its exports switch on, chains of element-wise operations are fused in the model and in
    // the loss (components/loss.py), which reads the logits twice forward and makes no fp32 copy of
    // them; asynchronous tensor parallelism is off by default. Attention is PyTorch's
    // scaled_dot_product_attention: FlashAttention-2.
    Preset{.framework = Framework::kTorchtitan,
           .zero = 3,
           .overlap = kShardedOverlap,
           .kernels = {.fused_softmax = false,
                       .inplace_cross_entropy = true,
                       .fused_grad_accumulation = false,
                       .attention = AttentionKernel::kFlash2,
                       .torch_cross_entropy = true,
                       .late_gradients = true}},
    // Host costs but host_factor: fitted to the single-node and the pipelined rows of its published
    // sweep (benchmarks/accuracy), where a layer with tensor parallelism takes 4.4 ms whatever its
    // size.
    // nanotron config/config.py and examples: zero_stage 0, accumulate_grad_in_fp32, flash
    // attention's fused rotary embedding and norm. ZeRO-0 is PyTorch's DistributedDataParallel with
    // its default buckets, whose hook all-reduces fp32 sums beside the last backward pass; ZeRO-1
    // is without it (trainer.py, make_ddp): one all-reduce after everything, then lists of parts
    // are gathered (distributed.py, all_gather_coalesced).
    Preset{.framework = Framework::kNanotron,
           .zero = 0,
           .overlap = {.grad_reduce = true},
           .kernels = {.fused_activation = false,
                       .fused_cross_entropy = false,
                       .fused_grad_accumulation = false,
                       .attention = AttentionKernel::kFlash2,
                       .whole_reduction = true,
                       .host_factor = kMegatronHost,
                       .bucket_mib = 25,
                       .optimizer_launches = 2.25,
                       .contended_launches = 5.36,
                       .collective_launches = 5.2,
                       .shard_launches = 0.215,
                       .retry_stall = 0.27,
                       .stage_split = StageSplit::kElements,
                       .grads_beside_sums = true,
                       .flat_weight_gather = true,
                       .held_gathers = 46,
                       .held_gathers_one_microbatch = 20}},
    // llm-foundry trains with Composer's FSDP, mixed_precision PURE: bf16 gradients reduced. MPT's
    // loss_fn fused_crossentropy and low-precision LayerNorm are single kernels.
    Preset{.framework = Framework::kLlmFoundry,
           .zero = 3,
           .grad_dtype = Dtype::kBf16,
           .overlap = kShardedOverlap,
           .kernels = {.fused_rope = false,
                       .inplace_cross_entropy = true,
                       .fused_grad_accumulation = false,
                       .attention = AttentionKernel::kTriton,
                       .host_factor = kMegatronHost,
                       .two_pass_layernorm = true,
                       .late_gradients = true}},
    // InternEvo configs/7B_sft.py: hybrid_zero_optimizer overlap_sync_grad, ZeRO-1, gradients in
    // the training dtype, whole parameters per rank (solver/optimizer/hybrid_zero_optim.py); fused
    // kernels of flash-attention 1.0.5 and apex (doc/en/install.md until 2024), norms of
    // residual.float() (model/modeling_internlm.py) and fp32 logits (core/naive_amp.py).
    Preset{.framework = Framework::kInternEvo,
           .grad_dtype = Dtype::kBf16,
           .overlap = {.grad_reduce = true},
           .kernels = {.fused_activation = false,
                       .fused_grad_accumulation = false,
                       .attention = AttentionKernel::kFlash1,
                       .fp32_copies = true,
                       .whole_tensor_shards = true,
                       .host_factor = kMegatronHost}},
    // Megatron-LM up to release 2.x (2020 and 2021; 1909.08053, 2104.04473): the overlap of the
    // backward all-reduce with the weight gradient came with 3.0 (tensor_parallel/layers.py), the
    // distributed optimizer too; no flash attention.
    Preset{.framework = Framework::kMegatronV2,
           .zero = 0,
           .overlap = {.tp_backward = false},
           .kernels = {.fused_cross_entropy = false,
                       .fused_grad_accumulation = false,
                       .host_factor = kMegatronHost,
                       .two_pass_layernorm = true}},
    // DeepSpeed up to 0.5 (2021), stage 3 under Megatron-LM of that time: every weight is gathered
    // by itself after a device synchronisation, into a list of views of all ranks' parts that are
    // copied one by one (runtime/zero/partition_parameters.py, _allgather_param; release 0.3.13),
    // and gradients are reduced likewise: one copy of each part. Host costs: fitted to the six runs
    // of 2104.04473 that use it.
    Preset{.framework = Framework::kDeepspeedV0,
           .zero = 3,
           .grad_dtype = Dtype::kFp16,
           .overlap = {.tp_backward = false},
           .kernels = {.fused_cross_entropy = false,
                       .fused_grad_accumulation = false,
                       .host_factor = 6.9,
                       .shard_launches = 1,
                       .two_pass_layernorm = true}},
};

constexpr bool presets_in_order() {
  for (std::size_t i = 0; i < kPresets.size(); ++i) {
    if (static_cast<std::size_t>(kPresets[i].framework) != i) return false;
  }
  return kPresets.size() == NameTable<Framework>::rows.size();
}
static_assert(presets_in_order());

}  // namespace

Strategy with_preset(Strategy s, Framework f) {
  const Preset& preset = kPresets[static_cast<std::size_t>(f)];
  s.framework = f;
  s.zero = preset.zero;
  s.master_weights = preset.master_weights;
  s.grad_dtype = preset.grad_dtype;
  s.optimizer_dtype = preset.optimizer_dtype;
  s.overlap = preset.overlap;
  s.kernels = preset.kernels;
  return s;
}

Strategy framework_preset(Framework f) { return with_preset(Strategy{}, f); }

}  // namespace meshplan
