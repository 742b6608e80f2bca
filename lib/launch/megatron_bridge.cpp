// Overrides of a Megatron-Bridge recipe (scripts/training/run_recipe.py KEY=VALUE...). The recipe
// decides the model; fields are named as scripts/translate_mlm_to_bridge.py names them.
#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "cost/chunks.hpp"
#include "frameworks/target.hpp"
#include "launch/bridge_precision.hpp"
#include "launch/megatron.hpp"
#include "launch/targets.hpp"
#include "spec/hybrid_pattern.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

enum class Kind { kValue, kTrue, kFalse, kList };
struct Field {
  std::string_view option, field;
  Kind kind = Kind::kValue;
};

// What megatron_command() may write of a plan. An option that is missing here is our bug.
constexpr std::array kFields{
    Field{"--tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    Field{"--sequence-parallel", "model.sequence_parallel", Kind::kTrue},
    Field{"--tp-comm-overlap", "comm_overlap.tp_comm_overlap", Kind::kTrue},
    Field{"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    Field{"--context-parallel-size", "model.context_parallel_size"},
    Field{"--cp-comm-type", "model.cp_comm_type"},
    Field{"--expert-model-parallel-size", "model.expert_model_parallel_size"},
    Field{"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size"},
    Field{"--moe-token-dispatcher-type", "model.moe_token_dispatcher_type"},
    Field{"--moe-flex-dispatcher-backend", "model.moe_flex_dispatcher_backend"},
    Field{"--moe-expert-capacity-factor", "model.moe_expert_capacity_factor"},
    Field{"--moe-pad-expert-input-to-capacity", "model.moe_pad_expert_input_to_capacity",
          Kind::kTrue},
    Field{"--overlap-moe-expert-parallel-comm", "comm_overlap.overlap_moe_expert_parallel_comm",
          Kind::kTrue},
    Field{"--delay-wgrad-compute", "comm_overlap.delay_wgrad_compute", Kind::kTrue},
    Field{"--moe-shared-expert-overlap", "model.moe_shared_expert_overlap", Kind::kTrue},
    Field{"--moe-grouped-gemm", "model.moe_grouped_gemm", Kind::kTrue},
    Field{"--moe-router-fusion", "model.moe_router_fusion", Kind::kTrue},
    Field{"--moe-permute-fusion", "model.moe_permute_fusion", Kind::kTrue},
    Field{"--use-transformer-engine-op-fuser", "model.use_transformer_engine_op_fuser",
          Kind::kTrue},
    Field{"--moe-mlp-glu-interleave-size", "model.moe_mlp_glu_interleave_size"},
    Field{"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping", Kind::kTrue},
    Field{"--pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout"},
    Field{"--num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size"},
    Field{"--decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage"},
    Field{"--decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage"},
    Field{"--microbatch-group-size-per-virtual-pipeline-stage",
          "model.microbatch_group_size_per_vp_stage"},
    Field{"--no-overlap-p2p-communication", "comm_overlap.overlap_p2p_comm", Kind::kFalse},
    Field{"--defer-embedding-wgrad-compute", "comm_overlap.defer_embedding_wgrad_compute",
          Kind::kTrue},
    Field{"--wgrad-deferral-limit", "comm_overlap.wgrad_deferral_limit"},
    Field{"--use-distributed-optimizer", "ddp.use_distributed_optimizer", Kind::kTrue},
    Field{"--use-megatron-fsdp", "ddp.use_megatron_fsdp", Kind::kTrue},
    Field{"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy"},
    Field{"--ckpt-format", "checkpoint.ckpt_format"},
    Field{"--init-model-with-meta-device", "model.init_model_with_meta_device", Kind::kTrue},
    Field{"--megatron-fsdp-main-grads-dtype", "ddp.megatron_fsdp_main_grads_dtype"},
    Field{"--megatron-fsdp-grad-comm-dtype", "ddp.megatron_fsdp_grad_comm_dtype"},
    Field{"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances"},
    Field{"--overlap-grad-reduce", "ddp.overlap_grad_reduce", Kind::kTrue},
    Field{"--overlap-param-gather", "ddp.overlap_param_gather", Kind::kTrue},
    Field{"--overlap-param-gather-with-optimizer-step",
          "optimizer.overlap_param_gather_with_optimizer_step", Kind::kTrue},
    Field{"--no-use-layer-wise-param-layout", "optimizer.use_layer_wise_param_layout",
          Kind::kFalse},
    Field{"--calculate-per-token-loss", "model.calculate_per_token_loss", Kind::kTrue},
    Field{"--deterministic-mode", "model.deterministic_mode", Kind::kTrue},
    Field{"--use-fused-weighted-squared-relu", "model.use_fused_weighted_squared_relu",
          Kind::kTrue},
    Field{"--no-gradient-accumulation-fusion", "model.gradient_accumulation_fusion", Kind::kFalse},
    Field{"--micro-batch-size", "train.micro_batch_size"},
    Field{"--global-batch-size", "train.global_batch_size"},
    Field{"--cuda-graph-impl", "model.cuda_graph_impl"},
    Field{"--cuda-graph-scope", "model.cuda_graph_scope", Kind::kList},
    Field{"--cuda-graph-warmup-steps", "model.cuda_graph_warmup_steps"},
    Field{"--te-rng-tracker", "rng.te_rng_tracker", Kind::kTrue},
    Field{"--no-check-for-nan-in-loss-and-grad", "rerun_state_machine.check_for_nan_in_loss",
          Kind::kFalse},
    Field{"--recompute-granularity", "model.recompute_granularity"},
    Field{"--recompute-method", "model.recompute_method"},
    Field{"--recompute-num-layers", "model.recompute_num_layers"},
    Field{"--recompute-modules", "model.recompute_modules", Kind::kList},
    Field{"--mhc-recompute-layer-num", "model.mhc_recompute_layer_num"},
    Field{"--fine-grained-activation-offloading", "model.fine_grained_activation_offloading",
          Kind::kTrue},
    Field{"--offload-modules", "model.offload_modules", Kind::kList},
    Field{"--activation-offload-fraction", "model.activation_offload_fraction"},
    Field{"--cpu-offloading-num-layers", "model.cpu_offloading_num_layers"},
    Field{"--use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer",
          Kind::kTrue},
    Field{"--optimizer", "optimizer.optimizer"},
    Field{"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload", Kind::kTrue},
    Field{"--optimizer-offload-fraction", "optimizer.optimizer_offload_fraction"},
    Field{"--overlap-cpu-optimizer-d2h-h2d", "optimizer.overlap_cpu_optimizer_d2h_h2d",
          Kind::kTrue},
    Field{"--exp-avg-dtype", "optimizer.exp_avg_dtype"},
    Field{"--exp-avg-sq-dtype", "optimizer.exp_avg_sq_dtype"},
    Field{"--attention-backend", "model.attention_backend"},
    Field{"--cross-entropy-loss-fusion", "model.cross_entropy_loss_fusion", Kind::kTrue},
    Field{"--cross-entropy-fusion-impl", "model.cross_entropy_fusion_impl"},
    Field{"--no-masked-softmax-fusion", "model.masked_softmax_fusion", Kind::kFalse},
    Field{"--no-bias-dropout-fusion", "model.bias_dropout_fusion", Kind::kFalse},
    Field{"--no-bias-swiglu-fusion", "model.bias_activation_fusion", Kind::kFalse},
    Field{"--no-bias-gelu-fusion", "model.bias_activation_fusion", Kind::kFalse},
};

// Options that `mixed_precision` stands for.
constexpr std::array kPrecisionOptions{"--bf16",
                                       "--fp16",
                                       "--fp8-format",
                                       "--fp8-recipe",
                                       "--fp8-param-gather",
                                       "--first-last-layers-bf16",
                                       "--num-layers-at-start-in-bf16",
                                       "--num-layers-at-end-in-bf16",
                                       "--fp4-format",
                                       "--fp4-recipe",
                                       "--fp4-param-gather",
                                       "--grad-reduce-in-bf16",
                                       "--accumulate-allreduce-grads-in-fp32"};

std::string override_text(const std::vector<std::string>& line) {
  const auto* row = std::find_if(kFields.begin(), kFields.end(),
                                 [&](const Field& f) { return f.option == line.front(); });
  PLAN_CHECK(row != kFields.end());
  const std::string start = std::string(row->field) + "=";
  switch (row->kind) {
    case Kind::kTrue:
      return start + "true";
    case Kind::kFalse:
      return start + "false";
    case Kind::kValue:
      return start + line.at(1);
    case Kind::kList:
      break;
  }
  std::string list;
  for (std::size_t i = 1; i < line.size(); ++i) list += (i > 1 ? "," : "") + line[i];
  return start + "[" + list + "]";
}

// A recipe by its name, or the fields one by one where none says it, as its own translation writes
// them (scripts/translate_mlm_to_bridge.py). They replace the model's and the reduction's
// (training/mixed_precision.py, setup), which are written only where there is no recipe.
void add_precision(const LaunchPlan& p, LaunchCommand& command,
                   std::vector<std::vector<std::string>>& overrides) {
  const Strategy& s = p.strategy;
  const ScalingRecipe scaling = scaling_recipe(s, p.cluster.device.architecture);
  if (const std::optional<std::string> name = precision_recipe_of(s, scaling)) {
    overrides.push_back({"mixed_precision=" + *name});
    if (*name == "null") {
      const bool wide = s.grad_dtype == Dtype::kFp32;
      overrides.push_back({std::string("ddp.grad_reduce_in_fp32=") + (wide ? "true" : "false")});
    }
    return;
  }
  for (const auto& [field, value] : precision_fields(s, scaling)) {
    overrides.push_back({"mixed_precision."});
    overrides.back().front().append(field).append("=").append(value);
  }
  command.notes.push_back(
      "the recipe's mixed_precision must be an object, as bf16_mixed() makes it, not a name");
}

// Fields of Megatron-Bridge's LoRA (peft/lora.py).
void add_adapters(const Strategy& s, std::vector<std::vector<std::string>>& overrides) {
  if (!has_adapters(s)) return;
  overrides.push_back({"peft.dim=" + std::to_string(s.lora.rank)});
  overrides.push_back({"peft.target_modules=" + key_text(s.lora.targets)});
  overrides.push_back({"peft.dropout=" + key_text(s.lora.dropout)});
  if (s.lora.all_to_all) overrides.push_back({"peft.a2a_experimental=true"});
  if (s.lora.input_regather) {
    overrides.push_back({"peft.sequence_parallel_input_regather=true"});
  }
}

}  // namespace

LaunchCommand bridge_command(const LaunchPlan& plan) {
  LaunchCommand command = megatron_command(plan);
  const auto section = std::find_if(command.sections.begin(), command.sections.end(),
                                    [](const auto& s) { return s.name == "plan"; });
  PLAN_CHECK(section != command.sections.end());
  std::vector<std::vector<std::string>> overrides;
  for (const std::vector<std::string>& line : section->lines) {
    const bool precision = std::find(kPrecisionOptions.begin(), kPrecisionOptions.end(),
                                     line.front()) != kPrecisionOptions.end();
    if (!precision) overrides.push_back({override_text(line)});
  }
  add_precision(plan, command, overrides);
  if (is_precision_aware(plan.strategy) && !plan.strategy.runtime.param_remainders) {
    overrides.push_back({"optimizer.store_param_remainders=false"});
  }
  const bool checks = plan.strategy.runtime.check_for_nan_in_loss_and_grad;
  overrides.push_back({std::string("ddp.check_for_nan_in_grad=") + (checks ? "true" : "false")});
  if (plan.strategy.runtime.activation_func_fp8_input_store) {
    overrides.push_back({"model.activation_func_fp8_input_store=true"});
  }
  // Megatron-LM's arguments set it where layers are stated.
  if (plan.strategy.offload.activations) overrides.push_back({"model.cpu_offloading=true"});
  if (plan.strategy.runtime.cuda_graph != CudaGraph::kNone) {
    overrides.push_back({"model.use_te_rng_tracker=true"});
  }
  // Its recipes have Transformer Engine's.
  if (const Runtime& k = plan.strategy.runtime; k.fused_cross_entropy && !k.inplace_cross_entropy) {
    overrides.push_back({"model.cross_entropy_fusion_impl=native"});
  }
  if (plan.model.mla) {
    const bool fused = plan.strategy.runtime.fused_latent_rope;
    overrides.push_back({std::string("model.apply_rope_fusion=") + (fused ? "true" : "false")});
  }
  if (plan.model.mhc_num_residual_streams > 1) {
    const bool fused = plan.strategy.runtime.fused_mhc;
    overrides.push_back({std::string("model.use_fused_mhc=") + (fused ? "true" : "false")});
  }
  if (plan.strategy.pp > 1 && is_megatron_hybrid(plan.model)) {  // stages are between its bars
    std::vector<std::int64_t> stages;
    for (const Chunk& chunk : chunk_plan(plan.model, plan.strategy)) stages.push_back(chunk.layers);
    overrides.push_back(
        {"model.hybrid_layer_pattern=" + hybrid_pattern(plan.model, stages).value_or("")});
  }
  for (const auto& row : NameTable<FrozenPart>::rows) {
    if (!plan.strategy.frozen.has(row.value)) continue;
    overrides.push_back({"model.freeze_" + std::string(row.name) + "=true"});
  }
  add_adapters(plan.strategy, overrides);
  // run_recipe.py copies it into the model's.
  overrides.push_back({"dataset.seq_length=" + std::to_string(plan.strategy.seq_len)});
  command.sections = {{"plan", std::move(overrides)}};
  command.needs = {": \"${BRIDGE_PATH:?set it to a checkout of Megatron-Bridge}\"",
                   ": \"${RECIPE:?set it to the recipe of the model, a function name}\""};
  command.program = "\"$BRIDGE_PATH/scripts/training/run_recipe.py\" --recipe \"$RECIPE\" \\\n ";
  command.notes.push_back("the recipe decides the model: it must be of the sizes of " +
                          plan.model.name);
  if (plan.model.mhc_num_residual_streams > 1) {
    command.notes.push_back(
        "hyper-connections in a pipeline and DeepSeek-V4's attention are in Megatron-Core's dev "
        "branch (Megatron-Bridge examples/models/deepseek_v4)");
  }
  if (has_adapters(plan.strategy)) {
    command.notes.push_back(
        "the recipe must be one of fine-tuning with adapters, whose peft is LoRA");
    if (plan.strategy.lora.input_regather) {
      command.notes.push_back(
          "adapters gather their input again since Megatron-Bridge of July 2026 (33655ef84f)");
    }
    if (plan.strategy.lora.frozen_dtype != FrozenDtype::kTraining) {
      command.notes.push_back("the recipe's checkpoint must hold the frozen weights in " +
                              std::string(name_of(plan.strategy.lora.frozen_dtype)));
    }
  }
  return command;
}

}  // namespace meshplan
