#pragma once
// Megatron-LM's arguments -> model and strategy: the way back from an export, and into the program
// for runs that people already have.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "launch/imported_run.hpp"
#include "launch/shell_words.hpp"

namespace meshplan {

struct MegatronOption {
  ShellWord name;
  std::vector<ShellWord> values;
};

// An argument list or a launch script: its options, its environment, and what they say.
struct MegatronRun : ImportedRun {
  std::map<std::string, MegatronOption> options;  // by name, the last one where given twice
  std::map<std::string, ShellWord> environment;
  ShellScript script;
};

// `file` is how diagnostics call the text. Fails where a size of the model is missing or no number.
[[nodiscard]] Result<MegatronRun> read_megatron_run(std::string_view text, const std::string& file);

}  // namespace meshplan
