#include "frameworks/target.hpp"

#include <algorithm>

#include "frameworks/preset.hpp"
#include "frameworks/target_tables.hpp"
#include "spec/axes.hpp"

namespace meshplan {
namespace {

// Axes of more than one rank, innermost first, with their sizes.
std::vector<std::pair<Axis, std::int64_t>> axes_of(const Strategy& s, const RankOrder& order,
                                                   bool expert) {
  std::vector<std::pair<Axis, std::int64_t>> axes;
  for (const Axis axis : order) {
    const std::int64_t size = axis_size(s, axis, expert);
    if (size > 1) axes.emplace_back(axis, size);
  }
  return axes;
}

}  // namespace

bool same_rank_order(const Strategy& s, const RankOrder& other) {
  if (s.order == other) return true;
  return axes_of(s, s.order, false) == axes_of(s, other, false) &&
         axes_of(s, s.order, true) == axes_of(s, other, true);
}

std::optional<Target> target_of(const Strategy& s, const ModelSpec& m) {
  if (!preset_of(s).exported) return std::nullopt;
  constexpr std::array kTargets{std::pair{Framework::kMegatron, Target::kMegatron},
                                std::pair{Framework::kDeepspeed, Target::kDeepspeed},
                                std::pair{Framework::kMegatronDeepspeed, Target::kDeepspeed},
                                std::pair{Framework::kTorchtitan, Target::kTorchtitan},
                                std::pair{Framework::kFsdp, Target::kAccelerate}};
  for (const auto& [framework, target] : kTargets) {
    if (framework == s.framework) return carrier_of(target, s, m);
  }
  return std::nullopt;
}

std::span<const TargetRule> target_rules(Target t) {
  switch (t) {
    case Target::kMegatron:
    case Target::kMegatronBridge:  // runs Megatron-Core with the same checks
      return megatron_rules();
    case Target::kDeepspeed:
      return deepspeed_rules();
    case Target::kTorchtitan:
      return torchtitan_rules();
    case Target::kAccelerate:
      return accelerate_rules();
    case Target::kAxolotl:
      return axolotl_rules();
    case Target::kTorchtune:
      return torchtune_rules();
  }
  return {};
}

TargetLayers target_layers(Target t, const ModelSpec& m) {
  TargetLayers layers;
  for (const TargetRule& rule : target_rules(t)) {
    if (rule.stages != PartitionRule::kAny) layers.stages = rule.stages;
    if (rule.recomputed != nullptr) layers.recomputed = rule.recomputed(m);
  }
  return layers;
}

// Megatron-Core has no module for the activation function of a dense MLP: it repeats all of that
// (transformer_config.py, recompute_modules). Where attention is not fused, its scores are what is
// repeated first.
std::vector<RecomputeModules> target_modules(Target t, const ModelSpec& m, const Strategy& s) {
  const bool dense = num_moe_layers(m) < m.num_layers;
  if (t != Target::kMegatron || !dense || !s.flash_attention) return {RecomputeModules{}};
  const bool delayed =
      s.precision == Precision::kFp8 && s.runtime.fp8_recipe == ScalingRecipe::kDelayed;
  RecomputeModules cheap;
  if (m.moe && !delayed) cheap.add(RecomputeModule::kMoeAct);
  if (m.mla) cheap.add(RecomputeModule::kMlaUpProj);
  if ((m.moe || m.mla) && !delayed) cheap.add(RecomputeModule::kLayernorm);
  RecomputeModules all = cheap;
  all.add(RecomputeModule::kMlp);
  if (cheap.empty()) return {all};
  return {cheap, all};
}

namespace {

// The model whose delta attention and residuals Megatron-Bridge has
// (models/kimi/kimi_k3_layers.py).
bool is_kimi_k3(const ModelSpec& m) {
  const auto is_own = [](const LayerRun& run) {
    if (const auto* latent = std::get_if<LatentAttentionSpec>(&run.layer.mixer)) {
      return latent->sizes.output_gate;
    }
    const auto* delta = std::get_if<GatedDeltaNetSpec>(&run.layer.mixer);
    return delta != nullptr && delta->gate_rank > 0 && delta->full_rank_gate;
  };
  return m.attn_res_block_size > 0 && !m.layers.empty() &&
         std::all_of(m.layers.begin(), m.layers.end(), is_own);
}

// A recipe of Megatron-Bridge builds the model from its own configuration, of layers that it or
// Megatron-Core has (src/megatron/bridge/models).
void check_bridge_layers(const ModelSpec& m, Findings& f) {
  if (m.attn_res_block_size > 0 && !is_kimi_k3(m)) {
    f.error({"attn_res_block_size"}, "Megatron-Bridge has attention residuals in Kimi K3 alone");
    return;
  }
  const auto lacks = [&](const Mixer& mixer) -> const char* {
    if (std::holds_alternative<LightningSpec>(mixer)) return "lightning attention";
    if (std::holds_alternative<MambaSpec>(mixer)) return "layers of Mamba-1";
    const auto* attention = std::get_if<AttentionSpec>(&mixer);
    if (attention != nullptr && attention->q_lora_rank > 0) return "queries through a latent alone";
    const auto* delta = std::get_if<GatedDeltaNetSpec>(&mixer);
    const bool kimi = delta != nullptr && delta->gate_rank > 0;
    return kimi && !is_kimi_k3(m) ? "Kimi Delta Attention but in Kimi K3" : nullptr;
  };
  for (const LayerRun& run : m.layers) {
    const char* what = lacks(run.layer.mixer);
    if (what == nullptr) continue;
    f.error({"layers"}, "Megatron-Bridge has no " + std::string(what));
    return;
  }
}

// A:2440 --swiglu, --squared-relu, --openai-gelu, --quick-geglu: activations that options name;
// recipes of Megatron-Bridge set the function itself.
void check_activation(const ModelSpec& m, Findings& f) {
  const Activation a = m.activation;
  const bool gated = a == Activation::kSilu && m.gated_mlp;
  const bool plain = (a == Activation::kGelu || a == Activation::kRelu2) && !m.gated_mlp;
  if (gated || plain) return;
  f.error({"activation"}, "Megatron-LM has no " + std::string(m.gated_mlp ? "gated " : "") +
                              std::string(name_of(a)) +
                              " MLP: it takes gelu, relu2 and gated silu");
}

// Parts of a model that no file of the target says.
void check_model_parts(Target t, const ModelSpec& m, Findings& f) {
  if (leaves_the_model(t)) return;
  if (t == Target::kMegatronBridge) {
    check_bridge_layers(m, f);
    return;
  }
  const bool megatron = t == Target::kMegatron;
  if (megatron) check_activation(m, f);
  if (!m.layers.empty() && !(megatron && is_megatron_hybrid(m))) {
    f.error({"layers"}, "its files describe models without 'layers' of different sizes");
  }
  const auto refuse = [&](bool there, const char* key, const char* what) {
    if (there) f.error({key}, "its files describe no " + std::string(what));
  };
  refuse(m.encoder.has_value(), "encoder", "vision encoder");
  refuse(m.sandwich_norm, "sandwich_norm", "norms behind attention and MLP");
  refuse(m.logit_softcapping, "logit_softcapping", "soft-capping of logits");
  refuse(m.attn_logit_softcapping, "attn_logit_softcapping", "soft-capping of scores");
  refuse(m.mlp_bias, "mlp_bias", "biases of the MLP alone");
  refuse(m.mla && (m.mla->index.top_k > 0 || m.mla->output_gate), "attention",
         "index or output gate of latent attention");
  refuse(!megatron && m.attention_output_gate, "attention_output_gate", "output gate of attention");
  refuse(!megatron && m.rotary_percent < 1, "rotary_percent", "partial rotary embedding");
  refuse(!megatron && m.moe && m.moe->latent_size > 0, "moe.latent_size", "experts on a latent");
  refuse(!megatron && m.mtp_shared, "mtp", "passes of one prediction layer");
  refuse(m.mhc_num_residual_streams > 1 && (!megatron || m.moe || m.mtp_layers > 0),
         "mhc_num_residual_streams", "hyper-connections of such a model");
  refuse(m.moe && m.moe->latent_norm, "moe.latent_norm", "norm of the experts' latent");
  refuse(m.attn_res_block_size > 0, "attn_res_block_size", "attention residuals");
  refuse(m.mtp_layer.has_value() && m.layers.empty(), "mtp", "prediction layer of its own kind");
}

// Adapters beside frozen weights: Megatron-Bridge peft/lora.py; PEFT, whose 4 and 8 bit weights are
// bitsandbytes'.
void check_adapters(Target t, const Strategy& s, Findings& f) {
  if (!has_adapters(s)) return;
  const FrozenDtype dtype = s.lora.frozen_dtype;
  const bool few_bits = dtype == FrozenDtype::kNf4 || dtype == FrozenDtype::kInt8;
  switch (t) {
    case Target::kMegatron:
      f.error({"lora.rank"}, "Megatron-LM trains all weights; adapters are Megatron-Bridge's",
              "--format megatron-bridge");
      return;
    case Target::kTorchtitan:
      f.error({"lora.rank"}, "torchtitan trains all weights", "framework=fsdp, with PEFT");
      return;
    case Target::kMegatronBridge:
      if (!few_bits) return;
      f.error({"lora.frozen_dtype"},
              "Megatron-Bridge keeps frozen weights in the training dtype, "
              "fp8 or nvfp4",
              "lora.frozen_dtype=training");
      return;
    case Target::kTorchtune:
      if (dtype == FrozenDtype::kTraining || dtype == FrozenDtype::kNf4) return;
      f.error({"lora.frozen_dtype"},
              "torchtune keeps frozen weights in the training dtype or in nf4",
              "lora.frozen_dtype=nf4");
      return;
    case Target::kDeepspeed:
    case Target::kAccelerate:
    case Target::kAxolotl:
      if (few_bits || dtype == FrozenDtype::kTraining) return;
      f.error({"lora.frozen_dtype"},
              "PEFT keeps frozen weights in the training dtype or, with "
              "bitsandbytes, in nf4 or int8",
              "lora.frozen_dtype=nf4");
      return;
  }
}

void check_attention_precision(Target t, const Strategy& s, Findings& f) {
  if (!has_fp8_attention(s) || t == Target::kMegatronBridge) return;
  f.error({"kernels.fp8_attention"},
          "attention in 8 bits (fp8_dot_product_attention) is set in Megatron-Bridge alone",
          t == Target::kMegatron ? "--format megatron-bridge, or kernels.fp8_attention=false"
                                 : "kernels.fp8_attention=false");
}

void check_stored_input(Target t, const Strategy& s, Findings& f) {
  if (!s.runtime.activation_func_fp8_input_store || t == Target::kMegatronBridge) return;
  const std::string off = "kernels.activation_func_fp8_input_store=false";
  f.error({"kernels.activation_func_fp8_input_store"},
          "an activation's input in 8 bits (activation_func_fp8_input_store) is set in "
          "Megatron-Bridge alone",
          t == Target::kMegatron ? "--format megatron-bridge, or " + off : off);
}

// torchao's float8, which PyTorch's trainers call, is written with scales of whole tensors.
void check_scaling(Target t, const Strategy& s, Findings& f) {
  const ScalingRecipe recipe = s.runtime.fp8_recipe;
  const bool any = recipe == ScalingRecipe::kBest || recipe == ScalingRecipe::kTensorwise;
  if (any || s.precision != Precision::kFp8) return;
  if (t == Target::kMegatron || t == Target::kMegatronBridge) {
    if (s.runtime.transformer_engine) return;
    f.error({"kernels.fp8_recipe", "runtime.transformer_engine"},
            "layers without Transformer Engine have no products in 8 bits",
            "runtime.transformer_engine=true");
    return;
  }
  f.error({"kernels.fp8_recipe"},
          "operands in 8 bits are scaled by tensor, not " + std::string(name_of(recipe)),
          "kernels.fp8_recipe=tensorwise");
}

// Megatron-Core transformer_config.py: of fp8 no more than an even stage holds, and not with scales
// of earlier steps, which are brought together behind all layers. torchtitan's filter_fqns name
// layers; the others' switches are for all of them.
void check_bf16_layers(Target t, const Strategy& s, const ModelSpec& m, Findings& f) {
  const std::int64_t first = s.runtime.num_layers_at_start_in_bf16;
  const std::int64_t last = s.runtime.num_layers_at_end_in_bf16;
  if (!has_bf16_layers(s) || t == Target::kTorchtitan) return;
  const std::string key =
      first >= last ? "kernels.num_layers_at_start_in_bf16" : "kernels.num_layers_at_end_in_bf16";
  if (t != Target::kMegatron && t != Target::kMegatronBridge) {
    f.error({key}, "all layers' products are in " + std::string(name_of(s.precision)), key + "=0");
    return;
  }
  if (s.precision != Precision::kFp8) return;
  if (s.runtime.fp8_recipe == ScalingRecipe::kDelayed) {
    f.error({key, "kernels.fp8_recipe"},
            "scales of earlier steps (delayed) do not go with first or last layers in bf16",
            "kernels.fp8_recipe=tensorwise");
  }
  if (std::max(first, last) > m.num_layers / s.pp) {
    f.error({key, "pp"},
            "no more first or last layers than a stage's " + std::to_string(m.num_layers / s.pp) +
                " may be in bf16",
            key + "=" + std::to_string(m.num_layers / s.pp));
  }
}

// Megatron-Bridge's recipes of precision say it themselves (training/mixed_precision.py); no file
// of the others but torchtitan's, with FSDP, does.
void check_low_gather(Target t, const Strategy& s, Findings& f) {
  if (!s.runtime.fp8_param_gather || !is_quantised(s.precision) || t == Target::kMegatron) return;
  const char* hint = "runtime.fp8_param_gather=false";
  if (t == Target::kMegatronBridge) {
    const bool plain =
        s.precision == Precision::kNvfp4 || s.runtime.fp8_recipe == ScalingRecipe::kBlockwise;
    if (!plain) return;
    f.error({"runtime.fp8_param_gather"}, "its recipe of this precision stores weights in 16 bits",
            hint);
    return;
  }
  if (t == Target::kTorchtitan && s.zero == 3) return;
  f.error({"runtime.fp8_param_gather"}, "weights are gathered in 16 bits", hint);
}

// Megatron-Bridge freezes parts by its fields; programs of DeepSpeed, FSDP and accelerate set
// requires_grad themselves.
void check_frozen_parts(Target t, const Strategy& s, Findings& f) {
  const bool can =
      t == Target::kMegatronBridge || t == Target::kDeepspeed || t == Target::kAccelerate;
  if (s.frozen.empty() || can) return;
  f.error({"frozen"}, "its files freeze no part of a model",
          "framework=fsdp, or --format megatron-bridge");
}

// The other frameworks' files and programs capture none of a training step.
void check_cuda_graph(Target t, const Strategy& s, Findings& f) {
  const bool megatron = t == Target::kMegatron || t == Target::kMegatronBridge;
  if (s.runtime.cuda_graph == CudaGraph::kNone || megatron) return;
  f.error({"kernels.cuda_graph"}, "CUDA graphs of layers or iterations are Megatron-Core's",
          "kernels.cuda_graph=none");
}

}  // namespace

TargetModel::TargetModel(Target t, const ModelSpec& m) : target_(t), model_(m) {
  check_model_parts(t, m, own_);
  if (t == Target::kMegatron) check_model_parts(Target::kMegatronBridge, m, of_bridge_);
}

Target TargetModel::carrier_of(const Strategy& s) const {
  if (target_ != Target::kMegatron) return target_;
  if (has_adapters(s) || !s.frozen.empty() || has_fp8_attention(s)) return Target::kMegatronBridge;
  if (s.runtime.activation_func_fp8_input_store) return Target::kMegatronBridge;
  if (is_precision_aware(s) && !s.runtime.param_remainders) return Target::kMegatronBridge;
  if (own_.has_errors()) return Target::kMegatronBridge;
  Findings f;
  check_streams(target_, s, model_, f);
  return f.has_errors() ? Target::kMegatronBridge : target_;
}

void TargetModel::check_parts(Target carrier, const Strategy& s, Findings& f) const {
  check_adapters(carrier, s, f);
  check_frozen_parts(carrier, s, f);
  check_streams(carrier, s, model_, f);
  check_attention_residuals(carrier, s, model_, f);
  check_attention_precision(carrier, s, f);
  check_stored_input(carrier, s, f);
  check_precision_aware(carrier, s, f);
  check_scaling(carrier, s, f);
  check_bf16_layers(carrier, s, model_, f);
  check_offloaded_masters(carrier, s, f);
  check_optimizer_kernel(carrier, s, f);
  check_megatron_extras(carrier, s, f);
  check_adapter_kernels(carrier, s, f);
  check_low_gather(carrier, s, f);
  check_cuda_graph(carrier, s, f);
}

Findings TargetModel::findings(Target carrier, const Strategy& s, const ClusterSpec& c) const {
  Findings f = carrier == target_ ? own_ : of_bridge_;
  check_parts(carrier, s, f);
  for (const TargetRule& rule : target_rules(carrier)) rule.check({s, model_, c}, f);
  return f;
}

bool TargetModel::has_finding(Target carrier, const Strategy& s, const ClusterSpec& c,
                              const std::function<bool(const Finding&)>& asked) const {
  const auto any = [&](const Findings& f, std::size_t from) {
    for (std::size_t i = from; i < f.all().size(); ++i) {
      if (asked(f.all()[i])) return true;
    }
    return false;
  };
  if (any(carrier == target_ ? own_ : of_bridge_, 0)) return true;
  Findings f;
  check_parts(carrier, s, f);
  if (any(f, 0)) return true;
  const Plan plan{s, model_, c};
  for (const TargetRule& rule : target_rules(carrier)) {
    const std::size_t before = f.all().size();
    rule.check(plan, f);
    if (any(f, before)) return true;
  }
  return false;
}

Target carrier_of(Target t, const Strategy& s, const ModelSpec& m) {
  return TargetModel(t, m).carrier_of(s);
}

Findings target_findings(Target t, const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  return TargetModel(t, m).findings(t, s, c);
}

std::string inexpressible(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  const std::optional<Target> target = target_of(s, m);
  if (!target) return {};
  const Diagnostics broken = target_findings(*target, s, m, c).diagnostics();
  const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::kError; };
  const auto first = std::find_if(broken.begin(), broken.end(), is_error);
  if (first == broken.end()) return {};
  // Programs that run FSDP know different things.
  if (*target == Target::kAccelerate) {
    for (const Target other : {Target::kAxolotl, Target::kTorchtune}) {
      if (!target_findings(other, s, m, c).has_errors()) return {};
    }
  }
  const auto others = std::count_if(first + 1, broken.end(), is_error);
  std::string_view space = name_of(*target);
  if (*target == Target::kAccelerate) space = "fsdp";
  if (*target == Target::kMegatronBridge) space = name_of(Target::kMegatron);
  return "its framework cannot run it: " + first->message +
         (others > 0 ? ", and " + std::to_string(others) + " more" : "") + "; 'plan --space " +
         std::string(space) + "' searches what can be run";
}

std::optional<Strategy> nearest_expressible(Target t, Strategy s, const ModelSpec& m,
                                            const ClusterSpec& c) {
  constexpr int kRounds = 3;  // mending one rule may break one that was looked at before
  for (int round = 0; round < kRounds; ++round) {
    for (const TargetRule& rule : target_rules(t)) {
      Findings f;
      rule.check({s, m, c}, f);
      if (f.has_errors() && rule.mend != nullptr) rule.mend(s, m);
    }
  }
  // Lists that were taken back when their schedule changed.
  if (s.stage_layers.empty()) s.stage_layers = stage_layers(s, m);
  if (s.recompute_layers.empty()) {
    s.recompute_layers.assign(s.stage_layers.size(), 0);
    if (s.recompute == Recompute::kFull) s.recompute_layers = s.stage_layers;
  }
  if (!is_legal(s, m, c) || target_findings(t, s, m, c).has_errors()) {
    return std::nullopt;
  }
  return s;
}

}  // namespace meshplan
