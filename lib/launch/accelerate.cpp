// The configuration of `accelerate launch`: FSDP2 and its device mesh.
#include "launch/targets.hpp"

namespace meshplan {
namespace {

std::string yes(bool value) { return value ? "true" : "false"; }

std::string precision_name(Precision p) {
  switch (p) {
    case Precision::kFp16:
    case Precision::kBf16:
    case Precision::kFp8:
      return std::string(name_of(p));
    case Precision::kFp32:
    case Precision::kTf32:
    case Precision::kNvfp4:
      break;
  }
  return "'no'";  // a bare no is false in YAML
}

// The mesh's shards: of a shard group's ranks, context-parallel ones are counted apart.
std::int64_t shards(const Strategy& s) { return shard_group(s) / s.cp; }

std::string config_text(const LaunchPlan& p) {
  const Strategy& s = p.strategy;
  const bool full = recomputed_per_chunk(s, p.model).value_or(0) != 0;
  std::string text = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n";
  text += "num_machines: " + std::to_string(p.cluster.nodes) +
          "\nnum_processes: " + std::to_string(num_gpus(s)) + "\n";
  text += "machine_rank: 0\nmain_training_function: main\nrdzv_backend: static\n";
  text += "same_network: true\nuse_cpu: false\ndebug: false\n";
  text += "mixed_precision: " + precision_name(s.master_weights ? s.precision : Precision::kFp32) +
          "\n";
  text += "fsdp_config:\n  fsdp_version: 2\n";
  text += "  fsdp_reshard_after_forward: " + yes(s.zero == 3) + "\n";
  text += "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";
  text += "  fsdp_activation_checkpointing: " + yes(full) + "\n";
  text += "  fsdp_offload_params: " + yes(has_host_weights(s)) + "\n";
  text += "  fsdp_cpu_ram_efficient_loading: true\n";
  text += "  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
  text += "parallelism_config:\n";
  text += "  parallelism_config_dp_replicate_size: " + std::to_string(s.dp / shards(s)) + "\n";
  text += "  parallelism_config_dp_shard_size: " + std::to_string(shards(s)) + "\n";
  text += "  parallelism_config_tp_size: " + std::to_string(s.tp) + "\n";
  text += "  parallelism_config_cp_size: " + std::to_string(s.cp) + "\n";
  if (s.cp > 1) {
    text += std::string("  parallelism_config_cp_comm_strategy: ") +
            (s.cp_kind == CpKind::kRing ? "alltoall" : "allgather") + "\n";
  }
  return text;
}

}  // namespace

LaunchCommand accelerate_command(const LaunchPlan& plan) {
  const Strategy& s = plan.strategy;
  LaunchCommand command;
  command.environment = plan_environment(plan);
  command.files.push_back({"accelerate.yaml", config_text(plan)});
  std::vector<std::vector<std::string>> lines{
      {"--per_device_train_batch_size", std::to_string(s.micro_batch)},
      {"--gradient_accumulation_steps", std::to_string(num_microbatches(s))}};
  const Runtime& k = s.runtime;
  const bool liger = k.fused_rope && k.fused_norm && k.fused_activation &&
                     k.fused_linear_cross_entropy;  // TrainingArguments.use_liger_kernel is all
  if (liger) lines.push_back({"--use_liger_kernel", "True"});
  if (s.optimizer == Optimizer::kAdam && !k.fused_optimizer) {
    lines.push_back({"--optim", "adamw_torch"});
  }
  command.sections = {{"plan", std::move(lines)}};
  command.needs = {": \"${TRAIN_PROGRAM:?set it to the training program, a Python file}\""};
  command.program = "accelerate launch --config_file \"$here/accelerate.yaml\"";
  if (plan.cluster.nodes > 1) {
    command.program +=
        " \\\n  --machine_rank \"${NODE_RANK:-${SLURM_NODEID:?set NODE_RANK, 0 on the first "
        "node}}\""
        " \\\n  --main_process_ip \"${MASTER_ADDR:?set it to the first node}\""
        " --main_process_port \"${MASTER_PORT:-29500}\"";
  }
  command.program += " \\\n  \"$TRAIN_PROGRAM\"";
  command.uses_torchrun = false;
  command.notes.push_back(
      "the length of a sequence is the program's: " + std::to_string(s.seq_len) +
      " tokens; the batch sizes are passed as Transformers' TrainingArguments "
      "call them");
  if (k.fused_linear_cross_entropy && !liger) {
    command.notes.emplace_back("the loss that is fused with the output layer is the program's");
  }
  if (k.host_checkpoints && s.recompute == Recompute::kFull) {
    command.notes.emplace_back(
        "that inputs of recomputed layers are kept on the host is the program's to do (TRL: "
        "activation_offloading)");
  }
  if (!k.recompute_early_stop && s.recompute == Recompute::kFull) {
    command.notes.emplace_back(
        "that checkpoints are reentrant is the program's to do (use_reentrant of "
        "gradient_checkpointing_kwargs)");
  }
  if (!s.master_weights && s.precision != Precision::kFp32) {
    command.notes.push_back("the program loads its weights in " +
                            std::string(name_of(s.precision)) + ": there is no fp32 copy");
  } else if (s.precision != Precision::kFp32 && s.grad_dtype == Dtype::kFp32) {
    command.notes.emplace_back(
        "gradients are reduced in the type of mixed_precision unless the program's "
        "MixedPrecisionPolicy says fp32, as the plan does");
  }
  return command;
}

}  // namespace meshplan
