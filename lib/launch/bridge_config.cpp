#include "launch/bridge_config.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "io/yaml_tree.hpp"
#include "launch/bridge_precision.hpp"
#include "launch/megatron_namespace.hpp"
#include "launch/shell.hpp"
#include "launch/shell_syntax.hpp"

namespace meshplan {
namespace {

constexpr std::string_view kContainer = "megatron.bridge.training.config.ConfigContainer";

struct SameField {
  std::string_view field, argument;
};
constexpr std::array kModelFields{
    SameField{"num_moe_experts", "num_experts"},
    SameField{"layernorm_epsilon", "norm_epsilon"},
    SameField{"use_te_rng_tracker", "te_rng_tracker"},
    SameField{"microbatch_group_size_per_vp_stage",
              "microbatch_group_size_per_virtual_pipeline_stage"},
    SameField{"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    SameField{"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"}};
constexpr std::array kDdpFields{
    SameField{"average_in_collective", "ddp_average_in_collective"},
    SameField{"bucket_size", "ddp_bucket_size"},
    SameField{"check_for_nan_in_grad", "check_for_nan_in_loss_and_grad"},
    SameField{"pad_buckets_for_high_nccl_busbw", "ddp_pad_buckets_for_high_nccl_busbw"}};
// The optimizer's other fields say what the model's and the gradients' reduction say.
constexpr auto kOptimizerFields = std::to_array<std::string_view>(
    {"optimizer", "use_precision_aware_optimizer", "main_grads_dtype", "main_params_dtype",
     "exp_avg_dtype", "exp_avg_sq_dtype", "store_param_remainders", "optimizer_cpu_offload",
     "optimizer_offload_fraction", "overlap_cpu_optimizer_d2h_h2d", "use_distributed_optimizer",
     "log_num_zeros_in_grad"});
constexpr auto kTrainFields =
    std::to_array<std::string_view>({"micro_batch_size", "global_batch_size", "rampup_batch_size"});
constexpr auto kDistFields =
    std::to_array<std::string_view>({"use_torch_fsdp2", "use_megatron_fsdp"});

constexpr auto kLoggerFields = std::to_array<std::string_view>({"log_interval", "log_params_norm"});
constexpr auto kOverlapFields = std::to_array<std::string_view>(
    {"tp_comm_overlap", "overlap_p2p_comm", "overlap_moe_expert_parallel_comm",
     "delay_wgrad_compute", "overlap_grad_reduce", "overlap_param_gather",
     "defer_embedding_wgrad_compute", "wgrad_deferral_limit"});

const YamlNode* target_of(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kMap ? node.find("_target_") : nullptr;
}

// What Python would print of the field; nothing for objects that say nothing of the run.
std::optional<std::string> value_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "None";
    case YamlNode::Kind::kScalar:
      if (node.quoted) return node.text;
      if (node.text == "true") return "True";
      if (node.text == "false") return "False";
      return node.text == "null" ? "None" : node.text;
    case YamlNode::Kind::kSequence: {
      std::string text = "[";
      for (const YamlNode& item : node.items) {
        const std::optional<std::string> word = value_of(item);
        if (!word) return std::nullopt;
        text += (text.size() > 1 ? ", " : "") + *word;
      }
      return text + "]";
    }
    case YamlNode::Kind::kMap:
      break;
  }
  const YamlNode* target = target_of(node);
  if (target == nullptr) return std::nullopt;
  if (target->text.starts_with("torch.") && target->text.find('.', 6) == std::string::npos) {
    return target->text;  // a data type
  }
  // megatron/core/transformer/enums.py
  constexpr auto kBackends =
      std::to_array<std::string_view>({"flash", "fused", "unfused", "local", "auto"});
  const YamlNode* arguments = node.find("_args_");
  if (!target->text.ends_with(".AttnBackend") || arguments == nullptr ||
      arguments->items.size() != 1) {
    return std::nullopt;
  }
  const std::string& number = arguments->items.front().text;
  if (number.size() != 1 || number[0] < '1' || number[0] > '5') return std::nullopt;
  return std::string(kBackends[static_cast<std::size_t>(number[0] - '1')]);
}

class Container {
 public:
  Container(const YamlNode& root, std::string file, bool overrides)
      : root_(root), file_(std::move(file)), overrides_(overrides) {}

