#include "launch/nemo_config.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "launch/hydra_references.hpp"
#include "launch/megatron_namespace.hpp"

namespace meshplan {
namespace {

// Keys of "model" that Megatron-LM has as arguments under another name.
struct OtherName {
  std::string_view key, argument;
};
constexpr std::array kOtherNames{
    OtherName{"encoder_seq_length", "seq_length"},
    OtherName{"num_moe_experts", "num_experts"},
    OtherName{"rotary_percentage", "rotary_percent"},
    OtherName{"qkv_bias", "add_qkv_bias"},
    OtherName{"bias", "add_bias_linear"},
    OtherName{"override_vocab_size", "vocab_size"},
    OtherName{"activations_checkpoint_granularity", "recompute_granularity"},
    OtherName{"ub_tp_comm_overlap", "tp_comm_overlap"},
    OtherName{"use_flash_attention", "use_flash_attn"},
    OtherName{"bias_dropout_add_fusion", "bias_dropout_fusion"},
    OtherName{"use_te_rng_tracker", "te_rng_tracker"},
    OtherName{"layernorm_zero_centered_gamma", "apply_layernorm_1p"}};

// Those that mean the same under the same name.
constexpr auto kSameNames = std::to_array<std::string_view>({"micro_batch_size",
                                                             "global_batch_size",
                                                             "rampup_batch_size",
                                                             "tensor_model_parallel_size",
                                                             "pipeline_model_parallel_size",
                                                             "virtual_pipeline_model_parallel_size",
                                                             "context_parallel_size",
                                                             "expert_model_parallel_size",
                                                             "expert_tensor_parallel_size",
                                                             "num_layers",
                                                             "hidden_size",
                                                             "ffn_hidden_size",
                                                             "num_attention_heads",
                                                             "num_query_groups",
                                                             "kv_channels",
                                                             "max_position_embeddings",
                                                             "hidden_dropout",
                                                             "attention_dropout",
                                                             "make_vocab_size_divisible_by",
                                                             "rotary_base",
                                                             "rotary_interleaved",
                                                             "window_size",
                                                             "apply_rope_fusion",
                                                             "masked_softmax_fusion",
                                                             "gradient_accumulation_fusion",
                                                             "sequence_parallel",
                                                             "fp16_lm_cross_entropy",
                                                             "fp32_residual_connection",
                                                             "apply_query_key_layer_scaling",
                                                             "init_method_std",
                                                             "deterministic_mode",
                                                             "overlap_p2p_comm",
                                                             "defer_embedding_wgrad_compute",
                                                             "wgrad_deferral_limit",
                                                             "enable_cuda_graph",
                                                             "cross_entropy_loss_fusion",
                                                             "position_embedding_type",
                                                             "moe_grouped_gemm",
                                                             "moe_token_dispatcher_type",
                                                             "moe_pad_expert_input_to_capacity",
                                                             "moe_expert_capacity_factor",
                                                             "moe_aux_loss_coeff",
                                                             "moe_router_topk",
                                                             "moe_z_loss_coeff",
                                                             "moe_router_load_balancing_type",
                                                             "moe_shared_expert_intermediate_size",
                                                             "moe_ffn_hidden_size"});

// Keys that switch on what no argument says, with the value that leaves it off.
struct Refused {
  std::string_view key, off, what;
};
constexpr std::array kNemoRefused{
    Refused{"fsdp", "false", "PyTorch's FSDP inside of NeMo 1 is not read"},
    Refused{"megatron_amp_O2", "true",
            "weights in 32 bits under autocast (megatron_amp_O2: false) are not read"},
    Refused{"bert_binary_head", "", "this trains an encoder, BERT: meshplan plans decoders"},
    Refused{"encoder", "", "this trains an encoder-decoder, T5: meshplan plans decoders"},
    Refused{"retro", "", "a model with retrieval is not read"},
    Refused{"mm_cfg", "", "a model with a vision encoder is not read"},
    Refused{"vision_pretraining_type", "",
            "this trains an encoder of images: meshplan plans decoders"},
    Refused{"peft", "", "adapters of a checkpoint are not read, since its sizes lie there"}};

// Sections, and what stands beside them, that say nothing of a step.
constexpr auto kOtherSections = std::to_array<std::string_view>(
    {"run", "hydra", "exp_manager", "name", "env_vars", "s3_checkpointing", "trainer", "model"});

struct Switch {
  std::string_view key, value;
  std::string_view argument, becomes;  // of Megatron-LM's namespace
};
constexpr std::array kModelSwitches{
    Switch{"share_embeddings_and_output_weights", "false", "untie_embeddings_and_output_weights",
           "True"},
    Switch{"share_embeddings_and_output_weights", "true", "untie_embeddings_and_output_weights",
           "False"},
    Switch{"normalization", "rmsnorm", "normalization", "RMSNorm"},
    Switch{"normalization", "layernorm", "normalization", "LayerNorm"},
    Switch{"normalization", "layernorm1p", "apply_layernorm_1p", "True"},
    Switch{"activation", "gelu", "swiglu", "False"},
    Switch{"activation", "swiglu", "swiglu", "True"},
    Switch{"activation", "fast-swiglu", "swiglu", "True"},
    Switch{"activation", "squared-relu", "squared_relu", "True"},
    Switch{"transformer_engine", "true", "transformer_impl", "transformer_engine"},
    Switch{"transformer_engine", "false", "transformer_impl", "local"}};
constexpr std::array kOptimizerSwitches{
    Switch{"name", "distributed_fused_adam", "use_distributed_optimizer", "True"},
    Switch{"name", "mcore_distributed_optim", "use_distributed_optimizer", "True"},
    Switch{"name", "fused_adam", "optimizer", "adam"},
    Switch{"name", "adamw", "optimizer", "adam"},
    Switch{"name", "adam", "optimizer", "adam"},
    Switch{"name", "sgd", "optimizer", "sgd"},
    Switch{"overlap_grad_sync", "true", "overlap_grad_reduce", "True"},
    Switch{"overlap_grad_sync", "false", "overlap_grad_reduce", "False"},
    Switch{"overlap_param_sync", "true", "overlap_param_gather", "True"},
    Switch{"overlap_param_sync", "false", "overlap_param_gather", "False"},
    Switch{"grad_sync_dtype", "bf16", "grad_reduce_in_bf16", "True"},
    Switch{"grad_sync_dtype", "fp32", "accumulate_allreduce_grads_in_fp32", "True"}};
constexpr std::array kPrecisions{
    Switch{"precision", "bf16", "bf16", "True"}, Switch{"precision", "bf16-mixed", "bf16", "True"},
    Switch{"precision", "16", "fp16", "True"},   Switch{"precision", "16-mixed", "fp16", "True"},
    Switch{"precision", "32", "fp16", "False"},  Switch{"precision", "32-true", "fp16", "False"}};

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

class Configuration {
 public:
  Configuration(const NamedText& file, const ShellInputs& shell, bool printed)
      : file_(file), shell_(shell), printed_(printed) {}

