#include "protocol_tools.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "schemas.hpp"

namespace meshplan {
namespace {

using nlohmann::json;

struct OfferedTool {
  std::string_view command;
  std::string_view title;
  std::string_view schema;  // of its answer; empty: answers differ in form
};

constexpr std::array kOffered{
    OfferedTool{"plan", "Find the best way to train a model on a cluster", "plan"},
    OfferedTool{"estimate", "Time and memory of one strategy, term by term", "estimate"},
    OfferedTool{"explain", "Why not this strategy", "explain"},
    OfferedTool{"import", "Understand a script, a configuration or a log", ""},
    OfferedTool{"lint", "What is illegal, ignored or wasteful in a run's files", "lint"},
    OfferedTool{"list", "Names of models, clusters, devices, frameworks and keys", ""}};

// Said once of all commands, or of no use to a program that asks: the answer is the document.
constexpr std::array kLeftOut{"--help", "--json", "--verbose", "--quiet", "--out"};

constexpr std::string_view kFiles = "files";

const OfferedTool& offered(const std::string& name) {
  return *std::find_if(kOffered.begin(), kOffered.end(),
                       [&](const OfferedTool& tool) { return tool.command == name; });
}

const std::string& long_name(const OptionFact& option) { return option.names.back(); }

// "--global-batch" is called "global-batch" by who calls.
std::string argument_name(const OptionFact& option) {
  const std::string& name = long_name(option);
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

json argument_schema(const OptionFact& option) {
  json schema;
  if (option.value.empty() && !option.positional()) {
    schema["type"] = "boolean";
  } else if (option.several) {
    schema["type"] = "array";
    schema["items"] = {{"type", json::array({"string", "number"})}};
  } else {
    schema["type"] = json::array({"string", "number"});
  }
  schema["description"] =
      option.value.empty() ? option.text : option.text + " (" + option.value + ")";
  return schema;
}

json input_schema(const CommandFact& command) {
  json properties = json::object();
  for (const OptionFact& option : command.options) {
    properties[argument_name(option)] = argument_schema(option);
  }
  properties[std::string(kFiles)] = {
      {"type", "object"},
      {"additionalProperties", {{"type", "string"}}},
      {"description",
       "Texts by file name, which the other arguments may then name: scripts, configurations, "
       "models, clusters, logs"}};
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

Diagnostics unknown_argument(const CommandFact& command, const std::string& name) {
  std::vector<std::string> names{std::string(kFiles)};
  for (const OptionFact& option : command.options) names.push_back(argument_name(option));
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::optional<std::string> meant = nearest(name, known);
  return {error("'" + command.name + "' has no argument '" + printable_text(name) + "'",
                meant ? "'" + *meant + "' is one" : "'tools/list' names them")};
}

std::optional<std::string> value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  return std::nullopt;
}

// Relative, and not out of the folder that it is written to.
bool is_safe_name(const std::string& name) {
  const std::filesystem::path path(name);
  if (name.empty() || name.size() > 255 || name.find('\0') != std::string::npos) return false;
  if (path.is_absolute() || !path.has_filename()) return false;
  return std::none_of(path.begin(), path.end(), [](const std::filesystem::path& part) {
    return part == ".." || part == "." || part.empty();
  });
}

Result<CallFiles> read_files(const json& value) {
  CallFiles files;
  if (!value.is_object()) return Diagnostics{error("'files' must be texts by file name")};
  for (const auto& [name, text] : value.items()) {
    if (!is_safe_name(name)) {
      return Diagnostics{error("'" + printable_text(name) + "' is no name for a file of this call",
                               "a relative name without '..'")};
    }
    if (!text.is_string()) {
      return Diagnostics{error("file '" + printable_text(name) + "' must be a text")};
    }
    files.emplace_back(name, text.get<std::string>());
  }
  return files;
}

// The words of one argument; `positional` words stand at the end of the line.
Result<std::vector<std::string>> words_of(const OptionFact& option, const json& value) {
  const std::string name = argument_name(option);
  const auto wrong = [&](const std::string& wanted) {
    return Diagnostics{error("'" + name + "' must be " + wanted)};
  };
  if (option.value.empty() && !option.positional()) {
    if (!value.is_boolean()) return wrong("true or false");
    return value.get<bool>() ? std::vector<std::string>{long_name(option)}
                             : std::vector<std::string>{};
  }
  if (value.is_array() && !option.several) return wrong("one value");
  const json values = value.is_array() ? value : json::array({value});
  std::vector<std::string> words;
  for (const json& each : values) {
    const auto text = value_text(each);
    if (!text) return wrong(option.several ? "texts or numbers" : "a text or a number");
    if (!option.positional()) {
      words.push_back(long_name(option) + "=" + *text);
    } else if (text->starts_with('-')) {
      return wrong("no text that starts with '-'");
    } else {
      words.push_back(*text);
    }
  }
  return words;
}

}  // namespace

ProtocolTools::ProtocolTools(const std::vector<CommandFact>& commands) {
  for (const OfferedTool& tool : kOffered) {
    const auto found =
        std::find_if(commands.begin(), commands.end(),
                     [&](const CommandFact& command) { return command.name == tool.command; });
    CommandFact command = *found;
    std::erase_if(command.options, [](const OptionFact& option) {
      return std::find(kLeftOut.begin(), kLeftOut.end(), long_name(option)) != kLeftOut.end();
    });
    tools_.push_back(std::move(command));
  }
}

bool ProtocolTools::has(const std::string& name) const {
  return std::any_of(tools_.begin(), tools_.end(),
                     [&](const CommandFact& tool) { return tool.name == name; });
}

json ProtocolTools::list() const {
  json all = json::array();
  for (const CommandFact& command : tools_) {
    const OfferedTool& tool = offered(command.name);
    json entry{{"name", command.name},
               {"title", tool.title},
               {"description", command.text},
               {"inputSchema", input_schema(command)},
               {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}};
    if (!tool.schema.empty()) {
      entry["outputSchema"] = json::parse(schema_text(std::string(tool.schema)));
    }
    all.push_back(std::move(entry));
  }
  return all;
}

Result<ToolCall> ProtocolTools::call(const std::string& name, const json& arguments) const {
  const CommandFact& command = *std::find_if(
      tools_.begin(), tools_.end(), [&](const CommandFact& tool) { return tool.name == name; });
  if (!arguments.is_object()) return Diagnostics{error("'arguments' must be an object")};
  ToolCall call;
  for (const auto& [key, value] : arguments.items()) {
    if (key == kFiles) continue;
    const bool known =
        std::any_of(command.options.begin(), command.options.end(),
                    [&, &key = key](const OptionFact& o) { return argument_name(o) == key; });
    if (!known) return unknown_argument(command, key);
  }
  call.words.push_back(name);
  call.words.emplace_back("--json");
  std::vector<std::string> last;
  for (const OptionFact& option : command.options) {  // positional arguments in their order
    const auto at = arguments.find(argument_name(option));
    if (at == arguments.end()) continue;
    Result<std::vector<std::string>> words = words_of(option, *at);
    if (!words) return words.errors();
    auto& target = option.positional() ? last : call.words;
    target.insert(target.end(), words->begin(), words->end());
  }
  call.words.insert(call.words.end(), last.begin(), last.end());
  if (const auto at = arguments.find(kFiles); at != arguments.end()) {
    Result<CallFiles> files = read_files(*at);
    if (!files) return files.errors();
    call.files = std::move(files.value());
  }
  return call;
}

}  // namespace meshplan