  Result<NamedText> arguments() {
    const YamlNode* model = root_.find("model");
    const bool whole = model != nullptr && model->find("num_layers") != nullptr;
    if (!whole && !overrides_) {
      return error_at({file_}, "the configuration has no 'model' with its sizes");
    }
    if (model != nullptr) {
      refuse_other_training(*model);
      take_model(*model);
    }
    take_precision();
    if (const YamlNode* ddp = root_.find("ddp")) take_ddp(*ddp);
    take_fields("optimizer", kOptimizerFields);
    take_fields("train", kTrainFields);
    take_fields("logger", kLoggerFields);
    take_switches("dist", kDistFields);
    if (overrides_) {
      take_fields("comm_overlap", kOverlapFields);
    } else {
      take_switches("comm_overlap", std::array{std::string_view("tp_comm_overlap")});
    }
    take_dataset();
    take_adapters();
    take_environment();
    if (overrides_) take_rest();
    if (!problems_.empty()) return problems_;
    settle_remainders(all_);
    std::vector<std::string> unknown;
    return NamedText{
        file_, options_of(all_, megatron_options(), unknown) + shell_assignments(environment_)};
  }

 private:
  void refuse(const YamlNode& node, const std::string& what, const std::string& way_out) {
    problems_.push_back(error_at({file_, node.line, node.column, node.length}, what, way_out));
  }

  void set(std::string_view name, const std::string& value, int line) {
    all_[std::string(name)] = {std::string(name), value, line, overrides_};
  }

  void take(const YamlEntry& entry, std::string_view name) {
    if (const std::optional<std::string> value = value_of(entry.second)) {
      set(name, *value, entry.first.line);
    }
  }

  template <class Names>
  void take_fields(std::string_view section, const Names& names) {
    const YamlNode* part = root_.find(section);
    if (part == nullptr) return;
    for (const YamlEntry& entry : part->entries) {
      const bool wanted = std::find(names.begin(), names.end(), entry.first.text) != names.end();
      if (wanted) take(entry, entry.first.text);
    }
  }

  // Fields that other sections have too: on where one of them says so.
  template <class Names>
  void take_switches(std::string_view section, const Names& names) {
    const YamlNode* part = root_.find(section);
    for (const std::string_view name : names) {
      const YamlNode* value = part != nullptr ? part->find(name) : nullptr;
      if (value != nullptr && value_of(*value) == "True") set(name, "True", value->line);
    }
  }

  void refuse_other_training(const YamlNode& model) {
    const YamlNode* target = target_of(model);
    const YamlNode* vision = model.find("vision_config");
    if (vision != nullptr && vision->kind == YamlNode::Kind::kMap) {
      refuse(target != nullptr ? *target : model,
             "the model has a vision encoder, which Megatron-LM's arguments do not say",
             "give the model and --strategy");
    }
  }

  void take_model(const YamlNode& model) {
    for (const YamlEntry& entry : model.entries) {
      const std::string& field = entry.first.text;
      if (field == "seq_length" || field.starts_with("cuda_graph_")) continue;
      if (field == "window_size" && entry.second.items.size() == 2) {
        set(field, entry.second.items[0].text + "," + entry.second.items[1].text, entry.first.line);
        continue;
      }
      const auto same = std::find_if(kModelFields.begin(), kModelFields.end(),
                                     [&](const SameField& s) { return s.field == field; });
      take(entry, same != kModelFields.end() ? same->argument : std::string_view(field));
    }
    const auto field = [&](const char* name) {
      const YamlNode* value = model.find(name);
      return value != nullptr ? value_of(*value).value_or("") : std::string();
    };
    const auto line = [&](const char* name) { return model.find(name)->line; };
    if (field("share_embeddings_and_output_weights") == "False") {
      set("untie_embeddings_and_output_weights", "True",
          line("share_embeddings_and_output_weights"));
    }
    if (const std::string groups = field("num_query_groups"); !groups.empty() && groups != "None") {
      set("group_query_attention", "True", line("num_query_groups"));
    }
    if (field("bias_activation_fusion") == "False") {
      set("bias_gelu_fusion", "False", line("bias_activation_fusion"));
      set("bias_swiglu_fusion", "False", line("bias_activation_fusion"));
    }
    if (field("should_pad_vocab") == "False" && !field("vocab_size").empty()) {
      set("padded_vocab_size", field("vocab_size"), line("vocab_size"));
    }
    if (const std::string length = field("seq_length"); !length.empty()) {
      set("max_position_embeddings", length, line("seq_length"));
      set("seq_length", length, line("seq_length"));  // unless the dataset says otherwise
    }
    // A number of layers does nothing by itself here.
    if (field("cpu_offloading") == "False") all_.erase("cpu_offloading_num_layers");
    take_graphs(model,
                field("enable_cuda_graph") == "True" || field("external_cuda_graph") == "True" ||
                    (!field("cuda_graph_impl").empty() && field("cuda_graph_impl") != "none" &&
                     field("cuda_graph_impl") != "None"));
    take_activation(model, field("gated_linear_unit") == "True");
    take_layout(model);
  }

