#include "completion.hpp"

#include <algorithm>
#include <regex>
#include <span>

#include "base/text.hpp"
#include "io/load.hpp"

namespace meshplan {
namespace {

std::vector<std::string> split(const std::string& text, const std::regex& at) {
  return {std::sregex_token_iterator(text.begin(), text.end(), at, -1), {}};
}

// The words that a text lists: "...: mean, median or least", or "word: what it is; word: ...".
std::vector<std::string> listed_words(const std::string& text) {
  static const std::regex entry_form("([a-z0-9][a-z0-9-]*): .*"), word_form("[a-z0-9][a-z0-9-]*"),
      brackets(R"(\s*\([^)]*\))"), semicolon("; "), comma(",? or |, ");
  std::vector<std::string> words;
  for (const std::string& part : split(text, semicolon)) {
    std::smatch entry;
    if (!std::regex_match(part, entry, entry_form)) {
      words.clear();
      break;
    }
    words.push_back(entry[1]);
  }
  if (words.size() > 1) return words;
  std::string list = std::regex_replace(text, brackets, "");
  const std::size_t colon = list.rfind(": ");
  if (colon != std::string::npos) list = list.substr(colon + 2);
  words = split(list, comma);
  const bool all = std::all_of(words.begin(), words.end(), [](const std::string& word) {
    return std::regex_match(word, word_form);
  });
  return all && words.size() > 1 ? words : std::vector<std::string>{};
}

OptionFact option_fact(const CLI::Option& option) {
  OptionFact fact;
  for (const std::string& name : option.get_snames()) fact.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) fact.names.push_back("--" + name);
  if (fact.names.empty()) fact.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0 || fact.positional()) fact.value = option.get_type_name();
  fact.several = option.get_items_expected_max() > 1;
  fact.text = option.get_description();
  const auto has = [&](std::string_view name) {
    return std::find(fact.names.begin(), fact.names.end(), name) != fact.names.end();
  };
  const DataFolders data = DataFolders::standard();
  fact.choices = has("--model")     ? data.names(kModelFolder)
                 : has("--cluster") ? data.names(kClusterFolder)
                                    : listed_words(fact.text);
  return fact;
}

CommandFact command_fact(const CLI::App& command, const std::string& name) {
  CommandFact fact{name, command.get_description(), {}};
  for (const CLI::Option* option : command.get_options()) {
    fact.options.push_back(option_fact(*option));
  }
  return fact;
}

std::span<const CommandFact> commands_of(const std::vector<CommandFact>& all) {
  return std::span(all).subspan(1);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string joined_names(std::span<const CommandFact> commands) {
  std::vector<std::string> names;
  for (const CommandFact& command : commands) names.push_back(command.name);
  return joined(names);
}

// Flags of a command, and the values of its positional arguments.
std::string first_words(const CommandFact& command) {
  std::vector<std::string> words;
  for (const OptionFact& option : command.options) {
    const auto& more = option.positional() ? option.choices : option.names;
    words.insert(words.end(), more.begin(), more.end());
  }
  return joined(words);
}

std::string replaced(std::string text, std::string_view from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string zsh_text(const std::string& text) {
  static const std::regex special(R"([\[\]:\\])");
  return replaced(std::regex_replace(text, special, R"(\$&)"), "'", R"('\'')");
}

std::string zsh_action(const OptionFact& option) {
  if (option.choices.empty()) return option.takes_file() ? "_files" : " ";
  const std::string words = joined(option.choices);
  if (!option.takes_file()) return "(" + words + ")";
  return replaced("{_alternative 'names:shipped:(" + words + ")' 'files:file:_files'}", "'",
                  R"('\'')");
}

std::string zsh_option(const OptionFact& option, const std::string& name) {
  std::string line = "    '" + name + "[" + zsh_text(option.text) + "]";
  if (!option.value.empty()) line += ":" + option.value + ":" + zsh_action(option);
  return line + "'";
}

std::string fish_text(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const OptionFact& option) {
  const std::string words =
      option.choices.empty() ? "" : " -a " + fish_text(joined(option.choices));
  if (option.positional()) return words.empty() ? "" : " -f" + words;
  std::string line;
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) line += option.takes_file() ? " -r" : " -x";
  return line + words + " -d " + fish_text(option.text);
}

}  // namespace

