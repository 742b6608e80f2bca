#include "launch/log_arguments.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/quantity.hpp"
#include "io/log_lines.hpp"
#include "io/yaml_tree.hpp"
#include "launch/log_arguments_parts.hpp"
#include "launch/shell.hpp"

namespace meshplan {

namespace {

constexpr std::size_t kMostArguments = 5000;

// "  num_layers ...................................... 32", whatever stands before the name.
std::optional<NamespaceArgument> printed_argument(const LogLine& line) {
  const std::size_t dots = line.text.find(" ..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.text.substr(0, dots);
  const std::size_t blank = before.find_last_of(" \t:]");
  const std::string_view name = blank == std::string_view::npos ? before : before.substr(blank + 1);
  const std::size_t value = line.text.find_first_not_of('.', dots + 1);
  if (name.empty() || value == std::string_view::npos || line.text[value] != ' ') {
    return std::nullopt;
  }
  std::string text(line.text.substr(value + 1));
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.pop_back();
  return NamespaceArgument{std::string(name), text, line.number};
}

// The list of Megatron-LM and of codes made from it.
class MegatronPrint {
 public:
  explicit MegatronPrint(const std::vector<LogLine>& lines) {
    for (const LogLine& line : lines) {
      if (line.text.find("-- end of arguments --") != std::string_view::npos) break;
      if (line.text.find("-- arguments --") != std::string_view::npos) {
        first_ = line.number;
        continue;
      }
      if (first_ == 0) continue;
      std::optional<NamespaceArgument> argument = printed_argument(line);
      if (!argument || all_.size() >= kMostArguments) continue;
      const std::string name = argument->name;
      all_.try_emplace(name, *std::move(argument));
    }
    for (const LogLine& line : lines) {
      if (first_ == 0 || line.text.find("padded vocab (size:") == std::string_view::npos) continue;
      const auto size = number_after(line.text, "(new size:");
      if (!size || *size < 1 || *size > 1e9) continue;
      all_["padded_vocab_size"] = {"padded_vocab_size",
                                   std::to_string(static_cast<std::int64_t>(*size)), line.number};
    }
  }

  [[nodiscard]] bool found() const { return first_ > 0 && all_.contains("num_layers"); }
  [[nodiscard]] bool of_deepspeed() const { return all_.contains("deepspeed_config"); }
  [[nodiscard]] bool uses_deepspeed() const {
    const auto found = all_.find("deepspeed");
    return found != all_.end() && found->second.value == "True";
  }
  [[nodiscard]] int line() const { return first_; }
  [[nodiscard]] std::int64_t gpus() const {
    const auto found = all_.find("world_size");
    if (found == all_.end()) return 0;
    const Result<std::int64_t> value = parse_integer(found->second.value);
    return value && *value > 0 && *value <= kRanks.highest ? *value : 0;
  }

  [[nodiscard]] std::string text(const OptionTable& table, std::vector<std::string>& unknown) {
    return options_of(all_, table, unknown);
  }

 private:
  Namespace all_;
  int first_ = 0;
};

// The text of a braced value that begins in one of the lines, with as many empty lines before it as
// the log has; empty where its end is missing.
std::string braced(const std::vector<LogLine>& lines, std::size_t from, std::size_t column) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  std::string text(static_cast<std::size_t>(lines[from].number - 1), '\n');
  int depth = 0, number = lines[from].number;
  char quote = 0;
  for (std::size_t i = from; i < lines.size() && text.size() < kLongest; ++i) {
    std::string_view line = lines[i].text;
    if (i == from) line.remove_prefix(column);
    // What starts the processes may put a rank before every line.
    if (i > from && line.starts_with("[rank"))
      line.remove_prefix(std::min(line.find(':'), line.size() - 1) + 1);
    text.append(static_cast<std::size_t>(lines[i].number - number), '\n');
    number = lines[i].number;
    for (std::size_t j = 0; j < line.size(); ++j) {
      const char c = line[j];
      text += c;
      if (quote != 0) {
        if (c == '\\' && quote == '"' && j + 1 < line.size()) text += line[++j];
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}' && --depth == 0) {
        return text;
      }
    }
  }
  return {};
}

struct Place {
  std::size_t line, column;
};

// Where the value behind one of these words begins.
std::optional<Place> value_behind(const std::vector<LogLine>& lines,
                                  std::initializer_list<std::string_view> words) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const std::string_view word : words) {
      const std::size_t at = lines[i].text.find(word);
      if (at == std::string_view::npos) continue;
      const std::size_t brace = lines[i].text.find('{', at + word.size());
      if (brace != std::string_view::npos) return Place{i, brace};
    }
  }
  return std::nullopt;
}

