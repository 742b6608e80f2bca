#pragma once
// The kinds of layers that models are made of: what mixes tokens, and what is applied to each of
// them. Sizes that may differ from layer to layer are here, one struct per kind; what all layers
// share (hidden size, norms, biases, activation) is the model's. lib/model holds what each kind
// costs, one file per kind.
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "spec/kinds.hpp"

namespace meshplan {

// Nothing in the place of a mixer or of a feed-forward: a layer of the other one alone.
struct NoneSpec {
  bool operator==(const NoneSpec&) const = default;
};

// Which tokens sparse attention looks at: light heads score all that came before, and the best are
// kept (DeepSeek-V3.2, 2512.02556 sec. 2.1).
struct IndexSpec {
  std::int64_t heads = 0;     // 0: another layer's choice is used again
  std::int64_t head_dim = 0;  // one key for all heads
  std::int64_t top_k = 0;     // tokens that are kept; 0: all, there is no index

  bool operator==(const IndexSpec&) const = default;
};

// Attention whose query heads share key/value heads (Ainslie et al. 2305.13245): as many groups as
// heads are multi-head attention, one group is multi-query attention.
struct AttentionSpec {
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  // key/value heads
  std::int64_t head_dim = 0;
  std::int64_t window = 0;      // tokens that a token sees; 0: all before it
  std::int64_t v_head_dim = 0;  // of values; 0: as head_dim
  // Elements of a head that rotate, where the model's positions are rotary; -1: as the model says.
  std::int64_t rotary_dim = -1;
  bool chunked = false;  // the window is a chunk: a token sees those before it in its own
  // Queries are projected through a normed latent of so many elements; 0: directly (Step-3's
  // multi-matrix factorisation, 2507.19427 sec. 3).
  std::int64_t q_lora_rank = 0;
  bool output_gate = false;    // a gate as wide as the output, projected with the queries
  bool shared_values = false;  // the values are the keys: no projection of their own
  bool bidirectional = false;  // tokens see those behind them as well: encoders
  IndexSpec index = {};

  bool operator==(const AttentionSpec&) const = default;
};

// Sizes of multi-head latent attention (DeepSeek-V2, 2405.04434), in elements per token or head.
struct MlaSpec {
  std::int64_t q_lora_rank = 0;  // 0: queries are projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  IndexSpec index = {};
  bool output_gate = false;

  bool operator==(const MlaSpec&) const = default;
};

struct LatentAttentionSpec {
  std::int64_t num_attention_heads = 0;
  MlaSpec sizes;
  std::int64_t window = 0;

  bool operator==(const LatentAttentionSpec&) const = default;
};

// Attention of DeepSeek-V4 (its config.json; Megatron-Core's DSv4HybridSelfAttention): all heads
// share one latent of head_dim elements that is both key and value. A token sees the last `window`
// tokens and, of those before it, one pooled entry for every compress_ratio tokens: all of them, or
// those that an index over entries of its own chooses. Queries are projected through a latent, and
// so is the output, in groups of heads.
struct CompressedAttentionSpec {
  std::int64_t num_attention_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 64;  // elements of a head that rotate
  std::int64_t q_lora_rank = 0;
  std::int64_t o_groups = 1;
  std::int64_t o_lora_rank = 0;  // of each group
  std::int64_t window = 128;
  std::int64_t compress_ratio = 0;  // tokens that one entry pools; 0: no entries, the window alone
  bool overlap = false;             // an entry pools the tokens of the one before it as well
  IndexSpec index = {};             // top_k entries are seen; 0: all

  bool operator==(const CompressedAttentionSpec&) const = default;
};

// Mamba-2 (Dao and Gu, 2405.21060): heads with a state of head_dim x state_size each, whose input
// and output projections of state_size a group of heads shares.
struct Mamba2Spec {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state_size = 0;
  std::int64_t num_groups = 0;
  std::int64_t conv_kernel = 4;
  std::int64_t chunk_size = 128;  // tokens whose products are one

