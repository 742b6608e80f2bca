#include "launch/megatron.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cost/chunks.hpp"
#include "launch/targets.hpp"
#include "model/context.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

bool shards_fully(const Strategy& s) { return s.zero >= 2; }

void add_parallel(const LaunchPlan& p, Options& o) {
  const Strategy& s = p.strategy;
  o.push_back({"--tensor-model-parallel-size", std::to_string(s.tp)});
  if (s.sequence_parallel) o.push_back({"--sequence-parallel"});
  if (s.sequence_parallel && s.overlap.tp) o.push_back({"--tp-comm-overlap"});
  o.push_back({"--pipeline-model-parallel-size", std::to_string(s.pp)});
  o.push_back({"--context-parallel-size", std::to_string(s.cp)});
  if (s.cp > 1) {
    constexpr std::array kNames{"p2p", "all_gather", "a2a"};
    o.push_back({"--cp-comm-type", kNames[static_cast<std::size_t>(s.cp_kind)]});
  }
  if (p.model.moe) {
    o.push_back({"--expert-model-parallel-size", std::to_string(s.ep)});
    o.push_back({"--expert-tensor-parallel-size", std::to_string(s.etp)});
    // The flexible dispatcher wants a group (core/transformer/moe/token_dispatcher.py).
    const bool grouped = s.ep * s.etp > 1, flex = s.runtime.flex_dispatcher && grouped;
    const bool gathers = s.runtime.allgather_dispatcher && grouped;
    o.push_back({"--moe-token-dispatcher-type", flex      ? "flex"
                                                : gathers ? "allgather"
                                                          : "alltoall"});
    if (flex) o.push_back({"--moe-flex-dispatcher-backend", "deepep"});
    if (s.runtime.expert_capacity_factor > 0) {
      o.push_back({"--moe-expert-capacity-factor", key_text(s.runtime.expert_capacity_factor)});
      if (s.runtime.pad_to_capacity) o.push_back({"--moe-pad-expert-input-to-capacity"});
    }
    if (s.overlap.ep) o.push_back({"--overlap-moe-expert-parallel-comm"});
    if (s.overlap.delay_wgrad_compute) o.push_back({"--delay-wgrad-compute"});
    if (s.overlap.shared_experts) o.push_back({"--moe-shared-expert-overlap"});
    if (s.runtime.grouped_gemm) o.push_back({"--moe-grouped-gemm"});
    if (s.runtime.fused_router) o.push_back({"--moe-router-fusion"});
    if (s.runtime.fused_permute) o.push_back({"--moe-permute-fusion"});
    if (p.model.activation == Activation::kRelu2 && !p.model.gated_mlp) {
      o.push_back({"--use-fused-weighted-squared-relu"});
    }
    if (s.runtime.fused_experts && s.precision == Precision::kFp8) {
      o.push_back({"--use-transformer-engine-op-fuser"});
      o.push_back({"--moe-mlp-glu-interleave-size", "32"});
    }
  }
  if (!same_rank_order(s, kDefaultOrder)) o.push_back({"--use-tp-pp-dp-mapping"});
}

void add_deferral(const Strategy& s, Options& o) {
  if (!s.runtime.defer_embedding_wgrad_compute) return;
  o.push_back({"--defer-embedding-wgrad-compute"});
  if (s.runtime.wgrad_deferral_limit == 0) return;
  o.push_back({"--wgrad-deferral-limit", std::to_string(s.runtime.wgrad_deferral_limit)});
}

