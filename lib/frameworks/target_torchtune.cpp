// torchtune (files below recipes/ and torchtune/ of 0.6): FSDP2 in PyTorch's own kernels, or
// compiled; everything is of the one type that 'dtype' names.
#include "frameworks/target_tables.hpp"
#include "spec/optimizers.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

void sharded(const Plan& p, Findings& f) {
  if (num_gpus(p.s) == 1) return;
  const std::int64_t shards = shard_group(p.s);
  if (p.s.dp * p.s.cp > 1 && p.s.zero < 2) {
    f.error({"zero"},
            "replicas meet in FSDP alone: zero=2 or zero=3, got zero=" + std::to_string(p.s.zero));
  } else if (shards % p.s.cp != 0) {
    f.error({"zero_group", "cp"}, "a shard group holds whole context-parallel groups of " +
                                      std::to_string(p.s.cp) + " ranks");
  } else if (p.s.dp > 1 && shards == p.s.cp) {
    f.error({"zero_group"}, "replicas without shards: data_parallel_shard_dim must be over 1");
  }
  if (has_adapters(p.s) && p.s.tp > 1) {
    f.error({"tp", "lora.rank"}, "recipes of adapters have no tensor parallelism", "tp=1");
  }
}
void mend_sharded(Strategy& s, const ModelSpec&) {
  if (has_adapters(s) && s.tp > 1) s.dp *= s.tp, s.tp = 1, s.sequence_parallel = false;
  if (num_gpus(s) == 1) return;
  if (s.zero < 2) s.zero = 3;
  if (shard_group(s) % s.cp != 0 || (s.dp > 1 && shard_group(s) == s.cp)) s.zero_group = 0;
}

void one_type(const Plan& p, Findings& f) {
  const bool bf16 = p.s.precision == Precision::kBf16;
  if (!bf16 && p.s.precision != Precision::kFp32) {
    f.error({"precision"}, "dtype is bf16 or fp32, got " + std::string(name_of(p.s.precision)));
    return;
  }
  const Dtype own = bf16 ? Dtype::kBf16 : Dtype::kFp32;
  const bool states = has_own_bits(p.s.optimizer) || p.s.optimizer_dtype == own;
  if (bf16 && (p.s.master_weights || p.s.grad_dtype != own || !states)) {
    f.error({"master_weights", "grad_dtype", "optimizer_dtype"},
            "weights, gradients and the optimizer's states are of dtype, without an fp32 copy",
            "master_weights=false,grad_dtype=bf16,optimizer_dtype=bf16");
  }
}
void mend_one_type(Strategy& s, const ModelSpec&) {
  if (s.precision != Precision::kFp32) s.precision = Precision::kBf16;
  if (s.precision == Precision::kFp32) return;
  s.master_weights = false, s.grad_dtype = Dtype::kBf16;
  if (!has_own_bits(s.optimizer)) s.optimizer_dtype = Dtype::kBf16;
}

void optimizers(const Plan& p, Findings& f) {
  switch (p.s.optimizer) {
    case Optimizer::kAdam:
    case Optimizer::kSgd:
    case Optimizer::kAdam8bit:
      return;
    case Optimizer::kPagedAdam:
    case Optimizer::kPagedAdam8bit:
      if (num_gpus(p.s) == 1) return;
      f.error({"optimizer"}, "bitsandbytes' paged states are of a single device",
              "optimizer=adam8bit");
      return;
    case Optimizer::kAdafactor:
    case Optimizer::kMuon:
      f.error({"optimizer"}, "its recipes and this export know Adam and SGD", "optimizer=adam");
  }
}
void mend_optimizers(Strategy& s, const ModelSpec&) {
  s.optimizer = Optimizer::kAdam;
  s.optimizer_dtype = s.precision == Precision::kBf16 ? Dtype::kBf16 : Dtype::kFp32;
}

void documents(const Plan& p, Findings& f) {
  if (p.s.packing == Packing::kNone || p.s.packing == Packing::kBalanced) {
    f.error({"packing"}, "dataset.packed packs rows or pads them", "packing=pack, or packing=pad");
  } else if (p.s.packing == Packing::kPack && p.s.loss == Loss::kDpo) {
    f.error({"packing", "loss"}, "pairs of answers are not packed", "packing=pad");
  }
}
void mend_documents(Strategy& s, const ModelSpec&) {
  s.packing = s.loss == Loss::kDpo || s.packing == Packing::kNone ? Packing::kPad : Packing::kPack;
}

// Recipes of pairs shard over all ranks, have no other dimension, and compile no adapters.
void pairs_of_answers(const Plan& p, Findings& f) {
  if (p.s.loss != Loss::kDpo) return;
  const std::int64_t gpus = num_gpus(p.s);
  if (gpus == 1 && !has_adapters(p.s)) {
    f.error({"loss", "lora.rank"}, "on a single device pairs train adapters only", "lora.rank=8");
  }
  if (p.s.tp > 1 || p.s.cp > 1 || (gpus > 1 && shard_group(p.s) != gpus)) {
    f.error({"tp", "cp", "zero_group"}, "recipes of pairs shard over all ranks and split nothing",
            "tp=1,cp=1,zero_group=0");
  }
  if (has_adapters(p.s) && p.s.runtime.fused_norm) {
    f.error({"kernels.fused_norm", "loss"}, "recipes of adapters and pairs are not compiled",
            "kernels.fused_norm=false,kernels.fused_rope=false,kernels.fused_activation=false");
  }
}
void mend_pairs_of(Strategy& s, const ModelSpec&) {
  s.dp *= s.tp * s.cp, s.tp = s.cp = 1, s.zero_group = 0, s.sequence_parallel = false;
  Runtime& k = s.runtime;
  if (has_adapters(s))
    k.fused_norm = k.fused_rope = k.fused_activation = k.fused_dropout_add = false;
}

