// NeMo 1 prints its configuration as YAML where training begins.
#include <algorithm>

#include "launch/log_arguments_parts.hpp"
#include "launch/nemo_config.hpp"

namespace meshplan {

Result<std::optional<PrintedArguments>> nemo_arguments(const std::vector<LogLine>& lines,
                                                       const std::string& file) {
  std::size_t at = 0;
  const std::string_view begin = "Experiment configuration";
  while (at < lines.size() && lines[at].text.find(begin) == std::string_view::npos) ++at;
  // The configuration is indented by four behind the next line of the log.
  std::string text;
  int first = 0, number = 1;
  for (++at; at < lines.size(); ++at) {
    const bool inside = lines[at].text.starts_with("    ");
    if (!inside && first > 0) break;
    if (!inside || lines[at].text.find_first_not_of(' ') == std::string_view::npos) continue;
    if (first == 0) first = lines[at].number;
    text.append(static_cast<std::size_t>(std::max(lines[at].number - number, 0)), '\n');
    text += lines[at].text.substr(4);
    text += '\n';
    number = lines[at].number + 1;
  }
  if (first == 0) return std::optional<PrintedArguments>();
  Result<NemoArguments> read = printed_nemo_arguments({file, text});
  if (!read) return read.errors();
  NemoArguments arguments = std::move(read).value();
  PrintedArguments printed;
  printed.program = "NeMo";
  printed.line = first;
  printed.gpus = arguments.gpus;
  printed.files.push_back(std::move(arguments.options));
  return std::optional(std::move(printed));
}

}  // namespace meshplan
