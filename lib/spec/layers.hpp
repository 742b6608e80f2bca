#pragma once
// The kinds of layers that models are made of: what mixes tokens, and what is applied to each of
// them. Sizes that may differ from layer to layer are here, one struct per kind; what all layers
// share (hidden size, norms, biases, activation) is the model's. lib/model holds what each kind
// costs, one file per kind.
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace meshplan {

// Attention whose query heads share key/value heads (Ainslie et al. 2305.13245): as many groups as
// heads are multi-head attention, one group is multi-query attention.
struct AttentionSpec {
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // key/value heads
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // tokens that a token sees; 0: all before it

  bool operator==(const AttentionSpec&) const = default;
};

// Sizes of multi-head latent attention (DeepSeek-V2, 2405.04434), in elements per token or head.
struct MlaSpec {
  std::int64_t q_lora_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;

  bool operator==(const MlaSpec&) const = default;
};

struct LatentAttentionSpec {
  std::int64_t num_attention_heads = 0;
  MlaSpec sizes;
  std::int64_t window = 0;

  bool operator==(const LatentAttentionSpec&) const = default;
};

// A plain or gated MLP.
struct DenseMlpSpec {
  std::int64_t ffn_hidden_size = 0;

  bool operator==(const DenseMlpSpec&) const = default;
};

// Load of the busiest of some expert-parallel ranks over the mean: over placements of the experts.
struct RankLoad {
  std::int64_t ranks = 1;
  double median = 1;
  double p99 = 1;

  bool operator==(const RankLoad&) const = default;
};

// A mixture of experts.
struct MoeSpec {
  std::int64_t num_experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_ffn_hidden_size = 0;
  std::int64_t shared_expert_ffn_hidden_size = 0;  // all shared experts together
  std::int64_t first_dense = 0;                    // leading layers without experts
  std::int64_t every = 1;                          // of the rest, every n-th layer has experts
  double imbalance = 1.0;                          // load of the busiest expert over the mean
  bool router_bias = false;  // one correction per expert (DeepSeek-V3) or a linear bias (gpt-oss)
  // More than `imbalance` about the loads, at most one of the two: tokens of each expert in any
  // unit, or the exponent of their popularity. derive_loads (spec/expert_load.hpp) makes
  // `imbalance` and `rank_loads` of it; without it these stay as stated and empty.
  std::vector<double> load_histogram = {};
  std::optional<double> load_zipf = {};
  std::vector<RankLoad> rank_loads = {};  // for every number of ranks that divides the experts

  bool operator==(const MoeSpec&) const = default;
};

using Mixer = std::variant<AttentionSpec, LatentAttentionSpec>;
using FeedForward = std::variant<DenseMlpSpec, MoeSpec>;

struct LayerSpec {
  Mixer mixer;
  FeedForward feed_forward;

  bool operator==(const LayerSpec&) const = default;
};

// So many layers after each other that are alike.
struct LayerRun {
  std::int64_t count = 0;
  LayerSpec layer;

  bool operator==(const LayerRun&) const = default;
};

[[nodiscard]] inline std::int64_t num_heads(const Mixer& mixer) {
  return std::visit([](const auto& kind) { return kind.num_attention_heads; }, mixer);
}
[[nodiscard]] inline std::int64_t window_of(const Mixer& mixer) {
  return std::visit([](const auto& kind) { return kind.window; }, mixer);
}
[[nodiscard]] inline bool has_experts(const FeedForward& feed_forward) {
  return std::holds_alternative<MoeSpec>(feed_forward);
}
[[nodiscard]] inline const MoeSpec* experts_of(const LayerSpec& layer) {
  return std::get_if<MoeSpec>(&layer.feed_forward);
}

}  // namespace meshplan