  bool operator==(const Mamba2Spec&) const = default;
};

// Attention and Mamba-2 side by side: both read the same normalised input, and their outputs are
// added (Falcon-H1, 2507.22448 sec. 2.1).
struct ParallelMixerSpec {
  AttentionSpec attention;
  Mamba2Spec mamba;

  bool operator==(const ParallelMixerSpec&) const = default;
};

// Mamba (Gu and Dao, 2312.00752): every channel has a state of its own.
struct MambaSpec {
  std::int64_t inner_size = 0;
  std::int64_t state_size = 16;
  std::int64_t dt_rank = 0;  // of the projection to the step sizes
  std::int64_t conv_kernel = 4;
  bool inner_norms = false;  // of step sizes and both projections (Jamba, 2403.19887)

  bool operator==(const MambaSpec&) const = default;
};

// Gated delta rule (Yang et al. 2412.06464), and Kimi Delta Attention (2510.26692), whose decay is
// one per channel of the keys instead of one per head, made by a projection of low rank.
struct GatedDeltaNetSpec {
  std::int64_t num_key_heads = 0;  // of queries and keys
  std::int64_t num_value_heads = 0;
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_kernel = 4;
  std::int64_t gate_rank =
      0;  // of the decay's and the output gate's projections; 0: decay per head
  bool full_rank_gate = false;  // with gate_rank: the output gate is projected directly (Kimi K3)

  bool operator==(const GatedDeltaNetSpec&) const = default;
};

// Linear attention with one fixed decay per head and a gated output (lightning attention of
// MiniMax-01, 2501.08313 sec. 2.2).
struct LightningSpec {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;

  bool operator==(const LightningSpec&) const = default;
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
  // Routed experts work on so many elements per token, projected from and to the hidden size
  // before dispatch and after combination (Nemotron 3, 2512.20848); 0: on the hidden size.
  std::int64_t latent_size = 0;
  bool latent_norm = false;  // what they made is normalised before it is projected back (Kimi K3)
  // A token's experts are those of so many of equal groups alone (DeepSeek-V3, 2412.19437 sec.
  // 2.1.2); 0: of any.
  std::int64_t router_num_groups = 0, router_group_top_k = 0;

  bool operator==(const MoeSpec&) const = default;
};

using Mixer =
    std::variant<AttentionSpec, LatentAttentionSpec, CompressedAttentionSpec, Mamba2Spec,
                 ParallelMixerSpec, MambaSpec, GatedDeltaNetSpec, LightningSpec, NoneSpec>;
using FeedForward = std::variant<DenseMlpSpec, MoeSpec, NoneSpec>;

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

// The module of CUDA graphs that holds the mixer; nothing where there is none. Megatron-Core's
// layers of Mamba are a module, all other mixers are attention's
// (transformer/transformer_layer.py).
[[nodiscard]] inline std::optional<CudaGraphModule> graph_module_of(const Mixer& mixer) {
  if (std::holds_alternative<NoneSpec>(mixer)) return std::nullopt;
  const bool mamba =
      std::holds_alternative<MambaSpec>(mixer) || std::holds_alternative<Mamba2Spec>(mixer);
  return mamba ? CudaGraphModule::kMamba : CudaGraphModule::kAttn;
}
// Of attention; 0 for what has no window.
[[nodiscard]] inline std::int64_t window_of(const Mixer& mixer) {
  return std::visit(
      [](const auto& kind) -> std::int64_t {
        if constexpr (requires { kind.window; }) return kind.window;
        return 0;
      },
      mixer);
}
[[nodiscard]] inline bool has_mixer(const LayerSpec& layer) {
  return !std::holds_alternative<NoneSpec>(layer.mixer);
}
[[nodiscard]] inline bool has_feed_forward(const LayerSpec& layer) {
  return !std::holds_alternative<NoneSpec>(layer.feed_forward);
}
[[nodiscard]] inline bool has_experts(const FeedForward& feed_forward) {
  return std::holds_alternative<MoeSpec>(feed_forward);
}
[[nodiscard]] inline const MoeSpec* experts_of(const LayerSpec& layer) {
  return std::get_if<MoeSpec>(&layer.feed_forward);
}

}  // namespace meshplan
