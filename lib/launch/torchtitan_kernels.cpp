// Settings of torchtitan that decide what a layer keeps and how fast it runs.
#include <algorithm>
#include <charconv>

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
    }
    s.runtime.optimizer_in_backward = settings_.flag("optimizer.early_step_in_backward", false);
    if (settings_.flag("training.enable_cpu_offload", false)) {
      s.offload.optimizer = true;
      run_.notes.emplace_back(
          "training.enable_cpu_offload moves weights and gradients to the host too; estimated is "
          "the optimizer alone");
    }
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
    if (!settings_.flag("compile.enable", false)) return false;
    const Settings::Setting* chosen = settings_.find("compile.components");
    if (chosen == nullptr) return true;
    const auto& items = chosen->value.items;
    return chosen->value.text.find(component) != std::string::npos ||  // of the command line
           std::any_of(items.begin(), items.end(),
                       [&](const YamlNode& item) { return item.text == component; });
  }

 private:
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
