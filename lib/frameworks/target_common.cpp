#include "frameworks/target_tables.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {

void check_release(const Plan& p, Findings& f) {
  const Preset& own = preset_of(p.s);
  const Preset& newest = newest_preset(p.s.framework);
  if (&own == &newest) return;
  const std::string text = "the plan is for release " + own.release_name + " of " +
                           own.framework_name + ", the configuration is written for " +
                           newest.release_name;
  if (own.exported) {
    f.warning({"release", "framework"}, text + ": options may differ");
  } else {
    f.error({"release", "framework"}, text, "release=" + newest.release_name);
  }
}

void check_default_order(const Plan& p, Findings& f) {
  if (same_rank_order(p.s, kDefaultOrder)) return;
  f.error({"order"}, "ranks are numbered tp-cp-ep-dp-pp, not " + key_text(p.s.order));
}
void mend_default_order(Strategy& s, const ModelSpec&) { s.order = kDefaultOrder; }

void check_whole_recomputation(const Plan& p, Findings& f) {
  const std::optional<std::int64_t> each = recomputed_per_chunk(p.s, p.m);
  if (each && *each <= 0) return;
  f.error({"recompute_layers"}, "every layer is recomputed or none, not 'recompute_layers' " +
                                    key_text(p.s.recompute_layers));
}
void mend_whole_recomputation(Strategy& s, const ModelSpec& m) {
  s.recompute = Recompute::kFull, s.recompute_modules = {};
  s.recompute_layers = stage_layers(s, m);
}

CountRule every_layer(const ModelSpec&) { return CountRule::kAll; }

void check_fp32_states(const Plan& p, Findings& f) {
  if (!p.s.master_weights) f.error({"master_weights"}, "the optimizer keeps fp32 weights");
  if (p.s.optimizer_dtype != Dtype::kFp32) {
    f.error({"optimizer_dtype"}, "the optimizer's moments are fp32");
  }
}
void mend_fp32_states(Strategy& s, const ModelSpec&) {
  s.master_weights = true;
  s.optimizer_dtype = Dtype::kFp32;
}

void check_adam(const Plan& p, Findings& f) {
  if (p.s.optimizer == Optimizer::kAdam) return;
  f.error({"optimizer"},
          "the configuration that is written has Adam, not " + std::string(name_of(p.s.optimizer)),
          "optimizer=adam");
}
void mend_adam(Strategy& s, const ModelSpec&) { s.optimizer = Optimizer::kAdam; }

void check_lm_loss(const Plan& p, Findings& f) {
  if (p.s.loss == Loss::kLm) return;
  f.error({"loss"}, "it trains on tokens, not on pairs of answers", "framework=fsdp runs TRL's");
}
void mend_lm_loss(Strategy& s, const ModelSpec&) { s.loss = Loss::kLm; }

void check_plain_dispatch(const Plan& p, Findings& f) {
  if (p.s.ep == 1) return;
  if (p.s.overlap.ep) f.error({"overlap.ep"}, "the dispatch of tokens is not overlapped");
  if (p.s.overlap.shared_experts) {
    f.error({"overlap.shared_experts"}, "the dispatch of tokens is not overlapped");
  }
  if (p.s.runtime.flex_dispatcher) {
    f.error({"kernels.flex_dispatcher"}, "tokens are dispatched by plain all-to-alls");
  }
  if (p.s.runtime.allgather_dispatcher) {
    f.error({"kernels.allgather_dispatcher"}, "tokens are dispatched by plain all-to-alls");
  }
}
void mend_plain_dispatch(Strategy& s, const ModelSpec&) {
  s.overlap.ep = s.overlap.delay_wgrad_compute = s.overlap.shared_experts = false;
  s.runtime.single_device_connection = false;
  s.runtime.flex_dispatcher = s.runtime.allgather_dispatcher = false;
}

