// Hugging Face accelerate with PyTorch's FSDP2 (files below src/accelerate/), and axolotl, which
// runs on it (files below src/axolotl/).
#include "frameworks/target_tables.hpp"
#include "spec/optimizers.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string name(auto value) { return std::string(name_of(value)); }

}  // namespace

void check_fsdp(const Plan& p, Findings& f) {
  if (p.s.framework == Framework::kFsdp) return check_release(p, f);
  f.error({"framework"}, "the plan was made for " + name(p.s.framework) + ", not for PyTorch FSDP",
          "framework=fsdp");
}

void mend_fsdp(Strategy& s, const ModelSpec&) {
  const int zero = s.zero;
  s = with_preset(s, Framework::kFsdp);
  s.zero = zero;
}

void check_fsdp_dimensions(const Plan& p, Findings& f) {
  if (p.s.pp > 1) f.error({"pp"}, "there is no pipeline: pp=1, got " + std::to_string(p.s.pp));
  if (p.s.ep > 1 || p.s.etp > 1) {
    f.error({"ep", "etp"}, "experts are not spread over ranks: ep=1 and etp=1");
  }
  if (p.s.sequence_parallel) {
    f.error({"sequence_parallel"}, "tensor parallelism does not split the sequence");
  }
  if (p.s.overlap.tp && p.s.tp > 1) {
    f.error({"overlap.tp"}, "tensor-parallel collectives are not overlapped");
  }
}

void mend_fsdp_dimensions(Strategy& s, const ModelSpec&) {
  if (s.pp > 1) {
    s.dp *= s.pp;
    s.pp = s.vp = 1;
    s.schedule = kPlainSchedule;
    s.stage_layers.clear();
    s.chunk_layers.clear();
    s.recompute_layers.clear();
  }
  s.ep = s.etp = 1;
  s.sequence_parallel = s.overlap.tp = false;
}

void check_rotated_keys(const Plan& p, Findings& f) {
  if (p.s.cp > 1 && p.s.cp_kind == CpKind::kUlysses) {
    f.error({"cp_kind"}, "context parallelism rotates keys and values: ring or allgather");
  }
}

void mend_rotated_keys(Strategy& s, const ModelSpec&) {
  if (s.cp > 1 && s.cp_kind == CpKind::kUlysses) s.cp_kind = CpKind::kAllGather;
}

void check_layer_recomputation(const Plan& p, Findings& f) {
  if (p.s.recompute == Recompute::kSelective) {
    f.error({"recompute"}, "fsdp_activation_checkpointing recomputes whole layers");
  }
}

void mend_layer_recomputation(Strategy& s, const ModelSpec& m) {
  s.recompute = Recompute::kFull, s.recompute_modules = {};
  s.recompute_layers = stage_layers(s, m);
}

void check_host_weights(const Plan& p, Findings& f) {
  if (!p.s.offload.optimizer || has_host_weights(p.s)) return;
  if (!p.s.offload.weights) {
    f.error({"offload.optimizer"}, "FSDP moves weights and gradients to the host too",
            "offload.weights=true");
  } else {
    f.error({"offload.optimizer", "zero"}, "what FSDP moves to the host is estimated with zero=3");
  }
}

void mend_host_weights(Strategy& s, const ModelSpec&) {
  s.offload.optimizer = false, s.offload.optimizer_fraction = 1;
}

