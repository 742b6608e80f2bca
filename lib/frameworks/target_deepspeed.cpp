// DeepSpeed 0.19 (files below deepspeed/) around a training program, and Megatron-DeepSpeed, whose
// model is split before DeepSpeed sees it.
#include <algorithm>

#include "frameworks/target_tables.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

std::string name(auto value) { return std::string(name_of(value)); }

void framework(const Plan& p, Findings& f) {
  if (p.s.framework == Framework::kDeepspeed || splits_itself(p.s.framework))
    return check_release(p, f);
  f.error({"framework"}, "the plan was made for " + name(p.s.framework) + ", not for DeepSpeed",
          "framework=deepspeed");
}
void mend_framework(Strategy& s, const ModelSpec&) {
  const Strategy own = s;
  s = with_preset(s, s.tp > 1 && s.pp > 1 ? Framework::kMegatronDeepspeed : Framework::kDeepspeed);
  s.zero = own.zero;
}

// The command line of Megatron-DeepSpeed.
void own_model(const Plan& p, Findings& f) {
  if (!splits_itself(p.s.framework)) return;
  const ModelSpec& m = p.m;
  const bool gated = m.gated_mlp && m.activation == Activation::kSilu;
  const bool plain =
      !m.gated_mlp && (m.activation == Activation::kGelu || m.activation == Activation::kRelu2);
  if (!gated && !plain) f.error({"activation"}, "MLPs are gelu, relu2 or gated silu");
  if (m.mla || m.window > 0 || m.attention_sinks || m.qk_norm) {
    f.error({"attention"}, "attention is multi-head or grouped: no latents, windows, sinks, norms");
  }
  if (m.parallel_block || m.embedding_norm || m.mtp_layers > 0) {
    f.error({"parallel_block", "embedding_norm", "mtp_layers"},
            "layers are attention and then MLP, without more");
  }
  if (!m.linear_bias && (m.qkv_bias || m.attention_out_bias || m.expert_bias)) {
    f.error({"linear_bias"}, "every linear layer has a bias or none");
  }
  if (m.position_embedding != PositionEmbedding::kRope &&
      m.position_embedding != PositionEmbedding::kLearned) {
    f.error({"position_embedding"}, "positions are learned or rotary");
  }
  if (m.moe && (m.moe->shared_expert_ffn_hidden_size > 0 || m.moe->first_dense > 0 ||
                m.moe->expert_ffn_hidden_size != m.ffn_hidden_size)) {
    f.error({"moe"},
            "experts are as large as 'ffn_hidden_size', with none that is shared and no "
            "dense layers in front");
  }
}

void pipeline_sharding(const Plan& p, Findings& f) {
  if (p.s.pp == 1 || p.s.zero <= 1) return;
  f.error({"zero", "pp"}, "a pipeline cannot have zero=" + std::to_string(p.s.zero));
}
void mend_pipeline_sharding(Strategy& s, const ModelSpec&) { s.zero = 1; }

// Megatron-DeepSpeed brings a zero-bubble schedule of its own.
bool has_zero_bubble(const Strategy& s) {
  return splits_itself(s.framework) && s.schedule == Schedule::kZbH1 && !s.sequence_parallel;
}
void schedule(const Plan& p, Findings& f) {
  if (p.s.pp == 1 || p.s.schedule == Schedule::k1f1b || has_zero_bubble(p.s)) return;
  f.error({"schedule"}, splits_itself(p.s.framework)
                            ? "the pipeline engine runs 1f1b, and zb-h1 without "
                              "'sequence_parallel', not " +
                                  name(p.s.schedule)
                            : "the pipeline engine runs 1f1b, not " + name(p.s.schedule));
}
void mend_schedule(Strategy& s, const ModelSpec&) {
  if (has_zero_bubble(s)) return;
  s.schedule = Schedule::k1f1b;
  s.vp = 1;
  s.stage_layers.clear();
  s.chunk_layers.clear();
  s.recompute_layers.clear();
}

