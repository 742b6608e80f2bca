// Scripts that start a command: on one node, and as a Slurm job.
#include <algorithm>

#include "base/text.hpp"
#include "launch/shell.hpp"
#include "launch/targets.hpp"

namespace meshplan {
namespace {

constexpr std::string_view kDefaultPort = "29500";

std::string header(const LaunchPlan& p, const LaunchCommand& command) {
  const Strategy& s = p.strategy;
  std::string text = "# " + comment_text(p.model.name) + " on " + with_thousands(num_gpus(s)) +
                     " GPUs of " + comment_text(p.cluster.name) + ": " + short_text(s) + "\n";
  for (const std::string& note : command.notes) text += "# Note: " + comment_text(note) + ".\n";
  return text;
}

// name=(
//   --option value
// )
std::string array_text(const LaunchCommand::Section& section) {
  std::string text = section.name + "=(\n";
  for (const std::vector<std::string>& line : section.lines) {
    text += "  " + shell_line(line) + "\n";
  }
  return text + ")\n";
}

std::string environment_text(const LaunchCommand& command) {
  std::string text;
  for (const auto& [name, value] : command.environment) {
    text += "export " + name + "=" + shell_word(value) + "\n";
  }
  for (const std::string& name : command.unset) text += "unset " + name + "\n";
  return text;
}

std::string torchrun_text(const LaunchPlan& p) {
  const std::int64_t per_node = std::min(p.cluster.gpus_per_node, num_gpus(p.strategy));
  std::string text = "exec torchrun --nnodes " + std::to_string(p.cluster.nodes) +
                     " --nproc-per-node " + std::to_string(per_node);
  if (p.cluster.nodes == 1) return text + " --standalone";
  // Ranks are numbered by node, in the order that the plan places its groups.
  text +=
      " \\\n  --node-rank \"${NODE_RANK:-${SLURM_NODEID:?set NODE_RANK, 0 on the first node}}\"";
  text += " \\\n  --master-addr \"${MASTER_ADDR:?set it to the first node}\"";
  return text + " --master-port \"${MASTER_PORT:-" + std::string(kDefaultPort) + "}\"";
}

}  // namespace

std::string arguments_text(const LaunchPlan& plan, const LaunchCommand& command) {
  std::string text = header(plan, command);
  text += "# Environment:\nWORLD_SIZE=" + std::to_string(num_gpus(plan.strategy)) + "\n";
  for (const auto& [name, value] : command.environment) {
    text += name + "=" + shell_word(value) + "\n";
  }
  for (const LaunchCommand::Section& section : command.sections) {
    text += section.name == "run" ? "# A dry start, not part of the plan:\n" : "";
    for (const std::vector<std::string>& line : section.lines) text += shell_line(line) + "\n";
  }
  return text;
}

std::string node_script(const LaunchPlan& plan, const LaunchCommand& command) {
  const bool dry = std::any_of(command.sections.begin(), command.sections.end(),
                               [](const auto& section) { return section.name == "run"; });
  std::string text = "#!/bin/bash\n" + header(plan, command);
  if (plan.cluster.nodes > 1) text += "# Run it on every node.\n";
  text += dry ? "# Arguments replace those of the dry start on synthetic data.\n"
              : "# Arguments go to the training program.\n";
  text += "set -euo pipefail\n\n" + environment_text(command);
  if (!command.files.empty()) {
    text += "here=$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" && pwd)\n";
  }
  for (const std::string& line : command.needs) text += line + "\n";
  std::string words;
  for (const LaunchCommand::Section& section : command.sections) {
    text += "\n";
    if (section.name == "run") text += "# Not part of the plan: data, tokenizer, learning rate.\n";
    text += array_text(section);
    if (section.name == "run") text += "if (( $# > 0 )); then run=(\"$@\"); fi\n";
    words += " \"${" + section.name + "[@]}\"";
  }
  if (!dry) words += " \"$@\"";
  text += "\n" + (command.uses_torchrun ? torchrun_text(plan) + " \\\n  " : std::string("exec "));
  return text + command.program + words + "\n";
}

namespace {

// Nodes of one NVLink domain that the plan counts on (sbatch --segment, Slurm's topology/block).
std::string segment_text(const LaunchPlan& plan) {
  const ClusterSpec& c = plan.cluster;
  const std::int64_t span = c.levels.empty() ? 0 : c.levels.front().span;
  const std::int64_t nodes = c.gpus_per_node > 0 ? span / c.gpus_per_node : 0;
  if (nodes < 2 || span >= num_gpus(c) || c.nodes % nodes != 0) return {};
  return "#SBATCH --segment=" + std::to_string(nodes) + "\n";
}

}  // namespace

std::string slurm_script(const LaunchPlan& plan, const LaunchCommand& command) {
  const std::int64_t per_node = std::min(plan.cluster.gpus_per_node, num_gpus(plan.strategy));
  const std::string gpus = std::to_string(per_node);
  std::string text = "#!/bin/bash\n";
  text += "#SBATCH --job-name=" + plain_name(plan.model.name) + "\n";
  text += "#SBATCH --nodes=" + std::to_string(plan.cluster.nodes) + "\n";
  text += "#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=" + gpus + "\n";
  text += segment_text(plan);
  text += "#SBATCH --exclusive\n#SBATCH --output=%x-%j.out\n";
  text += header(plan, command);
  text +=
      "# Submit it from the folder that holds train.sh; --account, --partition and --time are\n"
      "# the site's: sbatch --time=24:00:00 train.sbatch [arguments of train.sh]\n";
  text += "set -euo pipefail\n\n";
  text += "cd \"${SLURM_SUBMIT_DIR:?this is a script for sbatch}\"\n";
  text += "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n";
  text += "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\n";
  text += "export MASTER_ADDR MASTER_PORT\n\n";
  text += "# One task per node starts its " + gpus +
          " processes; nodes are numbered as Slurm sorts them.\n";
  text +=
      "srun --kill-on-bad-exit=1 --cpus-per-task=\"$SLURM_CPUS_ON_NODE\" --cpu-bind=none \\\n"
      "  bash ./train.sh \"$@\"\n";
  return text;
}

}  // namespace meshplan
