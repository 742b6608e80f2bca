#pragma once
// A plan -> what starts it: command lines, scripts and configuration files of training frameworks.
// Nothing of a plan is dropped silently: what a target cannot express is refused with the nearest
// plan that it can (frameworks/target.hpp), and what it does of its own accord is a note.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "frameworks/target.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct LaunchFile {
  std::string name;  // without a folder
  std::string text;

  bool operator==(const LaunchFile&) const = default;
};

using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;

// What a target makes of a plan, before it is written as a script.
struct LaunchCommand {
  EnvironmentVariables environment;
  std::vector<std::string> unset;  // variables that must not be inherited
  // Words of the command line by purpose; "run" holds what a dry start needs and the plan does not
  // decide (data, tokenizer, learning rate), and is replaced by what the user passes.
  struct Section {
    std::string name;                             // of the shell array
    std::vector<std::vector<std::string>> lines;  // one option and its values
  };
  std::vector<Section> sections;
  std::string program;             // shell text: "$MEGATRON_PATH/pretrain_gpt.py"
  std::vector<std::string> needs;  // shell lines that check what the program needs
  std::vector<LaunchFile> files;   // configuration files beside the script
  std::vector<std::string> notes;  // what differs from the plan and cannot be told the target
  bool uses_torchrun = true;       // else `program` starts the processes of a node itself
};

// `strategy` must be complete (cost/step.hpp) and legal.
struct LaunchPlan {
  ModelSpec model;
  ClusterSpec cluster;
  Strategy strategy;
};

struct LaunchFiles {
  std::vector<LaunchFile> files;  // the one to look at first comes first
  std::vector<std::string> notes;
};

enum class LaunchFormat {
  kMegatron,
  kDeepspeed,
  kTorchtitan,
  kMegatronBridge,
  kAccelerate,
  kAxolotl,
  kTorchtune,
  kSlurm
};
MESHPLAN_NAMES(LaunchFormat, {{LaunchFormat::kMegatron, "megatron"},
                              {LaunchFormat::kDeepspeed, "deepspeed"},
                              {LaunchFormat::kTorchtitan, "torchtitan"},
                              {LaunchFormat::kMegatronBridge, "megatron-bridge"},
                              {LaunchFormat::kAccelerate, "accelerate"},
                              {LaunchFormat::kAxolotl, "axolotl"},
                              {LaunchFormat::kTorchtune, "torchtune"},
                              {LaunchFormat::kSlurm, "slurm"}});

// The target whose rules a format follows; Slurm starts what the plan's framework trains with.
[[nodiscard]] Result<Target> target_of(LaunchFormat format, const Strategy& s, const ModelSpec& m);

// Fails with one diagnostic per rule of the target that the plan breaks, and the nearest plan.
[[nodiscard]] Result<LaunchFiles> launch_files(LaunchFormat format, const LaunchPlan& plan,
                                               std::string_view tool_version);

// One line for people each: what a format writes, and which plans it refuses. The rules themselves,
// with the framework's files that they come from, are target_rules() (frameworks/target.hpp).
[[nodiscard]] std::string_view description_of(LaunchFormat format);
[[nodiscard]] std::string_view limits_of(LaunchFormat format);

}  // namespace meshplan
