// Any text as torchtitan's job file and the script that starts it: read, linted, written.
#include "fuzz/runs.hpp"
#include "io/toml_tree.hpp"
#include "launch/torchtitan_import.hpp"
#include "launch/torchtitan_python.hpp"

MESHPLAN_FUZZ_TARGET(torchtitan) {
  using namespace meshplan;
  const auto [job, script] = fuzz::two_files(fuzz::as_text(data, size));
  fuzz::require_value_or_errors(parse_toml(job, "job.toml"));
  fuzz::require_value_or_errors(read_torchtitan_python({"config_registry.py", job}, "c"));
  fuzz::require_value_or_errors(read_torchtitan_python({"config_registry.py", job}, ""));
  std::vector<NamedText> files;
  if (!job.empty()) files.push_back({"job.toml", job});
  if (!script.empty()) files.push_back({"train.sh", script});
  static const ModelSpec model = *load_model("llama-2-7b", DataFolders({MESHPLAN_SOURCE_DIR}));
  for (const auto& known : {std::optional<ModelSpec>(), std::optional<ModelSpec>(model)}) {
    const Result<SettingsRun> run =
        read_torchtitan_run(files, {.model = known, .gpus = 0, .seq_len = 0});
    fuzz::require_value_or_errors(run);
    if (!run.ok()) continue;
    fuzz::check_run(*run);
    for (const auto& cluster : fuzz::clusters_of(*run)) {
      fuzz::check_lint(lint_torchtitan(*run, cluster, "job.toml"));
    }
  }
  return 0;
}