// "world_size ................... 8" of DeepSpeed's engine.
std::int64_t engine_world(const std::vector<LogLine>& lines) {
  for (const LogLine& line : lines) {
    const std::optional<NamespaceArgument> argument = printed_argument(line);
    if (!argument || argument->name != "world_size") continue;
    const Result<std::int64_t> value = parse_integer(argument->value);
    if (value && *value > 0 && *value <= kRanks.highest) return *value;
  }
  return 0;
}

// torchtitan's sections as options of its command line.
std::string titan_options(const YamlNode& tree) {
  PrintedOptions options;
  for (const YamlEntry& section : tree.entries) {
    for (const YamlEntry& setting : section.second.entries) {
      const YamlNode& value = setting.second;
      std::string text = value.text;
      if (value.kind == YamlNode::Kind::kSequence) {
        for (const YamlNode& item : value.items) text += (text.empty() ? "" : ",") + item.text;
      } else if (value.kind != YamlNode::Kind::kScalar || (!value.quoted && text == "None")) {
        continue;
      }
      if (!value.quoted && (text == "True" || text == "False"))
        text = text == "True" ? "true" : "false";
      if (text.empty()) continue;
      options.add("--" + section.first.text + "." + setting.first.text + "=" + text, {},
                  setting.first.line);
    }
  }
  return options.text();
}

}  // namespace

Result<std::optional<PrintedArguments>> printed_arguments(std::string_view log,
                                                          const std::string& file) {
  const std::string plain = without_colours(log);
  const std::vector<LogLine> lines = log_lines(plain);
  PrintedArguments printed;
  MegatronPrint megatron(lines);
  const std::optional<Place> engine = value_behind(lines, {"json = "});
  std::string config;
  if (engine) config = braced(lines, engine->line, engine->column);
  if (megatron.found()) {
    const bool deepspeed = megatron.of_deepspeed() && megatron.uses_deepspeed();
    printed.target = deepspeed ? Target::kDeepspeed : Target::kMegatron;
    printed.program = megatron.of_deepspeed() ? "Megatron-DeepSpeed" : "Megatron-LM";
    printed.line = megatron.line();
    printed.gpus = megatron.gpus();
    const std::string text = megatron.text(
        deepspeed ? megatron_deepspeed_options() : megatron_options(), printed.unknown);
    printed.files.push_back({file, text});
    if (deepspeed && !config.empty()) printed.files.insert(printed.files.begin(), {file, config});
    return std::optional(std::move(printed));
  }
  if (!config.empty()) {
    printed.target = Target::kDeepspeed;
    printed.program = "DeepSpeed";
    printed.line = lines[engine->line].number;
    printed.gpus = engine_world(lines);
    printed.files.push_back({file, config});
    return std::optional(std::move(printed));
  }
  Result<std::optional<PrintedArguments>> bridge = bridge_arguments(lines, file);
  if (!bridge || *bridge) return bridge;
  const std::optional<Place> titan =
      value_behind(lines, {"Running with args:", "Running with configs:", "Running with config:"});
  if (titan) {
    const std::string text = braced(lines, titan->line, titan->column);
    const Result<YamlNode> tree = parse_yaml(text.empty() ? std::string_view("{}") : text, file);
    if (tree && !tree->entries.empty()) {
      printed.target = Target::kTorchtitan;
      printed.program = "torchtitan";
      printed.line = lines[titan->line].number;
      printed.files.push_back({file, titan_options(*tree)});
      return std::optional(std::move(printed));
    }
  }
  return nemo_arguments(lines, file);
}

}  // namespace meshplan
