#pragma once
// The commands that a server offers as tools of the Model Context Protocol: what describes them,
// and the command line that a call of one stands for.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "command_facts.hpp"

namespace meshplan {

// Text that a call brings under a name; the command finds it as a file of that name.
using CallFiles = std::vector<std::pair<std::string, std::string>>;

struct ToolCall {
  std::vector<std::string> words;  // after the program's name
  CallFiles files;
};

class ProtocolTools {
 public:
  explicit ProtocolTools(const std::vector<CommandFact>& commands);

  // The tools as 'tools/list' answers them: name, title, description, inputSchema (JSON Schema)
  // and, where every answer of a command has the same form, its outputSchema.
  [[nodiscard]] nlohmann::json list() const;
  [[nodiscard]] bool has(const std::string& name) const;
  // Errors: an argument that the tool has not, or a value of another type than it takes.
  [[nodiscard]] Result<ToolCall> call(const std::string& name,
                                      const nlohmann::json& arguments) const;

 private:
  std::vector<CommandFact> tools_;
};

}  // namespace meshplan