  Result<NemoArguments> arguments() {
    const Result<YamlNode> tree = parse_yaml(file_.text, file_.name);
    if (!tree) return tree.errors();
    const YamlNode* whole = tree->find("training");  // as the launcher nests it
    root_ = whole != nullptr ? whole : &*tree;
    model_ = root_->find("model");
    const YamlNode* trainer = root_->find("trainer");
    if (model_ == nullptr || trainer == nullptr) {
      return error_at({file_.name}, "the configuration has no sections 'model' and 'trainer'");
    }
    check_model();
    if (problems_.empty()) check_sections();
    if (!problems_.empty()) return problems_;
    for (const YamlEntry& entry : model_->entries) take_model(entry);
    take_defaults();
    for (const YamlEntry& entry : trainer->entries) take_trainer(entry);
    if (!problems_.empty()) return problems_;
    std::vector<std::string> unknown;
    NemoArguments all;
    all.options = {file_.name, options_of(all_, megatron_options(), unknown)};
    const std::int64_t gpus = bounded_product({devices_, std::max<std::int64_t>(nodes_, 1)});
    if (gpus <= kRanks.highest) all.gpus = gpus;
    return all;
  }

 private:
  void refuse(const YamlNode& node, const std::string& what, const std::string& way_out = {}) {
    problems_.push_back(error_at({file_.name, node.line, node.column, node.length}, what, way_out));
  }