void stages(const Plan& p, Findings& f) {
  const std::vector<std::int64_t> layers = stage_layers(p.s, p.m);
  if (std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) == layers.end()) {
    return;
  }
  f.error({"stage_layers", "pp"},
          "partition_method gives every stage as many layers, not " + key_text(layers));
}
void mend_stages(Strategy& s, const ModelSpec&) {
  s.stage_layers.clear();
  s.chunk_layers.clear();
  s.recompute_layers.clear();
}

void tensor_parallel(const Plan& p, Findings& f) {
  if (p.s.sequence_parallel && !splits_itself(p.s.framework)) {
    f.error({"sequence_parallel"}, "tensor parallelism does not split the sequence");
  }
  if (p.s.tp > 1 && p.s.pp > 1 && !splits_itself(p.s.framework)) {
    f.error({"tp", "pp"}, "automatic tensor parallelism cannot be combined with a pipeline",
            "framework=megatron-deepspeed");
  }
  if (p.s.overlap.tp && p.s.tp > 1 && splits_itself(p.s.framework)) {
    f.error({"overlap.tp"}, "tensor-parallel collectives are not overlapped");
  }
}
void mend_tensor_parallel(Strategy& s, const ModelSpec&) {
  if (!splits_itself(s.framework)) s.sequence_parallel = false;
  if (s.tp > 1 && s.pp > 1 && !splits_itself(s.framework)) {
    const int zero = s.zero;
    s = with_preset(s, Framework::kMegatronDeepspeed);
    s.zero = zero;
  }
  if (splits_itself(s.framework)) s.overlap.tp = false;
}

void sequence(const Plan& p, Findings& f) {
  if (p.s.cp == 1) return;
  if (p.s.cp_kind != CpKind::kUlysses) {
    f.error({"cp_kind"}, "sequences are split as Ulysses does, not " + name(p.s.cp_kind));
  }
  if (p.s.tp > 1 || p.s.pp > 1) {
    f.error({"cp", "tp", "pp"}, "split sequences cannot be combined with 'tp' or 'pp' over 1");
  }
}
void mend_sequence(Strategy& s, const ModelSpec&) {
  if (s.cp > 1) s.cp_kind = CpKind::kUlysses;
}

void experts(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.etp > 1) f.error({"etp"}, "experts are not split: etp=1, got " + std::to_string(s.etp));
  if (s.ep == 1) return;
  if (s.zero == 3) f.error({"ep", "zero"}, "experts cannot be spread with zero=3");
  if (s.tp > 1 && (s.pp > 1 || s.cp > 1 || s.offload.optimizer)) {
    f.error({"ep", "tp", "pp", "cp"},
            "spread experts and 'tp' cannot be combined with a pipeline, split sequences or "
            "offloading");
  }
  if (s.dp * s.cp % s.ep != 0) {
    f.error({"ep", "dp"},
            "'ep' must divide the " + std::to_string(s.dp * s.cp) + " ranks of dp * cp");
  }
}
void mend_experts(Strategy& s, const ModelSpec&) {
  s.etp = 1;
  if (s.ep > 1 && s.zero == 3) s.zero = 2;
  if (s.ep > 1 && s.tp > 1) s.offload.optimizer = false;
}

void shard_groups(const Plan& p, Findings& f) {
  if (p.s.zero_group == 0 || p.s.zero_group == p.s.dp * p.s.cp || p.s.zero == 3) return;
  f.error({"zero_group", "zero"}, "smaller shard groups (mics_shard_size) are for zero=3");
}
void mend_shard_groups(Strategy& s, const ModelSpec&) { s.zero_group = 0; }

void precision(const Plan& p, Findings& f) {
  const Precision k = p.s.precision;
  if (is_quantised(k) || k == Precision::kTf32) {
    f.error({"precision"}, "precision is fp32, fp16 or bf16, not " + name(k));
  }
}
void mend_precision(Strategy& s, const ModelSpec&) {
  s.precision = is_quantised(s.precision) ? Precision::kBf16 : Precision::kFp32;
}

