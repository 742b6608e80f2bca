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

void PrintedOptions::add(const std::string& name, const std::vector<std::string>& values,
                         int line) {
  if (line < 1) return;
  const auto at = static_cast<std::size_t>(line);
  if (lines_.size() < at) lines_.resize(at);
  std::string& text = lines_[at - 1];
  text += (text.empty() ? "" : " ") + name;
  for (const std::string& value : values) text += " " + shell_word(value);
}

std::string PrintedOptions::text() const {
  std::string all;
  for (const std::string& line : lines_) all += line + '\n';
  return all;
}

namespace {

constexpr std::size_t kMostArguments = 5000;

// Names in the print (argparse's "dest") that stand for another option.
struct Renamed {
  std::string_view printed, value, option;  // value empty: the option takes the printed one
};
constexpr std::array kRenamed{
    Renamed{"add_bias_linear", "False", "--disable-bias-linear"},
    Renamed{"add_position_embedding", "False", "--no-position-embedding"},
    Renamed{"overlap_p2p_comm", "False", "--no-overlap-p2p-communication"},
    Renamed{"apply_rope_fusion", "False", "--no-rope-fusion"},
    Renamed{"masked_softmax_fusion", "False", "--no-masked-softmax-fusion"},
    Renamed{"bias_gelu_fusion", "False", "--no-bias-gelu-fusion"},
    Renamed{"bias_swiglu_fusion", "False", "--no-bias-swiglu-fusion"},
    Renamed{"bias_dropout_fusion", "False", "--no-bias-dropout-fusion"},
    Renamed{"gradient_accumulation_fusion", "False", "--no-gradient-accumulation-fusion"},
    Renamed{"fp8", "", "--fp8-format"},
    Renamed{"virtual_pipeline_model_parallel_size", "", "--num-virtual-stages-per-pipeline-rank"}};

// What Python prints of a value as an option's value has it: "torch.bfloat16" is "bf16",
// "AttnBackend.flash" "flash".
std::string option_value(std::string_view printed) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes{
      {{"torch.bfloat16", "bf16"},
       {"torch.float16", "fp16"},
       {"torch.float32", "fp32"},
       {"torch.uint8", "fp8"}}};
  for (const auto& [name, value] : kTypes) {
    if (printed == name) return std::string(value);
  }
  constexpr std::string_view kEnum = "AttnBackend.";
  if (printed.starts_with(kEnum)) printed.remove_prefix(kEnum.size());
  return std::string(printed);
}

// "['core_attn', 'moe_act']" or "[1, 2]" -> the words inside.
std::vector<std::string> list_words(std::string_view printed) {
  std::vector<std::string> words(1);
  for (const char c : printed) {
    if (c == ',') {
      words.emplace_back();
    } else if (c != '[' && c != ']' && c != '(' && c != ')' && c != '\'' && c != '"' && c != ' ') {
      words.back() += c;
    }
  }
  std::erase(words, "");
  return words;
}

std::string without_blanks(std::string text) {
  std::erase(text, ' ');
  return text;
}

struct Printed {
  std::string name, value;
  int line = 0;
};

// "  num_layers ...................................... 32", whatever stands before the name.
std::optional<Printed> printed_argument(const LogLine& line) {
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
  return Printed{std::string(name), text, line.number};
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
      std::optional<Printed> argument = printed_argument(line);
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
    PrintedOptions options;
    const bool virtual_stages = has_value("virtual_pipeline_model_parallel_size");
    for (const auto& [name, argument] : all_) {
      if (argument.value == "None" || argument.value.empty()) continue;
      if (name == "num_layers_per_virtual_pipeline_stage" && virtual_stages) continue;
      if (add_renamed(name, argument, options)) continue;
      std::string option = "--" + name;
      // Megatron-DeepSpeed has options that are written with underscores.
      std::optional<KnownOption> known = table.find(option);
      if (!known) {
        std::replace(option.begin(), option.end(), '_', '-');
        known = table.find(option);
      }
      if (known) {
        add(option, *known, argument, options);
      } else if (argument.value == "True" && name.starts_with("use_")) {
        unknown.push_back(name);
      }
    }
    return options.text();
  }

 private:
  [[nodiscard]] bool has_value(const std::string& name) const {
    const auto found = all_.find(name);
    return found != all_.end() && found->second.value != "None";
  }

  static bool add_renamed(const std::string& name, const Printed& argument,
                          PrintedOptions& options) {
    for (const Renamed& r : kRenamed) {
      if (r.printed != name) continue;
      if (r.value.empty() && argument.value != "False") {
        options.add(std::string(r.option), {option_value(argument.value)}, argument.line);
      } else if (r.value == argument.value) {
        options.add(std::string(r.option), {}, argument.line);
      }
      return true;
    }
    return false;
  }

  static void add(const std::string& option, const KnownOption& known, const Printed& argument,
                  PrintedOptions& options) {
    if (known.arity == '0') {
      if (argument.value == "True") options.add(option, {}, argument.line);
      return;
    }
    if (known.effect != OptionEffect::kModelled) return;
    const bool several = known.arity != '1';
    options.add(option,
                several ? list_words(argument.value)
                        : std::vector<std::string>{without_blanks(option_value(argument.value))},
                argument.line);
  }

  std::map<std::string, Printed> all_;
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
    const std::optional<Printed> argument = printed_argument(line);
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

std::optional<PrintedArguments> printed_arguments(std::string_view log, const std::string& file) {
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
    return printed;
  }
  if (!config.empty()) {
    printed.target = Target::kDeepspeed;
    printed.program = "DeepSpeed";
    printed.line = lines[engine->line].number;
    printed.gpus = engine_world(lines);
    printed.files.push_back({file, config});
    return printed;
  }
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
      return printed;
    }
  }
  return nemo_arguments(lines, file);
}

}  // namespace meshplan
