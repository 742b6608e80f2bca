// Families with layers of linear attention: a gated delta rule, or lightning attention.
#include <algorithm>
#include <span>

#include "base/check.hpp"
#include "io/hf_parts.hpp"
#include "io/hf_rows.hpp"

namespace meshplan::hf {

// Qwen3-Next and Qwen3.5: gated attention in every fourth layer, a gated delta rule in the others.
ModelSpec read_qwen3_next(HfFields& f) {
  ModelSpec m = read_core(f);
  m.gated_mlp = true;
  read_activation(f, m, {"hidden_act"}, "silu");
  m.norm = Norm::kRmsNorm;
  m.tied_embeddings = f.flag_or({"tie_word_embeddings"}, false);
  m.max_seq_length = f.size_or("max_seq_length", {"max_position_embeddings"}, 32'768);
  read_groups(f, m, {"num_key_value_heads"}, 2);
  read_head_dim(f, m, 256);
  set_attention_kind(m);
  set_biases(m, f.flag_or({"attention_bias"}, false), false);
  m.qk_norm = true;
  m.attention_output_gate = f.flag_or({"attn_output_gate"}, true);
  m.rotary_percent = f.real_or("rotary_percent", {"partial_rotary_factor"}, 0.25);
  if (f.has({"num_experts"})) {
    m.ffn_hidden_size = f.count_or("ffn_hidden_size", {"intermediate_size"}, 0);
    read_qwen_experts(f, m, {"num_experts"}, 10);
    const std::int64_t shared =
        f.count_or("moe.shared_expert_ffn_hidden_size", {"shared_expert_intermediate_size"}, 512);
    if (m.moe) m.moe->shared_expert_ffn_hidden_size = shared;
  } else {
    m.ffn_hidden_size = f.size("ffn_hidden_size", {"intermediate_size"});
  }
  GatedDeltaNetSpec linear;
  linear.num_key_heads = f.size_or("linear.num_key_heads", {"linear_num_key_heads"}, 16);
  linear.num_value_heads = f.size_or("linear.num_value_heads", {"linear_num_value_heads"}, 32);
  linear.key_head_dim = f.size_or("linear.key_head_dim", {"linear_key_head_dim"}, 128);
  linear.value_head_dim = f.size_or("linear.value_head_dim", {"linear_value_head_dim"}, 128);
  linear.conv_kernel = f.size_or("linear.conv_kernel", {"linear_conv_kernel_dim"}, 4);
  const std::int64_t every = f.size_or("linear.every", {"full_attention_interval"}, 4);
  if (!read_layer_types(f, m, {"layer_types"}, "linear_attention", "full_attention",
                        [&](LayerSpec& layer) { layer.mixer = linear; })) {
    edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
      if ((static_cast<std::int64_t>(i) + 1) % every != 0) layer.mixer = linear;
    });
  }
  m.mtp_layers = f.count_or("mtp_layers", {"mtp_num_hidden_layers"}, 0);
  if (m.mtp_layers == 0) return m;
  LayerSpec last = m.layers.back().layer;  // prediction is always by attention
  AttentionSpec attention{m.num_attention_heads, m.num_query_groups, m.head_dim, 0};
  attention.output_gate = m.attention_output_gate;
  last.mixer = attention;
  m.mtp_layer = last;
  return m;
}

