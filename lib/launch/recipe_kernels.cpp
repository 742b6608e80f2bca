#include "launch/recipe_kernels.hpp"

#include <string_view>

#include "frameworks/target.hpp"

namespace meshplan {

// transformers modeling_utils.py, attn_implementation; axolotl utils/schemas/config.py,
// flash_attention and its like; LLaMA-Factory hparams/model_args.py, flash_attn (auto: PyTorch's).
// Since 2.11 PyTorch's is cuDNN's on Hopper and Blackwell (frameworks/built_in.cpp, add_fsdp).
void read_attention(Settings& settings, Strategy& s, std::vector<std::string>& notes) {
  const std::string kind = settings.text("attn_implementation", "");
  const std::string factory = settings.text("flash_attn", "auto");
  const bool flash = settings.flag("flash_attention", false);
  const bool eager = settings.flag("eager_attention", false);
  (void)settings.find("sdp_attention");
  const bool xformers = settings.flag("xformers_attention", false);
  const bool flex = settings.flag("flex_attention", false);
  if (xformers || flex || kind == "xformers" || kind == "flex_attention") {
    notes.emplace_back(
        "attention of xFormers and FlexAttention counts as PyTorch's fastest kernel");
  }
  constexpr std::string_view kKnown =
      " eager sdpa flash_attention_2 flash_attention_3 xformers flex_attention "
      "auto disabled fa2 fa3 null true false ";
  for (const std::string& name : {kind, factory}) {
    if (name.empty() || kKnown.find(" " + name + " ") != std::string_view::npos) continue;
    notes.push_back("attention '" + name + "' is not known: it counts as PyTorch's fastest kernel");
  }
  s.flash_attention = !eager && kind != "eager" && factory != "disabled";
  const bool second = kind == "flash_attention_2" || factory == "fa2" || (flash && kind.empty());
  s.runtime.attention = second ? AttentionKernel::kFlash2 : AttentionKernel::kBest;
}

// Liger-Kernel transformers/monkey_patch.py, apply_liger_kernel_to_llama: with all defaults a
// rotary embedding, RMSNorm and SwiGLU of one kernel each, and the loss fused with the output
// layer; axolotl integrations/liger/args.py names each, integrations/cut_cross_entropy/args.py the
// other loss.
void read_fused_kernels(Settings& settings, Strategy& s) {
  bool all = false;
  for (const char* name : {"use_liger_kernel", "use_liger", "enable_liger_kernel"}) {
    all = settings.flag(name, false) || all;
  }
  Runtime& k = s.runtime;
  const auto set = [&](bool& kernel, std::initializer_list<const char*> names) {
    bool stated = all;
    for (const char* name : names) stated = settings.flag(name, false) || stated;
    if (stated) kernel = true;
  };
  set(k.fused_rope, {"liger_rope"});
  set(k.fused_norm, {"liger_rms_norm", "liger_layer_norm"});
  set(k.fused_activation, {"liger_glu_activation", "liger_swiglu"});
  bool with_head = false;
  set(with_head, {"liger_fused_linear_cross_entropy", "cut_cross_entropy"});
  if (settings.flag("liger_cross_entropy", false)) {
    k.fused_cross_entropy = k.inplace_cross_entropy = true;
  }
  // axolotl monkeypatch/loss/chunked.py: 8 chunks unless stated.
  if (settings.flag("chunked_cross_entropy", false)) {
    const std::int64_t chunks = settings.integer("chunked_cross_entropy_num_chunks", 8, {1, 4096});
    if (s.loss == Loss::kLm && !with_head) k.loss_chunks = chunks;
  }
  // Of pairs of answers there are log-probabilities, not this loss.
  if (with_head && s.loss == Loss::kLm) k.fused_linear_cross_entropy = true;
}

void read_adapter_kernels(Settings& settings, Strategy& s) {
  bool named = false, on = false;
  for (const char* name : {"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"}) {
    named = settings.has(name) || named;
    on = settings.flag(name, false) || on;
  }
  const bool foreign = settings.flag("trust_remote_code", false);
  s.runtime.fused_lora = has_adapters(s) && (named ? on : fuses_adapters(s) && !foreign);
}

// torchtune training/_compile.py, compile_model and compile_loss; transformers trainer.py,
// torch_compile.
void read_compilation(Settings& settings, const std::string& key, bool loss, Strategy& s) {
  if (!settings.flag(key, false)) return;
  Runtime& k = s.runtime;
  k.fused_norm = k.fused_rope = k.fused_activation = k.fused_dropout_add = true;
  if (loss && s.loss == Loss::kLm) k.fused_cross_entropy = k.inplace_cross_entropy = true;
}

void read_reentrant(Settings& settings, bool is_llama_factory, Strategy& s) {
  const auto is_true = [](std::string_view text) { return text == "true" || text == "True"; };
  bool reentrant = is_llama_factory;
  if (const Settings::Setting* mapping = settings.find("gradient_checkpointing_kwargs")) {
    // A script passes it as JSON, which is YAML too.
    YamlNode inside = mapping->value;
    if (inside.kind == YamlNode::Kind::kScalar) {
      Result<YamlNode> read = parse_yaml(inside.text, "gradient_checkpointing_kwargs");
      if (read) inside = std::move(read).value();
    }
    if (const YamlNode* said = inside.find("use_reentrant")) reentrant = is_true(said->text);
  }
  for (const char* name :
       {"gradient_checkpointing_kwargs.use_reentrant", "use_reentrant", "use_reentrant_gc"}) {
    if (settings.has(name)) reentrant = is_true(settings.text(name));
  }
  s.runtime.recompute_early_stop = !reentrant;
}

void read_host_checkpoints(Settings& settings, bool is_axolotl, Strategy& s) {
  bool host = settings.text("gradient_checkpointing", "").starts_with("offload");
  for (const char* name : {"activation_offloading", "use_unsloth_gc"}) {
    const std::string value = settings.text(name, "false");
    host = host || !(value == "false" || value.empty());
  }
  if (!host) return;
  // axolotl core/builders/base.py, _configure_gradient_checkpointing: beside frozen weights all
  // that is saved goes to the host in place of recomputation, unless inputs alone are asked for.
  const bool inputs = settings.text("activation_offloading", "") == "hidden_states";
  if (is_axolotl && has_adapters(s) && !inputs) s.recompute = Recompute::kNone;
  if (s.recompute == Recompute::kFull) {
    s.runtime.host_checkpoints = true;
  } else {
    s.offload.activations = true;
  }
}

}  // namespace meshplan
