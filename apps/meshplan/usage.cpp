#include "usage.hpp"

#include <algorithm>

#include "base/diagnostic.hpp"
#include "base/text.hpp"
#include "report/table.hpp"

namespace meshplan {
namespace {

const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.front();
}

std::string full_name(const CLI::App& app, const CLI::App& command) {
  return &app == &command ? app.get_name() : app.get_name() + " " + command.get_name();
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string hint_for(const std::string& word, const std::vector<std::string>& known,
                     const std::string& help) {
  const std::vector<std::string_view> names(known.begin(), known.end());
  const std::optional<std::string> meant = nearest(word, names);
  return meant ? "did you mean '" + *meant + "'?" : help;
}

bool is_flag(const std::string& word) { return word.starts_with("-"); }

std::string without_value(const std::string& flag) { return flag.substr(0, flag.find('=')); }

// Flags between the program and its command.
Diagnostic misplaced(const CLI::App& app, const CLI::App& command, const std::string& word) {
  const std::vector<std::string> known = flag_names(command);
  const bool is_known = std::find(known.begin(), known.end(), word) != known.end();
  return error("'" + app.get_name() + "' has no flag '" + printable(word) + "'",
               is_known ? "it belongs behind the command: " + full_name(app, command) + " " + word
                        : "'" + app.get_name() + " --help' lists what there is");
}

Diagnostic unexpected(const CLI::App& app) {
  const CLI::App& command = chosen(app);
  const std::string help = "'" + full_name(app, command) + " --help' lists what there is";
  const std::vector<std::string> rest = app.remaining(true);
  const std::string first = rest.empty() ? "" : rest.front();
  if (&command == &app && !is_flag(first)) return unknown_command(app, first);
  if (&command != &app && app.remaining_size() > 0 && is_flag(app.remaining().front())) {
    return misplaced(app, command, without_value(app.remaining().front()));
  }
  const auto flag = std::find_if(rest.begin(), rest.end(), is_flag);
  if (flag == rest.end()) {
    return error(
        "'" + full_name(app, command) + "' does not take the argument '" + printable(first) + "'",
        help);
  }
  const std::string name = without_value(*flag);
  return error("'" + full_name(app, command) + "' has no flag '" + printable(name) + "'",
               hint_for(name, flag_names(command), help));
}

}  // namespace

Diagnostic unknown_command(const CLI::App& app, const std::string& word) {
  return error(
      "there is no command '" + printable(word) + "'",
      hint_for(word, command_names(app), "'" + app.get_name() + " --help' lists what there is"));
}

constexpr std::size_t kOptionColumn = 26, kHelpWidth = 80;

HelpFormatter::HelpFormatter() { column_width(kOptionColumn); }

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string text;
  for (const std::string& line : wrap_text(option->get_description(), kHelpWidth - kOptionColumn)) {
    text += (text.empty() ? "" : "\n") + line;
  }
  return text;
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& failure) {
  const std::string help = "'" + full_name(app, chosen(app)) + " --help' lists what there is";
  const auto is = [&](CLI::ExitCodes code) {
    return failure.get_exit_code() == static_cast<int>(code);
  };
  const std::string text = printable(failure.what());
  if (is(CLI::ExitCodes::ExtrasError)) return to_text(unexpected(app));
  if (is(CLI::ExitCodes::ArgumentMismatch)) {
    const std::string flag = text.substr(0, text.find(':'));
    if (text.ends_with("missing")) return to_text(error(flag + " needs a value", help));
    if (text.find("At Most") != std::string::npos) return to_text(error(flag + " is given twice"));
  }
  return to_text(error(text, help));
}

}  // namespace meshplan
