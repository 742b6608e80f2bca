// Families with sparse attention: queries that choose the tokens they see.
#include <algorithm>

#include "io/hf_parts.hpp"

namespace meshplan::hf {
namespace {

IndexSpec read_index(HfFields& f) {
  IndexSpec index;
  index.heads = f.count_or("attention.index_heads", {"index_n_heads"}, 64);
  index.head_dim = f.count_or("attention.index_head_dim", {"index_head_dim"}, 128);
  index.top_k = f.count_or("attention.index_top_k", {"index_topk"}, 2048);
  return index;
}

constexpr ExpertDefaults kDeepseek{
    .top_k = 8, .first_dense = 3, .shared_experts = 1, .correction = true};

}  // namespace

ModelSpec read_deepseek_v32(HfFields& f) {
  ModelSpec m = deepseek_like(f, 4096, kDeepseek);
  m.mla->index = read_index(f);
  return m;
}

// As DeepSeek-V3.2; layers may use the choice of one before them again.
ModelSpec read_glm_moe_dsa(HfFields& f) {
  ModelSpec m = deepseek_like(f, 202'752, kDeepseek);
  m.mla->index = read_index(f);
  const std::vector<std::string> types = f.texts({"indexer_types"});
  if (std::find(types.begin(), types.end(), "shared") == types.end()) return m;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    auto* mixer = std::get_if<LatentAttentionSpec>(&layer.mixer);
    if (mixer == nullptr || i >= types.size() || types[i] != "shared") return;
    mixer->sizes.index.heads = mixer->sizes.index.head_dim = 0;
  });
  return m;
}

ModelSpec read_minimax_m2(HfFields& f) {
  ModelSpec m = llama_like(f, 196'608, 8, 128);
  m.moe = read_experts(f, {"num_local_experts"}, 8, {"intermediate_size"});
  m.moe->router_bias = f.flag_or({"use_routing_bias"}, true);
  m.qk_norm = f.flag_or({"use_qk_norm"}, true);
  const std::int64_t turned = f.count_or("rotary_percent", {"rotary_dim"}, m.head_dim);
  m.rotary_percent = std::min(1.0, static_cast<double>(turned) / static_cast<double>(m.head_dim));
  if (f.flag_or({"use_mtp"}, false)) {
    m.mtp_layers = f.count_or("mtp_layers", {"num_mtp_modules"}, 1);
  }
  return m;
}

// Sparse attention over blocks of tokens that few light heads choose.
ModelSpec read_minimax_m3(HfFields& f) {
  ModelSpec m = llama_like(f, 1'048'576, 4, 128);
  m.qk_norm = f.flag_or({"use_qk_norm"}, true);
  const std::int64_t rotated = f.size_or("rotary_percent", {"rotary_dim"}, m.head_dim);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"},
                               static_cast<double>(rotated) / static_cast<double>(m.head_dim));
  m.moe = read_experts(f, {"num_local_experts"}, 4, {"moe_intermediate_size", "intermediate_size"});
  m.moe->shared_expert_ffn_hidden_size =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"shared_intermediate_size"}, 0);
  m.moe->router_bias = f.flag_or({"use_routing_bias"}, true);
  m.ffn_hidden_size = f.size_or("ffn_hidden_size", {"dense_intermediate_size"}, 12'288);
  HfFields sparse = f.section("sparse_attention_config");
  // In a section of the published file, beside the other keys in Transformers' own class.
  const auto pick = [&](const HfNames& own, const HfNames& nested, const char* key,
                        std::int64_t otherwise) {
    return f.has(own) ? f.count_or(key, own, otherwise) : sparse.count_or(key, nested, otherwise);
  };
  IndexSpec index;
  index.heads = pick({"index_n_heads"}, {"sparse_num_index_heads"}, "attention.index_heads", 4);
  index.head_dim = pick({"index_head_dim"}, {"sparse_index_dim"}, "attention.index_head_dim", 128);
  index.top_k = pick({"index_topk_blocks"}, {"sparse_topk_blocks"}, "attention.index_top_k", 16) *
                pick({"index_block_size"}, {"sparse_block_size"}, "attention.index_top_k", 128);
  const std::vector<std::int64_t> experts = f.counts({"moe_layer_freq"}),
                                  chosen = sparse.counts({"sparse_attention_freq"});
  const auto dense = [&](LayerSpec& layer) {
    layer.feed_forward = DenseMlpSpec{m.ffn_hidden_size};
  };
  const auto indexed = [&](LayerSpec& layer) {
    std::get<AttentionSpec>(layer.mixer).index = index;
  };
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (i < experts.size() && experts[i] == 0) dense(layer);
    if (i < chosen.size() && chosen[i] != 0) indexed(layer);
  });
  read_layer_types(f, m, {"mlp_layer_types"}, "dense", "sparse", dense);
  read_layer_types(f, m, {"layer_types"}, "minimax_m3_sparse", "full_attention", indexed);
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}

}  // namespace meshplan::hf
