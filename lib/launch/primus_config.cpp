#include "launch/primus_config.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "io/yaml_tree.hpp"
#include "launch/megatron_namespace.hpp"

namespace meshplan {
namespace {

// What every model extends: it states a default for each argument.
constexpr std::string_view kDefaults = "language_model.yaml";
constexpr std::int64_t kMostLayers = 100'000;

Diagnostic at(const std::string& file, const YamlNode& node, const std::string& what,
              const std::string& way_out = {}) {
  return error_at({file, node.line, node.column, node.length}, what, way_out);
}

class Experiment {
 public:
  Experiment(const NamedText& file, const ShellInputs& shell) : file_(file), shell_(shell) {}

  Result<NamedText> arguments() {
    const Result<YamlNode> root = parse_yaml(file_.text, file_.name);
    if (!root) return root.errors();
    const YamlNode* trainer = find_trainer(*root);
    if (trainer == nullptr) {
      return error_at({file_.name}, "'modules' names no trainer with a 'framework'");
    }
    const YamlNode& framework = *trainer->find("framework");
    if (framework.text != "megatron") {
      return at(file_.name, framework,
                "Primus's framework '" + framework.text +
                    "' is not read: its experiments with Megatron are",
                framework.text == "torchtitan" ? "give the job file that torchtitan gets" : "");
    }
    if (const YamlNode* own = trainer->find("trainer_class");
        own != nullptr && own->kind == YamlNode::Kind::kScalar) {
      return at(
          file_.name, *own,
          "'" + own->text + "' is a trainer of Primus's own: those of Megatron-LM's are read");
    }
    read_base(trainer->find("config"), "primus/configs/modules/megatron/", false);
    read_base(trainer->find("model"), "primus/configs/models/megatron/", true);
    if (const YamlNode* overrides = trainer->find("overrides")) {
      take_values(*overrides, file_.name, 0, true);
    }
    translate_own();
    if (!problems_.empty()) return problems_;
    std::vector<std::string> unknown;
    NamedText list{file_.name, options_of(all_, megatron_options(), unknown)};
    return list;
  }

 private:
  static const YamlNode* find_trainer(const YamlNode& root) {
    const YamlNode* modules = root.find("modules");
    if (modules == nullptr) return nullptr;
    for (const YamlEntry& entry : modules->entries) {
      if (entry.first.text.ends_with("trainer") && entry.second.find("framework") != nullptr) {
        return &entry.second;
      }
    }
    return nullptr;
  }

  // "${NAME:value}" and "${NAME}", wherever they stand in a value.
  std::string expanded(const std::string& file, const YamlNode& node) {
    std::string text = node.text;
    for (std::size_t begin = 0; (begin = text.find("${", begin)) != std::string::npos;) {
      const std::size_t end = text.find('}', begin);
      if (end == std::string::npos) break;
      const std::string inside = text.substr(begin + 2, end - begin - 2);
      const std::size_t colon = inside.find(':');
      const std::string name = inside.substr(0, colon);
      const auto stated = shell_.variables.find(name);
      std::string value;
      if (stated != shell_.variables.end()) {
        value = stated->second;
      } else if (colon != std::string::npos) {
        value = inside.substr(colon + 1);
      } else {
        problems_.push_back(
            at(file, node, "nothing says what ${" + name + "} is", "--set " + name + "=VALUE"));
      }
      text.replace(begin, end + 1 - begin, value);
      begin += value.size();
    }
    return text;
  }

  void set(const std::string& name, const std::string& value, int line, bool stated) {
    all_[name] = {name, value, line, stated};
  }

  // `line` 0: each value's own.
  void take_values(const YamlNode& map, const std::string& file, int line, bool stated) {
    for (const YamlEntry& entry : map.entries) {
      const YamlNode& value = entry.second;
      // "bases" are not read by Primus either (primus/core/config/yaml_loader.py).
      if (entry.first.text == "extends" || entry.first.text == "bases") continue;
      const int where = line > 0 ? line : entry.first.line;
      std::string text;
      switch (value.kind) {
        case YamlNode::Kind::kNull:
          text = "None";
          break;
        case YamlNode::Kind::kMap:  // of programs around the training
          continue;
        case YamlNode::Kind::kSequence:
          for (const YamlNode& item : value.items) {
            text += (text.empty() ? "" : ", ") + expanded(file, item);
          }
          text = "[" + text + "]";
          break;
        case YamlNode::Kind::kScalar:
          text = expanded(file, value);
          if (!value.quoted && (text == "true" || text == "True")) text = "True";
          if (!value.quoted && (text == "false" || text == "False")) text = "False";
          if (!value.quoted && (text == "null" || text == "~")) text = "None";
          break;
      }
      set(entry.first.text, text, where, stated);
    }
  }

