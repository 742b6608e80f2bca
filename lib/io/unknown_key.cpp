#include "io/unknown_key.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace meshplan {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// As Megatron-LM, DeepSpeed, torchtitan or the transformers library call a key of this program, or
// short for it.
constexpr auto kElsewhere = std::to_array<Names>({
    // of strategies
    {"vpp", "vp"},
    {"vpp_size", "vp"},
    {"virtual_pipeline_model_parallel_size", "vp"},
    {"tensor_model_parallel_size", "tp"},
    {"tensor_parallel_degree", "tp"},
    {"tensor_parallel_size", "tp"},
    {"tensor_parallel", "tp"},
    {"pipeline_model_parallel_size", "pp"},
    {"pipeline_parallel_degree", "pp"},
    {"pipeline_parallel", "pp"},
    {"context_parallel_size", "cp"},
    {"context_parallel_degree", "cp"},
    {"context_parallel", "cp"},
    {"expert_model_parallel_size", "ep"},
    {"expert_parallel_degree", "ep"},
    {"expert_parallel", "ep"},
    {"expert_tensor_parallel_size", "etp"},
    {"data_parallel_size", "dp"},
    {"data_parallel", "dp"},
    {"mbs", "micro_batch"},
    {"micro_batch_size", "micro_batch"},
    {"train_micro_batch_size_per_gpu", "micro_batch"},
    {"per_device_train_batch_size", "micro_batch"},
    {"gbs", "global_batch"},
    {"global_batch_size", "global_batch"},
    {"train_batch_size", "global_batch"},
    {"seq", "seq_len"},
    {"seq_length", "seq_len"},
    {"sequence_length", "seq_len"},
    {"sp", "sequence_parallel"},
    {"zero_stage", "zero"},
    {"stage", "zero"},
    {"recompute_granularity", "recompute"},
    {"activation_checkpointing", "recompute"},
    {"dtype", "precision"},
    {"lora_rank", "lora.rank"},
    {"lora_r", "lora.rank"},
    // of models
    {"num_hidden_layers", "num_layers"},
    {"n_layer", "num_layers"},
    {"n_embd", "hidden_size"},
    {"intermediate_size", "ffn_hidden_size"},
    {"num_key_value_heads", "num_query_groups"},
    {"n_head", "num_attention_heads"},
    {"kv_channels", "head_dim"},
    {"max_position_embeddings", "max_seq_length"},
    {"tie_word_embeddings", "tied_embeddings"},
    {"hidden_act", "activation"},
    {"normalization", "norm"},
    {"num_local_experts", "num_experts"},
    {"n_routed_experts", "num_experts"},
    {"num_experts_per_tok", "top_k"},
    {"moe_intermediate_size", "expert_ffn_hidden_size"},
    {"moe_ffn_hidden_size", "expert_ffn_hidden_size"},
});

// Without its group.
std::string_view ending_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// The one known key that ends like this one, whatever its group.
std::optional<std::string> same_ending(std::string_view key,
                                       std::span<const std::string_view> known) {
  std::optional<std::string> found;
  for (const std::string_view k : known) {
    if (ending_of(k) != ending_of(key)) continue;
    if (found) return std::nullopt;
    found = std::string(k);
  }
  return found;
}

// Known keys that other tools have by another name are in a group of their own as well.
std::optional<std::string> known_elsewhere_as(std::string_view key,
                                              std::span<const std::string_view> known) {
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (elsewhere != ending_of(key)) continue;
    if (std::find(known.begin(), known.end(), here) != known.end()) return std::string(here);
    if (const auto same = same_ending(here, known)) return same;
  }
  return std::nullopt;
}

}  // namespace

std::string hint_for_unknown(std::string_view key, std::span<const std::string_view> known) {
  if (const auto here = known_elsewhere_as(key, known)) {
    return "that is '" + *here + "' here";
  }
  if (const auto same = same_ending(key, known)) return "did you mean '" + *same + "'?";
  if (const auto near = nearest(key, known)) return "did you mean '" + *near + "'?";
  const std::string group = std::string(key) + ".";
  std::vector<std::string> members;
  for (const std::string_view k : known) {
    if (k.starts_with(group)) members.emplace_back(k);
  }
  if (!members.empty()) return "its keys are " + join_words(members);
  members.assign(known.begin(), known.end());
  return "keys that are valid here: " + join_words(members, ", ");
}

}  // namespace meshplan
