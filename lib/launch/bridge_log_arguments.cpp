// Megatron-Bridge prints its configuration as YAML where training begins.
#include <algorithm>

#include "launch/bridge_config.hpp"
#include "launch/log_arguments_parts.hpp"

namespace meshplan {
namespace {

// What stands between "Task Configuration" and the next rule of a log, with as many empty lines
// before it as the log has; nothing where a log has none.
std::optional<std::string> printed_config(const std::vector<LogLine>& lines) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  const auto first = std::find_if(lines.begin(), lines.end(), [](const LogLine& line) {
    return line.text.find("_target_: megatron.bridge.training.config.ConfigContainer") !=
           std::string_view::npos;
  });
  if (first == lines.end()) return std::nullopt;
  // What starts the processes may put a rank before every line.
  const std::size_t margin = first->text.find("_target_:");
  std::string text;
  int number = 1;
  for (auto line = first; line != lines.end() && text.size() < kLongest; ++line) {
    const std::string_view own = line->text.substr(std::min(margin, line->text.size()));
    if (own.starts_with("-----")) break;
    text.append(static_cast<std::size_t>(std::max(line->number - number, 0)), '\n');
    text += own;
    text += '\n';
    number = line->number + 1;
  }
  return text;
}

}  // namespace

Result<std::optional<PrintedArguments>> bridge_arguments(const std::vector<LogLine>& lines,
                                                         const std::string& file) {
  const std::optional<std::string> config = printed_config(lines);
  if (!config) return std::optional<PrintedArguments>();
  Result<NamedText> options = bridge_arguments({file, *config});
  if (!options) return options.errors();
  PrintedArguments printed;
  printed.program = "Megatron-Bridge";
  printed.line = 1 + static_cast<int>(config->find_first_not_of('\n'));
  printed.files.push_back(std::move(options).value());
  return std::optional(std::move(printed));
}

}  // namespace meshplan
