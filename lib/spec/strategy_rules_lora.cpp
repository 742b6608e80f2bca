#include <algorithm>

#include "base/text.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

using enum LoraTarget;

LoraTargets targets_of(const AttentionSpec& kind, const ModelSpec&) {
  LoraTargets all{kQkv, kK, kProj};
  all.insert(kind.q_lora_rank > 0 ? LoraTargets{kQDown, kQUp} : LoraTargets{kQ});
  if (!kind.shared_values) all.insert(kV);
  return all;
}

LoraTargets targets_of(const LatentAttentionSpec& kind, const ModelSpec&) {
  LoraTargets all{kKvDown, kKvUp, kProj};
  all.insert(kind.sizes.q_lora_rank > 0 ? LoraTargets{kQDown, kQUp} : LoraTargets{kQ});
  return all;
}

LoraTargets targets_of(const CompressedAttentionSpec&, const ModelSpec&) {
  return {kQDown, kQUp, kKvDown, kProj};
}

LoraTargets targets_of(const ParallelMixerSpec& kind, const ModelSpec& m) {
  LoraTargets all = targets_of(kind.attention, m);
  all.insert(LoraTargets{kIn, kOut});
  return all;
}

LoraTargets targets_of(const NoneSpec&, const ModelSpec&) { return {}; }

LoraTargets mlp_targets(const ModelSpec& m) {
  LoraTargets all{kFc1, kUp, kFc2};
  if (m.gated_mlp) all.insert(kGate);
  return all;
}

LoraTargets targets_of(const DenseMlpSpec&, const ModelSpec& m) { return mlp_targets(m); }
LoraTargets targets_of(const MoeSpec&, const ModelSpec& m) { return mlp_targets(m); }

// Mixers with a state begin and end with one projection.
template <class Kind>
LoraTargets targets_of(const Kind&, const ModelSpec&) {
  return {kIn, kOut};
}

LoraTargets targets_of(const ModelSpec& m) {
  LoraTargets all;
  const auto add = [&](const auto& kind) { all.insert(targets_of(kind, m)); };
  for (const LayerSpec& layer : distinct_layers(m)) {
    std::visit(add, layer.mixer);
    std::visit(add, layer.feed_forward);
  }
  return all;
}

std::string list_of(const LoraTargets& targets) {
  std::string text;
  for (const LoraTarget t : targets.all()) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(t));
  }
  return text;
}

// Lists that are meant for every model name layers that one of them lacks.
bool is_general(const LoraTargets& targets) {
  return targets == kDefaultLoraTargets || targets == lora_targets("all-linear");
}

void check_targets(const Plan& p, Findings& f) {
  const LoraTargets& wanted = p.s.lora.targets;
  const LoraTargets there = targets_of(p.m);
  const std::string hint = "its linear layers are " + list_of(there) + "; all-linear names all";
  if ((wanted & there).empty()) {
    f.error({"lora.targets"},
            wanted.empty() ? "'lora.targets' is empty: nothing would be trained"
                           : "the model has none of the layers " + list_of(wanted) +
                                 ": nothing would be trained",
            hint);
    return;
  }
  if (is_general(wanted)) return;
  for (const LoraTarget t : wanted.all()) {
    if (there.contains(t)) continue;
    f.error({"lora.targets"}, "the model has no layer '" + std::string(name_of(t)) + "'", hint);
  }
}

// PEFT casts after it has loaded a model of Hugging Face's on one device.
void check_unquantised(const Plan& p, Findings& f) {
  if (!p.s.runtime.fp32_unquantised) return;
  if (has_own_models(p.s.framework)) {
    f.error({"runtime.fp32_unquantised", "framework"},
            std::string(name_of(p.s.framework)) + " casts nothing beside quantised weights",
            "framework=fsdp or deepspeed");
  }
  if (p.s.tp > 1 || p.s.pp > 1) {
    f.error({"runtime.fp32_unquantised", "tp", "pp"},
            "'runtime.fp32_unquantised' needs tp=1 and pp=1");
  }
  if (!casts_unquantised(p.s)) {
    f.warning({"runtime.fp32_unquantised", "lora.frozen_dtype"},
              "'runtime.fp32_unquantised' does nothing without adapters beside frozen weights in 4 "
              "or 8 bits");
  }
}

// What is frozen must be there, and something must be left to train.
void check_frozen(const Plan& p, Findings& f) {
  const FrozenParts& frozen = p.s.frozen;
  if (frozen.empty()) return;
  if (has_adapters(p.s)) {
    f.error({"frozen", "lora.rank"},
            "adapters leave every weight as it is: nothing else is trained", "frozen=[]");
    return;
  }
  const bool vision = frozen.has(FrozenPart::kVisionModel);
  const bool projection = frozen.has(FrozenPart::kVisionProjection);
  if (!p.m.encoder && (vision || projection)) {
    f.error({"frozen"}, "the model has no vision encoder that could be frozen", "frozen=[]");
    return;
  }
  if (!frozen.has(FrozenPart::kLanguageModel)) return;
  if (p.m.encoder && !(vision && projection)) return;
  f.error({"frozen"}, "everything is frozen: nothing would be trained",
          "leave a part out, or train adapters: lora.rank=16");
}

// Megatron-Bridge goes on without it where it cannot be; here that is said.
void check_input_regather(const Strategy& s, Findings& f) {
  if (!s.lora.input_regather) return;
  const bool full = s.recompute == Recompute::kFull;
  if (full || s.offload.activations) {
    f.error({"lora.input_regather", full ? "recompute" : "offload.activations"},
            std::string("Megatron-Bridge's adapters gather no input again beside ") +
                (full ? "full recomputation" : "activations on the host"),
            "lora.input_regather=false");
  } else if (!regathers_input(s)) {
    f.warning({"lora.input_regather"},
              "'lora.input_regather' does nothing without adapters on linear_qkv or linear_fc1 and "
              "sequence parallelism, or with CUDA graphs or lora.all_to_all");
  }
}

bool is_column_parallel(LoraTarget t) { return t != kProj && t != kFc2 && t != kOut; }

}  // namespace

void check_lora_values(const Strategy& s, Findings& f) {
  f.check("lora.rank", s.lora.rank, {0, 65'536});
  f.check("lora.dropout", s.lora.dropout, {0, 0.999});
}

// Megatron-Bridge peft/utils.py, ParallelLinearAdapter: the r columns of a column-parallel layer's
// adapter are split over the tensor ranks.
void check_lora(const Plan& p, Findings& f) {
  const Lora& lora = p.s.lora;
  check_frozen(p, f);
  check_unquantised(p, f);
  if (lora.rank == 0) {
    if (lora.frozen_dtype == FrozenDtype::kTraining) return;
    f.error({"lora.frozen_dtype", "lora.rank"},
            "'lora.frozen_dtype' is of weights beside which adapters are trained, but 'lora.rank' "
            "is 0",
            "lora.rank=16");
    return;
  }
  if (lora.rank > p.m.hidden_size) {
    f.error({"lora.rank"}, "'lora.rank' " + std::to_string(lora.rank) +
                               " is more than the model's hidden size " +
                               std::to_string(p.m.hidden_size) + ": no adapter of low rank");
  }
  check_targets(p, f);
  check_input_regather(p.s, f);
  const std::vector<LoraTarget> wanted = (lora.targets & targets_of(p.m)).all();
  const bool split = std::any_of(wanted.begin(), wanted.end(), is_column_parallel);
  if (split) must_divide(f, {"tp", "lora.rank"}, p.s.tp, lora.rank, "columns of an adapter");
}

}  // namespace meshplan
