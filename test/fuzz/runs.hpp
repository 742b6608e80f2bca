#pragma once
// What every run that was read from launch files must keep.
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "io/strategy_file.hpp"
#include "launch/lint.hpp"
#include "launch/lint_json.hpp"
#include "report/model_yaml.hpp"

namespace meshplan::fuzz {

// The clusters that a run is linted on: none, and the one that is as large as the run.
inline std::vector<std::optional<ClusterSpec>> clusters_of(const ImportedRun& run) {
  static const ClusterSpec cluster = *load_cluster("dgx-h100", DataFolders({MESHPLAN_SOURCE_DIR}));
  return {std::nullopt, run.world_size > 0 ? with_gpus(cluster, run.world_size) : cluster};
}

// The files that are written of it read back as what they were written from.
inline void check_run(const ImportedRun& run) {
  for (const auto& [name, place] : run.places) require(place.source_line != nullptr);
  if (has_errors(validate(run, "run"))) return;
  if (run.knows_model) {
    const Result<ModelSpec> again = parse_model(model_yaml(run.model), "model.yaml");
    require(again.ok() && *again == run.model, "the model does not read back");
  }
  Document document(strategy_yaml(run.strategy), "strategy.yaml");
  require(document.ok());
  const StrategyText again = read_strategy(document, Strategy{});
  require(document.ok() && again.strategy == run.strategy, "the strategy does not read back");
}

inline void check_lint(const Diagnostics& found) {
  for (const Diagnostic& d : found) require(!d.message.empty());
  require(found.size() < 1000);
}

// Two files of one input: what stands before a line that starts with "#!", and the rest.
inline std::pair<std::string, std::string> two_files(std::string_view text) {
  const std::size_t script = text.starts_with("#!") ? 0 : text.find("\n#!");
  if (script == std::string_view::npos) return {std::string(text), {}};
  const std::size_t begin = script == 0 ? 0 : script + 1;
  return {std::string(text.substr(0, begin)), std::string(text.substr(begin))};
}

}  // namespace meshplan::fuzz