// Equal chunks have a number, an uneven first or last rank has a flag each; any other division is a
// layout. An end that holds no layer needs the layout too.
void add_stages(const LaunchPlan& p, Options& o) {
  const Strategy& s = p.strategy;
  if (s.pp == 1) return;
  const std::vector<std::int64_t>& layers = s.stage_layers;
  if (is_megatron_hybrid(p.model)) {  // whose pattern says the stages
    if (s.vp > 1 && !s.overlap.pp) o.push_back({"--no-overlap-p2p-communication"});
    return;
  }
  const auto whole = [&](std::int64_t count) { return count > 0 && count % s.vp == 0; };
  const bool middle_alike = std::adjacent_find(layers.begin() + 1, layers.end() - 1,
                                               std::not_equal_to<>()) == layers.end() - 1;
  // Its layers that choose experts by the token stay with the embedding only where a layout says so
  // (Megatron-Bridge models/deepseek/deepseek_v4_bridge.py).
  const bool needs_layout =
      std::any_of(p.model.layers.begin(), p.model.layers.end(), [](const LayerRun& run) {
        return std::holds_alternative<CompressedAttentionSpec>(run.layer.mixer);
      });
  const bool flags = !needs_layout && s.chunk_layers.empty() && middle_alike &&
                     std::all_of(layers.begin(), layers.end(), whole);
  if (!flags) {
    o.push_back({"--pipeline-model-parallel-layout", megatron_pipeline_layout(p.model, s)});
  } else {
    if (s.vp > 1) o.push_back({"--num-virtual-stages-per-pipeline-rank", std::to_string(s.vp)});
    const bool even = std::all_of(layers.begin(), layers.end(),
                                  [&](std::int64_t count) { return count == layers.front(); });
    if (!even) {
      o.push_back({"--decoder-first-pipeline-num-layers", std::to_string(layers.front())});
      o.push_back({"--decoder-last-pipeline-num-layers", std::to_string(layers.back())});
    }
  }
  if (s.vp > 1) {
    const std::int64_t group = s.runtime.microbatch_group_size;
    o.push_back({"--microbatch-group-size-per-virtual-pipeline-stage",
                 std::to_string(group > 0 ? group : s.pp)});
    if (!s.overlap.pp) o.push_back({"--no-overlap-p2p-communication"});
  }
}

std::string type_name(Dtype d) { return std::string(name_of(d)); }

void add_fully_sharded(const Strategy& s, Options& o) {
  o.push_back({"--use-megatron-fsdp"});
  o.push_back(
      {"--data-parallel-sharding-strategy", s.zero == 2 ? "optim_grads" : "optim_grads_params"});
  o.push_back({"--ckpt-format", "fsdp_dtensor"});
  o.push_back({"--init-model-with-meta-device"});
  o.push_back({"--megatron-fsdp-main-grads-dtype", type_name(s.grad_dtype)});
  o.push_back({"--megatron-fsdp-grad-comm-dtype", type_name(s.grad_dtype)});
}

void add_data_parallel(const LaunchPlan& p, Options& o) {
  const Strategy& s = p.strategy;
  if (s.zero >= 1) o.push_back({"--use-distributed-optimizer"});
  if (shards_fully(s)) add_fully_sharded(s, o);
  const std::int64_t copies = s.dp * s.cp / shard_group(s);
  if (s.zero >= 1 && copies > 1) {
    o.push_back({"--num-distributed-optimizer-instances", std::to_string(copies)});
  }
  if (s.overlap.grad_reduce) o.push_back({"--overlap-grad-reduce"});
  if (s.overlap.param_gather && s.zero >= 1) o.push_back({"--overlap-param-gather"});
  if (s.overlap.param_gather_with_optimizer_step && s.overlap.param_gather && s.vp > 1) {
    o.push_back({"--overlap-param-gather-with-optimizer-step"});
  }
  if (s.optimizer == Optimizer::kMuon && !s.runtime.layer_wise_param_layout) {
    o.push_back({"--no-use-layer-wise-param-layout"});
  }
  if (s.runtime.calculate_per_token_loss) o.push_back({"--calculate-per-token-loss"});
  if (!s.runtime.fused_grad_accumulation) o.push_back({"--no-gradient-accumulation-fusion"});
}

void add_batch(const Strategy& s, Options& o) {
  o.push_back({"--micro-batch-size", std::to_string(s.micro_batch)});
  o.push_back({"--global-batch-size", std::to_string(s.global_batch)});
}

std::vector<std::string> recomputed_modules(const LaunchPlan& p) {
  const Strategy& s = p.strategy;
  std::vector<std::string> words{"--recompute-modules"};
  for (const auto& row : NameTable<RecomputeModule>::rows) {
    if (s.recompute_modules.has(row.value)) words.emplace_back(row.name);
  }
  if (words.size() > 1) return words;
  if (!s.flash_attention) return {"--recompute-modules", "core_attn"};
  words.emplace_back("layernorm");
  if (p.model.moe) words.emplace_back("moe_act");
  if (num_moe_layers(p.model) < p.model.num_layers) words.emplace_back("mlp");
  if (p.model.mla) words.emplace_back("mla_up_proj");
  return words;
}

