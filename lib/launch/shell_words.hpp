#pragma once
// The words that a launch script gives its training program, as far as they can be known without
// running it.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshplan {

// Of a file, never null; thousands of settings may stand in one line.
using SourceLine = std::shared_ptr<const std::string>;

struct ShellWord {
  std::string text;
  int line = 0, column = 0;  // from 1
  // Names of what would say the parts that are not known; then `text` is what is.
  std::string unknown = {};
};

// What a script is run with.
struct ShellInputs {
  std::map<std::string, std::string> variables;    // whatever the script assigns
  std::map<std::string, std::string> environment;  // before the script begins
  std::optional<std::vector<std::string>> arguments;
  // Text of a file that the script reads as its own ("source common.sh"), by its name there.
  std::function<std::optional<std::string>(const std::string&)> read_file;
  // Options whose values decide what is trained and how. A condition that cannot be known matters
  // only where they depend on it. Empty: every option.
  std::function<bool(std::string_view)> matters;
};

// A condition that cannot be known, and that options depend on.
struct UndecidedBranch {
  int line = 0;
  std::string condition;  // as the script writes it
  std::string variables;  // that would decide it; empty where it is something else
  std::vector<std::string> options;
};

// What "#SBATCH" lines ask for; 0 where they do not say.
struct SlurmRequest {
  std::int64_t nodes = 0, gpus_per_node = 0, gpus = 0, tasks_per_node = 0, tasks = 0;
  std::int64_t gpus_per_task = 0;
};

struct ShellScript {
  // Options and values of the training program. Where no command starts one, all options that stand
  // in the file as commands, arrays or assigned texts: an argument list, or a part of a script.
  std::vector<ShellWord> words;
  std::vector<ShellWord> launcher;             // before the program: torchrun and its options, srun
  std::string program;                         // "pretrain_gpt.py"; empty where none is started
  std::map<std::string, ShellWord> variables;  // when the program is started
  std::map<std::string, std::string> files;    // that the script writes, by their names
  SlurmRequest slurm;
  std::vector<UndecidedBranch> undecided;
  std::map<std::string, std::string> defaults;     // of variables that nothing sets
  std::map<std::string, std::string> environment;  // what was taken of ShellInputs::environment
  std::vector<std::string> not_read;               // files that the script reads as its own
  std::size_t programs = 0;                        // different ones that are started with options
  std::vector<SourceLine> lines;

  [[nodiscard]] std::string line_of(const ShellWord& word) const { return *shared_line_of(word); }
  [[nodiscard]] SourceLine shared_line_of(const ShellWord& word) const;
};

// A script, an argument list, or what "bash -x" printed of a script.
[[nodiscard]] ShellScript read_shell(std::string_view text, const ShellInputs& inputs = {});

}  // namespace meshplan