// Attention's projections one by one, and the feed-forward's all together.
void adapters(const Plan& p, Findings& f) {
  if (!has_adapters(p.s)) return;
  LoraTargets attention, mlp;
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    attention.insert(lora_targets(name));
  }
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) mlp.insert(lora_targets(name));
  LoraTargets rest = p.s.lora.targets;
  for (const LoraTarget t : attention.all()) rest.erase(t);
  if (rest.empty() || rest == mlp) return;
  if (p.s.lora.targets == lora_targets("all-linear")) return;  // its models have no others
  f.error({"lora.targets"},
          "adapters are on q_proj, k_proj, v_proj and o_proj one by one, and on gate_proj, up_proj "
          "and down_proj together",
          "lora.targets=[q_proj,v_proj]");
}
void mend_adapters(Strategy& s, const ModelSpec&) {
  s.lora.targets = {};
  for (const char* name :
       {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}) {
    s.lora.targets.insert(lora_targets(name));
  }
}

// 'compile' joins what is element-wise and the loss of tokens; nothing else does.
bool is_compiled_alike(const Strategy& s) {
  const Runtime& k = s.runtime;
  const bool compiled = k.fused_norm;
  const bool loss = compiled && s.loss == Loss::kLm;
  return k.fused_rope == compiled && k.fused_activation == compiled &&
         k.fused_dropout_add == compiled && k.fused_cross_entropy == loss &&
         k.inplace_cross_entropy == loss && !k.fused_linear_cross_entropy;
}
void kernels(const Plan& p, Findings& f) {
  if (!is_compiled_alike(p.s)) {
    f.error(
        {"kernels.fused_norm", "kernels.fused_rope", "kernels.fused_activation",
         "kernels.fused_dropout_add", "kernels.fused_cross_entropy",
         "kernels.inplace_cross_entropy", "kernels.fused_linear_cross_entropy"},
        "norms, rotary embedding, activations, residuals and the loss are compiled all together "
        "or not at all; the loss is not fused with the output layer");
  }
  if (!p.s.flash_attention) f.error({"flash_attention"}, "attention is fused (PyTorch's or flex)");
}
void mend_kernels(Strategy& s, const ModelSpec&) {
  Runtime& k = s.runtime;
  k.fused_rope = k.fused_activation = k.fused_dropout_add = k.fused_norm;
  k.fused_cross_entropy = k.inplace_cross_entropy = k.fused_norm && s.loss == Loss::kLm;
  k.fused_linear_cross_entropy = false;
  s.flash_attention = true;
}

void early_update(const Plan& p, Findings& f) {
  if (!p.s.runtime.optimizer_in_backward) return;
  if (!has_adapters(p.s) && p.s.loss == Loss::kLm) return;
  f.error({"runtime.optimizer_in_backward"},
          "optimizer_in_bwd is of the recipes that train all weights on tokens");
}

constexpr TargetRule kTorchtuneRules[] = {
    {"FSDP2's own overlaps, data types and kernels", check_fsdp, mend_fsdp},
    {"torchtune/training/_distributed.py ParallelDims", check_fsdp_dimensions, mend_fsdp_dimensions,
     PartitionRule::kEven},
    {"recipes/*_distributed.py: shard_model where dp_shard or cp is over 1", sharded, mend_sharded},
    {"recipes/full_finetune_distributed.py context_parallel_rotate_method", check_rotated_keys,
     mend_rotated_keys},
    {"recipes/*.py get_dtype, set_default_dtype", one_type, mend_one_type},
    {"recipes/*.py enable_activation_checkpointing", check_layer_recomputation,
     mend_layer_recomputation},
    {"recipes/*.py enable_activation_checkpointing", check_whole_recomputation,
     mend_whole_recomputation, PartitionRule::kAny, every_layer},
    {"recipes/*.py enable_activation_checkpointing", check_unlisted_modules, mend_unlisted_modules},
    {"torchtune/training/activation_checkpointing: checkpoint_wrapper", check_stops_early,
     mend_stops_early},
    {"recipes/full_finetune_*.py optimizer_in_bwd", early_update, mend_late_update},
    {"recipes/configs: optimizer", optimizers, mend_optimizers},
    {"torchtune/datasets/_packed.py; recipes/*_dpo_*.py", documents, mend_documents},
    {"recipes/full_dpo_distributed.py, lora_dpo_*.py", pairs_of_answers, mend_pairs_of},
    {"torchtune/modules/peft/_utils.py LORA_ATTN_MODULES, apply_lora_to_mlp", adapters,
     mend_adapters},
    {"recipes/*.py compile", kernels, mend_kernels},
    {"recipes/*.py fsdp_cpu_offload", check_host_weights, mend_host_weights},
    {"recipes/*.py enable_activation_offloading", check_resident_activations,
     mend_resident_activations},
    {"torchtune/training/_distributed.py build_mesh", check_default_order, mend_default_order},
};

}  // namespace

std::span<const TargetRule> torchtune_rules() { return kTorchtuneRules; }

}  // namespace meshplan
