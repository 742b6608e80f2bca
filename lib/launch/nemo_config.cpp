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
#include "launch/nemo_keys.hpp"

namespace meshplan {
namespace {

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
                 std::find(kNemoOtherSections.begin(), kNemoOtherSections.end(), name) ==
                     kNemoOtherSections.end()) {
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
    for (const NemoRefused& refused : kNemoRefused) {
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
        std::any_of(kNemoModelSwitches.begin(), kNemoModelSwitches.end(), [&](const NemoSwitch& s) {
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
    for (const NemoSwitch& s : switches) {
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
    const auto other = std::find_if(kNemoOtherNames.begin(), kNemoOtherNames.end(),
                                    [&](const NemoOtherName& o) { return o.key == key; });
    if (other != kNemoOtherNames.end()) {
      set(other->argument, value_of(entry.second), line);
    } else if (std::find(kNemoSameNames.begin(), kNemoSameNames.end(), key) !=
               kNemoSameNames.end()) {
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
    } else if (key == "cpu_offloading" || key == "cpu_offloading_num_layers") {
      take_offloading(entry);
    } else if (!take_switch(entry, kNemoModelSwitches)) {
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

  // Activations of so many layers; Megatron-LM's arguments say the number alone.
  void take_offloading(const YamlEntry& entry) {
    const YamlNode* on = model_->find("cpu_offloading");
    const YamlNode* layers = model_->find("cpu_offloading_num_layers");
    const bool used = on != nullptr && lower(on->text) == "true" && layers != nullptr &&
                      !layers->text.empty() &&
                      layers->text.find_first_not_of("0123456789") == std::string::npos;
    if (!used) return keep("model." + entry.first.text, entry.second, entry.first.line);
    if (&entry.second == layers) set(entry.first.text, layers->text, entry.first.line);
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
    if (take_switch(entry, kNemoOptimizerSwitches)) return;
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
    } else if (!take_switch(entry, kNemoPrecisions)) {
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
