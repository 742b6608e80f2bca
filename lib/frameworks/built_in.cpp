// The frameworks in use. Each begins with what its newest release does, with the source; every
// older release says what came after it.
#include "frameworks/preset.hpp"

namespace meshplan {
namespace {

constexpr Overlap kAllOverlap{.grad_reduce = true, .param_gather = true, .tp = true, .pp = true};
constexpr Overlap kShardedOverlap{.grad_reduce = true, .param_gather = true};
// Host costs that are fitted are listed in benchmarks/accuracy/constants.yaml. torchtitan's
// compiled blocks issue their kernels without them.
constexpr double kMegatronHost = 11.0;
// One operator of PyTorch's as plain modules call it, in kernels of the framework: its modules
// take as long as several of them.
constexpr double kMegatronNode = kPlainHostFactor / kMegatronHost;
// Chosen on 186 launch-bound dense runs of Megatron-LM's continuous integration, with what a step
// logs: 1.9 on H100, 2.6 on A100, 2.5 on GB200, 2.4 on all (benchmarks/accuracy/megatron_ci).
constexpr double kMegatronCollective = 2.4;
// Elements of DeepSpeed's buckets (runtime/zero/config.py).
constexpr std::int64_t kDeepspeedBucket = 500'000'000;

constexpr Runtime kPlainPytorch{.fused_softmax = false,
                                .fused_norm = false,
                                .fused_rope = false,
                                .fused_activation = false,
                                .fused_dropout_add = false,
                                .fused_cross_entropy = false,
                                .fused_grad_accumulation = false,
                                .fused_optimizer = true,
                                .attention = AttentionKernel::kFlash2,
                                .host_factor = kPlainHostFactor,
                                .sharded_pipeline = false,
                                .torch_cross_entropy = true,
                                .two_pass_layernorm = true,
                                .split_projections = true,
                                .weighted_expert_outputs = true};

constexpr std::string_view kDcp =
    "PyTorch documentation, torch.distributed.checkpoint: load-time resharding";

ReshardRule universal_checkpoint() {
  return {ReshardKind::kConverted,
          "convert with ds_to_universal.py, load with --universal-checkpoint",
          "DeepSpeed Universal Checkpointing, Lian et al. 2024 (2406.18820); in DeepSpeed since "
          "0.14.4"};
}

ReshardRule sharded_checkpoint() {
  return {ReshardKind::kAtLoad, "load the sharded (DCP) checkpoint", std::string(kDcp)};
}

// --- Megatron-LM and Megatron-Core

// megatron/training/arguments.py: distributed optimizer, --overlap-grad-reduce,
// --overlap-param-gather, --tp-comm-overlap, overlapped pipeline sends (with interleaving alone);
// fp32 main gradients (core/distributed/distributed_data_parallel_config.py, grad_reduce_in_fp32
// with --bf16), others are copied to fp32 for the update (core/optimizer/optimizer.py).
// Dispatcher and loss: what NVIDIA's recipes set (Megatron-Bridge scripts/performance; recipes,
// cross_entropy_fusion_impl), as far as pretrain_gpt.py of the release starts with it. Host costs:
// fitted to its mixtures of experts, whose layers issue some hundred kernels each; CUDA graphs are
// host_factor 0. A node of overlapped dispatch detaches its inputs, waits for and records events of
// two streams and has a backward pass of its own (core/pipeline_parallel/utils.py, ScheduleNode):
// estimated at one operator's time. Runs in fp8 of early 2026 took more, those of August 2026 none
// that shows (Megatron-Bridge, its skill on overlapped experts: 24.7 s become 21.0 s).
constexpr PresetValues kMegatron{.overlap = kAllOverlap,
                                 .runtime = {.flex_dispatcher = true,
                                             .fused_router = true,
                                             .fused_permute = true,
                                             .host_factor = kMegatronHost,
                                             .collective_launches = kMegatronCollective,
                                             .node_launches = kMegatronNode,
                                             .interleaved_p2p_overlap = true,
                                             .fp32_grad_copies = true,
                                             .transformer_engine = true,
                                             .grouped_gemm = true,
                                             .kept_gather_buffer = true,
                                             .kept_stage_inputs = true}};

Preset megatron_core(std::string release, std::string date, std::string source,
                     const PresetValues& values) {
  const std::string guide =
      "Megatron Core API guide, dist_checkpointing: distributed optimizer checkpoint formats";
  return {.framework_name = "megatron",
          .release_name = std::move(release),
          .date = std::move(date),
          .source = std::move(source),
          .values = values,
          .shards = {ReshardKind::kAtLoad, "load the torch_dist checkpoint", guide},
          .model = {ReshardKind::kOption, "resume with --dist-ckpt-optim-fully-reshardable", guide},
          .exported = true};
}

// Dates are those of the release tags' commits (github.com/NVIDIA/Megatron-LM).
void add_megatron(std::vector<Preset>& all) {
  PresetValues v = kMegatron;
  v.runtime.layer_dummy_gradients = v.runtime.head_dummy_gradient = true;
  v.runtime.engine_router = v.runtime.layer_wise_optimizer = true;
  v.runtime.offload_margin = true;
  all.push_back(megatron_core("core_r0.19", "2026-08-19",
                              "megatron/training/arguments.py and megatron/core of core_v0.19.0; "
                              "Megatron-Bridge scripts/performance; pretrain_gpt.py no longer "
                              "starts with Transformer Engine's loss (validate_args)",
                              v));
  v.runtime.inplace_cross_entropy = true;
  all.push_back(megatron_core("2026-01", "2026-01-16",
                              "main, as containers between two releases have it: Muon "
                              "(5548cdc57b, 2026-01-14) and activations on the host by module "
                              "with a margin (b97184db56)",
                              v));
  v.runtime.layer_wise_optimizer = v.runtime.offload_margin = false;
  all.push_back(megatron_core("core_r0.15", "2025-12-05",
                              "core_v0.15.0, the first that captures CUDA graphs of layers after "
                              "some steps without (98b6f0e816, 2025-09-26)",
                              v));
  v.runtime.split_expert_biases = true;
  v.runtime.cuda_graph_warmup_steps = 0;  // training/training.py, train, before its first step
  all.push_back(megatron_core("core_r0.14", "2025-10-08",
                              "core_v0.14.0, the first whose output layer keeps a gradient that "
                              "nobody reads (e7c55de99e, 2025-08-01), and the last that splits "
                              "experts with biases over etp ranks (a329dd6da5, 2025-09-22)",
                              v));
  v.runtime.fused_router = false;
  all.push_back(megatron_core("2025-08", "2025-08-01",
                              "main, as containers between two releases have it: e7c55de99e, the "
                              "gradient of the output layer that nobody reads",
                              v));
  v.runtime.head_dummy_gradient = false;
  all.push_back(megatron_core("core_r0.13", "2025-07-25",
                              "core_v0.13.0: with Transformer Engine 2.5 and its get_dummy_wgrad; "
                              "the last without --moe-router-fusion",
                              v));
  v.runtime.layer_dummy_gradients = v.runtime.engine_router = false;
  all.push_back(megatron_core("core_r0.12", "2025-05-06",
                              "core_v0.12.0, the first with --moe-enable-deepep (0d389f5e99) and "
                              "Transformer Engine's loss (0f60adbd30, 2025-03-08)",
                              v));
  v.runtime.flex_dispatcher = v.runtime.inplace_cross_entropy = false;
  // moe/moe_utils.py, unpermute. Experts weigh their hidden features since 2659630721 (2025-04-09)
  // on main, five days after core_v0.12.0 was cut: that tag's own lack is not told.
  v.runtime.weighted_expert_outputs = true;
  all.push_back(megatron_core("core_r0.11", "2025-03-14",
                              "core_v0.11.0: no flexible dispatcher of tokens", v));
  v.runtime.fused_permute = false;  // --moe-permute-fusion came with core_v0.11.0
  all.push_back(megatron_core("core_r0.8", "2024-08-12",
                              "core_v0.8.0, the first with --cross-entropy-loss-fusion "
                              "(7b4a6d76c9, 2024-06-14)",
                              v));
  v.runtime.fused_cross_entropy = false, v.runtime.cloned_logits = true;
  all.push_back(megatron_core("core_r0.7", "2024-05-30",
                              "core_v0.7.0: no fused loss, and the other one on a copy of the "
                              "logits (in place since 9634c0e4a3, 2024-06-13)",
                              v));
  all.push_back(megatron_core("core_r0.5", "2024-02-26",
                              "core_v0.5.0, the first with a fused rotary embedding "
                              "(de9428a701, 2024-01-18)",
                              v));
  v.runtime.fused_rope = false;
  all.push_back(megatron_core("core_r0.4", "2023-12-11",
                              "core_v0.4.0, the first with --overlap-grad-reduce (2d5220a424), "
                              "--overlap-param-gather, --tp-comm-overlap (116ffddc58) and pipeline "
                              "messages overlapped by default (4eeff55d1f)",
                              v));
  v.overlap = {};
  all.push_back(megatron_core("23.06", "2023-06-28",
                              "megatron/arguments.py of tag 23.06: distributed optimizer, nothing "
                              "of it overlapped; pipeline messages only with "
                              "--overlap-p2p-communication",
                              v));
  all.back().exported = false;
}

// --- DeepSpeed

// runtime/zero/config.py: stage 3 overlaps and prefetches by default; gradients are kept and
// reduced in the training dtype unless data_types.grad_accum_dtype says otherwise.
PresetValues deepspeed_values() {
  PresetValues v{
      .zero = 3, .grad_dtype = Dtype::kBf16, .overlap = kShardedOverlap, .runtime = kPlainPytorch};
  v.runtime.flat_grad_copies = v.runtime.late_weight_gather = true;
  v.runtime.zero_bucket_size = kDeepspeedBucket;
  return v;
}

// Megatron-DeepSpeed: pipeline messages partitioned over tensor ranks (runtime/pipe/engine.py,
// PartitionedTensor), ZeRO-1 and an fp32 gradient accumulator (runtime/bf16_optimizer.py), nothing
// overlapped, fused softmax, norm and bias kernels but element-wise rotary embedding. Host costs:
// fitted to vTrain's launch-bound single-node rows, 3.3 ms for the two forward passes and the
// backward pass of a recomputed layer whatever its size.
constexpr PresetValues kMegatronDeepspeed{.overlap = {.tp_backward = false},
                                          .runtime = {.fused_rope = false,
                                                      .fused_cross_entropy = false,
                                                      .fused_grad_accumulation = false,
                                                      .attention = AttentionKernel::kFlash2,
                                                      .scatter_gather = true,
                                                      .host_factor = 6.60,
                                                      .collective_launches = 1.08,
                                                      .deallocate_pipeline_outputs = false,
                                                      .sharded_pipeline = false,
                                                      .cloned_logits = true,
                                                      .two_pass_layernorm = true,
                                                      .cast_grad_accumulation = true,
                                                      .grads_beside_sums = true,
                                                      .cast_reduction = true,
                                                      .flat_grad_copies = true,
                                                      .zero_bucket_size = kDeepspeedBucket}};

void add_deepspeed(std::vector<Preset>& all) {
  all.push_back({.framework_name = "megatron-deepspeed",
                 .release_name = "bloom",
                 .date = "2022-03-11",
                 .source = "BLOOM, 2211.05100 sec. 3.2; DeepSpeed runtime/bf16_optimizer.py, "
                           "runtime/pipe/engine.py",
                 .values = kMegatronDeepspeed,
                 .shards = universal_checkpoint(),
                 .model = universal_checkpoint(),
                 .exported = true});
  all.push_back({.framework_name = "deepspeed",
                 .release_name = "v0.19",
                 .date = "2026-05-06",
                 .source = "DeepSpeed v0.19.0 runtime/zero/config.py, stage_1_and_2.py",
                 .values = deepspeed_values(),
                 .shards = universal_checkpoint(),
                 .model = universal_checkpoint(),
                 .exported = true});
}

// --- PyTorch

// A release of a code whose checkpoints are sharded ones of PyTorch's.
Preset sharded_release(std::string framework, std::string release, std::string date,
                       std::string source, const PresetValues& values) {
  return {.framework_name = std::move(framework),
          .release_name = std::move(release),
          .date = std::move(date),
          .source = std::move(source),
          .values = values,
          .shards = sharded_checkpoint(),
          .model = sharded_checkpoint(),
          .exported = true};
}

// torch/distributed/fsdp: fully_shard gathers ahead and reduces beside the backward pass;
// MixedPrecisionPolicy.reduce_dtype defaults to the parameter dtype.
// scaled_dot_product_attention prefers cuDNN's kernels on Hopper and Blackwell from cuDNN 9.15.1
// on, which wheels bring since 2.11 (github.com/huggingface/transformers/pull/48163); before,
// FlashAttention-2 comes first. CPUOffloadPolicy moves weights, gradients and the optimizer.
void add_fsdp(std::vector<Preset>& all) {
  PresetValues v{
      .zero = 3, .grad_dtype = Dtype::kBf16, .overlap = kShardedOverlap, .runtime = kPlainPytorch};
  v.runtime.late_gradients = v.runtime.grouped_kernel = v.runtime.recompute_early_stop = true;
  v.offload_weights = v.runtime.fp32_shards = v.runtime.per_parameter_shards = true;
  v.runtime.attention = AttentionKernel::kBest;
  all.push_back(sharded_release("fsdp", "torch2.11", "2026-03-23",
                                "PyTorch 2.11 aten/src/ATen/native/transformers/cuda/"
                                "sdp_utils.cpp, check_prefer_cudnn_attention",
                                v));
  v.runtime.attention = AttentionKernel::kFlash2;
  all.push_back(sharded_release("fsdp", "torch2.6", "2025-01-29",
                                "PyTorch 2.6 torch/distributed/fsdp, fully_shard and "
                                "MixedPrecisionPolicy",
                                v));
}

// config/job_config.py (v0.2.2): mixed_precision_reduce float32; with compilation, which its
// exports switch on, chains of element-wise operations are fused in the model and in the loss
// (components/loss.py), which reads the logits twice forward and makes no fp32 copy of them;
// asynchronous tensor parallelism is off by default. Selective recomputation is by operation
// (models/llama3/infra/parallelize.py, _save_list). Attention is PyTorch's
// scaled_dot_product_attention, cuDNN's kernels first (models/attention.py, sdpa_backends); up to
// v0.1 first on B200 alone, FlashAttention-2 elsewhere. Commits are
// github.com/pytorch/torchtitan's.
void add_torchtitan(std::vector<Preset>& all) {
  PresetValues v{.zero = 3,
                 .overlap = kShardedOverlap,
                 .runtime = {.fused_softmax = false,
                             .inplace_cross_entropy = true,
                             .fused_grad_accumulation = false,
                             .torch_cross_entropy = true,
                             .late_gradients = true,
                             .op_recompute = true,
                             .split_projections = true,
                             .grouped_kernel = true,
                             .weighted_expert_outputs = true,
                             .recompute_early_stop = true,
                             .fp32_shards = true,
                             .per_parameter_shards = true},
                 .offload_weights = true};
  all.push_back(sharded_release("torchtitan", "v0.2", "2026-02-20",
                                "torchtitan v0.2.2 config/job_config.py, components/loss.py, "
                                "models/attention.py",
                                v));
  v.runtime.attention = AttentionKernel::kFlash2;
  all.push_back(sharded_release("torchtitan", "v0.1", "2025-06-17",
                                "v0.1.0 components/loss.py, build_loss_fn", v));
  all.push_back(sharded_release("torchtitan", "bbb1b616e", "2025-04-02",
                                "bbb1b616e: the loss is compiled again where the model is", v));
  const PresetValues compiled = v;
  v.runtime.fused_cross_entropy = v.runtime.inplace_cross_entropy = false;
  all.push_back(sharded_release("torchtitan", "e8977b007", "2024-12-18",
                                "e8977b007: the loss is not compiled, even with compilation on",
                                v));
  all.push_back(sharded_release(
      "torchtitan", "e10cb9494", "2024-10-22",
      "e10cb9494: fp32 logits are made inside the loss, which is compiled", compiled));
}

}  // namespace

std::vector<Preset> built_in_presets() {
  std::vector<Preset> all;
  add_megatron(all);
  add_deepspeed(all);
  add_fsdp(all);
  add_torchtitan(all);
  return all;
}

}  // namespace meshplan