  // What a recipe sets in the environment before training begins (training/config.py,
  // ConfigContainer.env_vars), as a shell would.
  void take_environment() {
    const YamlNode* variables = root_.find("env_vars");
    if (variables == nullptr) return;
    for (const auto& [name, value] : variables->entries) {
      if (value.kind == YamlNode::Kind::kScalar && shell::is_name(name.text)) {
        environment_[name.text] = value.text;
      } else {
        refuse(name, "no variable of an environment: a name with a word or a number", "");
      }
    }
  }

  void take_graphs(const YamlNode& model, bool on) {
    for (const YamlEntry& entry : model.entries) {
      if (on && entry.first.text.starts_with("cuda_graph_")) take(entry, entry.first.text);
    }
  }

  void take_activation(const YamlNode& model, bool gated) {
    const YamlNode* activation = model.find("activation_func");
    const YamlNode* target = activation != nullptr ? target_of(*activation) : nullptr;
    if (activation == nullptr && gated && !overrides_) {
      refuse(*model.find("gated_linear_unit"), "a gate of which activation is not said",
             "activation_func: {_target_: torch.nn.functional.silu}");
    }
    if (target == nullptr) return;
    const std::string name = target->text.substr(target->text.rfind('.') + 1);
    if (name == "silu" && gated) {
      set("swiglu", "True", target->line);
    } else if (name == "squared_relu" && !gated) {
      set("squared_relu", "True", target->line);
    } else if (name == "quick_gelu" && gated) {
      set("quick_geglu", "True", target->line);
    } else if (name != "gelu" || gated) {
      refuse(
          *target,
          (gated ? "a gated " : "") + name + " is no activation that Megatron-LM's arguments say",
          "give the model and --strategy");
    }
  }

  // [[embedding, decoder, ...], [decoder, ..., loss]] as Megatron-LM writes it.
  void take_layout(const YamlNode& model) {
    const YamlNode* layout = model.find("pipeline_model_parallel_layout");
    if (layout != nullptr && layout->kind == YamlNode::Kind::kMap) {
      refuse(*layout, "a layout that is an object is not read", "give the model and --strategy");
    }
    if (layout == nullptr || layout->kind != YamlNode::Kind::kSequence) return;
    std::string text;
    for (const YamlNode& stage : layout->items) {
      if (&stage != &layout->items.front()) text += '|';
      for (const YamlNode& layer : stage.items) {
        constexpr std::array kLetters{std::pair{"embedding", 'E'}, std::pair{"decoder", 't'},
                                      std::pair{"mtp", 'm'}, std::pair{"loss", 'L'}};
        const auto letter = std::find_if(kLetters.begin(), kLetters.end(),
                                         [&](const auto& l) { return layer.text == l.first; });
        if (letter == kLetters.end()) {
          refuse(layer, "'" + layer.text + "' is no part of a pipeline's layout", "");
          return;
        }
        text += letter->second;
      }
    }
    set("pipeline_model_parallel_layout", text, layout->line);
    set("virtual_pipeline_model_parallel_size", "None", layout->line);
  }

  void take_gradients(const YamlEntry& wide) {
    const bool in_fp32 = value_of(wide.second) == "True";
    set(in_fp32 ? "accumulate_allreduce_grads_in_fp32" : "grad_reduce_in_bf16", "True",
        wide.first.line);
  }

  void take_ddp(const YamlNode& ddp) {
    for (const YamlEntry& entry : ddp.entries) {
      const std::string& field = entry.first.text;
      if (field == "_target_") continue;
      if (field == "grad_reduce_in_fp32") {
        take_gradients(entry);
        continue;
      }
      const auto same = std::find_if(kDdpFields.begin(), kDdpFields.end(),
                                     [&](const SameField& s) { return s.field == field; });
      take(entry, same != kDdpFields.end() ? same->argument : std::string_view(field));
    }
  }

  void take_dataset() {
    const YamlNode* dataset = root_.find("dataset");
    if (dataset == nullptr) return;
    for (const char* name : {"sequence_length", "seq_length"}) {
      const YamlNode* length = dataset->find(name);
      if (length != nullptr && length->kind == YamlNode::Kind::kScalar) {
        set("seq_length", length->text, length->line);
      }
    }
    const YamlNode* packed = dataset->find("packed_sequence_specs");
    if (packed != nullptr && packed->kind == YamlNode::Kind::kMap) {
      set("enable_packed_sequences", "True", packed->line);
    }
  }

