// torchtitan v0.2.2, the last release with TOML files (files below torchtitan/).
#include "frameworks/target_tables.hpp"
#include "schedule/traits.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string name(auto value) { return std::string(name_of(value)); }

void framework(const Plan& p, Findings& f) {
  if (p.s.framework == Framework::kTorchtitan) return check_release(p, f);
  f.error({"framework"}, "the plan was made for " + name(p.s.framework) + ", not for torchtitan",
          "framework=torchtitan");
}
void mend_framework(Strategy& s, const ModelSpec&) {
  const int zero = s.zero;
  s = with_preset(s, Framework::kTorchtitan);
  s.zero = zero;
}

void model(const Plan& p, Findings& f) {
  if (torchtitan_flavor(p.m) == nullptr) {
    f.error({"name"}, "no model of torchtitan has the sizes of " + p.m.name);
  } else if (p.m.mtp_layers > 0) {
    f.error({"mtp_layers"}, "torchtitan's models have no multi-token prediction");
  }
}

void schedule(const Plan& p, Findings& f) {
  if (p.s.pp == 1 || torchtitan_schedule(p.s.schedule)) return;
  f.error({"schedule"},
          "PyTorch's pipelines are gpipe, 1f1b, interleaved and zb-v, not " + name(p.s.schedule));
}
void mend_schedule(Strategy& s, const ModelSpec&) {
  s.schedule = traits_of(s.schedule).shares_both_ends() ? Schedule::kZbV : kPlainSchedule;
  s.stage_layers.clear();
  s.chunk_layers.clear();
  s.recompute_layers.clear();
}

void sharding(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.zero == 1) f.error({"zero"}, "FSDP shards gradients (zero=2) or weights too (zero=3)");
  if (s.zero == 0 && (s.tp > 1 || s.cp > 1 || s.pp > 1)) {
    f.error({"zero", "tp", "cp", "pp"}, "replicated weights (zero=0) need tp=1, cp=1 and pp=1");
  }
  if (s.zero > 0 && shard_group(s) % s.cp != 0) {
    f.error({"zero_group", "cp"}, "a shard group holds whole context-parallel groups of " +
                                      std::to_string(s.cp) + " ranks, got " +
                                      std::to_string(shard_group(s)));
  }
}
void mend_sharding(Strategy& s, const ModelSpec&) {
  if (s.zero < 2) s.zero = 2;
  if (shard_group(s) % s.cp != 0) s.zero_group = 0;
}

void tensor_parallel(const Plan& p, Findings& f) {
  if (p.s.sequence_parallel != (p.s.tp > 1)) {
    f.error({"sequence_parallel", "tp"}, "tensor parallelism always splits the sequence too");
  }
  const std::int64_t parts = product({p.s.tp, 2, p.s.cp});
  if (p.s.seq_len % parts != 0) {
    f.error({"seq_len", "tp", "cp"},
            "'seq_len' must be a multiple of 2 * tp * cp = " + std::to_string(parts) + ", got " +
                std::to_string(p.s.seq_len));
  }
}
void mend_tensor_parallel(Strategy& s, const ModelSpec&) { s.sequence_parallel = s.tp > 1; }

void context(const Plan& p, Findings& f) {
  if (p.s.cp > 1 && p.s.cp_kind == CpKind::kUlysses) {
    f.error({"cp_kind"}, "context parallelism rotates keys and values: ring or allgather");
  }
}
void mend_context(Strategy& s, const ModelSpec&) {
  if (s.cp > 1 && s.cp_kind == CpKind::kUlysses) s.cp_kind = CpKind::kAllGather;
}

void experts(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.ep == 1) {
    if (p.m.moe && s.etp != s.tp) {
      f.error({"etp", "tp"}, "without 'ep' the experts are split by tp: etp=" +
                                 std::to_string(s.tp) + ", got " + std::to_string(s.etp));
    }
    return;
  }
  if (s.etp != 1 && s.etp != s.tp) {
    f.error({"etp", "tp"}, "'etp' is 1 or tp, got " + std::to_string(s.etp));
  } else if (s.zero > 0 && shard_group(s) * s.tp % (s.ep * s.etp) != 0) {
    f.error({"ep", "etp", "zero_group"}, "ep * etp must divide the " +
                                             std::to_string(shard_group(s) * s.tp) +
                                             " ranks that share the shards");
  }
}
void mend_experts(Strategy& s, const ModelSpec&) {
  if (s.etp != s.tp) s.etp = s.ep == 1 ? s.tp : 1;
  s.zero_group = 0;
}