  void read_base(const YamlNode* name, std::string_view folder, bool model) {
    if (name == nullptr || name->kind != YamlNode::Kind::kScalar) return;
    line_ = name->line;
    named_ = name;
    read_extended(std::string(folder), expanded(file_.name, *name), model, 0);
  }

  std::optional<std::string> text_of(const std::string& path) const {
    constexpr int kMostFolders = 8;
    std::string up;
    for (int i = 0; shell_.read_file && i < kMostFolders; ++i, up += "../") {
      if (std::optional<std::string> text = shell_.read_file(up + path)) return text;
    }
    return std::nullopt;
  }

  void read_extended(const std::string& folder, const std::string& name, bool model, int depth) {
    constexpr int kDeepest = 10;
    const std::string path = folder + name;
    const std::optional<std::string> text = depth < kDeepest ? text_of(path) : std::nullopt;
    if (!text) {
      problems_.push_back(at(file_.name, *named_, "'" + path + "' is not found above this file",
                             "read the experiment inside of a checkout of Primus"));
      return;
    }
    const Result<YamlNode> root = parse_yaml(*text, path);
    if (!root) {
      problems_.insert(problems_.end(), root.errors().begin(), root.errors().end());
      return;
    }
    const YamlNode* bases = root->find("extends");
    for (std::size_t i = 0; bases != nullptr && i < bases->items.size(); ++i) {
      if (!bases->items[i].text.starts_with("../")) {  // what is above is not Megatron's
        read_extended(folder, bases->items[i].text, model, depth + 1);
      }
    }
    take_values(*root, path, line_, model && name != kDefaults && bases != nullptr);
  }

  [[nodiscard]] bool is_on(const std::string& name) const {
    const auto found = all_.find(name);
    return found != all_.end() && found->second.value == "True";
  }

  void refuse(const std::string& name, const std::string& what) {
    const int line = all_.at(name).line;
    problems_.push_back(error_at({file_.name, line, 1, 1}, "'" + name + "': " + what));
  }

  // Primus's own arguments that say something of Megatron-LM's
  // (primus/configs/modules/megatron/primus_turbo.yaml, zero_bubble.yaml).
  void translate_own() {
    if (const std::string type = stated("model_type"); type == "mamba") {
      lay_out_hybrid();
    } else if (!type.empty() && type != "gpt") {
      refuse("model_type", "models of type '" + type + "' are not read");
    }
    for (const char* name : {"patch_zero_bubble", "patch_primus_pipeline"}) {
      if (is_on(name)) {
        refuse(name, "schedules of Primus's own are not read; state the run with --strategy");
      }
    }
    for (const char* name : {"lfm_layer_types", "recompute_layer_ids"}) {
      if (const auto found = all_.find(name);
          found != all_.end() && found->second.value != "None") {
        refuse(name, "a list of layers is not read");
      }
    }
    const bool turbo = is_on("enable_primus_turbo");
    const auto turn_on = [&](const char* own, const char* name, const std::string& value) {
      if (turbo && is_on(own)) set(name, value, all_.at(own).line, true);
    };
    turn_on("use_turbo_attention", "use_flash_attn", "True");
    turn_on("use_turbo_grouped_gemm", "moe_grouped_gemm", "True");
    turn_on("use_turbo_deepep", "moe_enable_deepep", "True");
    turn_on("use_turbo_deepep", "moe_token_dispatcher_type", "flex");
    divide_layers();
  }

  // What an argument says; empty where it says nothing.
  [[nodiscard]] std::string stated(const std::string& name) const {
    const auto found = all_.find(name);
    return found == all_.end() || found->second.value == "None" ? "" : found->second.value;
  }