bool OptionFact::takes_file() const {
  return value.find("FILE") != std::string::npos || value.find("DIR") != std::string::npos;
}

std::vector<CommandFact> command_facts(const CLI::App& app) {
  std::vector<CommandFact> all{command_fact(app, "")};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    all.push_back(command_fact(*command, command->get_name()));
  }
  for (CommandFact& fact : all) {
    for (OptionFact& option : fact.options) {
      if (option.names.front() != "command") continue;
      for (const CommandFact& each : commands_of(all)) option.choices.push_back(each.name);
    }
  }
  return all;
}

std::string bash_completion(const std::vector<CommandFact>& all) {
  const std::string names = joined_names(commands_of(all));
  std::string text =
      "# bash completion of meshplan\n"
      "_meshplan() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=\"\" word\n"
      "  COMPREPLY=()\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \" " +
      names +
      " \" in *\" $word \"*) command=$word; break ;; esac\n"
      "  done\n"
      "  case $command in\n"
      "    \"\") COMPREPLY=($(compgen -W \"" +
      names + " " + first_words(all.front()) + "\" -- \"$cur\")); return ;;\n";
  for (const CommandFact& command : commands_of(all)) {
    text += "    " + command.name + ")\n      case $prev in\n";
    for (const OptionFact& option : command.options) {
      if (option.value.empty() || option.positional()) continue;
      text += "      " + replaced(joined(option.names), " ", "|") + ") COMPREPLY=($(compgen" +
              (option.takes_file() ? " -f" : "") + " -W \"" + joined(option.choices) +
              "\" -- \"$cur\")); return ;;\n";
    }
    text += "      esac\n      COMPREPLY=($(compgen -W \"" + first_words(command) +
            "\" -- \"$cur\")) ;;\n";
  }
  return text + "  esac\n}\ncomplete -o default -F _meshplan meshplan\n";
}

std::string zsh_completion(const std::vector<CommandFact>& all) {
  std::string text = "#compdef meshplan\n_meshplan() {\n  local -a commands\n  commands=(\n";
  for (const CommandFact& command : commands_of(all)) {
    text += "    '" + command.name + ":" + zsh_text(command.text) + "'\n";
  }
  text +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $command in\n";
  for (const CommandFact& command : commands_of(all)) {
    text += "  " + command.name + ") _arguments";
    for (const OptionFact& option : command.options) {
      if (option.positional()) {
        text += " \\\n    '*:" + zsh_text(option.names.front()) + ":" + zsh_action(option) + "'";
        continue;
      }
      for (const std::string& name : option.names) text += " \\\n" + zsh_option(option, name);
    }
    text += " ;;\n";
  }
  // Loaded by compinit from a folder of $fpath, or by eval and source.
  return text +
         "  esac\n}\n"
         "if [[ $funcstack[1] = _meshplan ]]; then _meshplan \"$@\"; "
         "else compdef _meshplan meshplan; fi\n";
}

std::string fish_completion(const std::vector<CommandFact>& all) {
  std::string text = "# fish completion of meshplan\n";
  for (const CommandFact& command : commands_of(all)) {
    text += "complete -c meshplan -n __fish_use_subcommand -f -a " + command.name + " -d " +
            fish_text(command.text) + "\n";
  }
  for (const CommandFact& command : commands_of(all)) {
    const std::string when = fish_text("__fish_seen_subcommand_from " + command.name);
    for (const OptionFact& option : command.options) {
      const std::string line = fish_option(option);
      if (!line.empty()) text += "complete -c meshplan -n " + when + line + "\n";
    }
  }
  return text;
}

}  // namespace meshplan
