#pragma once
// The arguments that a training program prints at the top of its log, as the files that would start
// the same run: the importers read them as they read a script.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "frameworks/target.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {

struct PrintedArguments {
  Target target = Target::kMegatron;
  std::vector<NamedText> files;  // every setting stands in the line that the log has it in
  std::int64_t gpus = 0;         // what the program says of the job's size; 0: nothing
  std::string program;           // whose print it is, for people
  int line = 0;                  // where it begins

  // Switches whose names the importers do not know, which therefore say nothing.
  std::vector<std::string> unknown;
};

// Read are Megatron-LM's and Megatron-DeepSpeed's list between "--- arguments ---" and "--- end of
// arguments ---" (megatron/training/arguments.py, _print_args), the "json = {" of DeepSpeed's
// engine (runtime/config.py, print_user_config), Megatron-Bridge's "Task Configuration" (every
// field of it), torchtitan's "Running with args:" or "configs:" (job.print_args, print_config) and
// NeMo 1's "Experiment configuration". Nothing where the log has none of them; fails where a
// configuration trains what the importers do not know (a vision encoder). Programs print
// defaults as well as what was asked for: of options that the estimate leaves out only switches
// that are on are kept, since a default cannot be told from a wish.
[[nodiscard]] Result<std::optional<PrintedArguments>> printed_arguments(std::string_view log,
                                                                        const std::string& file);

}  // namespace meshplan
