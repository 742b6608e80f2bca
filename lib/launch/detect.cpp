#include "launch/detect.hpp"

#include <algorithm>

#include "launch/bridge_config.hpp"
#include "launch/functional_test.hpp"
#include "launch/nemo_config.hpp"
#include "launch/neox_import.hpp"
#include "launch/primus_config.hpp"
#include "launch/recipe_import.hpp"
#include "launch/torchtitan_python.hpp"

namespace meshplan {
namespace {

bool passes(const std::vector<ShellWord>& words, std::string_view name) {
  return std::any_of(words.begin(), words.end(), [&](const ShellWord& word) {
    const std::string_view text = word.text;
    return name.ends_with('.') ? text.starts_with(name) : text.substr(0, text.find('=')) == name;
  });
}

}  // namespace

Result<Target> detect_target(std::span<const NamedText> files, const RunContext& context) {
  Target target = Target::kMegatron;
  for (const NamedText& file : files) {
    const std::size_t first = file.text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (first != std::string::npos && file.text[first] == '{') return Target::kDeepspeed;
    if (file.name.ends_with(".py") && is_torchtitan_python(file.text)) return Target::kTorchtitan;
    if (file.name.ends_with(".toml")) return Target::kTorchtitan;
    const bool yaml = file.name.ends_with(".yaml") || file.name.ends_with(".yml");
    if (yaml && (is_recipe(file.text) || is_accelerate(file.text))) return Target::kAccelerate;
    if (yaml && (is_primus(file.text) || is_bridge_config(file.text))) return Target::kMegatron;
    if (yaml && is_nemo(file.text)) return Target::kMegatron;
    if (yaml && is_neox(file.text)) return Target::kDeepspeed;
    if (yaml && is_functional_test(file.text)) return Target::kMegatron;
    const ShellScript script = read_shell(file.text, context.shell);
    if (passes(script.words, "--job.") || passes(script.words, "--model.") ||
        passes(script.words, "--training.") || script.program.find("torchtitan") == 0) {
      return Target::kTorchtitan;
    }
    const auto is_json = [](const NamedText& other) {
      const std::size_t begin = other.text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
      return begin != std::string::npos && other.text[begin] == '{';
    };
    // Transformers' Trainer; with DeepSpeed's JSON that is what says how the run is split.
    if (passes(script.words, "--model_name_or_path") &&
        std::none_of(files.begin(), files.end(), is_json)) {
      return Target::kAccelerate;
    }
    for (const ShellWord& word : script.words) {
      const std::string_view name = std::string_view(word.text).substr(0, word.text.find('='));
      const bool own = name.starts_with("--") && !megatron_options().find(name) &&
                       megatron_deepspeed_options().find(name);
      if (own || name == "--per_device_train_batch_size") target = Target::kDeepspeed;
    }
  }
  return target;
}

}  // namespace meshplan
