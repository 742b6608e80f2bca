#pragma once
// What is trained: a decoder-only transformer.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "spec/kinds.hpp"

namespace meshplan {

// Multi-head latent attention (DeepSeek-V2, 2405.04434). Sizes in elements per token or head.
struct MlaSpec {
  std::int64_t q_lora_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;

  bool operator==(const MlaSpec&) const = default;
};

// Load of the busiest of some expert-parallel ranks over the mean: over placements of the experts.
struct RankLoad {
  std::int64_t ranks = 1;
  double median = 1;
  double p99 = 1;

  bool operator==(const RankLoad&) const = default;
};

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

struct ModelSpec {
  std::string name;
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // key/value heads
  std::int64_t head_dim = 0;
  std::int64_t ffn_hidden_size = 0;  // of dense layers
  bool gated_mlp = false;
  Activation activation = Activation::kGelu;
  Norm norm = Norm::kLayerNorm;
  PositionEmbedding position_embedding = PositionEmbedding::kRope;
  std::int64_t vocab_size = 0;
  bool tied_embeddings = false;
  bool linear_bias = false;  // every linear layer has a bias
  bool qkv_bias = false;     // the query/key/value projection has one (implied by linear_bias)
  bool attention_out_bias = false;  // the output projection has one (implied by linear_bias)
  bool expert_bias = false;         // the experts' linear layers have one (gpt-oss)
  bool qk_norm = false;             // queries and keys are normalised per head
  bool attention_sinks = false;     // one learned logit per head (gpt-oss)
  bool parallel_block = false;      // attention and MLP read the same normalised input (PaLM, NeoX)
  bool parallel_shared_norm =
      false;                    // with parallel_block: one norm for both (PaLM), else two (NeoX)
  bool embedding_norm = false;  // a norm after the embedding (BLOOM)
  double dropout = 0.0;         // hidden and attention dropout of the training run
  std::int64_t max_seq_length = 0;
  AttentionKind attention = AttentionKind::kMha;
  std::optional<MlaSpec> mla;     // present exactly for kMla
  std::int64_t window = 0;        // sliding attention window in tokens; 0: full attention
  std::int64_t window_every = 1;  // every n-th layer is windowed (gpt-oss: 2)
  std::optional<MoeSpec> moe;     // present exactly for mixture-of-experts models
  std::int64_t mtp_layers = 0;    // multi-token-prediction layers
  std::string source;
  double published_parameters = 0;         // what the source states, 0 if nothing
  double published_active_parameters = 0;  // per token, for mixtures of experts

  bool operator==(const ModelSpec&) const = default;
};

enum class LayerKind { kDense, kMoe };

// Kind of decoder layer `index` (from 0); multi-token-prediction layers follow the last one.
[[nodiscard]] LayerKind layer_kind(const ModelSpec& m, std::int64_t index);
[[nodiscard]] bool layer_is_windowed(const ModelSpec& m, std::int64_t index);
[[nodiscard]] std::int64_t num_moe_layers(const ModelSpec& m);

// Parameters of the parts, in elements. "Per layer" parts are what a rank of tp = ep = 1 holds.
struct LayerParameters {
  std::int64_t attention_linear = 0;  // matrices and biases that tensor parallelism splits
  // Norms, latent projections, output bias: copied on every tensor rank.
  std::int64_t attention_other = 0;
  std::int64_t mlp_linear = 0;      // dense MLP or shared experts, split by tensor parallelism
  std::int64_t router = 0;          // copied on every tensor rank
  std::int64_t experts = 0;         // routed experts, all of them; split by ep and etp
  std::int64_t experts_active = 0;  // the top_k of them that a token passes
  std::int64_t norms = 0;  // norms, and biases behind a reduction: copied on every tensor rank
};

[[nodiscard]] LayerParameters layer_parameters(const ModelSpec& m, LayerKind kind);

struct ParameterCount {
  std::int64_t total = 0;        // as published counts do: without multi-token-prediction layers
  std::int64_t active = 0;       // passed by one token: equals `total` for dense models
  std::int64_t embedding = 0;    // token embedding, and position table where learned
  std::int64_t output_head = 0;  // 0 when tied
  std::int64_t mtp = 0;          // multi-token-prediction layers
};

[[nodiscard]] ParameterCount parameter_count(const ModelSpec& m);

// Every rule that `m` breaks; empty if it can be planned for. Messages name the keys.
[[nodiscard]] Diagnostics validate(const ModelSpec& m);

}  // namespace meshplan
