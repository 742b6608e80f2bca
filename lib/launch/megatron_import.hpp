#pragma once
// Megatron-LM's arguments -> model and strategy: the way back from an export, and into the program
// for runs that people already have.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "launch/imported_run.hpp"
#include "launch/program_options.hpp"
#include "launch/shell_words.hpp"

namespace meshplan {

// An argument list or a launch script: its options, its environment, and what they say.
struct MegatronRun : ImportedRun {
  std::map<std::string, ProgramOption> options_by_name;  // the last one where given twice
  std::map<std::string, ShellWord> environment;
  ShellScript script;
};

// `file` is how diagnostics call the text. Fails where a size of the model is missing or no number,
// where an option is not known or a condition not decided (unless context.lenient), and for
// programs that train something else than a decoder of text.
[[nodiscard]] Result<MegatronRun> read_megatron_run(std::string_view text, const std::string& file,
                                                    const RunContext& context = {});

// What a program trains or does, where that is not a decoder of text; empty else.
[[nodiscard]] std::string_view other_purpose(std::string_view program);

}  // namespace meshplan
