// DeepSeek-V4: attention over a window and pooled entries, streams instead of a residual.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "io/hf_parts.hpp"

namespace meshplan::hf {
namespace {

// Tokens that an entry pools, by the library's names of the layers.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 3> kRatios{
    {{"sliding_attention", 0},
     {"compressed_sparse_attention", 4},
     {"heavily_compressed_attention", 128}}};
constexpr std::int64_t kSparseRatio = 4;  // an index chooses, entries overlap (Primus)

// One ratio for each layer: the first files list them, the library's own name the layers' types.
std::vector<std::int64_t> read_ratios(HfFields& f) {
  if (f.has({"compress_ratios"})) return f.counts({"compress_ratios"});
  HfFields rates = f.section("compress_rates");
  std::vector<std::int64_t> ratios;
  for (const std::string& type : f.texts({"layer_types"})) {
    const auto* known = std::find_if(kRatios.begin(), kRatios.end(),
                                     [&](const auto& row) { return row.first == type; });
    if (known == kRatios.end()) {
      f.error({"layer_types"}, "layers of type '" + type + "' are not supported",
              "known: sliding_attention, compressed_sparse_attention and "
              "heavily_compressed_attention");
      return {};
    }
    ratios.push_back(
        known->second == 0 ? 0 : rates.count_or("mixers.compress_ratio", {type}, known->second));
  }
  return ratios;
}

}  // namespace

// Every layer has experts; of the first ones a table chooses them by the token, which takes what a
// router takes. Prediction layers see their window alone unless the list of ratios goes on.
ModelSpec read_deepseek_v4(HfFields& f) {
  ModelSpec m = read_core(f);
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_act"}, "silu");
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 1'048'576);
  m.num_query_groups = 1;
  read_head_dim(f, m, 512);
  set_attention_kind(m);
  read_deepseek_experts(f, m,
                        {.top_k = 6, .first_dense = 0, .shared_experts = 1, .correction = true});
  m.ffn_hidden_size = f.count_or("ffn_hidden_size", {"intermediate_size"}, 0);
  m.mhc_num_residual_streams = f.size_or("mhc_num_residual_streams", {"hc_mult"}, 4);
  m.mhc_sinkhorn_iterations = f.size_or("mhc_sinkhorn_iterations", {"hc_sinkhorn_iters"}, 20);
  CompressedAttentionSpec kind;
  kind.num_attention_heads = m.num_attention_heads;
  kind.head_dim = m.head_dim;
  kind.rotary_dim = f.count_or("mixers.rotary_dim", {"qk_rope_head_dim"}, 64);
  kind.q_lora_rank = f.size_or("mixers.q_lora_rank", {"q_lora_rank"}, 1024);
  kind.o_groups = f.size_or("mixers.o_groups", {"o_groups"}, 8);
  kind.o_lora_rank = f.size_or("mixers.o_lora_rank", {"o_lora_rank"}, 1024);
  kind.window = f.size_or("mixers.window", {"sliding_window"}, 128);
  IndexSpec index;
  index.heads = f.size_or("mixers.index_heads", {"index_n_heads"}, 64);
  index.head_dim = f.size_or("mixers.index_head_dim", {"index_head_dim"}, 128);
  index.top_k = f.size_or("mixers.index_top_k", {"index_topk"}, 512);
  const std::vector<std::int64_t> ratios = read_ratios(f);
  if (static_cast<std::int64_t>(ratios.size()) < m.num_layers) {
    f.error({"compress_ratios", "layer_types"},
            "'compress_ratios' or 'layer_types' must say the attention of all " +
                std::to_string(m.num_layers) + " layers, got " + std::to_string(ratios.size()));
    return m;
  }
  const auto mixer = [&](std::size_t i) {
    CompressedAttentionSpec layer = kind;
    layer.compress_ratio = i < ratios.size() ? ratios[i] : 0;
    layer.overlap = layer.compress_ratio == kSparseRatio;
    if (layer.overlap) layer.index = index;
    return layer;
  };
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) { layer.mixer = mixer(i); });
  if (m.mtp_layers == 0) return m;
  m.mtp_layer = m.layers.back().layer;
  m.mtp_layer->mixer = mixer(static_cast<std::size_t>(m.num_layers));
  return m;
}

}  // namespace meshplan::hf
