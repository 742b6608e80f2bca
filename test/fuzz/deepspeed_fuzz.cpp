// Any text as DeepSpeed's configuration and the script that starts it: read, linted, written.
#include "fuzz/runs.hpp"
#include "launch/deepspeed_import.hpp"

MESHPLAN_FUZZ_TARGET(deepspeed) {
  using namespace meshplan;
  const auto [config, script] = fuzz::two_files(fuzz::as_text(data, size));
  std::vector<NamedText> files;
  if (!config.empty()) files.push_back({"ds_config.json", config});
  if (!script.empty()) files.push_back({"train.sh", script});
  static const ModelSpec model = *load_model("llama-2-7b", DataFolders({MESHPLAN_SOURCE_DIR}));
  for (const auto& known : {std::optional<ModelSpec>(), std::optional<ModelSpec>(model)}) {
    const Result<SettingsRun> run =
        read_deepspeed_run(files, {.model = known, .gpus = 0, .seq_len = 0});
    fuzz::require_value_or_errors(run);
    if (!run.ok()) continue;
    fuzz::check_run(*run);
    for (const auto& cluster : fuzz::clusters_of(*run)) {
      fuzz::check_lint(lint_deepspeed(*run, cluster, "ds_config.json"));
    }
  }
  return 0;
}