  // Whatever else somebody set: options by the fields' names, which are Megatron-LM's where it has
  // them, so that none is passed over without a word.
  void take_rest() {
    constexpr auto kTaken =
        std::to_array<std::string_view>({"model", "ddp", "mixed_precision", "env_vars"});
    constexpr auto kSections = std::to_array<std::string_view>(
        {"optimizer", "train", "dist", "comm_overlap", "dataset", "peft"});
    constexpr auto kFields = std::to_array<std::string_view>(
        {"sequence_length", "seq_length", "packed_sequence_specs", "dim", "alpha", "dropout",
         "a2a_experimental", "sequence_parallel_input_regather", "target_modules",
         "exclude_modules"});
    const auto is_in = [](const auto& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    for (const YamlEntry& section : root_.entries) {
      const std::string& name = section.first.text;
      if (is_in(kTaken, name)) continue;
      if (!is_in(kSections, name)) {
        refuse(section.first, "the configuration has no section '" + name + "'", "");
        continue;
      }
      for (const YamlEntry& entry : section.second.entries) {
        const std::string& field = entry.first.text;
        if (is_in(kFields, field) || all_.contains(field)) continue;
        take(entry, field);
      }
    }
  }

  // A recipe of precisions by its name; in a whole configuration the model's fields say the same.
  void take_precision() {
    const YamlNode* recipe = root_.find("mixed_precision");
    if (recipe == nullptr) return;
    if (overrides_ && recipe->kind == YamlNode::Kind::kMap) return take_precision_fields(*recipe);
    if (recipe->kind != YamlNode::Kind::kScalar) return;
    const std::string& name = recipe->text;
    if (name == "null") return;
    const auto arguments = precision_arguments(name);
    if (arguments.empty()) {
      refuse(*recipe, "no recipe of precisions '" + name + "' is known", "bf16_mixed");
    }
    for (const auto& [field, value] : arguments) set(field, value, recipe->line);
  }

  // Its fields one by one, which are the model's in a whole configuration. A class of its own has
  // no layers in bf16 but those that are named.
  void take_precision_fields(const YamlNode& fields) {
    constexpr auto kOf16Bits = std::to_array<std::string_view>(
        {"_target_", "params_dtype", "pipeline_dtype", "autocast_dtype", "autocast_enabled"});
    for (const YamlEntry& entry : fields.entries) {
      const std::string& field = entry.first.text;
      if (std::find(kOf16Bits.begin(), kOf16Bits.end(), field) != kOf16Bits.end()) continue;
      if (field == "grad_reduce_in_fp32") {
        take_gradients(entry);
      } else if (field == "fp8_wgrad") {
        if (value_of(entry.second) == "False") set("no_fp8_wgrad", "True", entry.first.line);
      } else {  // fp8_param and fp8_param_gather are kept alike
        take(entry, field.ends_with("_param") ? field + "_gather" : field);
      }
    }
    for (const char* name : {"num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"}) {
      const YamlNode* on = fields.find("first_last_layers_bf16");
      if (on != nullptr && fields.find(name) == nullptr) set(name, "0", on->line);
    }
  }

  // LoRA on modules by their names (peft/lora.py); alpha scales, and costs nothing.
  void take_adapters() {
    const YamlNode* peft = root_.find("peft");
    if (peft == nullptr || peft->kind != YamlNode::Kind::kMap) return;
    const YamlNode* target = target_of(*peft);
    const YamlNode& where = target != nullptr ? *target : *peft;
    const bool lora = target == nullptr ? overrides_ : target->text.ends_with(".lora.LoRA");
    if (!lora) {
      const std::string kind = where.text.substr(where.text.rfind('.') + 1);
      refuse(where, "adapters other than LoRA's are not read" + (kind.empty() ? "" : ": " + kind),
             "give --strategy with lora.rank");
      return;
    }
    if (const YamlNode* left_out = peft->find("exclude_modules");
        left_out != nullptr && !left_out->items.empty()) {
      refuse(*left_out, "modules that are left out are not read", "name those that are adapted");
    }
    for (const YamlEntry& entry : peft->entries) {
      const std::string& field = entry.first.text;
      if (field == "dim" || field == "dropout" || field == "a2a_experimental" ||
          field == "sequence_parallel_input_regather") {
        take(entry, "peft." + field);
      } else if (field == "target_modules") {
        std::string names = entry.second.text;  // empty of a list
        for (const YamlNode& item : entry.second.items) {
          names += (names.empty() ? "" : ",") + item.text;
        }
        set("peft.target_modules", names, entry.first.line);
      }
    }
  }

  const YamlNode& root_;
  std::string file_;
  bool overrides_;
  Namespace all_;
  std::map<std::string, std::string> environment_;  // env_vars
  Diagnostics problems_;
};

}  // namespace

bool is_bridge_config(std::string_view text) {
  return text.find(kContainer) != std::string_view::npos && text.find("model:") != text.npos;
}

Result<NamedText> bridge_arguments(const NamedText& file) {
  const Result<YamlNode> root = parse_yaml(file.text, file.name);
  if (!root) return root.errors();
  return Container(*root, file.name, false).arguments();
}

Result<NamedText> bridge_overrides(const YamlNode& root, const std::string& file) {
  return Container(root, file, true).arguments();
}

}  // namespace meshplan