  // Hybrids. Megatron-LM's own are Mamba-2 alone unless a pattern says more; in Primus's an MLP
  // follows every mixer, attention is spread over them by its share, and the specification says
  // what the others are (primus/backends/megatron/core/models/hybrid/hybrid_block.py,
  // allocate_layers; hybrid_mamba_mla_layer_specs.py).
  void lay_out_hybrid() {
    const std::string spec = stated("spec");
    if (spec.find("kda_") != std::string::npos) {
      return refuse("spec",
                    "Kimi Delta Attention has no letter in Megatron-LM's pattern of layers");
    }
    const bool delta = spec.find("gdn_") != std::string::npos;
    const bool own = spec.find("hybrid_stack_spec") != std::string::npos;
    std::string pattern = stated("hybrid_override_pattern");
    if (pattern.empty()) {
      const std::int64_t layers = std::atoll(stated("num_layers").c_str());
      if (layers < 1 || layers > kMostLayers) {
        return refuse("model_type", "a hybrid without a pattern needs 'num_layers'");
      }
      pattern = own ? shared_layers(layers) : std::string(static_cast<std::size_t>(layers), 'M');
    }
    if (delta) std::replace(pattern.begin(), pattern.end(), 'M', 'G');
    const int line = all_.at("model_type").line;
    set("hybrid_override_pattern", pattern, line, true);
    for (const char* done : {"model_type", "spec"}) all_.erase(done);
    // The share is used, or a pattern stands for it; its stack does not look at that of MLPs.
    for (const char* done : {"is_hybrid_model", "hybrid_attention_ratio", "hybrid_mlp_ratio"}) {
      if (own) all_.erase(done);
    }
  }

  // The layers that hybrid_attention_ratio asks for.
  std::string shared_layers(std::int64_t layers) {
    const std::string asked = stated("hybrid_attention_ratio");
    const Result<double> read = parse_real(asked.empty() ? "0" : asked);
    const double share = read ? *read : -1;
    if (!(share >= 0 && share <= 1)) {
      refuse("hybrid_attention_ratio", "a share between 0 and 1, got " + asked);
      return {};
    }
    const std::int64_t mixers = layers / 2;
    const auto attention = static_cast<std::int64_t>(static_cast<double>(mixers) * share);
    const std::int64_t others = mixers - attention;
    const auto times = [](std::int64_t n, const std::string& text) {
      std::string all;
      for (std::int64_t i = 0; i < n; ++i) all += text;
      return all;
    };
    if (attention == 0) return times(mixers, "M-");
    if (share > 0.5) return times(attention - others, "*-") + times(others, "*-M-");
    return times(attention, "*-" + times(others / attention, "M-")) +
           times(others % attention, "M-");
  }

  // A list of layers per stage, as Megatron-LM's layout says it.
  void divide_layers() {
    const auto found = all_.find("decoder_pipeline_manual_split_list");
    if (found == all_.end() || found->second.value == "None") return;
    std::string layout = "E";
    std::string number;
    std::size_t stages = 0;
    for (const char c : found->second.value) {
      if (c >= '0' && c <= '9') {
        number += c;
        continue;
      }
      if (number.empty()) continue;
      if (stages++ > 0) layout += '|';
      layout += "t*" + number;
      number.clear();
    }
    // Of several chunks on a rank no public code says the order.
    const auto ranks = all_.find("pipeline_model_parallel_size");
    if (ranks == all_.end() || ranks->second.value != std::to_string(stages)) {
      return refuse("decoder_pipeline_manual_split_list",
                    "a list of " + std::to_string(stages) + " numbers is no stage for each rank");
    }
    const int line = found->second.line;
    set("pipeline_model_parallel_layout", layout + "L", line, true);
    set("virtual_pipeline_model_parallel_size", "None", line, false);
    all_.erase("decoder_pipeline_manual_split_list");
  }

  const NamedText& file_;
  const ShellInputs& shell_;
  Namespace all_;
  Diagnostics problems_;
  int line_ = 0;
  const YamlNode* named_ = nullptr;
};

}  // namespace

bool is_primus(std::string_view text) {
  const bool modules = text.starts_with("modules:") || text.find("\nmodules:") != text.npos;
  return modules && text.find("trainer:") != text.npos && text.find("framework:") != text.npos;
}

Result<NamedText> primus_arguments(const NamedText& file, const ShellInputs& shell) {
  return Experiment(file, shell).arguments();
}

}  // namespace meshplan
