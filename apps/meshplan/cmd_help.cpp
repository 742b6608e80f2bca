// What the program says of itself: help, version, completion.
#include <memory>

#include "console.hpp"
#include "inputs.hpp"

namespace meshplan {
namespace {

struct HelpFlags {
  CommonFlags common;
  std::string word;
};

// A command's `--help`, or the program's.
int help(const CommandLine& program, const HelpFlags& flags) {
  set_up_logging(flags.common);
  const Result<std::string> text = program.help(flags.word);
  if (!text) return report_errors(text.errors(), flags.common);
  return write_result(flags.common.json ? text_document(kTool, "help", *text) : *text, kExitOk);
}

int version(const HelpFlags& flags) {
  set_up_logging(flags.common);
  const std::string text = "meshplan " + std::string(kTool.version);
  return write_result(flags.common.json ? text_document(kTool, "version", text) : text + "\n",
                      kExitOk);
}

int completion(const CommandLine& program, const HelpFlags& flags) {
  set_up_logging(flags.common);
  const Result<std::string> script = program.completion(flags.word);
  if (!script) return report_errors(script.errors(), flags.common);
  return write_result(flags.common.json ? text_document(kTool, "completion", *script) : *script,
                      kExitOk);
}

}  // namespace

void add_help_commands(CommandLine& program) {
  const auto of_help = std::make_shared<HelpFlags>(), of_version = std::make_shared<HelpFlags>(),
             of_completion = std::make_shared<HelpFlags>();
  Subcommand show_help =
      program.add_command("help", "Print the help of a command", "meshplan help plan");
  show_help.add_value("command", of_help->word, "", "The command; without one the program's help");
  show_help.add_common(of_help->common);
  show_help.set_action([&program, of_help] { return help(program, *of_help); });

  Subcommand complete = program.add_command(
      "completion", "Print what completes this program in a shell",
      "meshplan completion bash > ~/.local/share/bash-completion/completions/meshplan");
  complete.add_value("shell", of_completion->word, "", "bash, zsh or fish");
  complete.add_common(of_completion->common);
  complete.set_action([&program, of_completion] { return completion(program, *of_completion); });

  Subcommand show_version = program.add_command("version", "Print the version", "meshplan version");
  show_version.add_common(of_version->common);
  show_version.set_action([of_version] { return version(*of_version); });
}

}  // namespace meshplan
