#include "command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/printable.hpp"
#include "completion.hpp"
#include "console.hpp"
#include "usage.hpp"

namespace meshplan {

void Subcommand::add_switch(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}

void Subcommand::add_value(const std::string& name, std::string& value, const std::string& type,
                           const std::string& help) {
  app_->add_option(name, value, help)->type_name(type);
}

static CLI::Option* add_list(CLI::App& app, const std::string& name,
                             std::vector<std::string>& values, const std::string& type,
                             const std::string& help) {
  return app.add_option(name, values, help)->type_name(type);
}

void Subcommand::add_values(const std::string& name, std::vector<std::string>& values,
                            const std::string& type, const std::string& help) {
  add_list(*app_, name, values, type, help);
}

void Subcommand::add_repeated(const std::string& name, std::vector<std::string>& values,
                              const std::string& type, const std::string& help) {
  add_list(*app_, name, values, type, help)->allow_extra_args(false);
}

void Subcommand::add_comma_list(const std::string& name, std::vector<std::string>& values,
                                const std::string& type, const std::string& help) {
  add_list(*app_, name, values, type, help)->delimiter(',');
}

void Subcommand::add_common(CommonFlags& flags) {
  // An empty value is a variable that was not set in a script, never a wish.
  for (CLI::Option* option : app_->get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    option->check([](const std::string& value) {
      return std::string(value.empty() ? "the value is empty" : "");
    });
  }
  add_switch("--json", flags.json, "Print the result as JSON, and nothing else");
  add_switch("-v,--verbose", flags.verbose, "Say more on standard error");
  add_switch("-q,--quiet", flags.quiet, "Say nothing but errors on standard error");
}

void Subcommand::add_rest(RestOfLine& rest) { (*rests_)[app_->get_name()] = &rest; }

void Subcommand::set_action(Action action) {
  app_->callback([action = std::move(action), chosen = chosen_] { *chosen = action; });
}

CommandLine::CommandLine()
    : app_(std::make_unique<CLI::App>("Plans how to train a large model on a cluster.",
                                      "meshplan")) {
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->set_version_flag("--version", std::string("meshplan ") + MESHPLAN_VERSION,
                         "Print the version");
  app_->set_help_flag("-h,--help", "Print this help");
  app_->require_subcommand(0, 1);
  app_->footer(R"(Examples:
  meshplan plan --model llama-2-7b --cluster dgx-a100-80gb --gpus 8 \
      --global-batch 64 --seq-len 4096
  meshplan estimate --model llama-2-7b --cluster dgx-a100-80gb \
      --strategy tp=2,dp=4,micro_batch=1 --global-batch 64 --seq-len 4096
  meshplan list models)");
}

CommandLine::~CommandLine() = default;

Subcommand CommandLine::add_command(const std::string& name, const std::string& what,
                                    const std::string& example) {
  CLI::App* command = app_->add_subcommand(name, what);
  command->set_help_flag("-h,--help", "Print this help");
  command->footer("Example:\n  " + example);
  return {*command, action_, rests_};
}

Result<std::string> CommandLine::help(const std::string& command) const {
  if (command.empty()) {
    return app_->get_formatter()->make_help(app_.get(), app_->get_name(),
                                            CLI::AppFormatMode::Normal);
  }
  const auto found =
      app_->get_subcommands([&](const CLI::App* each) { return each->get_name() == command; });
  if (found.empty()) return Diagnostics{unknown_command(*app_, command)};
  return found.front()->help(app_->get_name());
}

Result<std::string> CommandLine::completion(const std::string& shell) const {
  const std::vector<CommandFact> facts = command_facts(*app_);
  if (shell == "bash") return bash_completion(facts);
  if (shell == "zsh") return zsh_completion(facts);
  if (shell == "fish") return fish_completion(facts);
  if (shell.empty()) return Diagnostics{error("the shell is missing", "bash, zsh or fish")};
  return Diagnostics{
      error("there is no completion for '" + printable(shell) + "'", "one of bash, zsh or fish")};
}

std::vector<CommandFact> CommandLine::facts() const { return command_facts(*app_); }

int CommandLine::run(int argc, char** argv) {
  const auto rest = argc > 1 ? rests_.find(argv[1]) : rests_.end();
  if (rest != rests_.end()) {
    char** const end = argv + argc;
    char** const mark =
        std::find_if(argv, end, [](const char* w) { return std::string_view(w) == "--"; });
    if (mark != end) {
      *rest->second = std::vector<std::string>(mark + 1, end);
      argc = static_cast<int>(mark - argv);
    }
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForVersion&) {
    return write_result(app_->version() + "\n", kExitOk);
  } catch (const CLI::Success&) {
    return write_result(app_->help(), kExitOk);
  } catch (const CLI::ParseError& failure) {
    std::fputs(usage_error(*app_, failure).c_str(), stderr);
    return kExitBadInput;
  }
  if (action_) return action_();
  std::fputs(app_->help().c_str(), stderr);
  return kExitBadInput;
}

}  // namespace meshplan
