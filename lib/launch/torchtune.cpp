// torchtune's overrides ('tune run RECIPE --config CONFIG key=value ...'): what the plan decides,
// over a configuration of the model that its user names.
#include "base/check.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string yes(bool value) { return value ? "True" : "False"; }

// recipes/ of torchtune.
std::string recipe_of(const Strategy& s) {
  const std::string what = s.loss == Loss::kDpo
                               ? (has_adapters(s) ? "lora_dpo" : "full_dpo")
                               : (has_adapters(s) ? "lora_finetune" : "full_finetune");
  return what + (num_gpus(s) == 1 ? "_single_device" : "_distributed");
}

// bitsandbytes' on one device; torchao's take the shards of several.
std::string_view optimizer_of(const Strategy& s) {
  switch (s.optimizer) {
    case Optimizer::kAdam:
      return "torch.optim.AdamW";
    case Optimizer::kSgd:
      return "torch.optim.SGD";
    case Optimizer::kAdam8bit:
      return num_gpus(s) == 1 ? "bitsandbytes.optim.AdamW8bit" : "torchao.optim.AdamW8bit";
    case Optimizer::kPagedAdam:
      return "bitsandbytes.optim.PagedAdamW";
    case Optimizer::kPagedAdam8bit:
      return "bitsandbytes.optim.PagedAdamW8bit";
    case Optimizer::kAdafactor:
    case Optimizer::kMuon:
      break;
  }
  PLAN_CHECK(false);
  return {};
}

using Lines = std::vector<std::vector<std::string>>;

void set(Lines& lines, std::string_view key, const std::string& value) {
  lines.push_back({std::string(key) + "=" + value});
}

void add_adapters(const Lora& lora, Lines& lines) {
  if (lora.rank == 0) return;
  set(lines, "model.lora_rank", std::to_string(lora.rank));
  set(lines, "model.lora_dropout", key_text(lora.dropout));
  set(lines, "model.quantize_base", yes(lora.frozen_dtype == FrozenDtype::kNf4));
  std::string modules;
  bool mlp = false;
  for (const LoraTarget t : lora.targets.all()) {
    const std::string name(peft_name(t));
    const bool attention =
        name == "q_proj" || name == "k_proj" || name == "v_proj" || name == "o_proj";
    mlp |= !attention;
    if (!attention) continue;
    modules += (modules.empty() ? "" : ",") + (name == "o_proj" ? "output_proj" : name);
  }
  set(lines, "model.lora_attn_modules", "[" + modules + "]");
  set(lines, "model.apply_lora_to_mlp", yes(mlp));
}

void add_sharding(const Strategy& s, Lines& lines) {
  if (num_gpus(s) == 1) return;
  if (s.loss != Loss::kDpo) {  // those recipes shard over all ranks
    const std::int64_t shards = s.zero > 0 ? shard_group(s) / s.cp : 1;
    set(lines, "data_parallel_replicate_dim", std::to_string(s.dp / shards));
    set(lines, "data_parallel_shard_dim", std::to_string(shards));
  }
  if (s.zero > 0) set(lines, "fsdp_reshard_after_forward", yes(s.zero == 3));
  if (s.zero > 0) set(lines, "fsdp_cpu_offload", yes(has_host_weights(s)));
  if (s.tp > 1) set(lines, "tensor_parallel_dim", std::to_string(s.tp));
  if (s.cp == 1) return;
  set(lines, "context_parallel_dim", std::to_string(s.cp));
  set(lines, "context_parallel_rotate_method",
      s.cp_kind == CpKind::kRing ? "alltoall" : "allgather");
}

std::string program_of(const LaunchPlan& plan) {
  const Strategy& s = plan.strategy;
  std::string text = "tune run";
  if (num_gpus(s) > 1) {
    text += " --nnodes " + std::to_string(plan.cluster.nodes) + " --nproc_per_node " +
            std::to_string(std::min(plan.cluster.gpus_per_node, num_gpus(s)));
  }
  if (plan.cluster.nodes > 1) {
    text +=
        " \\\n  --rdzv_backend c10d --rdzv_id \"${RDZV_ID:-${SLURM_JOB_ID:-meshplan}}\""
        " \\\n  --rdzv_endpoint \"${MASTER_ADDR:?set it to the first node}:${MASTER_PORT:-29500}\"";
  }
  return text + " \\\n  " + recipe_of(s) + " --config \"$CONFIG\"";
}

}  // namespace

LaunchCommand torchtune_command(const LaunchPlan& plan) {
  const Strategy& s = plan.strategy;
  LaunchCommand command;
  command.environment = plan_environment(plan);
  Lines lines;
  add_adapters(s.lora, lines);
  set(lines, "tokenizer.max_seq_len", std::to_string(s.seq_len));
  // Its recipes of pairs have no packed rows, and count pairs.
  const bool pairs = s.loss == Loss::kDpo;
  if (!pairs) set(lines, "dataset.packed", yes(s.packing == Packing::kPack));
  set(lines, "batch_size", std::to_string(pairs ? s.micro_batch / 2 : s.micro_batch));
  set(lines, "gradient_accumulation_steps", std::to_string(num_microbatches(s)));
  const bool recomputes = recomputed_per_chunk(s, plan.model).value_or(0) != 0;
  set(lines, "enable_activation_checkpointing", yes(recomputes));
  set(lines, "enable_activation_offloading", yes(recomputes && s.runtime.host_checkpoints));
  if (!pairs || !has_adapters(s)) set(lines, "compile", yes(s.runtime.fused_norm));
  if (s.runtime.loss_chunks > 1) {
    set(lines, "loss._component_", "torchtune.modules.loss.LinearCrossEntropyLoss");
    set(lines, "loss.num_output_chunks", std::to_string(s.runtime.loss_chunks));
  }
  // Configurations of its full recipes for one device have it on.
  if (!pairs && !has_adapters(s)) {
    set(lines, "optimizer_in_bwd", yes(s.runtime.optimizer_in_backward));
  }
  set(lines, "dtype", std::string(name_of(s.precision)));
  set(lines, "optimizer._component_", std::string(optimizer_of(s)));
  if (s.optimizer == Optimizer::kAdam) {
    set(lines, "optimizer.fused", yes(s.runtime.fused_optimizer));
  }
  add_sharding(s, lines);
  command.sections = {{"plan", std::move(lines)}};
  command.needs = {
      ": \"${CONFIG:?set it to torchtune's configuration of the model and the data, such as "
      "llama3_1/8B_full, or a file}\""};
  command.program = program_of(plan);
  command.uses_torchrun = false;
  command.notes.push_back("the model, " + plan.model.name +
                          ", its weights, data and learning rate are those of CONFIG");
  if (!pairs && s.runtime.loss_chunks == 1) {
    command.notes.emplace_back(
        "the loss is CONFIG's; the plan counts one of all logits, not of chunks of them");
  }
  if (has_adapters(s)) {
    command.notes.emplace_back(
        "CONFIG's model is a builder with adapters (lora_...); their scale, lora_alpha, is "
        "CONFIG's");
  }
  if (s.tp > 1) {
    command.notes.emplace_back(
        "CONFIG has a tensor_parallel_plan, such as torchtune.models.llama3.base_llama_tp_plan");
  }
  return command;
}

}  // namespace meshplan
