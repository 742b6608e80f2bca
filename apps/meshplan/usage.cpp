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

Diagnostic unexpected(const CLI::App& app) {
  const CLI::App& command = chosen(app);
  const std::string help = "'" + full_name(app, command) + " --help' lists what there is";
  const std::vector<std::string> rest = app.remaining(true);
  const auto flag = std::find_if(rest.begin(), rest.end(),
                                 [](const std::string& word) { return word.starts_with("-"); });
  if (flag != rest.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return error("'" + full_name(app, command) + "' has no flag '" + printable(name) + "'",
                 hint_for(name, flag_names(command), help));
  }
  const std::string word = rest.empty() ? "" : rest.front();
  if (&command == &app) {
    return error("there is no command '" + printable(word) + "'",
                 hint_for(word, command_names(app), help));
  }
  return error(
      "'" + full_name(app, command) + "' does not take the argument '" + printable(word) + "'",
      help);
}

}  // namespace

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
  if (failure.get_name() == "ExtrasError") return to_text(unexpected(app));
  return to_text(error(printable(failure.what()),
                       "'" + full_name(app, chosen(app)) + " --help' lists what there is"));
}

}  // namespace meshplan
