#include "launch/detect.hpp"

#include <algorithm>
#include <array>

#include "launch/recipe_import.hpp"

namespace meshplan {
namespace {

// Configurations that no importer reads.
struct Foreign {
  std::string_view mark;  // begins a line
  std::string_view tool, way_out;
};
constexpr std::array kForeign{
    Foreign{"distributed_type:", "accelerate's", "import the DeepSpeed or FSDP settings it names"},
    Foreign{"compute_environment:", "accelerate's",
            "import the DeepSpeed or FSDP settings it names"}};

bool has_line(std::string_view text, std::string_view begin) {
  for (std::size_t at = text.find(begin); at != std::string_view::npos;
       at = text.find(begin, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return true;
  }
  return false;
}

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
    if (file.name.ends_with(".toml")) return Target::kTorchtitan;
    const bool yaml = file.name.ends_with(".yaml") || file.name.ends_with(".yml");
    if (yaml && is_recipe(file.text)) return Target::kAccelerate;
    for (const Foreign& foreign : kForeign) {
      if (!has_line(file.text, foreign.mark)) continue;
      return error_at({file.name}, "this is " + std::string(foreign.tool) + " configuration",
                      std::string(foreign.way_out));
    }
    const ShellScript script = read_shell(file.text, context.shell);
    if (passes(script.words, "--job.") || passes(script.words, "--model.") ||
        passes(script.words, "--training.") || script.program.find("torchtitan") == 0) {
      return Target::kTorchtitan;
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
