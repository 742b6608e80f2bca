#pragma once
// What is trained: a decoder-only language model, behind a vision encoder where it has one.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "spec/kinds.hpp"
#include "spec/layers.hpp"
#include "spec/lengths.hpp"

namespace meshplan {

// A vision transformer and the projector that turns its output into tokens of the language model,
// before the first layer and on its pipeline rank.
struct EncoderSpec {
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t head_dim = 0;  // 0: hidden size over heads
  std::int64_t ffn_hidden_size = 0;
  bool gated_mlp = false;
  bool linear_bias = true;
  std::int64_t patch_size = 14;  // pixels along an edge
  std::int64_t channels = 3;     // of a pixel, times the frames that a patch joins
  std::int64_t positions = 0;    // learned; 0: none
  std::int64_t patches_per_image = 0;
  std::int64_t merged_patches = 1;  // patches that one token of the language model is made of
  std::int64_t projector_hidden_size = 0;  // of a projector of two layers; 0: one layer
  std::int64_t projectors = 1;             // more where earlier layers' outputs are projected too
  std::int64_t images_per_sequence = 1;

  bool operator==(const EncoderSpec&) const = default;
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
  bool attention_out_bias = false;      // the output projection has one (implied by linear_bias)
  bool mlp_bias = false;                // the dense MLPs' layers have one (implied by linear_bias)
  bool expert_bias = false;             // the experts' linear layers have one (gpt-oss)
  bool qk_norm = false;                 // queries and keys are normalised per head
  bool attention_sinks = false;         // one learned logit per head (gpt-oss)
  bool attention_output_gate = false;   // AttentionSpec::output_gate
  double rotary_percent = 1.0;          // share of a head's elements that rotate
  bool sandwich_norm = false;           // norms behind attention and MLP too (Gemma 2)
  bool logit_softcapping = false;       // tanh of the logits, scaled (Gemma 2)
  bool attn_logit_softcapping = false;  // the same of attention's scores (Gemma 2)
  bool parallel_block = false;  // attention and MLP read the same normalised input (PaLM, NeoX)
  bool parallel_shared_norm =
      false;                    // with parallel_block: one norm for both (PaLM), else two (NeoX)
  bool embedding_norm = false;  // a norm after the embedding (BLOOM)
  // Streams of the residual that layers read a mixture of and write to (manifold-constrained
  // hyper-connections, 2512.24880); 1: a plain residual.
  std::int64_t mhc_num_residual_streams = 1;
  std::int64_t mhc_sinkhorn_iterations = 20;
  // Layers of a block whose begin all parts of later layers read in a mixture, instead of one sum
  // of what came before (attention residuals of Kimi K3, 2607.24653 sec. 2.2); 0: a plain residual.
  std::int64_t attn_res_block_size = 0;
  double dropout = 0.0;  // hidden and attention dropout of the training run
  std::int64_t max_seq_length = 0;
  AttentionKind attention = AttentionKind::kMha;
  std::optional<MlaSpec> mla;     // present exactly for kMla
  std::int64_t window = 0;        // sliding attention window in tokens; 0: full attention
  std::int64_t window_every = 1;  // every n-th layer is windowed (gpt-oss: 2)
  std::optional<MoeSpec> moe;     // present exactly for mixture-of-experts models
  // Layers that differ in more than that: their counts add up to num_layers, and what is said above
  // of attention, feed-forward, window and experts is what their sections leave out. Empty: all
  // layers are as above.
  std::vector<LayerRun> layers;
  std::int64_t mtp_layers = 0;         // multi-token-prediction layers
  std::optional<LayerSpec> mtp_layer;  // what each is built like; none: the last decoder layer
  bool mtp_shared = false;             // they are passes of one layer with the same weights
  std::optional<EncoderSpec> encoder;
  // Of the documents that it is trained on; none: every sequence is full.
  std::optional<LengthSpec> lengths;
  std::string source;
  // What whoever plans for it must know of how it was read: parts that no key can describe.
  std::vector<std::string> notes;
  double published_parameters = 0;         // what the source states, 0 if nothing
  double published_active_parameters = 0;  // per token, for mixtures of experts

  bool operator==(const ModelSpec&) const = default;
};

enum class LayerKind { kDense, kMoe };

// Kind of decoder layer `index` (from 0); multi-token-prediction layers follow the last one.
[[nodiscard]] LayerKind layer_kind(const ModelSpec& m, std::int64_t index);
[[nodiscard]] bool layer_is_windowed(const ModelSpec& m, std::int64_t index);
[[nodiscard]] std::int64_t num_moe_layers(const ModelSpec& m);

// What decoder layer `index` is made of.
[[nodiscard]] LayerSpec layer_spec(const ModelSpec& m, std::int64_t index);
// A layer of a model whose layers the flat keys describe.
[[nodiscard]] LayerSpec layer_spec(const ModelSpec& m, LayerKind kind, bool windowed);
// Each once, by first appearance.
[[nodiscard]] std::vector<LayerSpec> distinct_layers(const ModelSpec& m);

}  // namespace meshplan