  void check_sections() {
    for (const YamlEntry& entry : root_->entries) {
      const std::string& name = entry.first.text;
      if (name == "defaults") {
        check_bases(entry.second);
      } else if (name == "restore_from_path" && !printed_ &&
                 entry.second.kind == YamlNode::Kind::kScalar && entry.second.text != "null") {
        refuse(entry.first, "the model comes from a checkpoint, where its sizes lie",
               "give the model and --strategy");
      } else if (name != "restore_from_path" && !printed_ &&
                 std::find(kOtherSections.begin(), kOtherSections.end(), name) ==
                     kOtherSections.end()) {
        refuse(entry.first, "NeMo's configuration has no section '" + name + "'");
      }
    }
  }

  // Files that this one is laid over; overlap's buffers ("tp_overlap@...") say nothing of it.
  void check_bases(const YamlNode& bases) {
    for (const YamlNode& base : bases.items) {
      const YamlNode& name = base.kind == YamlNode::Kind::kMap && !base.entries.empty()
                                 ? base.entries.front().first
                                 : base;
      if (printed_ || name.text == "_self_" || name.text.find("tp_overlap@") != std::string::npos) {
        continue;
      }
      refuse(name, "the configuration is laid over '" + name.text + "', which is not read",
             "give what hydra makes of both: --cfg job of the program prints it");
    }
  }

  void check_model() {
    // What a log prints has run; what is asked of it is how long it took.
    for (const Refused& refused : kNemoRefused) {
      const YamlNode* value = model_->find(refused.key);
      if (printed_ || value == nullptr || value->kind == YamlNode::Kind::kNull) continue;
      if (lower(value->text) == refused.off && !refused.off.empty()) continue;
      refuse(*value, std::string(refused.what), "give the model and --strategy");
      return;
    }
    if (model_->find("num_layers") == nullptr) {
      refuse(*model_, "the model states no 'num_layers': it is no decoder of NeMo's GPT",
             "give the model and --strategy");
      return;
    }
    const YamlNode* own = model_->find("mcore_customization_config");
    const YamlNode* parallel = own != nullptr ? own->find("parallel_attention") : nullptr;
    const YamlNode* name = model_->find("name");
    if (parallel != nullptr && lower(parallel->text) == "true" && name != nullptr &&
        name->text.find("falcon") != std::string::npos) {
      refuse(*parallel, "attention beside the feed-forward (parallel_attention) is not read");
    }
    const YamlNode* activation = model_->find("activation");
    const bool known =
        activation == nullptr ||
        std::any_of(kModelSwitches.begin(), kModelSwitches.end(), [&](const Switch& s) {
          return s.key == "activation" && s.value == activation->text;
        });
    if (!known) {
      refuse(*activation,
             "the activation '" + activation->text + "' is none that Megatron-LM's arguments say",
             "give the model and --strategy");
    }
  }

  void set(std::string_view argument, std::string value, int line) {
    all_[std::string(argument)] = {std::string(argument), std::move(value), line, !printed_};
  }

  // A key of NeMo's own, by its place.
  void keep(const std::string& place, const YamlNode& value, int line) {
    if (printed_) return;
    if (value.kind == YamlNode::Kind::kNull) return;
    std::string text = value.text;
    for (const YamlNode& item : value.items) text += (text.empty() ? "" : ",") + item.text;
    if (value.kind == YamlNode::Kind::kMap) text = "...";
    if (lower(text) == "true") text = "True";
    if (lower(text) == "false") text = "False";
    // A switch that is off asks for nothing, where nobody knows it too.
    if (!text.empty()) set(place, text, line);
  }

