#pragma once
// Completions of shells, from the commands and flags that the program itself parses.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "command_facts.hpp"

namespace meshplan {

// The program first, whose name is empty, then every command. Choices are the words that the text
// of an option lists, and the shipped names of models and clusters.
[[nodiscard]] std::vector<CommandFact> command_facts(const CLI::App& app);

[[nodiscard]] std::string bash_completion(const std::vector<CommandFact>& all);
[[nodiscard]] std::string zsh_completion(const std::vector<CommandFact>& all);
[[nodiscard]] std::string fish_completion(const std::vector<CommandFact>& all);

}  // namespace meshplan
