#pragma once
// One function per target; the plan has passed the target's rules.
#include "launch/launch.hpp"

namespace meshplan {

[[nodiscard]] LaunchCommand megatron_command(const LaunchPlan& plan);
// megatron_command() as pretrain_gpt.py of the newest release starts with it.
[[nodiscard]] LaunchCommand pretrain_command(const LaunchPlan& plan);
[[nodiscard]] LaunchCommand deepspeed_command(const LaunchPlan& plan);
[[nodiscard]] LaunchCommand torchtitan_command(const LaunchPlan& plan);
[[nodiscard]] LaunchCommand accelerate_command(const LaunchPlan& plan);
[[nodiscard]] LaunchCommand axolotl_command(const LaunchPlan& plan);
[[nodiscard]] LaunchCommand torchtune_command(const LaunchPlan& plan);
[[nodiscard]] LaunchCommand bridge_command(const LaunchPlan& plan);

// Variables that follow from the cluster's links and the plan.
[[nodiscard]] EnvironmentVariables plan_environment(const LaunchPlan& plan);

// The sections of a command as lines of options, for people and for programs that read them.
[[nodiscard]] std::string arguments_text(const LaunchPlan& plan, const LaunchCommand& command);

// The script that starts the processes of one node.
[[nodiscard]] std::string node_script(const LaunchPlan& plan, const LaunchCommand& command);
[[nodiscard]] std::string slurm_script(const LaunchPlan& plan, const LaunchCommand& command);
// launch.schema.json
[[nodiscard]] std::string launch_document(const LaunchPlan& plan, const LaunchCommand& command,
                                          LaunchFormat format, Target target,
                                          std::string_view tool_version);

}  // namespace meshplan