  template <class Switches>
  bool take_switch(const YamlEntry& entry, const Switches& switches) {
    bool known = false;
    for (const Switch& s : switches) {
      if (s.key != entry.first.text) continue;
      known = true;
      if (lower(entry.second.text) != s.value) continue;
      set(s.argument, std::string(s.becomes), entry.first.line);
      return true;
    }
    return known && entry.second.kind == YamlNode::Kind::kNull;
  }

  // What Python would print of a value that the model or the strategy takes.
  std::string value_of(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kNull) return "None";
    if (node.kind == YamlNode::Kind::kSequence) {
      std::string text;
      for (const YamlNode& item : node.items) text += (text.empty() ? "" : ",") + item.text;
      return text;
    }
    const std::string text = resolved(node, node.text);
    const std::string small = lower(text);
    if (small == "true") return "True";
    if (small == "false") return "False";
    return small == "null" || small == "none" ? "None" : text;
  }

  std::string resolved(const YamlNode& where, const std::string& text) {
    Result<std::string> value = HydraReferences(*root_, *model_, shell_.variables).resolved(text);
    if (value) return *std::move(value);
    refuse(where, value.errors().front().message, value.errors().front().hint);
    return text;
  }

  void take_model(const YamlEntry& entry) {
    const std::string& key = entry.first.text;
    const int line = entry.first.line;
    if (key == "data") return;  // what is read, not how long: encoder_seq_length says that
    if (key == "fsdp" || key == "megatron_amp_O2" || key == "mcore_customization_config") return;
    if (key == "optim") {
      for (const YamlEntry& own : entry.second.entries) take_optimizer(own);
      return;
    }
    if (key == "tokenizer") return take_tokenizer(entry.second);
    if (key.starts_with("fp8") || key.ends_with("_bf16")) return take_fp8(entry);
    const auto other = std::find_if(kOtherNames.begin(), kOtherNames.end(),
                                    [&](const OtherName& o) { return o.key == key; });
    if (other != kOtherNames.end()) {
      set(other->argument, value_of(entry.second), line);
    } else if (std::find(kSameNames.begin(), kSameNames.end(), key) != kSameNames.end()) {
      const std::string value = value_of(entry.second);
      set(key, value, line);
      if (key == "num_query_groups" && value != "None") set("group_query_attention", "True", line);
    } else if (key == "bias_activation_fusion") {
      if (value_of(entry.second) != "False") return;
      set("bias_gelu_fusion", "False", line);
      set("bias_swiglu_fusion", "False", line);
    } else if (key == "activations_checkpoint_method" ||
               key == "activations_checkpoint_num_layers") {
      take_checkpointing(entry);
    } else if (!take_switch(entry, kModelSwitches)) {
      keep("model." + key, entry.second, line);
    }
  }

  // How many layers and which, where whole layers are recomputed.
  void take_checkpointing(const YamlEntry& entry) {
    const YamlNode* granularity = model_->find("activations_checkpoint_granularity");
    if (granularity == nullptr || lower(granularity->text) != "full") {
      return keep("model." + entry.first.text, entry.second, entry.first.line);
    }
    const bool method = entry.first.text == "activations_checkpoint_method";
    set(method ? "recompute_method" : "recompute_num_layers", value_of(entry.second),
        entry.first.line);
  }

  void take_fp8(const YamlEntry& entry) {
    const std::string& key = entry.first.text;
    const YamlNode* on = model_->find("fp8");
    const bool used = on != nullptr && lower(on->text) == "true";
    const bool yes = lower(entry.second.text) == "true";
    if (key == "fp8") return;
    if (key == "fp8_e4m3" || key == "fp8_hybrid") {
      if (used && yes) set("fp8", key == "fp8_e4m3" ? "e4m3" : "hybrid", entry.first.line);
    } else if (key == "fp8_params") {
      if (used && yes) set("fp8_param_gather", "True", entry.first.line);
    } else if (key == "fp8_recipe" || key.ends_with("_bf16")) {  // which layers are not in fp8
      if (used) set(key, value_of(entry.second), entry.first.line);
    } else {
      keep("model." + key, entry.second, entry.first.line);
    }
  }