void check_unlisted_modules(const Plan& p, Findings& f) {
  if (!p.s.offload.modules.empty()) {
    f.error({"offload.modules"}, "modules whose inputs go to the host cannot be listed, got " +
                                     key_text(p.s.offload.modules));
  }
  if (p.s.recompute_modules.empty()) return;
  f.error({"recompute_modules"}, "what selective recomputation repeats cannot be listed, got " +
                                     key_text(p.s.recompute_modules));
}
void mend_unlisted_modules(Strategy& s, const ModelSpec&) {
  s.recompute_modules = {};
  s.offload.modules = {};
}

void check_whole_loss(const Plan& p, Findings& f) {
  if (p.s.runtime.loss_chunks == 1) return;
  f.error({"kernels.loss_chunks"}, "the loss is taken of all logits at once");
}
void mend_whole_loss(Strategy& s, const ModelSpec&) { s.runtime.loss_chunks = 1; }

void check_late_update(const Plan& p, Findings& f) {
  if (!p.s.runtime.optimizer_in_backward) return;
  f.error({"runtime.optimizer_in_backward"}, "weights are updated after the backward pass");
}

// Megatron-Core alone has these; its rules say when.
void check_megatron_extras(Target t, const Strategy& s, Findings& f) {
  if (t == Target::kMegatron || t == Target::kMegatronBridge) {
    // training/determinism.py, ARG_VALUES_REQUIRED_FOR_DETERMINISM.
    if (s.runtime.deterministic_mode && (s.runtime.fused_cross_entropy || s.overlap.tp)) {
      f.error({"runtime.deterministic_mode", "kernels.fused_cross_entropy", "overlap.tp"},
              "deterministic training has no fused loss and no overlapped tensor parallelism",
              "kernels.fused_cross_entropy=false, overlap.tp=false");
    }
    return;
  }
  if (s.runtime.deterministic_mode || s.runtime.deterministic_attention) {
    f.error({"runtime.deterministic_mode", "runtime.deterministic_attention"},
            "deterministic algorithms are a switch of Megatron-LM's",
            "runtime.deterministic_mode=false, runtime.deterministic_attention=false");
  }
  if (!s.chunk_layers.empty() && t != Target::kTorchtitan) {
    f.error({"chunk_layers"}, "a rank's layers are spread evenly over its chunks",
            "chunk_layers=[]");
  }
  if (s.runtime.microbatch_group_size > 0 && s.schedule == Schedule::kInterleaved) {
    f.error({"runtime.microbatch_group_size"}, "chunks take turns after 'pp' microbatches",
            "runtime.microbatch_group_size=0");
  }
  if (s.runtime.expert_capacity_factor > 0) {
    f.error({"runtime.expert_capacity_factor"}, "experts take all tokens that come",
            "runtime.expert_capacity_factor=0");
  }
  if (!s.runtime.defer_embedding_wgrad_compute) return;
  f.error({"runtime.defer_embedding_wgrad_compute"},
          "the output layer's weight gradients are made in its backward pass",
          "runtime.defer_embedding_wgrad_compute=false");
}

void mend_late_update(Strategy& s, const ModelSpec&) { s.runtime.optimizer_in_backward = false; }

void check_repeats_all(const Plan& p, Findings& f) {
  if (p.s.recompute != Recompute::kFull || !p.s.runtime.recompute_early_stop) return;
  f.error({"runtime.recompute_early_stop"}, "full recomputation repeats whole layers");
}
void mend_repeats_all(Strategy& s, const ModelSpec&) { s.runtime.recompute_early_stop = false; }

void check_stops_early(const Plan& p, Findings& f) {
  if (p.s.recompute != Recompute::kFull || p.s.runtime.recompute_early_stop) return;
  f.error({"runtime.recompute_early_stop"},
          "full recomputation stops at the last tensor that is saved",
          "runtime.recompute_early_stop=true");
}
void mend_stops_early(Strategy& s, const ModelSpec&) { s.runtime.recompute_early_stop = true; }

void check_resident_activations(const Plan& p, Findings& f) {
  if (p.s.offload.activations) {
    f.error({"offload.activations"}, "activations that are not recomputed stay on the device");
  }
}
void mend_resident_activations(Strategy& s, const ModelSpec&) { s.offload.activations = false; }

}  // namespace meshplan
