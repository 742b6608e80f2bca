// Hugging Face accelerate with PyTorch's FSDP2 (files below src/accelerate/).
#include "frameworks/target_tables.hpp"
#include "spec/optimizers.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string name(auto value) { return std::string(name_of(value)); }

void framework(const Plan& p, Findings& f) {
  if (p.s.framework == Framework::kFsdp) return check_release(p, f);
  f.error({"framework"}, "the plan was made for " + name(p.s.framework) + ", not for PyTorch FSDP",
          "framework=fsdp");
}
void mend_framework(Strategy& s, const ModelSpec&) {
  const int zero = s.zero;
  s = with_preset(s, Framework::kFsdp);
  s.zero = zero;
}

void dimensions(const Plan& p, Findings& f) {
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
void mend_dimensions(Strategy& s, const ModelSpec&) {
  if (s.pp > 1) {
    s.dp *= s.pp;
    s.pp = s.vp = 1;
    s.schedule = kPlainSchedule;
    s.stage_layers.clear();
    s.recompute_layers.clear();
  }
  s.ep = s.etp = 1;
  s.sequence_parallel = s.overlap.tp = false;
}

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

void sequence(const Plan& p, Findings& f) {
  if (p.s.cp > 1 && p.s.cp_kind == CpKind::kUlysses) {
    f.error({"cp_kind"}, "context parallelism rotates keys and values: ring or allgather");
  }
}
void mend_sequence(Strategy& s, const ModelSpec&) {
  if (s.cp > 1 && s.cp_kind == CpKind::kUlysses) s.cp_kind = CpKind::kAllGather;
}

void precision(const Plan& p, Findings& f) {
  if (p.s.precision == Precision::kTf32) {
    f.error({"precision"}, "mixed_precision is no, fp16, bf16 or fp8");
  }
}
void mend_precision(Strategy& s, const ModelSpec&) { s.precision = Precision::kFp32; }

void recomputation(const Plan& p, Findings& f) {
  if (p.s.recompute == Recompute::kSelective) {
    f.error({"recompute"}, "fsdp_activation_checkpointing recomputes whole layers");
  }
}
void mend_recomputation(Strategy& s, const ModelSpec& m) {
  s.recompute = Recompute::kFull, s.recompute_modules = {};
  s.recompute_layers = stage_layers(s, m);
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

void offload(const Plan& p, Findings& f) {
  if (!p.s.offload.optimizer) return;
  f.error({"offload.optimizer"}, "fsdp_offload_params moves weights and gradients to the host too");
}
void mend_offload(Strategy& s, const ModelSpec&) {
  s.offload.optimizer = false, s.offload.optimizer_fraction = 1;
}

constexpr TargetRule kRules[] = {
    {"FSDP2's own overlaps, data types and kernels", framework, mend_framework},
    {"parallelism_config.py ParallelismConfig: dp_replicate, dp_shard, tp, cp, sp", dimensions,
     mend_dimensions, PartitionRule::kEven},
    {"parallelism_config.py:337; utils/dataclasses.py:1869 fsdp_reshard_after_forward", sharding,
     mend_sharding},
    {"utils/dataclasses.py TorchContextParallelConfig.cp_comm_strategy", sequence, mend_sequence},
    {"commands/config/config_args.py mixed_precision", precision, mend_precision},
    {"utils/dataclasses.py fsdp activation_checkpointing", recomputation, mend_recomputation},
    {"utils/dataclasses.py fsdp activation_checkpointing", check_whole_recomputation,
     mend_whole_recomputation, PartitionRule::kAny, every_layer},
    {"utils/fsdp_utils.py fsdp2_prepare_model: upcast to fp32 with mixed precision", states,
     mend_states},
    {"utils/dataclasses.py fsdp activation_checkpointing", check_unlisted_modules,
     mend_unlisted_modules},
    {"utils/dataclasses.py CPUOffloadPolicy", offload, mend_offload},
    {"utils/dataclasses.py CPUOffloadPolicy", check_resident_activations,
     mend_resident_activations},
    {"parallelism_config.py build_device_mesh", check_default_order, mend_default_order},
};

}  // namespace

std::span<const TargetRule> accelerate_rules() { return kRules; }

}  // namespace meshplan
