#pragma once
// Options of a training program by their names: what each says, and an account of every one of
// them.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "launch/imported_run.hpp"
#include "launch/option_table.hpp"
#include "launch/shell_words.hpp"

namespace meshplan {

struct ProgramOption {
  ShellWord name;
  std::vector<ShellWord> values;
};

class ProgramOptions {
 public:
  // Takes the options of the program that `script` starts. `file` is how diagnostics call it.
  ProgramOptions(const ShellScript& script, const OptionTable& table, std::string file);

  // The last one where an option is given twice. One with a value that is none of its choices is as
  // if it were not given.
  [[nodiscard]] const ProgramOption* find(const std::string& name);
  [[nodiscard]] bool has(const std::string& name) { return find(name) != nullptr; }
  // The first value; `otherwise` where there is none, or one that is not known.
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise = {});
  // The same of a name or path that is not asked for where it is not known.
  [[nodiscard]] std::string path(const std::string& name);
  [[nodiscard]] double real(const std::string& name, double otherwise);
  // Reports what is no whole number or outside of `range`, and gives `otherwise`.
  [[nodiscard]] std::int64_t number(const std::string& name, std::int64_t otherwise,
                                    IntegerRange range);

  void report(const ShellWord& at, const std::string& message, const std::string& hint = {});
  void report(const std::string& message, const std::string& hint = {});

  // Puts what every option is into `run`; reports those that no table knows, unless `lenient`, and
  // what the script leaves open.
  void account(bool lenient, ImportedRun& run);

  [[nodiscard]] const Diagnostics& problems() const { return problems_; }
  [[nodiscard]] std::map<std::string, ProgramOption>& all() { return all_; }
  [[nodiscard]] const std::set<std::string>& asked_for() const { return read_; }

 private:
  void account_variables(ImportedRun& run);
  void account_open(bool lenient, ImportedRun& run);
  // The first value that is none of the option's choices; null where there is none.
  [[nodiscard]] const ShellWord* odd_value(const std::string& name,
                                           const ProgramOption& option) const;
  void unknown_option(const std::string& name, const ShellWord& at, bool lenient, ImportedRun& run);

  const ShellScript& script_;
  const OptionTable& table_;
  std::string file_;
  std::map<std::string, ProgramOption> all_;
  std::set<std::string> read_;
  std::map<std::string, std::vector<const ShellWord*>>
      open_;                        // variables -> options that need them
  std::vector<std::string> loose_;  // variables that may hold options
  Diagnostics problems_;
};

// Options of what starts the processes of a training program: torchrun, deepspeed, srun.
[[nodiscard]] bool is_launcher_option(std::string_view name);

// "torchrun --nnodes 2 --nproc-per-node 8", "srun -N 2", "#SBATCH --nodes=2", WORLD_SIZE=16 and
// their like; 0 where nothing says it, also in DeepSpeed's words for all there are, -1. Fails on
// what no run can have. Adds where it is from to `run`.
[[nodiscard]] Result<std::int64_t> launched_world(const ShellScript& script,
                                                  const std::string& file, ImportedRun* run);

}  // namespace meshplan