  void take_optimizer(const YamlEntry& entry) {
    if (take_switch(entry, kOptimizerSwitches)) return;
    if (entry.first.text == "name") {
      return refuse(entry.second, "the optimizer '" + entry.second.text + "' is not read",
                    "mcore_distributed_optim, distributed_fused_adam, fused_adam, adamw, sgd");
    }
    keep("model.optim." + entry.first.text, entry.second, entry.first.line);
  }

  // The vocabulary, where the tokenizer's name says it.
  void take_tokenizer(const YamlNode& tokenizer) {
    const auto text = [&](const char* key) {
      const YamlNode* value = tokenizer.find(key);
      return value != nullptr && value->kind == YamlNode::Kind::kScalar ? *value : YamlNode{};
    };
    const YamlNode library = text("library"), type = text("type"), model = text("model");
    const std::string kind = lower(library.text);
    if (kind == "huggingface" && !type.text.empty()) {
      set("tokenizer_type", "HuggingFaceTokenizer", type.line);
      set("tokenizer_model", type.text, type.line);
      return;
    }
    if (kind == "megatron" && !type.text.empty()) set("tokenizer_type", type.text, type.line);
    if (kind == "sentencepiece") {
      set("tokenizer_type", "SentencePieceTokenizer", library.line);
      if (!model.text.empty()) set("tokenizer_model", model.text, model.line);
    }
  }

  // Where NeMo takes another default than Megatron-LM, or none of its keys says it
  // (models/language_modeling/megatron_gpt_model.py, megatron_base_model.py).
  void take_defaults() {
    const int line = model_->line;
    if (model_->find("transformer_engine") == nullptr) set("transformer_impl", "local", line);
    if (model_->find("gradient_accumulation_fusion") == nullptr) {
      set("gradient_accumulation_fusion", "False", line);
    }
  }

  void take_trainer(const YamlEntry& entry) {
    const std::string& key = entry.first.text;
    if (key == "devices" || key == "num_nodes") {
      const Result<std::int64_t> count = parse_integer(resolved(entry.second, entry.second.text));
      if (!count || *count < 1 || *count > kRanks.highest) {
        if (!printed_) {
          refuse(entry.second, "'" + key + "' is no number of " +
                                   (key == "devices" ? "GPUs" : "nodes") + ": " +
                                   entry.second.text);
        }
        return;
      }
      (key == "devices" ? devices_ : nodes_) = *count;
    } else if (!take_switch(entry, kPrecisions)) {
      if (key == "precision") {
        return refuse(entry.second, "the precision '" + entry.second.text + "' is not read",
                      "bf16, 16, 32");
      }
      keep("trainer." + key, entry.second, entry.first.line);
    }
  }

  const NamedText& file_;
  const ShellInputs& shell_;
  bool printed_;
  const YamlNode* root_ = nullptr;
  const YamlNode* model_ = nullptr;
  std::int64_t devices_ = 0, nodes_ = 0;
  Namespace all_;
  Diagnostics problems_;
};

}  // namespace

bool is_nemo(std::string_view text) {
  const auto has = [&](std::string_view section) {
    return text.starts_with(section) || text.find("\n" + std::string(section)) != text.npos ||
           text.find("\n  " + std::string(section)) != text.npos;
  };
  return has("trainer:") && has("model:") &&
         (text.find("_target_:") == text.npos || has("exp_manager:")) &&
         (text.find(" num_nodes:") != text.npos || text.find("{num_nodes:") != text.npos);
}

Result<NemoArguments> nemo_arguments(const NamedText& file, const ShellInputs& shell) {
  return Configuration(file, shell, false).arguments();
}

Result<NemoArguments> printed_nemo_arguments(const NamedText& file) {
  return Configuration(file, {}, true).arguments();
}

}  // namespace meshplan
