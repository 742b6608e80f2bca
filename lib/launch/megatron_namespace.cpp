#include "launch/megatron_namespace.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "launch/shell.hpp"

namespace meshplan {
namespace {

// Names (argparse's "dest") that stand for another option.
struct Renamed {
  std::string_view name, value, option;  // value empty: the option takes the argument's
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
    Renamed{"check_for_nan_in_loss_and_grad", "False", "--no-check-for-nan-in-loss-and-grad"},
    Renamed{"create_attention_mask_in_dataloader", "False",
            "--no-create-attention-mask-in-dataloader"},
    Renamed{"store_param_remainders", "False", "--no-store-param-remainders"},
    Renamed{"fp8", "", "--fp8-format"},
    Renamed{"fp4", "", "--fp4-format"},
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

bool has_value(const Namespace& all, const std::string& name) {
  const auto found = all.find(name);
  return found != all.end() && found->second.value != "None";
}

bool add_renamed(const std::string& name, const NamespaceArgument& argument,
                 PrintedOptions& options) {
  for (const Renamed& r : kRenamed) {
    if (r.name != name) continue;
    if (r.value.empty() && argument.value != "False") {
      options.add(std::string(r.option), {option_value(argument.value)}, argument.line);
    } else if (r.value == argument.value) {
      options.add(std::string(r.option), {}, argument.line);
    }
    return true;
  }
  return false;
}

void add_known(const std::string& option, const KnownOption& known,
               const NamespaceArgument& argument, PrintedOptions& options) {
  if (known.arity == '0') {
    if (argument.value == "True") options.add(option, {}, argument.line);
    return;
  }
  if (known.effect != OptionEffect::kModelled && !argument.stated) return;
  const bool several = known.arity != '1';
  options.add(option,
              several ? list_words(argument.value)
                      : std::vector<std::string>{without_blanks(option_value(argument.value))},
              argument.line);
}

}  // namespace

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

std::string options_of(const Namespace& all, const OptionTable& table,
                       std::vector<std::string>& unknown) {
  PrintedOptions options;
  const bool virtual_stages = has_value(all, "virtual_pipeline_model_parallel_size");
  for (const auto& [name, argument] : all) {
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
      add_known(option, *known, argument, options);
    } else if (argument.stated && argument.value != "False") {
      // For the reader of options to refuse, with the one that may have been meant.
      options.add(option, {without_blanks(argument.value)}, argument.line);
    } else if (argument.value == "True" && name.starts_with("use_")) {
      unknown.push_back(name);
    }
  }
  return options.text();
}

}  // namespace meshplan
