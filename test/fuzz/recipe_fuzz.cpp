// Any text as a recipe of axolotl, LLaMA-Factory or torchtune, as a trainer's script with
// accelerate's configuration, or as GPT-NeoX's: read, checked, written.
#include "fuzz/runs.hpp"
#include "launch/detect.hpp"
#include "launch/neox_import.hpp"
#include "launch/recipe_import.hpp"

MESHPLAN_FUZZ_TARGET(recipe) {
  using namespace meshplan;
  const auto [recipe, script] = fuzz::two_files(fuzz::as_text(data, size));
  std::vector<NamedText> files;
  if (!recipe.empty()) files.push_back({"recipe.yaml", recipe});
  if (!script.empty()) files.push_back({"train.sh", script});
  if (files.empty()) return 0;
  fuzz::require_value_or_errors(detect_target(files, {}));
  static const ModelSpec model = *load_model("llama-2-7b", DataFolders({MESHPLAN_SOURCE_DIR}));
  for (const std::int64_t gpus : {0, 8}) {
    const Result<SettingsRun> run = read_recipe_run(files, {.model = model, .gpus = gpus});
    fuzz::require_value_or_errors(run);
    if (run.ok()) fuzz::check_run(*run);
    const Result<SettingsRun> neox = read_neox_run(files, {.gpus = gpus});
    fuzz::require_value_or_errors(neox);
    if (neox.ok()) fuzz::check_run(*neox);
  }
  return 0;
}
