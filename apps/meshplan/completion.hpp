#pragma once
// Completions of shells, from the commands and flags that the program itself parses.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace meshplan {

struct OptionFact {
  std::vector<std::string> names;  // "-v", "--verbose"; or one word without dashes: a positional
  std::string value;               // "FILE", "N"; empty for a switch
  std::string text;
  std::vector<std::string> choices;  // values that complete it

  [[nodiscard]] bool positional() const { return !names.front().starts_with('-'); }
  [[nodiscard]] bool takes_file() const;
};

struct CommandFact {
  std::string name, text;
  std::vector<OptionFact> options;
};

// The program first, whose name is empty, then every command. Choices are the words that the text
// of an option lists, and the shipped names of models and clusters.
[[nodiscard]] std::vector<CommandFact> command_facts(const CLI::App& app);

[[nodiscard]] std::string bash_completion(const std::vector<CommandFact>& all);
[[nodiscard]] std::string zsh_completion(const std::vector<CommandFact>& all);
[[nodiscard]] std::string fish_completion(const std::vector<CommandFact>& all);

}  // namespace meshplan