void overlap(const Plan& p, Findings& f) {
  if (p.s.zero == 0 || (p.s.overlap.grad_reduce && p.s.overlap.param_gather)) return;
  f.error({"overlap.grad_reduce", "overlap.param_gather"},
          "FSDP always overlaps its gathers and reductions");
}
void mend_overlap(Strategy& s, const ModelSpec&) {
  s.overlap.grad_reduce = s.overlap.param_gather = true;
}

void precision(const Plan& p, Findings& f) {
  const Precision k = p.s.precision;
  if (k == Precision::kFp16 || k == Precision::kTf32 || k == Precision::kNvfp4) {
    f.error({"precision"}, "precision is fp32, bf16 or fp8, not " + name(k));
  }
  if (p.s.grad_dtype != Dtype::kFp32) {
    f.error({"grad_dtype"}, "gradients are reduced in fp32, not " + name(p.s.grad_dtype));
  }
}
void mend_precision(Strategy& s, const ModelSpec&) {
  if (s.precision == Precision::kFp16) s.precision = Precision::kBf16;
  if (s.precision == Precision::kTf32) s.precision = Precision::kFp32;
  if (s.precision == Precision::kNvfp4) s.precision = Precision::kFp8;
  s.grad_dtype = Dtype::kFp32;
}

void early_update(const Plan& p, Findings& f) {
  if (!p.s.runtime.optimizer_in_backward || p.s.ep == 1) return;
  f.error({"runtime.optimizer_in_backward", "ep"},
          "early_step_in_backward does not go with expert parallelism");
}

constexpr TargetRule kRules[] = {
    {"its own overlaps, data types and kernels", framework, mend_framework},
    {"models/*/__init__.py: flavors", model, nullptr},
    {"distributed/pipeline_parallel.py build_pipeline_schedule, PyTorch get_schedule_class",
     schedule, mend_schedule},
    {"models/llama3/infra/parallelize.py apply_fsdp, apply_ddp: DDP is for one dimension alone",
     sharding, mend_sharding},
    {"models/llama3/infra/parallelize.py:69 seq_len_divisor", tensor_parallel,
     mend_tensor_parallel},
    {"config/job_config.py context_parallel_rotate_method", context, mend_context},
    {"distributed/parallel_dims.py:59 ETP=TP or ETP=1; models/llama4/infra/parallelize.py:559",
     experts, mend_experts},
    {"distributed/expert_parallel.py", check_plain_dispatch, mend_plain_dispatch},
    {"PyTorch fully_shard", overlap, mend_overlap},
    {"config/job_config.py mixed_precision_param, mixed_precision_reduce", precision,
     mend_precision},
    {"distributed/activation_checkpoint.py apply_ac", check_whole_recomputation,
     mend_whole_recomputation, PartitionRule::kAny, every_layer},
    {"distributed/activation_checkpoint.py _save_list", check_unlisted_modules,
     mend_unlisted_modules},
    {"config/job_config.py training.dtype", check_fp32_states, mend_fp32_states},
    {"config/job_config.py enable_cpu_offload", check_host_weights, mend_host_weights},
    {"distributed/activation_checkpoint.py", check_resident_activations, mend_resident_activations},
    {"distributed/parallel_dims.py build_mesh", check_default_order, mend_default_order},
    {"config/job_config.py optimizer.name AdamW", check_adam, mend_adam},
    {"components/loss.py cross_entropy_loss", check_whole_loss, mend_whole_loss},
    {"components/compile; distributed/activation_checkpoint.py", check_stops_early,
     mend_stops_early},
    {"components/optimizer.py build_optimizers", early_update, mend_late_update},
    {"components/loss.py", check_lm_loss, mend_lm_loss},
};

}  // namespace

std::optional<std::string_view> torchtitan_schedule(Schedule s) {
  struct Row {
    Schedule schedule;
    std::string_view name;
  };
  constexpr std::array kRows{Row{Schedule::kGpipe, "GPipe"}, Row{Schedule::k1f1b, "1F1B"},
                             Row{Schedule::kInterleaved, "Interleaved1F1B"},
                             Row{Schedule::kZbV, "ZBVZeroBubble"}};
  for (const Row& row : kRows) {
    if (row.schedule == s) return row.name;
  }
  return std::nullopt;
}

std::span<const TargetRule> torchtitan_rules() { return kRules; }

}  // namespace meshplan
