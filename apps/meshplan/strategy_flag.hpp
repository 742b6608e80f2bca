#pragma once
// --strategy, and the workload that it and other flags may state.
#include <optional>
#include <string>

#include "command.hpp"
#include "inputs.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

void add_strategy_flag(Subcommand& command, std::string& text);

// What the text says over the framework's preset and the workload's flags, which it must agree
// with; what is wrong or missing is added to `problems`.
[[nodiscard]] std::optional<Strategy> read_strategy(const std::string& text,
                                                    const WorkloadFlags& workload,
                                                    const WorkloadInputs& in,
                                                    Diagnostics& problems);

// Without --gpus a strategy that states its size uses that much of the cluster.
[[nodiscard]] ClusterSpec cluster_for(const Strategy& s, const WorkloadInputs& in);

// Says which keys of a legal strategy do nothing there, and what is not counted.
void warn_of_keys(const Strategy& s, const ModelSpec& m, const ClusterSpec& c);

}  // namespace meshplan