// Both forms are read by core_r0.15 and later; ranks' random numbers are then Transformer Engine's.
void add_graphs(const Strategy& s, Options& o) {
  const CudaGraph graph = s.runtime.cuda_graph;
  if (graph == CudaGraph::kNone) return;
  const bool layer = graph == CudaGraph::kLayer;
  o.push_back({"--cuda-graph-impl", layer ? "transformer_engine" : "local"});
  if (!layer) o.push_back({"--cuda-graph-scope", "full_iteration"});
  constexpr std::int64_t kDefaultWarmup = 3;  // core/transformer/transformer_config.py
  if (layer && s.runtime.cuda_graph_warmup_steps != kDefaultWarmup) {
    o.push_back({"--cuda-graph-warmup-steps", std::to_string(s.runtime.cuda_graph_warmup_steps)});
  }
  std::vector<std::string> parts{"--cuda-graph-scope"};
  for (const auto& row : NameTable<CudaGraphModule>::rows) {
    if (s.runtime.cuda_graph_modules.has(row.value)) parts.emplace_back(row.name);
  }
  if (layer && parts.size() > 1) o.push_back(parts);
  o.push_back({"--te-rng-tracker"});
}

void add_memory(const LaunchPlan& p, Options& o) {
  const Strategy& s = p.strategy;
  const std::optional<std::int64_t> each = recomputed_per_chunk(s, p.model);
  PLAN_CHECK(each.has_value());
  if (*each != 0) {
    o.push_back({"--recompute-granularity", "full"});
    o.push_back({"--recompute-method", *each < 0 ? "uniform" : "block"});
    o.push_back({"--recompute-num-layers", std::to_string(*each < 0 ? 1 : *each)});
  } else if (s.recompute == Recompute::kSelective) {
    o.push_back({"--recompute-granularity", "selective"});
    o.push_back(recomputed_modules(p));
    const std::int64_t layers = s.runtime.mhc_recompute_layers;
    if (layers > 0) o.push_back({"--mhc-recompute-layer-num", std::to_string(layers)});
  }
  if (s.offload.activations) {
    const std::int64_t all = p.model.num_layers - 1, some = s.offload.activation_layers;
    const std::int64_t layers = some > 0 ? std::min(some, all) : all;
    o.push_back({"--cpu-offloading-num-layers", std::to_string(layers)});
  }
  if (!s.offload.modules.empty()) {
    o.push_back({"--fine-grained-activation-offloading"});
    std::vector<std::string> words{"--offload-modules"};
    for (const auto& row : NameTable<OffloadModule>::rows) {
      if (s.offload.modules.has(row.value)) words.emplace_back(row.name);
    }
    o.push_back(words);
    const double fraction = s.offload.activation_fraction;
    if (fraction < 1) o.push_back({"--activation-offload-fraction", key_text(fraction)});
  }
  if (s.optimizer != Optimizer::kAdam) {
    o.push_back({"--optimizer", std::string(name_of(s.optimizer))});
  }
  const bool low_moments = s.optimizer_dtype != Dtype::kFp32;
  const bool aware = is_precision_aware(s) || low_moments;
  if ((s.offload.optimizer && s.offload.master_weights) || aware) {
    o.push_back({"--use-precision-aware-optimizer"});
  }
  if (s.offload.optimizer) {
    o.push_back({"--optimizer-cpu-offload"});
    const double fraction = s.offload.optimizer_fraction;
    o.push_back({"--optimizer-offload-fraction", fraction == 1 ? "1.0" : key_text(fraction)});
    if (s.offload.overlap_copies) o.push_back({"--overlap-cpu-optimizer-d2h-h2d"});
  }
  if (low_moments) {
    o.push_back({"--exp-avg-dtype", type_name(s.optimizer_dtype)});
    o.push_back({"--exp-avg-sq-dtype", type_name(s.optimizer_dtype)});
  }
}

