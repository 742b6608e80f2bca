// What frameworks can be told of where the optimizer's states are, of which types, and by whose
// kernels it and adapters work.
#include "frameworks/target_tables.hpp"

namespace meshplan {

void check_precision_aware(Target t, const Strategy& s, Findings& f) {
  const bool megatron = t == Target::kMegatron || t == Target::kMegatronBridge;
  if (s.runtime.precision_aware_optimizer && !megatron) {
    f.error({"runtime.precision_aware_optimizer"},
            "Adam with types of its own for all that it holds is Transformer Engine's",
            "runtime.precision_aware_optimizer=false");
  }
  if (t == Target::kMegatron && is_precision_aware(s) && !s.runtime.param_remainders) {
    f.error({"runtime.param_remainders"},
            "the precision-aware optimizer stores the remainders of fp32 weights",
            "--format megatron-bridge, or runtime.param_remainders=true");
  }
}

// Megatron-LM. Muon: megatron/training/arguments.py:1718, core/optimizer/__init__.py
// _get_megatron_emerging_optimizer. SGD: core/optimizer/distrib_optimizer.py, which knows Adam
// alone.
void check_megatron_optimizer(const Plan& p, Findings& f) {
  const Optimizer o = p.s.optimizer;
  if (o == Optimizer::kAdam) return;
  const std::string which = "the optimizer " + std::string(name_of(o));
  const char* const hint = "optimizer=adam";
  if (o == Optimizer::kSgd) {
    if (p.s.zero == 0) return;
    f.error({"optimizer", "zero"}, which + " is not sharded: it needs zero=0", "zero=0");
  } else if (o != Optimizer::kMuon) {
    f.error({"optimizer"}, "Megatron-LM has Adam, Muon and SGD, not " + std::string(name_of(o)),
            hint);
  } else if (p.s.precision == Precision::kFp16) {
    f.error({"optimizer", "precision"}, which + " does not go with fp16", hint);
  } else if (p.s.zero > 1 || p.s.zero_group > 0) {
    f.error({"optimizer", "zero", "zero_group"},
            which + " shards whole matrices over all replicas: zero=0 or 1, no 'zero_group'",
            "zero=1");
  } else if (p.s.optimizer_dtype != Dtype::kFp32) {
    f.error({"optimizer", "optimizer_dtype"}, which + " keeps its momentum in fp32", hint);
  }
}

void check_optimizer_kernel(Target t, const Strategy& s, Findings& f) {
  if (s.runtime.fused_optimizer || s.optimizer != Optimizer::kAdam) return;
  if (t != Target::kDeepspeed) return;
  f.error({"kernels.fused_optimizer"}, "Adam is DeepSpeed's FusedAdam, one multi-tensor kernel",
          "kernels.fused_optimizer=true");
}

// utils/schemas/config.py, check_auto_enable_lora_kernels (2026-07).
bool fuses_adapters(const Strategy& s) {
  const bool eight = s.lora.frozen_dtype == FrozenDtype::kInt8;
  return has_adapters(s) && s.loss == Loss::kLm && !eight;
}

// What of adapters' code a framework has: axolotl has kernels of its own, and casts back to 16 bits
// what PEFT cast to fp32 (loaders/model.py); torchtune does neither.
void check_adapter_kernels(Target t, const Strategy& s, Findings& f) {
  if (!has_adapters(s)) return;
  if (s.runtime.fused_lora && t != Target::kAxolotl) {
    f.error({"kernels.fused_lora"}, "an adapter's output is scaled by a kernel of its own",
            "kernels.fused_lora=false, or --format axolotl");
  } else if (s.runtime.fused_lora && s.lora.frozen_dtype == FrozenDtype::kInt8) {
    f.error({"kernels.fused_lora", "lora.frozen_dtype"},
            "axolotl's kernels of adapters take no weights in 8 bits", "kernels.fused_lora=false");
  }
  const bool casts = t == Target::kAxolotl || t == Target::kTorchtune;
  if (s.runtime.fp32_unquantised && casts) {
    f.error({"runtime.fp32_unquantised"}, "what is not quantised is of the training dtype",
            "runtime.fp32_unquantised=false");
  }
}

// Megatron-LM's arguments.py wants the precision-aware optimizer beside an offloaded one, whose
// fp32 weights are on the host alone; Megatron-Bridge takes both.
void check_offloaded_masters(Target t, const Strategy& s, Findings& f) {
  const Offload& offload = s.offload;
  const bool bridge = t == Target::kMegatronBridge;
  if (!offload.optimizer) return;
  const bool megatron = t == Target::kMegatron || bridge;
  if (has_host_weights(s) && megatron) {
    f.error({"offload.weights"}, "Megatron-Core keeps weights and gradients on the device",
            "offload.weights=false");
  }
  if (!offload.master_weights && !bridge) {
    f.error({"offload.master_weights"}, "an optimizer on the host takes its fp32 weights along",
            t == Target::kMegatron ? "--format megatron-bridge, or offload.master_weights=true"
                                   : "offload.master_weights=true");
  } else if (!offload.master_weights && s.optimizer_dtype != Dtype::kFp32) {
    f.error({"offload.master_weights", "optimizer_dtype"},
            "moments in 16 bits are the precision-aware optimizer's, whose fp32 weights are on the "
            "host alone",
            "offload.master_weights=true");
  }
  if (offload.overlap_copies && !bridge && t != Target::kMegatron) {
    f.error({"offload.overlap_copies"}, "copies are not overlapped with the host's update",
            "offload.overlap_copies=false");
  }
}

}  // namespace meshplan
