// NeMo 1 trains with Megatron-Core and prints its configuration as YAML: the same sizes under other
// names (examples/nlp/language_modeling/megatron_gpt_pretraining.py and
// conf/megatron_gpt_config.yaml).
#include <algorithm>
#include <array>

#include "base/quantity.hpp"
#include "io/yaml_tree.hpp"
#include "launch/log_arguments_parts.hpp"

namespace meshplan {
namespace {

struct Same {
  const char* key;     // of the section "model"
  const char* option;  // of Megatron-LM, which takes the same value
};
constexpr std::array kSame{
    Same{"num_layers", "--num-layers"},
    Same{"hidden_size", "--hidden-size"},
    Same{"ffn_hidden_size", "--ffn-hidden-size"},
    Same{"num_attention_heads", "--num-attention-heads"},
    Same{"kv_channels", "--kv-channels"},
    Same{"max_position_embeddings", "--max-position-embeddings"},
    Same{"encoder_seq_length", "--seq-length"},
    Same{"micro_batch_size", "--micro-batch-size"},
    Same{"global_batch_size", "--global-batch-size"},
    Same{"tensor_model_parallel_size", "--tensor-model-parallel-size"},
    Same{"pipeline_model_parallel_size", "--pipeline-model-parallel-size"},
    Same{"context_parallel_size", "--context-parallel-size"},
    Same{"expert_model_parallel_size", "--expert-model-parallel-size"},
    Same{"virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
    Same{"hidden_dropout", "--hidden-dropout"},
    Same{"activations_checkpoint_granularity", "--recompute-granularity"},
    Same{"activations_checkpoint_method", "--recompute-method"},
    Same{"activations_checkpoint_num_layers", "--recompute-num-layers"},
    Same{"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by"},
    Same{"num_moe_experts", "--num-experts"},
    Same{"moe_router_topk", "--moe-router-topk"},
    Same{"position_embedding_type", "--position-embedding-type"}};

struct Switch {
  const char* key;
  const char* value;  // with which the option is given
  const char* option;
};
constexpr std::array kSwitches{
    Switch{"sequence_parallel", "true", "--sequence-parallel"},
    Switch{"bias", "false", "--disable-bias-linear"},
    Switch{"share_embeddings_and_output_weights", "false", "--untie-embeddings-and-output-weights"},
    Switch{"ub_tp_comm_overlap", "true", "--tp-comm-overlap"},
    Switch{"fp8_e4m3", "true", "--fp8-format e4m3"},
    Switch{"fp8_hybrid", "true", "--fp8-format hybrid"},
    Switch{"normalization", "rmsnorm", "--normalization RMSNorm"},
    Switch{"activation", "swiglu", "--swiglu"},
    Switch{"activation", "fast-swiglu", "--swiglu"},
    Switch{"activation", "squared-relu", "--squared-relu"},
    Switch{"precision", "bf16", "--bf16"},
    Switch{"precision", "bf16-mixed", "--bf16"},
    Switch{"precision", "16", "--fp16"},
    Switch{"precision", "16-mixed", "--fp16"}};
constexpr std::array kOptimizerSwitches{
    Switch{"name", "distributed_fused_adam", "--use-distributed-optimizer"},
    Switch{"name", "mcore_distributed_optim", "--use-distributed-optimizer"},
    Switch{"overlap_grad_sync", "true", "--overlap-grad-reduce"},
    Switch{"overlap_param_sync", "true", "--overlap-param-gather"}};

std::string value_of(const YamlNode& section, const char* key) {
  const YamlNode* value = section.find(key);
  return value != nullptr && value->kind == YamlNode::Kind::kScalar ? value->text : std::string();
}

std::int64_t count_of(const YamlNode& section, const char* key) {
  const Result<std::int64_t> value = parse_integer(value_of(section, key));
  return value && *value > 0 && *value <= kRanks.highest ? *value : 0;
}

template <class Switches>
void add_switches(const YamlNode& section, const Switches& switches, PrintedOptions& options) {
  for (const Switch& s : switches) {
    const YamlNode* value = section.find(s.key);
    if (value != nullptr && value->text == s.value) options.add(s.option, {}, value->line);
  }
}

void add_model(const YamlNode& model, PrintedOptions& options) {
  for (const Same& same : kSame) {
    const YamlNode* value = model.find(same.key);
    if (value == nullptr || value->kind != YamlNode::Kind::kScalar) continue;
    options.add(same.option, {value->text}, value->line);
  }
  add_switches(model, kSwitches, options);
  const YamlNode* groups = model.find("num_query_groups");
  if (groups != nullptr && groups->kind == YamlNode::Kind::kScalar) {
    options.add("--group-query-attention --num-query-groups", {groups->text}, groups->line);
  }
  const YamlNode* optimizer = model.find("optim");
  if (optimizer != nullptr) add_switches(*optimizer, kOptimizerSwitches, options);
}

}  // namespace

std::optional<PrintedArguments> nemo_arguments(const std::vector<LogLine>& lines,
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
  if (first == 0) return std::nullopt;
  const Result<YamlNode> tree = parse_yaml(text, file);
  const YamlNode* model = tree ? tree->find("model") : nullptr;
  if (model == nullptr || model->find("num_layers") == nullptr) return std::nullopt;
  PrintedArguments printed;
  printed.program = "NeMo";
  printed.line = first;
  PrintedOptions options;
  add_model(*model, options);
  if (const YamlNode* trainer = tree->find("trainer")) {
    const std::int64_t gpus =
        bounded_product({count_of(*trainer, "devices"),
                         std::max<std::int64_t>(count_of(*trainer, "num_nodes"), 1)});
    if (gpus <= kRanks.highest) printed.gpus = gpus;
    add_switches(*trainer, kSwitches, options);
  }
  printed.files.push_back({file, options.text()});
  return printed;
}

}  // namespace meshplan