void add_precision(const LaunchPlan& p, Options& o) {
  const Strategy& s = p.strategy;
  switch (s.precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return;
    case Precision::kFp16:
      o.push_back({"--fp16"});
      if (s.grad_dtype == Dtype::kFp32) o.push_back({"--accumulate-allreduce-grads-in-fp32"});
      return;
    case Precision::kFp8: {
      const ScalingRecipe recipe = scaling_recipe(s, p.cluster.device.architecture);
      o.push_back({"--bf16"});
      o.push_back({"--fp8-format", recipe == ScalingRecipe::kMxfp8 ? "e4m3" : "hybrid"});
      o.push_back({"--fp8-recipe", std::string(name_of(recipe))});
      if (s.runtime.fp8_param_gather) o.push_back({"--fp8-param-gather"});
      break;
    }
    case Precision::kNvfp4:
      o.push_back({"--bf16"});
      o.push_back({"--fp4-format", "e2m1"});
      o.push_back({"--fp4-recipe", "nvfp4"});
      if (s.runtime.fp8_param_gather) o.push_back({"--fp4-param-gather"});
      break;
    case Precision::kBf16:
      o.push_back({"--bf16"});
      break;
  }
  if (has_bf16_layers(s)) {
    const Runtime& k = s.runtime;
    o.push_back({"--first-last-layers-bf16"});
    o.push_back({"--num-layers-at-start-in-bf16", std::to_string(k.num_layers_at_start_in_bf16)});
    o.push_back({"--num-layers-at-end-in-bf16", std::to_string(k.num_layers_at_end_in_bf16)});
  }
  if (s.grad_dtype == Dtype::kBf16) o.push_back({"--grad-reduce-in-bf16"});
}

void add_kernels(const LaunchPlan& p, Options& o) {
  const Runtime& k = p.strategy.runtime;
  const char* backend = "auto";
  if (k.attention == AttentionKernel::kFlash2) backend = "flash";
  if (!p.strategy.flash_attention) backend = "unfused";
  o.push_back({"--attention-backend", backend});
  if (k.fused_cross_entropy) {
    o.push_back({"--cross-entropy-loss-fusion"});
    if (k.inplace_cross_entropy) o.push_back({"--cross-entropy-fusion-impl", "te"});
  }
  if (!k.check_for_nan_in_loss_and_grad) o.push_back({"--no-check-for-nan-in-loss-and-grad"});
  if (!k.fused_softmax) o.push_back({"--no-masked-softmax-fusion"});
  if (!k.fused_dropout_add) o.push_back({"--no-bias-dropout-fusion"});
  if (!k.fused_activation) {
    o.push_back({p.model.activation == Activation::kSilu ? "--no-bias-swiglu-fusion"
                                                         : "--no-bias-gelu-fusion"});
  }
}

// What the plan does not decide; enough to start on synthetic data.
Options dry_start(const Strategy& s) {
  Options o{{"--tokenizer-type", "NullTokenizer"},
            {"--mock-data"},
            {"--split", "99,1,0"},
            {"--train-iters", "20"},
            {"--lr", "3e-4"},
            {"--min-lr", "3e-5"},
            {"--lr-decay-style", "cosine"},
            {"--weight-decay", "0.1"},
            {"--clip-grad", "1.0"},
            {"--log-interval", "1"},
            {"--eval-iters", "0"}};
  if (!s.runtime.create_attention_mask_in_dataloader) {
    o.push_back({"--no-create-attention-mask-in-dataloader"});
  }
  return o;
}

void add_megatron_notes(const LaunchPlan& p, std::vector<std::string>& notes) {
  const Strategy& s = p.strategy;
  if (s.pp > 1 && s.tp > 1 && !s.sequence_parallel && s.runtime.scatter_gather) {
    notes.emplace_back(
        "Megatron-Core sends whole pipeline messages without sequence parallelism; the plan counts "
        "them split over tensor ranks (kernels.scatter_gather)");
  }
  if (p.model.mla && s.runtime.fused_rope) {
    notes.emplace_back(
        "the rotary embedding of latent attention is not fused; the plan counts one kernel");
  }
  if (p.model.moe && p.model.moe->imbalance > 1) {
    notes.emplace_back("the experts' imbalance is an assumption of the plan, not a setting");
  }
  const bool sends = p.model.moe && s.ep * s.etp > 1 && s.runtime.flex_dispatcher;
  if (sends && has_token_proxies(p.cluster)) {
    const std::string proxy = s.runtime.dispatch_nvshmem ? "NVSHMEM's over libfabric" : "UCCL's";
    notes.push_back(
        "tokens go to experts by DeepEP, between nodes through a proxy: the plan counts " + proxy +
        ", whose deep_ep must be installed");
  }
}

}  // namespace

