#pragma once
// What is illegal, silently ignored or wasteful in the files that start a run.
#include <optional>
#include <string>

#include "launch/megatron_import.hpp"
#include "launch/settings.hpp"
#include "spec/cluster.hpp"

namespace meshplan {

// Errors: the framework stops, or trains something else than asked for. Warnings: ignored or
// wasteful. Positions are those of the options concerned. `cluster`, resized to the run, lets the
// rules that need one be asked too; without it only those of the arguments themselves.
[[nodiscard]] Diagnostics lint(const MegatronRun& run, const std::optional<ClusterSpec>& cluster,
                               const std::string& file);

// `run` with the settings that it was read from.
[[nodiscard]] Diagnostics lint_deepspeed(const SettingsRun& run,
                                         const std::optional<ClusterSpec>& cluster,
                                         const std::string& file);
[[nodiscard]] Diagnostics lint_torchtitan(const SettingsRun& run,
                                          const std::optional<ClusterSpec>& cluster,
                                          const std::string& file);

}  // namespace meshplan
