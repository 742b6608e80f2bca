#include "import_megatron.hpp"

#include <filesystem>
#include <spdlog/spdlog.h>

#include "console.hpp"
#include "inputs.hpp"
#include "io/write.hpp"
#include "launch/lint_json.hpp"
#include "report/model_yaml.hpp"

namespace meshplan {

int import_megatron(const std::string& file, const std::string& out, const CommonFlags& common) {
  Diagnostics problems;
  const std::optional<std::string> text = take(read_text_file(file), file, problems);
  if (!text) return report_errors(problems, common);
  const std::optional<MegatronRun> run = take(read_megatron_run(*text, file), file, problems);
  if (run) append(problems, validate(run->model));
  if (has_errors(problems)) return report_errors(problems, common);
  if (!run->not_read.empty()) {
    spdlog::debug("not read: {}", join_words(run->not_read));
  }
  const std::string model = model_yaml(run->model), strategy = strategy_yaml(run->strategy);
  if (!out.empty()) {
    std::error_code failure;
    const std::filesystem::path folder = out;
    std::filesystem::create_directories(folder, failure);
    if (failure) problems.push_back(error_at({"--out"}, out + ": " + failure.message()));
    if (!failure) {
      take(write_file_atomically(folder / "model.yaml", model), "--out", problems);
      take(write_file_atomically(folder / "strategy.yaml", strategy), "--out", problems);
    }
    if (has_errors(problems)) return report_errors(problems, common);
    spdlog::info("wrote {} and {}", (folder / "model.yaml").string(),
                 (folder / "strategy.yaml").string());
  }
  if (common.json) return write_result(run_document(kTool.version, *run, file), kExitOk);
  if (!out.empty()) return kExitOk;
  return write_result(
      model + "\n# The strategy, for --strategy:\n# " + to_text(run->strategy) + "\n", kExitOk);
}

}  // namespace meshplan