// Kimi Linear: Kimi Delta Attention, and latent attention without positions in listed layers. Kimi
// K3's language model besides: gates of full rank, experts on a latent, attention residuals.
ModelSpec read_kimi_linear(HfFields& f) {
  ModelSpec m = llama_without_attention(f, 1'048'576);
  m.attention = AttentionKind::kMla;
  m.mla = read_latent(f);
  if (!f.has({"q_lora_rank"})) m.mla->q_lora_rank = 0;
  m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  m.mla->output_gate = f.flag_or({"mla_use_output_gate"}, false);
  if (f.flag_or({"mla_use_nope"}, true)) m.position_embedding = PositionEmbedding::kNone;
  m.attn_res_block_size = f.count_or("attn_res_block_size", {"attn_res_block_size"}, 0);
  m.moe = read_experts(f, {"num_experts"}, 8, {"moe_intermediate_size"});
  m.moe->top_k = f.size_or("moe.top_k", {"num_experts_per_token", "num_experts_per_tok"}, 8);
  m.moe->shared_expert_ffn_hidden_size =
      f.count_or("moe.shared_expert_ffn_hidden_size", {"num_shared_experts"}, 1) *
      m.moe->expert_ffn_hidden_size;
  m.moe->router_bias = true;
  m.moe->latent_size = f.count_or("moe.latent_size", {"routed_expert_hidden_size"}, 0);
  m.moe->latent_norm = m.moe->latent_size > 0 && f.flag_or({"latent_moe_use_norm"}, false);
  std::vector<bool> sparse = all_layers(m, true);
  const auto dense =
      static_cast<std::size_t>(f.count_or("moe.layers.first_dense", {"first_k_dense_replace"}, 1));
  std::fill_n(sparse.begin(), std::min(sparse.size(), dense), false);
  set_expert_layers(m, sparse);
  HfFields linear = f.section("linear_attn_config");
  GatedDeltaNetSpec kda;
  kda.num_key_heads = kda.num_value_heads = linear.size("linear.num_key_heads", {"num_heads"});
  kda.key_head_dim = kda.value_head_dim = linear.size("linear.key_head_dim", {"head_dim"});
  kda.gate_rank = kda.key_head_dim;
  kda.full_rank_gate = linear.flag_or({"use_full_rank_gate"}, false);
  kda.conv_kernel = linear.size_or("linear.conv_kernel", {"short_conv_kernel_size"}, 4);
  const std::vector<std::int64_t> layers = linear.counts({"kda_layers"});  // from 1
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (std::find(layers.begin(), layers.end(), number) != layers.end()) layer.mixer = kda;
  });
  m.mtp_layers = f.count_or("mtp_layers", {"num_nextn_predict_layers"}, 0);
  return m;
}

// MiniMax-01 and M1: lightning attention, softmax attention in every eighth layer.
ModelSpec read_minimax(HfFields& f) {
  ModelSpec m = llama_like(f, 10'240'000, 8, 128);
  m.moe = read_experts(f, {"num_local_experts"}, 2, {"intermediate_size"});
  const LightningSpec lightning{m.num_attention_heads, m.head_dim};
  if (read_layer_types(f, m, {"layer_types"}, "linear_attention", "full_attention",
                       [&](LayerSpec& layer) { layer.mixer = lightning; })) {
    return m;
  }
  const std::vector<std::int64_t> softmax = f.counts({"attn_type_list"});
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    if (i < softmax.size() && softmax[i] == 0) layer.mixer = lightning;
  });
  return m;
}

// Ling's and Ring's linear models: lightning attention with as many key heads as query heads, and
// softmax attention at the end of each group of layers; layers after the last whole group have
// softmax attention too (modeling_bailing_moe_linear.py). Where the file has a latent, softmax
// attention is through it (Ling 2.5).
ModelSpec read_bailing_linear(HfFields& f) {
  const std::span<const FamilyRow> rows = family_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [](const FamilyRow& r) {
    return r.model_type == "bailing_moe_v2";
  });
  PLAN_CHECK(row != rows.end());
  ModelSpec m = read_row(f, *row);
  const LightningSpec lightning{m.num_attention_heads, m.head_dim};
  if (f.has({"kv_lora_rank"})) {
    m.attention = AttentionKind::kMla;
    m.mla = read_latent(f);
    m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
    m.qk_norm = false;
  }
  const std::int64_t group = f.size_or("linear.every", {"layer_group_size"}, 1);
  const std::int64_t grouped = m.num_layers / group * group;
  edit_layers(m, [&](std::size_t i, LayerSpec& layer) {
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (number % group != 0 && number <= grouped) layer.mixer = lightning;
  });
  return m;
}

}  // namespace meshplan::hf