namespace {

void sharding(const Plan& p, Findings& f) {
  if (p.s.zero < 2) {
    f.error({"zero"}, "FSDP shards gradients (zero=2) or weights too (zero=3), got zero=" +
                          std::to_string(p.s.zero));
  } else if (shard_group(p.s) % p.s.cp != 0) {
    f.error({"zero_group", "cp"}, "a shard group holds whole context-parallel groups of " +
                                      std::to_string(p.s.cp) + " ranks, got " +
                                      std::to_string(shard_group(p.s)));
  } else if (shard_group(p.s) == p.s.cp && p.s.dp > 1 && (p.s.tp > 1 || p.s.cp > 1)) {
    f.error({"zero_group", "tp", "cp"},
            "replicas with 'tp' or 'cp' need shards: dp_shard_size must be over 1");
  }
}
void mend_sharding(Strategy& s, const ModelSpec&) {
  if (s.zero < 2) s.zero = 3;
  const bool whole = shard_group(s) % s.cp == 0 && (shard_group(s) > s.cp || s.dp == 1);
  if (!whole) s.zero_group = 0;
}

void precision(const Plan& p, Findings& f) {
  if (p.s.precision == Precision::kTf32 || p.s.precision == Precision::kNvfp4) {
    f.error({"precision"}, "mixed_precision is no, fp16, bf16 or fp8");
  }
}
void mend_precision(Strategy& s, const ModelSpec&) {
  s.precision = is_quantised(s.precision) ? Precision::kFp8 : Precision::kFp32;
}

// Without mixed precision the program's own type of weights is that of everything else.
void states(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const bool fp32 = s.precision == Precision::kFp32;
  const Dtype own = fp32                              ? Dtype::kFp32
                    : s.precision == Precision::kFp16 ? Dtype::kFp16
                                                      : Dtype::kBf16;
  if (has_own_bits(s.optimizer)) return;
  const Dtype wanted = s.master_weights ? Dtype::kFp32 : own;
  if (s.optimizer_dtype != wanted) {
    f.error(
        {"optimizer_dtype", "master_weights"},
        "the optimizer's moments are of the type of the weights that it updates: " + name(wanted));
  }
}
void mend_states(Strategy& s, const ModelSpec&) {
  s.master_weights = true;
  s.optimizer_dtype = Dtype::kFp32;
}

constexpr TargetRule kRules[] = {
    {"FSDP2's own overlaps, data types and kernels", check_fsdp, mend_fsdp},
    {"parallelism_config.py ParallelismConfig: dp_replicate, dp_shard, tp, cp, sp",
     check_fsdp_dimensions, mend_fsdp_dimensions, PartitionRule::kEven},
    {"parallelism_config.py:337; utils/dataclasses.py:1869 fsdp_reshard_after_forward", sharding,
     mend_sharding},
    {"utils/dataclasses.py TorchContextParallelConfig.cp_comm_strategy", check_rotated_keys,
     mend_rotated_keys},
    {"commands/config/config_args.py mixed_precision", precision, mend_precision},
    {"utils/dataclasses.py fsdp activation_checkpointing", check_layer_recomputation,
     mend_layer_recomputation},
    {"utils/dataclasses.py fsdp activation_checkpointing", check_whole_recomputation,
     mend_whole_recomputation, PartitionRule::kAny, every_layer},
    {"utils/fsdp_utils.py fsdp2_prepare_model: upcast to fp32 with mixed precision", states,
     mend_states},
    {"transformers trainer.py: optimizer.step", check_late_update, mend_late_update},
    {"transformers loss/loss_utils.py", check_whole_loss, mend_whole_loss},
    {"utils/dataclasses.py fsdp activation_checkpointing", check_unlisted_modules,
     mend_unlisted_modules},
    {"utils/dataclasses.py CPUOffloadPolicy", check_host_weights, mend_host_weights},
    {"utils/dataclasses.py CPUOffloadPolicy", check_resident_activations,
     mend_resident_activations},
    {"parallelism_config.py build_device_mesh", check_default_order, mend_default_order},
};

// A single process, and replicas of everything, need no FSDP.
void axolotl_sharding(const Plan& p, Findings& f) {
  const bool splits = p.s.tp > 1 || p.s.cp > 1;
  if (num_gpus(p.s) == 1 || (p.s.zero == 0 && !splits)) return;
  sharding(p, f);
}

// ring-flash-attn: with packed rows each rank gathers keys and values as Llama 3 does, and takes
// one row at a time; without, they go round.
void ring_attention(const Plan& p, Findings& f) {
  if (p.s.cp == 1) return;
  const bool packed = p.s.packing == Packing::kPack;
  if (packed && p.s.micro_batch > 1) {
    f.error({"micro_batch", "cp"}, "sample_packing with context parallelism takes micro_batch=1");
  }
  const CpKind wanted = packed ? CpKind::kAllGather : CpKind::kRing;
  if (p.s.cp_kind != wanted) {
    f.error({"cp_kind"},
            std::string(packed ? "packed rows are split by ring_attn_func varlen_llama3"
                               : "rows are split by ring_attn_func batch_ring") +
                ": cp_kind=" + name(wanted));
  }
  if (!p.s.flash_attention) f.error({"flash_attention", "cp"}, "ring attention is flash attention");
}
void mend_ring_attention(Strategy& s, const ModelSpec&) {
  const bool packed = s.packing == Packing::kPack;
  if (packed) s.micro_batch = 1;
  s.cp_kind = packed ? CpKind::kAllGather : CpKind::kRing;
  s.flash_attention = true;
}

// What is faster on Hopper and after must not be promised.
void axolotl_attention(const Plan& p, Findings& f) {
  if (!p.s.flash_attention || !packs_or_splits_rows(p.s)) return;
  const Architecture a = p.c.device.architecture;
  if (a != Architecture::kHopper && a != Architecture::kBlackwell) return;
  if (p.s.runtime.attention != AttentionKernel::kBest) return;
  f.error({"kernels.attention", "packing", "cp"},
          "attention over packed or split rows is flash_attention_2", "kernels.attention=flash2");
}
void mend_axolotl_attention(Strategy& s, const ModelSpec&) {
  s.runtime.attention = AttentionKernel::kFlash2;
}

void packing(const Plan& p, Findings& f) {
  if (p.s.packing != Packing::kBalanced) return;
  f.error({"packing"}, "rows are packed, not dealt out so that ranks work alike", "packing=pack");
}
void mend_packing(Strategy& s, const ModelSpec&) { s.packing = Packing::kPack; }

// Pairs are neither packed, nor trained beside weights of 4 or 8 bits under FSDP2.
void pairs(const Plan& p, Findings& f) {
  if (p.s.loss != Loss::kDpo) return;
  if (p.s.packing == Packing::kPack) {
    f.error({"packing", "loss"}, "sample_packing does not work with pairs of answers",
            "packing=pad");
  }
  const FrozenDtype dtype = p.s.lora.frozen_dtype;
  const bool few_bits = dtype == FrozenDtype::kNf4 || dtype == FrozenDtype::kInt8;
  if (few_bits && p.s.zero > 0 && num_gpus(p.s) > 1) {
    f.error({"lora.frozen_dtype", "zero"}, "FSDP2 trains no pairs beside weights of 4 or 8 bits",
            "zero=0");
  }
}
void mend_pairs(Strategy& s, const ModelSpec&) {
  if (s.packing == Packing::kPack) s.packing = Packing::kPad;
  s.lora.frozen_dtype = FrozenDtype::kTraining;
}

void axolotl_states(const Plan& p, Findings& f) {
  if (!p.s.master_weights && p.s.precision != Precision::kBf16 &&
      p.s.precision != Precision::kFp32) {
    f.error({"master_weights", "precision"}, "weights without an fp32 copy are bf16 (bf16: full)");
  }
  const bool eight =
      p.s.optimizer == Optimizer::kAdam8bit || p.s.optimizer == Optimizer::kPagedAdam8bit;
  if (eight && p.s.tp > 1) {
    f.error({"tp", "optimizer"}, "tensor parallelism has no optimizer of 8 bits");
  }
}
void mend_axolotl_states(Strategy& s, const ModelSpec&) {
  if (s.precision != Precision::kBf16) s.master_weights = true;
  if (s.tp > 1) s.optimizer = Optimizer::kAdam;
}

void projections(const Plan& p, Findings& f) {
  if (!has_adapters(p.s) || p.s.lora.targets == lora_targets("all-linear")) return;
  for (const LoraTarget t : p.s.lora.targets.all()) {
    if (!peft_name(t).empty()) continue;
    f.error({"lora.targets"}, "PEFT adapts projections one by one, not " + name(t),
            "lora.targets=[q_proj,k_proj,v_proj], or all-linear");
  }
}
void mend_projections(Strategy& s, const ModelSpec&) {
  s.lora.targets = lora_targets("all-linear");
}

constexpr TargetRule kAxolotlRules[] = {
    {"FSDP2's own overlaps, data types and kernels", check_fsdp, mend_fsdp},
    {"utils/distributed.py build_parallelism_config", check_fsdp_dimensions, mend_fsdp_dimensions,
     PartitionRule::kEven},
    {"utils/schemas/fsdp.py reshard_after_forward; schemas/config.py dp_shard_size",
     axolotl_sharding, mend_sharding},
    {"utils/schemas/validation.py check_context_parallel_size", ring_attention,
     mend_ring_attention},
    {"utils/schemas/config.py attn_implementation", axolotl_attention, mend_axolotl_attention},
    {"utils/schemas/config.py sample_packing, pad_to_sequence_len", packing, mend_packing},
    {"utils/schemas/validation.py check_sample_packing_w_rl, check_fsdp2_base_model_quant_rl",
     pairs, mend_pairs},
    {"utils/schemas/config.py bf16; validation.py: tensor_parallel_size and 8-bit optimizers",
     axolotl_states, mend_axolotl_states},
    {"utils/schemas/config.py gradient_checkpointing", check_layer_recomputation,
     mend_layer_recomputation},
    {"utils/schemas/config.py gradient_checkpointing", check_whole_recomputation,
     mend_whole_recomputation, PartitionRule::kAny, every_layer},
    {"utils/schemas/config.py bf16, fp16, tf32, fp8", states, mend_states},
    {"transformers trainer.py: optimizer.step", check_late_update, mend_late_update},
    {"utils/schemas/config.py gradient_checkpointing", check_unlisted_modules,
     mend_unlisted_modules},
    {"utils/schemas/fsdp.py offload_params", check_host_weights, mend_host_weights},
    {"utils/schemas/fsdp.py offload_params", check_resident_activations, mend_resident_activations},
    {"utils/schemas/peft.py lora_target_modules", projections, mend_projections},
    {"accelerate parallelism_config.py build_device_mesh", check_default_order, mend_default_order},
};

}  // namespace

std::span<const TargetRule> accelerate_rules() { return kRules; }
std::span<const TargetRule> axolotl_rules() { return kAxolotlRules; }

}  // namespace meshplan