void recomputation(const Plan& p, Findings& f) {
  if (p.s.recompute != Recompute::kSelective) return;
  if (!splits_itself(p.s.framework)) {
    f.error({"recompute"}, "whole layers are recomputed, not parts of them");
  } else if (p.s.flash_attention) {
    f.error({"recompute", "flash_attention"},
            "attention alone is recomputed only where it is materialised");
  }
}
void mend_recomputation(Strategy& s, const ModelSpec& m) {
  if (s.recompute != Recompute::kSelective || (splits_itself(s.framework) && !s.flash_attention))
    return;
  s.recompute = Recompute::kFull, s.recompute_modules = {};
  s.recompute_layers = stage_layers(s, m);
}

void optimizer_host(const Plan& p, Findings& f) {
  const Offload& offload = p.s.offload;
  if (!offload.optimizer) return;
  if (p.s.zero == 0) {
    f.error({"offload.optimizer", "zero"}, "'offload.optimizer' needs 'zero' of 1 or more");
  } else if (p.s.zero < 3 && offload.optimizer_fraction < 1) {
    f.error({"offload.optimizer_fraction", "zero"},
            "a part of the optimizer on the host needs zero=3, got " + std::to_string(p.s.zero),
            "offload.optimizer_fraction=1");
  }
}
void mend_optimizer_host(Strategy& s, const ModelSpec&) {
  if (s.zero == 0) s.zero = 1;
  if (s.zero < 3) s.offload.optimizer_fraction = 1;
}

constexpr TargetRule kRules[] = {
    {"its own overlaps, data types and kernels", framework, mend_framework},
    {"Megatron-DeepSpeed megatron/arguments.py _add_network_size_args", own_model, nullptr},
    {"runtime/pipe/engine.py:76 ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism",
     pipeline_sharding, mend_pipeline_sharding},
    {"runtime/pipe/schedule.py TrainSchedule; Megatron-DeepSpeed megatron/arguments.py:79",
     schedule, mend_schedule},
    {"runtime/pipe/module.py _partition_layers, partition_method", stages, mend_stages,
     PartitionRule::kEven},
    {"module_inject/auto_tp.py; runtime/pipe/engine.py:109 mpu must be None", tensor_parallel,
     mend_tensor_parallel},
    {"sequence/layer.py; runtime/sequence_parallel/parallel_state_sp.py:30", sequence,
     mend_sequence},
    {"runtime/engine.py:1890; module_inject/auto_ep_folding.py:112, :215", experts, mend_experts},
    {"moe/sharded_moe.py _AllToAll", check_plain_dispatch, mend_plain_dispatch},
    {"runtime/zero/mics.py, mics_shard_size", shard_groups, mend_shard_groups},
    {"runtime/config.py:827 fp16 xor bf16", precision, mend_precision},
    {"runtime/activation_checkpointing/checkpointing.py; Megatron-DeepSpeed "
     "megatron/model/transformer.py:864",
     recomputation, mend_recomputation},
    {"Megatron-DeepSpeed core/tensor_parallel/cross_entropy.py", check_whole_loss, mend_whole_loss},
    {"runtime/engine.py step", check_late_update, mend_late_update},
    {"runtime/activation_checkpointing/checkpointing.py", check_unlisted_modules,
     mend_unlisted_modules},
    {"runtime/pipe/module.py activation_checkpoint_interval", check_whole_recomputation,
     mend_whole_recomputation, PartitionRule::kAny, every_layer},
    {"runtime/zero/stage_1_and_2.py single_partition_of_fp32_groups", check_fp32_states,
     mend_fp32_states},
    {"runtime/zero/config.py offload_optimizer", optimizer_host, mend_optimizer_host},
    {"runtime/activation_checkpointing/config.py cpu_checkpointing", check_resident_activations,
     mend_resident_activations},
    {"runtime/pipe/topology.py PipeModelDataParallelTopology", check_default_order,
     mend_default_order},
    {"runtime/config.py optimizer.type Adam", check_adam, mend_adam},
    {"Megatron-DeepSpeed pretrain_gpt.py: loss_func", check_lm_loss, mend_lm_loss},
};

}  // namespace

std::span<const TargetRule> deepspeed_rules() { return kRules; }

}  // namespace meshplan
