#pragma once
// Megatron-LM's arguments -> model and strategy: the way back from an export, and into the program
// for runs that people already have.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "launch/shell_words.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct MegatronOption {
  ShellWord name;
  std::vector<ShellWord> values;
};

// An argument list or a launch script: its options, its environment, and what they say.
struct MegatronRun {
  ModelSpec model;
  Strategy strategy;            // dp 0 where the number of devices is not known
  std::int64_t world_size = 0;  // of the launcher's options or WORLD_SIZE; 0: not known
  std::map<std::string, MegatronOption> options;  // by name, the last one where given twice
  std::map<std::string, ShellWord> environment;
  std::vector<std::string> not_read;  // options that say nothing about model or plan
  ShellScript script;
};

// `file` is how diagnostics call the text. Fails where a size of the model is missing or no number.
[[nodiscard]] Result<MegatronRun> read_megatron_run(std::string_view text, const std::string& file);

// The run's strategy on another number of devices: dp and what follows from it (0: not known).
[[nodiscard]] Strategy with_world(const MegatronRun& run, std::int64_t world_size);

}  // namespace meshplan
