#include "command.hpp"

#include <memory>

#include "usage.hpp"

namespace meshplan {

void describe_program(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("meshplan ") + MESHPLAN_VERSION,
                       "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(0, 1);
  app.footer(R"(Examples:
  meshplan plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \
      --global-batch 64 --seq-len 4096
  meshplan estimate --model llama-2-7b --cluster dgx-a100-80gb \
      --strategy tp=2,dp=4,micro_batch=1 --global-batch 64 --seq-len 4096
  meshplan list models)");
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& what,
                      const std::string& example) {
  CLI::App* command = app.add_subcommand(name, what);
  command->set_help_flag("-h,--help", "Print this help");
  command->footer("Example:\n  " + example);
  return command;
}

void add_common_flags(CLI::App& command, CommonFlags& flags) {
  // An empty value is a variable that was not set in a script, never a wish.
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& value) {
      return std::string(value.empty() ? "the value is empty" : "");
    });
  }
  command.add_flag("--json", flags.json, "Print the result as JSON, and nothing else");
  command.add_flag("-v,--verbose", flags.verbose, "Say more on standard error");
  command.add_flag("-q,--quiet", flags.quiet, "Say nothing but errors on standard error");
}

}  // namespace meshplan
