// Settings of torchtitan that decide what a layer keeps and how fast it runs.
#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "launch/torchtitan_parts.hpp"

namespace meshplan {
namespace {

class KernelReader {
 public:
  KernelReader(Settings& given, SettingsRun& into) : settings_(given), run_(into) {}

  void read_recomputation() {
    Strategy& s = run_.strategy;
    const std::string mode = settings_.text("activation_checkpoint.mode", "selective");
    const std::string option = settings_.text("activation_checkpoint.selective_ac_option", "2");
    if (mode == "full") {
      s.recompute = Recompute::kFull;
    } else if (mode == "memory_budget") {
      run_.notes.emplace_back(
          "activation_checkpoint.mode memory_budget is the compiler's choice: estimated without "
          "recomputation");
    } else if (mode == "selective" && option == "op") {
      s.recompute = Recompute::kSelective;
    } else if (mode == "selective") {
      std::int64_t each = 0;
      std::from_chars(option.data(), option.data() + option.size(), each);
      if (each < 1) {
        settings_.report("activation_checkpoint.selective_ac_option",
                         "'activation_checkpoint.selective_ac_option' is \"op\" or a number");
        return;
      }
      s.recompute = Recompute::kFull;
      s.recompute_layers = every_nth(stage_layers(s, run_.model), each);
    } else if (mode != "none") {
      settings_.report("activation_checkpoint.mode", "there is no recomputation '" + mode + "'",
                       "none, selective, full or memory_budget");
    }
  }

  void read_precision() {
    Strategy& s = run_.strategy;
    const std::string param = settings_.text("training.mixed_precision_param", "bfloat16");
    const std::string own = settings_.text("training.dtype", "float32");
    s.precision = param == "bfloat16" || own == "bfloat16" ? Precision::kBf16 : Precision::kFp32;
    if (own == "bfloat16") {
      s.master_weights = false;
      s.optimizer_dtype = Dtype::kBf16;
    }
    if (const Settings::Setting* converters = settings_.find("model.converters")) {
      for (const YamlNode& word : converters->value.items) {
        if (word.text.find("float8") != std::string::npos ||
            word.text.find("mx") != std::string::npos) {
          s.precision = Precision::kFp8;
          const bool blocks = word.text.find("mx") != std::string::npos;
          s.runtime.fp8_recipe = blocks ? ScalingRecipe::kMxfp8 : ScalingRecipe::kTensorwise;
        }
      }
      if (converters->value.text.find("float8") != std::string::npos) {
        s.precision = Precision::kFp8;  // of the command line
      }
      s.runtime.fp8_param_gather =
          settings_.flag("quantize.linear.float8.enable_fsdp_float8_all_gather", false) &&
          s.precision == Precision::kFp8;
      if (s.precision == Precision::kFp8) {
        const bool blocks = s.runtime.fp8_recipe == ScalingRecipe::kMxfp8;
        read_filter(blocks ? "quantize.linear.mx.filter_fqns"
                           : "quantize.linear.float8.filter_fqns");
      }
    }
    if (settings_.has("activation_checkpoint.early_stop")) {
      s.runtime.recompute_early_stop = settings_.flag("activation_checkpoint.early_stop", false);
    }
    s.runtime.deterministic_mode = settings_.flag("debug.deterministic", false);
    s.runtime.gathered_logits =
        s.tp > 1 && settings_.flag("parallelism.disable_loss_parallel", false);
    s.runtime.optimizer_in_backward = settings_.flag("optimizer.early_step_in_backward", false);
    s.runtime.fused_optimizer = settings_.text("optimizer.implementation", "fused") == "fused";
    s.offload.optimizer = settings_.flag("training.enable_cpu_offload", false);
    read_compilation();
  }

  void read_compilation() {
    Runtime& k = run_.strategy.runtime;
    if (!is_compiled("model")) {
      k.fused_norm = k.fused_rope = k.fused_activation = k.fused_dropout_add = false;
    }
    if (!is_compiled("loss")) k.fused_cross_entropy = k.inplace_cross_entropy = false;
  }

  // compile.components names both unless it is set (config/job_config.py).
  bool is_compiled(std::string_view component) {
    const bool older = settings_.flag("training.compile", false);  // its name until 2025-10
    if (!settings_.flag("compile.enable", older)) return false;
    const Settings::Setting* chosen = settings_.find("compile.components");
    if (chosen == nullptr) return true;
    const auto& items = chosen->value.items;
    return chosen->value.text.find(component) != std::string::npos ||  // of the command line
           std::any_of(items.begin(), items.end(),
                       [&](const YamlNode& item) { return item.text == component; });
  }

 private:
  // Modules that stay in bf16 are those whose names hold one of the list (components/quantization/
  // utils.py, module_filter_fn); of layers, whole ones at both ends are told apart.
  void read_filter(const char* name) {
    const Settings::Setting* listed = settings_.find(name);
    if (listed == nullptr) return;
    std::vector<std::string> parts;
    for (const YamlNode& item : listed->value.items) parts.push_back(item.text);
    std::istringstream words(listed->value.text);  // "output,layers.0." of the command line
    for (std::string word; std::getline(words, word, ',');) parts.push_back(word);
    const auto is_wide = [&](std::int64_t layer) {
      const std::string own = "layers." + std::to_string(layer) + ".";
      return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
        return part.starts_with("layers.") && own.starts_with(part);
      });
    };
    Runtime& k = run_.strategy.runtime;
    const std::int64_t layers = run_.model.num_layers;
    std::int64_t wide = 0;
    for (std::int64_t i = 0; i < layers; ++i) wide += is_wide(i) ? 1 : 0;
    std::int64_t& first = k.num_layers_at_start_in_bf16;
    std::int64_t& last = k.num_layers_at_end_in_bf16;
    while (first < layers && is_wide(first)) ++first;
    while (first + last < layers && is_wide(layers - 1 - last)) ++last;
    const bool in_part = std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
      const std::size_t dot = part.find('.', std::string_view("layers.").size());
      return part.starts_with("layers.") && dot != std::string::npos && dot + 1 < part.size();
    });
    if (wide > first + last || in_part) {
      run_.notes.push_back(std::string(name) +
                           " leaves out layers between others or parts of layers, which are taken "
                           "to be in fp8");
    }
  }

  Settings& settings_;
  SettingsRun& run_;
};

}  // namespace

void read_torchtitan_kernels(Settings& settings, SettingsRun& run) {
  KernelReader reader(settings, run);
  reader.read_recomputation();
  reader.read_precision();
}

}  // namespace meshplan