std::string megatron_pipeline_layout(const ModelSpec& m, const Strategy& s) {
  const std::vector<Chunk> chunks = chunk_plan(m, s);
  std::vector<std::string> stages;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    std::string stage(i == 0 ? "E" : "");
    stage += std::string(static_cast<std::size_t>(chunks[i].layers), 't');
    if (i + 1 == chunks.size()) {
      stage += std::string(static_cast<std::size_t>(m.mtp_layers), 'm') + "L";
    }
    stages.push_back(std::move(stage));
  }
  std::string text;
  for (std::size_t i = 0; i < stages.size();) {
    std::size_t end = i;
    while (end < stages.size() && stages[end] == stages[i]) ++end;
    if (end - i > 2) {
      text += "(" + stages[i] + "|)*" + std::to_string(end - i);
    } else {
      for (std::size_t k = i; k < end; ++k) text += stages[k] + (k + 1 < stages.size() ? "|" : "");
    }
    i = end;
  }
  return text;
}

LaunchCommand megatron_command(const LaunchPlan& plan) {
  const Strategy& s = plan.strategy;
  LaunchCommand command;
  command.environment = plan_environment(plan);
  // A:1477: one queue keeps collectives in front of the products that wait for them; FSDP needs
  // more than one (A:1166), and Blackwell neither.
  const bool before_blackwell = plan.cluster.device.architecture != Architecture::kBlackwell;
  // Dispatch beside computation wants more than one as well.
  if (s.overlap.ep) {
    const char* queues = s.runtime.single_device_connection ? "1" : "32";
    command.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", queues);
  } else if (shards_fully(s)) {
    command.unset.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS");
  } else if (before_blackwell && (s.tp > 1 || s.cp > 1)) {
    command.environment.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  }
  // A:1708: what releases before August 2026 ask for, and newer ones set themselves.
  if (s.runtime.deterministic_mode) command.environment.emplace_back("NCCL_ALGO", "Ring");
  if (s.runtime.deterministic_mode || s.runtime.deterministic_attention) {
    command.environment.emplace_back("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0");
  }
  Options parallel;
  add_parallel(plan, parallel);
  add_stages(plan, parallel);
  add_deferral(plan.strategy, parallel);
  add_data_parallel(plan, parallel);
  add_batch(s, parallel);
  add_memory(plan, parallel);
  add_graphs(plan.strategy, parallel);
  if (s.runtime.deterministic_mode) parallel.push_back({"--deterministic-mode"});
  add_precision(plan, parallel);
  add_kernels(plan, parallel);
  command.sections = {{"model", megatron_model_options(plan.model, s)},
                      {"plan", std::move(parallel)},
                      {"run", dry_start(s)}};
  command.needs = {": \"${MEGATRON_PATH:?set it to a checkout of Megatron-LM}\""};
  command.program = is_megatron_hybrid(plan.model) ? "\"$MEGATRON_PATH/pretrain_hybrid.py\""
                                                   : "\"$MEGATRON_PATH/pretrain_gpt.py\"";
  add_megatron_notes(plan, command.notes);
  return command;
}

// Since core_v0.19.0 pretrain_gpt.py does not start with Transformer Engine's loss
// (training/arguments.py, validate_args); Megatron-Bridge's recipes still have it. [F-LOSS-2] Its
// own fused loss, compiled, takes 2 e + 8 bytes a logit where that one takes 2 e.
LaunchCommand pretrain_command(const LaunchPlan& plan) {
  LaunchCommand command = megatron_command(plan);
  const Strategy& s = plan.strategy;
  for (auto& section : command.sections) {
    const std::size_t erased = std::erase_if(section.lines, [](const auto& line) {
      return line.front() == "--cross-entropy-fusion-impl";
    });
    if (erased == 0) continue;
    constexpr std::int64_t kMore = 8;
    const std::int64_t tokens = s.micro_batch * ceil_div(s.seq_len, s.cp);
    const Bytes more{kMore * tokens * ceil_div(padded_vocab(plan.model, s), s.tp)};
    command.notes.push_back(
        "Megatron-LM refuses Transformer Engine's loss, which the plan counts: its own fused one "
        "is written, up to " +
        human_bytes(more) + " more (kernels.inplace_cross_entropy=false counts it)");
  }
  return command;
}

}  // namespace meshplan
