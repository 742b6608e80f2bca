#pragma once
// Commands and flags as the program itself parses them, for what describes them: completions of
// shells, tools of a server.
#include <string>
#include <vector>

namespace meshplan {

struct OptionFact {
  std::vector<std::string> names;  // "-v", "--verbose"; or one word without dashes: a positional
  std::string value;               // "FILE", "N"; empty for a switch
  std::string text;
  std::vector<std::string> choices;  // values that complete it
  bool several = false;              // takes more than one value

  [[nodiscard]] bool positional() const { return !names.front().starts_with('-'); }
  [[nodiscard]] bool takes_file() const;
};

struct CommandFact {
  std::string name, text;
  std::vector<OptionFact> options;
};

}  // namespace meshplan
